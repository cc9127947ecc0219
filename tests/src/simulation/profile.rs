//! What kind of schedule a seed draws: which faults, how often, under which limits.

use super::Micros;
use super::SECOND;
use super::chance::Chance;
use super::fault::Fault;
use quorate_shared::policy::Shape;
use quorate_shared::time::Drift;
use std::time::Duration;

/// What kind of schedule it is.
#[derive(Clone, Debug)]
pub struct Profile {
    /// In a word.
    pub name: &'static str,
    /// ρ.
    pub drift: Drift,
    /// `L`.
    pub lease: Duration,
    /// How many regions.
    pub regions: usize,
    /// How many policies, and subjects of each.
    pub policies: usize,
    /// See [`Self::policies`].
    pub subjects: usize,
    /// How limits count past use.
    pub shape: Shape,
    /// The periods of limits, or the lengths of their windows, in seconds.
    pub periods: &'static [u64],
    /// Refill in one second at most, in tokens.
    pub most_rate: u64,
    /// Saved up at most, in tokens.
    pub most_burst: u64,
    /// True if each region has a second agent.
    pub several: bool,
    /// True if floors may add up to more than the limit.
    pub overcommitted: bool,
    /// True if it follows a script, and nothing else happens but to messages.
    pub scripted: bool,
    /// The longest time between two faults that are not of a message or a call.
    pub calm: Micros,
    /// What may happen then, with weights.
    troubles: &'static [(Fault, u64)],
    /// What may happen to each message or call, in thousandths.
    hazards: &'static [(Fault, u64)],
}

type Odds = &'static [(Fault, u64)];

const NETWORK: Odds = &[
    (Fault::MessageLost, 40),
    (Fault::MessageLate, 40),
    (Fault::HeartbeatDoubled, 20),
    (Fault::AnswerDoubled, 20),
    (Fault::CommitLate, 30),
    (Fault::AnswerOfStoreLate, 10),
    (Fault::StoreSlow, 4),
];

const STORES: Odds = &[
    (Fault::MessageLost, 15),
    (Fault::MessageLate, 40),
    (Fault::CommitLate, 20),
    (Fault::StoreSlow, 40),
    (Fault::CallRefused, 15),
    (Fault::CallCutShort, 15),
    (Fault::AgentKilledInStep, 12),
    (Fault::AnswerOfStoreLate, 60),
];

/// Every kind of schedule, by the seed's remainder.
const KINDS: [(&str, Odds, Odds); 11] = [
    (
        "everything",
        &[
            (Fault::RegionCutOff, 8),
            (Fault::RegionCutFromSome, 4),
            (Fault::RegionHearsNothing, 3),
            (Fault::LeaderLost, 4),
            (Fault::LeaderRestarted, 2),
            (Fault::LeaderIsolated, 3),
            (Fault::AgentKilled, 4),
            (Fault::AgentPaused, 3),
            (Fault::MachineSlept, 2),
            (Fault::MachineRebooted, 2),
            (Fault::DiskLost, 1),
            (Fault::StoreLost, 2),
            (Fault::StoreRestored, 2),
            (Fault::StoreFailedOver, 2),
            (Fault::LimitLowered, 2),
            (Fault::LimitRaised, 2),
            (Fault::FloorsDivided, 2),
            (Fault::PeriodChanged, 1),
            (Fault::OverrideChanged, 1),
            (Fault::RegionRemoved, 1),
            (Fault::RegionAdded, 2),
            (Fault::PolicyRemoved, 1),
            (Fault::PolicyAdded, 2),
            (Fault::RegionFenced, 1),
            (Fault::ClockForward, 1),
            (Fault::ClockBack, 1),
        ],
        NETWORK,
    ),
    ("cut off", &[(Fault::RegionCutOff, 8), (Fault::RegionCutFromSome, 2), (Fault::RegionHearsNothing, 4)], NETWORK),
    ("stores that fail", &[(Fault::AgentKilled, 2), (Fault::RegionCutOff, 2), (Fault::AgentPaused, 1)], STORES),
    (
        "lapses",
        &[(Fault::AgentPaused, 6), (Fault::AgentKilled, 3), (Fault::RegionHearsNothing, 1)],
        &[(Fault::MessageLost, 5), (Fault::PlansAtRandom, 150)],
    ),
    (
        "leaders that go",
        &[
            (Fault::LeaderLost, 5),
            (Fault::LeaderRestarted, 3),
            (Fault::LeaderIsolated, 4),
            (Fault::RegionCutOff, 5),
            (Fault::RegionCutFromSome, 3),
            (Fault::RegionHearsNothing, 3),
            (Fault::AgentKilled, 2),
        ],
        NETWORK,
    ),
    (
        "policies that change",
        &[
            (Fault::LimitLowered, 4),
            (Fault::LimitRaised, 4),
            (Fault::FloorsDivided, 5),
            (Fault::PeriodChanged, 2),
            (Fault::OverrideChanged, 3),
            (Fault::RegionRemoved, 2),
            (Fault::RegionAdded, 3),
            (Fault::PolicyRemoved, 2),
            (Fault::PolicyAdded, 4),
            (Fault::RegionFenced, 2),
            (Fault::RegionCutOff, 4),
            (Fault::RegionHearsNothing, 2),
            (Fault::AgentKilled, 2),
            (Fault::DiskLost, 1),
            (Fault::StoreLost, 1),
        ],
        NETWORK,
    ),
    (
        "stores that forget",
        &[
            (Fault::StoreLost, 5),
            (Fault::StoreRestored, 3),
            (Fault::StoreFailedOver, 4),
            (Fault::AgentKilled, 4),
            (Fault::DiskLost, 2),
            (Fault::RegionCutOff, 4),
        ],
        NETWORK,
    ),
    (
        "clocks that jump",
        &[
            (Fault::MachineSlept, 3),
            (Fault::MachineRebooted, 4),
            (Fault::AgentPaused, 3),
            (Fault::ClockForward, 3),
            (Fault::ClockBack, 3),
            (Fault::RegionCutOff, 5),
            (Fault::LeaderRestarted, 2),
        ],
        NETWORK,
    ),
    ("past use that counts", PAST, PLANS),
    ("windows with labels", WINDOWS, NETWORK),
    ("several agents", SEVERAL, STORES),
];

/// The ledger must not depend on what the allocator wishes.
const PLANS: Odds = &[
    (Fault::MessageLost, 40),
    (Fault::MessageLate, 40),
    (Fault::HeartbeatDoubled, 20),
    (Fault::AnswerDoubled, 20),
    (Fault::CommitLate, 30),
    (Fault::AnswerOfStoreLate, 10),
    (Fault::StoreSlow, 4),
    (Fault::PlansAtRandom, 250),
];

const PAST: Odds = &[
    (Fault::RegionCutOff, 8),
    (Fault::RegionHearsNothing, 4),
    (Fault::LeaderLost, 3),
    (Fault::LeaderRestarted, 2),
    (Fault::LeaderIsolated, 2),
    (Fault::AgentKilled, 4),
    (Fault::AgentPaused, 3),
    (Fault::StoreLost, 2),
    (Fault::StoreFailedOver, 2),
    (Fault::LimitLowered, 3),
    (Fault::LimitRaised, 3),
    (Fault::FloorsDivided, 4),
    (Fault::OverrideChanged, 1),
    (Fault::RegionRemoved, 1),
    (Fault::RegionAdded, 2),
    (Fault::RegionFenced, 1),
];

const SEVERAL: Odds = &[
    (Fault::RegionCutOff, 8),
    (Fault::RegionHearsNothing, 4),
    (Fault::LeaderLost, 2),
    (Fault::AgentKilled, 5),
    (Fault::AgentPaused, 4),
    (Fault::FollowerReplaced, 4),
    (Fault::StoreLost, 2),
    (Fault::StoreFailedOver, 2),
    (Fault::LimitLowered, 2),
    (Fault::LimitRaised, 1),
    (Fault::FloorsDivided, 2),
];

const WINDOWS: Odds = &[
    (Fault::RegionCutOff, 6),
    (Fault::RegionHearsNothing, 4),
    (Fault::LeaderLost, 3),
    (Fault::LeaderIsolated, 2),
    (Fault::AgentKilled, 4),
    (Fault::AgentPaused, 3),
    (Fault::StoreLost, 2),
    (Fault::StoreFailedOver, 2),
    (Fault::ClockForward, 3),
    (Fault::ClockBack, 3),
    (Fault::LimitLowered, 5),
    (Fault::LimitRaised, 5),
    (Fault::FloorsDivided, 6),
    (Fault::OverrideChanged, 1),
    (Fault::RegionRemoved, 1),
    (Fault::RegionAdded, 2),
];

impl Profile {
    /// The profile of a seed.
    pub fn of(seed: u64, chance: &mut Chance) -> Self {
        let (name, troubles, hazards) = KINDS[(seed % KINDS.len() as u64) as usize];
        let lapses = name == "lapses";
        let many = name == "policies that change" || name == "everything";
        let shape = match name {
            "past use that counts" => Shape::Share,
            "windows with labels" => Shape::Allowance,
            _ => Shape::Flow,
        };
        let most_rate = chance.pick(&[3, 8, 20]);
        Self {
            name,
            drift: Drift::from_ppm(chance.pick(&[0, 1_000, 50_000])).unwrap_or_default(),
            lease: Duration::from_secs(4),
            regions: chance.pick(&[2, 3, 3, 3]),
            policies: if many { chance.pick(&[1, 2]) } else { 1 },
            subjects: if many { 2 } else { 1 },
            periods: match shape {
                Shape::Flow if lapses => &[1],
                Shape::Flow => &[1, 1, 1, 1, 3],
                Shape::Share => &[2, 4],
                Shape::Allowance => &[4, 9],
            },
            shape,
            several: name == "several agents",
            most_rate,
            most_burst: chance.pick(if lapses { &[12, 24] } else { &[2, 12, 30] }),
            overcommitted: many && chance.per_mille(100),
            calm: chance.pick(&[2, 4]) * SECOND,
            scripted: lapses && chance.per_mille(500),
            troubles,
            hazards,
        }
    }

    /// How likely `fault` is to happen to one message or call, in thousandths.
    pub fn hazard(&self, fault: Fault) -> u64 {
        self.hazards.iter().find(|(f, _)| *f == fault).map_or(0, |(_, n)| *n)
    }

    /// How long past use counts at most.
    pub fn longest_drain(&self) -> Duration {
        match self.shape {
            Shape::Share => Duration::from_secs(self.periods.iter().copied().max().unwrap_or_default()),
            Shape::Flow | Shape::Allowance => Duration::ZERO,
        }
    }

    /// What goes wrong next.
    pub fn trouble(&self, chance: &mut Chance) -> Fault {
        let total: u64 = self.troubles.iter().map(|(_, weight)| weight).sum();
        let mut drawn = chance.below(total);
        for (fault, weight) in self.troubles {
            match drawn.checked_sub(*weight) {
                None => return *fault,
                Some(rest) => drawn = rest,
            }
        }
        Fault::RegionCutOff
    }
}
