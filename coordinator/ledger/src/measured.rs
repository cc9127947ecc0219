//! The overshoot that was measured of each policy, against the bound that held at that time.

use crate::Ledger;
use crate::recent::LastHour;
use quorate_shared::bound::excess;
use quorate_shared::heartbeat::Heartbeat;
use quorate_shared::names::PolicyName;
use quorate_shared::time::LeaderTime;
use quorate_shared::units::MicroTokens;
use serde::{Deserialize, Serialize};

/// The worst of one policy's budgets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// Since the policy is there.
    pub worst: MicroTokens,
    pub last_hour: LastHour<MicroTokens>,
    /// The most by which it exceeded the bound in force when it was measured.
    pub beyond_bound: MicroTokens,
}

/// What was measured of one budget.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Overshoot {
    /// Beyond the limit.
    pub amount: MicroTokens,
    /// So much of it was promised by a set before the one in force, and counts still.
    pub promised: MicroTokens,
}

impl Ledger {
    /// Notes what was measured of one of the policy's budgets.
    pub(crate) fn note_overshoot(&mut self, name: &PolicyName, overshoot: Overshoot, at: LeaderTime) {
        let Some(policy) = self.policies.active.set.policy(name) else { return };
        let bound = excess(policy, &self.circumstances(policy));
        let measured = self.measured.entry(name.clone()).or_default();
        measured.worst = measured.worst.max(overshoot.amount);
        measured.last_hour.note(overshoot.amount, at);
        if let Some(bound) = bound {
            let promised = bound.burst.max(overshoot.promised);
            measured.beyond_bound = measured.beyond_bound.max(overshoot.amount.saturating_sub(promised));
        }
    }

    /// An instant of the present office before which the heartbeat's reports were not read: they
    /// were read so long after the agent received the response that it echoes, hence after the
    /// leader dated that one. `None`: nobody can say.
    pub(crate) fn reports_read(&self, beat: &Heartbeat, at: LeaderTime) -> Option<LeaderTime> {
        let (reading, echo) = (beat.clock.read?, beat.echo.filter(|echo| echo.office == self.clock.office)?);
        let drift = self.founding.as_ref()?.drift;
        let read = echo.at.after(drift.shrink(reading.after)).as_micros();
        let lag = u64::try_from(drift.stretch(reading.lag).as_micros()).unwrap_or(u64::MAX);
        Some(LeaderTime::from_micros(read.saturating_sub(lag)).min(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Command;
    use crate::level::SECOND;
    use crate::testing::{World, budget, set_of, tokens};
    use quorate_shared::bound::Steps;
    use quorate_shared::heartbeat::{Excess, ObservedSteps, Office, OpenWindow, Parts, Reading, Spent};
    use quorate_shared::policy::{Limit, Window};
    use quorate_shared::time::{StoreTime, WindowLabel};
    use std::time::Duration;

    /// A limit of 100 a second and 100 at once; each second either region admits so much.
    fn used(world: &mut World, seconds: std::ops::Range<u64>, each: u64) {
        for second in seconds {
            world.report("eu", second * 1_000, tokens(each), 50);
            world.report("us", second * 1_000 + 500, tokens(each), 50);
        }
    }

    fn measured(world: &World) -> [f64; 3] {
        let bound = world.bound(0);
        [bound.measured_overshoot, bound.measured_overshoot_last_hour, bound.measured_beyond_bound]
    }

    #[test]
    fn the_whole_limit_used_is_no_overshoot_and_more_is_one_beyond_the_bound() {
        let mut world = World::new(100, 1_000_000);
        used(&mut world, 1..60, 50);
        assert_eq!(measured(&world), [0.0; 3]);
        used(&mut world, 60..61, 250);
        // 500 in a second, less the burst, a second's refill, and what a report covers
        let [worst, last_hour, beyond] = measured(&world);
        assert!(worst > 150.0 && worst < 300.0, "{worst}");
        assert_eq!((last_hour, beyond), (worst, worst));
    }

    #[test]
    fn what_may_have_been_given_back_since_is_not_taken_for_an_overshoot() {
        // each second 150 more; 60 of them were estimates
        let mut world = World::new(100, 1_000_000);
        for second in 1..60 {
            let mut heartbeat = world.heartbeat("eu", 1_000, tokens(150));
            heartbeat.clock.read = heartbeat.echo.map(|_| Reading { after: Duration::from_millis(950), lag: Duration::ZERO });
            heartbeat.reports[0].estimated = tokens(60 * second);
            world.send("eu", second * 1_000, heartbeat);
        }
        assert_eq!(measured(&world), [0.0; 3]);
        let slots = Limit::Concurrency { slots: tokens(100), max_hold: Duration::from_secs(60) };
        let mut world = World::under(set_of(slots, 1_000_000));
        used(&mut world, 1..60, 50);
        assert_eq!(measured(&world), [0.0; 3], "each was given back soon");
        assert_eq!(world.bound(0).bound.overshoot_bound, Some(0.0));
        for (region, settled, outlived) in [("eu", 0, 2), ("us", 3, 1)] {
            let mut heartbeat = world.heartbeat(region, 1_000, tokens(0));
            let policy = "p".parse().expect("a name");
            heartbeat.store.excesses = vec![Excess { policy, settled: tokens(settled), outlived: tokens(outlived) }];
            world.send(region, 70_000, heartbeat);
        }
        assert_eq!(world.bound(0).bound.overshoot_bound, Some(6.0), "what either region may have used beyond it");
    }

    #[test]
    fn what_gateways_spend_by_themselves_counts_once_whichever_region_says_so_and_for_an_hour() {
        let mut world = World::new(100, 1_000_000);
        world.ledger.apply(1, &Command::Level { to: SECOND });
        let say = |world: &mut World, region, at, most: u64| {
            let mut heartbeat = world.heartbeat(region, 0, tokens(0));
            let named = |policy: &str| Parts { policy: policy.parse().expect("a name"), most: tokens(most) };
            heartbeat.parts = if most > 0 { vec![named("p"), named("unknown")] } else { vec![] };
            world.send(region, at, heartbeat);
            world.bound(0).bound.overshoot_bound
        };
        assert_eq!(say(&mut world, "eu", 1_000, 0), Some(0.0));
        assert_eq!(say(&mut world, "eu", 2_000, 70), Some(70.0));
        assert_eq!(say(&mut world, "us", 2_000, 60), Some(70.0), "of all regions together");
        assert_eq!(say(&mut world, "eu", 3_000, 0), Some(70.0), "it may be out yet");
        for second in (4..4_290).step_by(2) {
            say(&mut world, "us", second * 1_000, 0);
        }
        assert_eq!(say(&mut world, "eu", 4_300_000, 0), Some(0.0));
    }

    #[test]
    fn within_what_floors_were_promised_nothing_is_broken() {
        let mut world = World::new(100, 1_500_000);
        used(&mut world, 1..600, 75);
        assert_eq!(measured(&world), [0.0; 3], "the bound has a rate, which is no overshoot");
        used(&mut world, 600..601, 75 + 100);
        let [worst, _, beyond] = measured(&world);
        assert!(worst > 0.0 && worst <= 50.0, "{worst}");
        assert_eq!(beyond, 0.0, "the floors' bursts exceed the limit's by 50");
    }

    #[test]
    fn the_last_hour_forgets_and_the_worst_does_not() {
        let mut world = World::new(100, 1_000_000);
        used(&mut world, 1..3, 50);
        used(&mut world, 3..4, 250);
        let [worst, ..] = measured(&world);
        assert!(worst > 0.0);
        for second in (4..4_300).step_by(2) {
            world.report("eu", second * 1_000, tokens(50), 50);
        }
        assert_eq!(measured(&world), [worst, 0.0, worst]);
    }

    #[test]
    fn another_office_keeps_the_last_hour_and_measures_none_of_what_it_cannot_date() {
        let mut world = World::new(100, 1_000_000);
        used(&mut world, 1..3, 50);
        used(&mut world, 3..4, 250);
        let before = measured(&world);
        assert!(before[0] > 0.0);
        world.office = Office { term: 2, process: 2 };
        // its echoes are of the former office
        world.report("eu", 10, tokens(5_000), 5);
        world.report("us", 20, tokens(5_000), 5);
        assert_eq!(measured(&world), before);
        used(&mut world, 1..3_000, 50);
        assert_eq!(measured(&world), before, "nobody knows that it is an hour old");
        for second in (3_000..4_300).step_by(2) {
            world.report("eu", second * 1_000, tokens(50), 50);
        }
        assert_eq!(measured(&world), [before[0], 0.0, before[0]]);
    }

    #[test]
    fn reports_on_a_slow_way_are_not_taken_for_an_overshoot() {
        let mut world = World::new(100, 1_000_000);
        used(&mut world, 1..3, 50);
        // sent each second, but held up: all arrive within a moment
        for n in 0..3 {
            world.report("eu", 6_000 + n, tokens(50), 3_000 - 1_000 * n);
            world.report("us", 6_010 + n, tokens(50), 3_000 - 1_000 * n);
        }
        assert_eq!(measured(&world), [0.0; 3]);
    }

    #[test]
    fn a_share_is_measured_over_its_window() {
        let log = Limit::SlidingLog { units: tokens(100), window: Duration::from_secs(20) };
        let mut world = World::under(set_of(log, 1_000_000));
        for second in 1..60 {
            // 5 a second are 100 in 20 s
            world.report("eu", second * 1_000, tokens(3), 50);
            world.report("us", second * 1_000 + 500, tokens(2), 50);
        }
        assert_eq!(measured(&world), [0.0; 3]);
        world.report("eu", 60_000, tokens(40), 50);
        let [worst, _, beyond] = measured(&world);
        assert!(worst > 25.0 && worst <= 40.0, "{worst}");
        assert_eq!(beyond, worst);
    }

    #[test]
    fn an_allowance_is_measured_window_by_window() {
        let fixed = Limit::FixedWindow { units: tokens(100), window: Window::Every(Duration::from_secs(10)) };
        let mut world = World::under(set_of(fixed, 1_000_000));
        let mut spend = |region, window: u64, units| {
            let label = WindowLabel::beginning_at(StoreTime::from_micros(window * 10_000_000));
            let mut heartbeat = world.heartbeat(region, 1_000, MicroTokens::ZERO);
            heartbeat.windows = vec![OpenWindow { policy: budget().policy, generation: 1, label, last: label }];
            heartbeat.spent = vec![Spent { budget: budget(), label, units: tokens(units) }];
            world.send(region, window * 10_000, heartbeat);
            measured(&world)
        };
        assert_eq!(spend("eu", 1, 60), [0.0; 3]);
        assert_eq!(spend("us", 2, 60), [0.0; 3], "another window");
        assert_eq!(spend("eu", 2, 40), [0.0; 3]);
        assert_eq!(spend("eu", 2, 47), [7.0; 3]);
    }

    #[test]
    fn a_window_that_began_under_greater_floors_is_judged_by_those() {
        let fixed = || Limit::FixedWindow { units: tokens(100), window: Window::Every(Duration::from_secs(10)) };
        let mut world = World::under(set_of(fixed(), 1_500_000));
        let mut spend = |change: bool, ms: u64, region, units| {
            let label = WindowLabel::beginning_at(StoreTime::from_micros(10_000_000));
            let mut heartbeat = world.heartbeat(region, 1_000, MicroTokens::ZERO);
            heartbeat.windows = vec![OpenWindow { policy: budget().policy, generation: 1, label, last: label }];
            heartbeat.spent = vec![Spent { budget: budget(), label, units: tokens(units) }];
            world.send(region, ms, heartbeat);
            if change {
                world.change(1, set_of(fixed(), 1_000_000));
            }
            (world.ledger.active_policies().version, measured(&world))
        };
        spend(false, 10_000, "eu", 75);
        assert_eq!(spend(true, 10_100, "us", 30), (1, [5.0, 5.0, 0.0]));
        for ms in [10_200, 10_300] {
            spend(false, ms, "eu", 75);
            spend(false, ms, "us", 30);
        }
        assert_eq!(spend(false, 10_400, "us", 75), (2, [50.0, 50.0, 0.0]), "within what was promised of this window");
        assert_eq!(spend(false, 10_500, "us", 80), (2, [55.0, 55.0, 5.0]));
    }

    #[test]
    fn a_step_of_a_stores_clock_is_in_the_bound_for_an_hour_and_counted_once() {
        let mut world = World::new(100, 1_000_000);
        let step = |observer, count, ms| ObservedSteps { observer, steps: Steps { count, total: Duration::from_millis(ms) } };
        let beat = |world: &mut World, region, ms, seen| {
            let mut heartbeat = world.heartbeat(region, 0, MicroTokens::ZERO);
            heartbeat.clock.steps = seen;
            world.send(region, ms, heartbeat);
            world.bound(ms).bound.overshoot_bound.map(|tokens| (tokens * 1e6) as u64)
        };
        assert_eq!(beat(&mut world, "eu", 1_000, None), Some(0));
        assert_eq!(beat(&mut world, "eu", 2_000, Some(step(7, 1, 250))), Some(25_000_001));
        assert_eq!(beat(&mut world, "eu", 3_000, Some(step(7, 1, 250))), Some(25_000_001), "the same");
        assert_eq!(beat(&mut world, "us", 3_000, Some(step(8, 1, 10_000))), Some(200_000_000), "two buckets full at most");
        assert_eq!(beat(&mut world, "eu", 4_000, Some(step(9, 1, 100))), Some(300_000_000), "an agent that restarted counts anew");
        world.office = Office { term: 2, process: 2 };
        assert_eq!(beat(&mut world, "eu", 10, Some(step(9, 1, 100))), Some(300_000_000));
        assert_eq!(beat(&mut world, "eu", 4_000_000, Some(step(9, 1, 100))), Some(300_000_000));
        assert_eq!(beat(&mut world, "eu", 4_300_000, Some(step(9, 1, 100))), Some(0));
    }
}
