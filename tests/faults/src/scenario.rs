//! What goes wrong in one run, and when.

use crate::configuration::LEASE;
use crate::fault::Fault;
use crate::places::{NODES, REGIONS};
use fastrand::Rng;
use std::fmt;
use std::time::Duration;

/// From one region to another and back: one next door, and one across an ocean.
pub const ROUND_TRIPS: [Duration; 2] = [Duration::from_millis(80), Duration::from_millis(250)];

/// One run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// For the report.
    pub name: String,
    /// Decides what the load does; of a composition, what goes wrong too.
    pub seed: u64,
    /// From one region to another and back.
    pub round_trip: Duration,
    /// In the order of their beginnings.
    pub steps: Vec<Step>,
}

/// One fault of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// After the load has begun.
    pub at: Duration,
    /// For so long.
    pub lasts: Duration,
    /// What.
    pub fault: Fault,
}

/// Load without a fault before the first.
const BEFORE: Duration = Duration::from_secs(2);

/// In which the faults of a composition begin.
const SPAN: Duration = Duration::from_secs(8);

impl Scenario {
    /// One fault, for as long as makes it worst: longer than a lease, or than a window.
    pub fn single(fault: Fault, round_trip: Duration, seed: u64) -> Self {
        let lasts = match fault {
            Fault::LeaderKilled | Fault::DiskFull | Fault::DiskFails | Fault::FollowerDiskFails => LEASE / 2,
            Fault::Resets | Fault::StoreResets(_) | Fault::RollingRestart => Duration::ZERO,
            Fault::StoreKilled(_) | Fault::RenewingAgentKilled(_) | Fault::FollowingAgentKilled(_) => Duration::from_millis(500),
            _ => LEASE + LEASE / 2,
        };
        let name = format!("{fault}, {} ms", round_trip.as_millis());
        Self { name, seed, round_trip, steps: vec![Step { at: BEFORE, lasts, fault }] }
    }

    /// Each fault by itself, at each distance.
    pub fn singles() -> Vec<Self> {
        let each = |round_trip: Duration| {
            Fault::all(REGIONS[1], NODES[0]).into_iter().map(move |fault| Self::single(fault, round_trip, round_trip.as_millis() as u64))
        };
        ROUND_TRIPS.into_iter().flat_map(each).collect()
    }

    /// Several at random times, which may overlap.
    pub fn composition(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let round_trip = ROUND_TRIPS[rng.usize(0..ROUND_TRIPS.len())];
        let mut steps: Vec<Step> = (0..rng.usize(3..=6)).map(|_| Self::drawn(&mut rng)).collect();
        steps.sort_by_key(|step| step.at);
        Self { name: format!("seed {seed}, {} ms", round_trip.as_millis()), seed, round_trip, steps }
    }

    fn drawn(rng: &mut Rng) -> Step {
        let mut any = Fault::all(REGIONS[rng.usize(0..REGIONS.len())], NODES[rng.usize(0..NODES.len())]);
        // it waits for what other faults prevent
        any.retain(|fault| *fault != Fault::RollingRestart);
        let fault = any[rng.usize(0..any.len())];
        let most = SPAN.as_millis() as u64;
        let lasts = [LEASE / 5, LEASE / 2, LEASE + LEASE / 2][rng.usize(0..3)];
        Step { at: BEFORE + Duration::from_millis(rng.u64(0..most)), lasts, fault }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = self.steps.iter().map(|step| {
            let (at, lasts) = (step.at.as_secs_f64(), step.lasts.as_secs_f64());
            format!("{} at {at:.1} s for {lasts:.1} s", step.fault)
        });
        write!(f, "{}: {}", self.name, steps.collect::<Vec<_>>().join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_always_the_same_run() {
        let all: Vec<Scenario> = (0..50).map(Scenario::composition).collect();
        assert_eq!(all, (0..50).map(Scenario::composition).collect::<Vec<_>>());
        let faults: std::collections::BTreeSet<String> = all.iter().flat_map(|s| s.steps.iter().map(|step| step.fault.name())).collect();
        assert_eq!(faults.len(), Fault::all("us", 1).len() - 1, "fifty seeds have every fault but the rolling restart: {faults:?}");
        assert!(all.iter().all(|s| s.steps.is_sorted_by_key(|step| step.at)));
    }
}
