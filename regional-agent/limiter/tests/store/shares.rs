//! Past use that keeps counting, against a plain list of what was admitted when.

use crate::region::*;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use quorate_limiter::decision::Charge;
use quorate_limiter::store::Usage;
use quorate_shared::heartbeat::Holding;
use quorate_shared::policy::{Limit, MAX_LOG_ENTRIES};
use quorate_shared::time::{Drift, StoreTime};
use quorate_shared::units::{Capacity, MAX_EXACT, MicroTokens};
use std::time::Duration;

const MICRO: Duration = Duration::from_micros(1);

fn log(units: u64, window: Duration) -> Limit {
    Limit::SlidingLog { units: MicroTokens(units), window }
}

fn sliding(units: u64, window: Duration) -> Limit {
    Limit::SlidingWindow { units: MicroTokens(units), window }
}

/// Of so many micro-tokens, on a floor that is the whole limit.
fn of(limit: Limit, cost: u64) -> Charge {
    let floor = limit.capacity();
    Charge { limit, floor, lendable: floor, cost: MicroTokens(cost), ..charge("a", 1, SECOND, 1) }
}

/// What was admitted when.
#[derive(Default)]
struct Admitted(Vec<(u64, u64)>);

impl Admitted {
    fn between(&self, first: u64, last: u64) -> u64 {
        self.0.iter().filter(|(at, _)| (first..=last).contains(at)).map(|(_, units)| units).sum()
    }

    /// What counts at `now` under a limit.
    fn counted(&self, limit: Limit, drift: Drift, now: u64) -> u64 {
        match limit {
            Limit::SlidingLog { window, .. } => {
                let keep = drift.stretch(window).as_micros() as u64;
                self.between(now.saturating_sub(keep), now)
            }
            _ => {
                let window = limit.period().as_micros() as u64;
                let (begin, rest) = (now / window * window, window - now % window);
                let before = if begin == 0 { 0 } else { self.between(begin.saturating_sub(window), begin - 1) };
                let weighed = (u128::from(before) * u128::from(rest)).div_ceil(u128::from(window));
                self.between(begin, now) + weighed as u64
            }
        }
    }
}

/// Asks once, as the plain list does, and compares: what fits, what is left, and when to come again.
fn ask(region: &mut Region, admitted: &mut Admitted, limit: Limit, cost: u64) -> TestCaseResult {
    let (now, units, drift) = (region.now.as_micros(), limit.capacity().burst.0, region.drift);
    let fits = |admitted: &Admitted, now| admitted.counted(limit, drift, now) + cost <= units;
    let expected = fits(admitted, now);
    let got = region.check(&of(limit, cost));
    prop_assert_eq!(got.fits, expected);
    if expected {
        admitted.0.push((now, cost));
    }
    let counted = admitted.counted(limit, drift, now);
    prop_assert_eq!(got.remaining.0, units - counted);
    let wait = |span: Option<Duration>| span.map(|span| span.as_micros() as u64);
    match wait(got.retry_after) {
        None => prop_assert!(expected || cost > units),
        Some(wait) => prop_assert!(!expected && fits(admitted, now + wait) && !fits(admitted, now + wait - 1), "not in {} us", wait),
    }
    let reset = wait(got.reset_after).unwrap_or(u64::MAX);
    prop_assert_eq!(admitted.counted(limit, drift, now + reset), 0);
    prop_assert!(reset == 0 || admitted.counted(limit, drift, now + reset - 1) > 0);
    Ok(())
}

/// Windows up to so many microseconds.
fn limit(longest: u64) -> impl Strategy<Value = Limit> {
    let units = prop_oneof![1..6u64, 1..2_000_000_000u64, Just(MAX_EXACT)];
    let window = prop_oneof![1..50u64, Just(1_000_000u64), 1..=longest].prop_map(Duration::from_micros);
    (units, window, any::<bool>()).prop_map(|(units, window, exact)| if exact { log(units, window) } else { sliding(units, window) })
}

/// A span in thousandths of a window, and a cost in those of the units; a cost of at least one.
fn steps() -> impl Strategy<Value = Vec<(u64, u64, u64)>> {
    let span = prop_oneof![3 => 0..300u64, 1 => 0..2_500u64];
    proptest::collection::vec((span, 0..3u64, prop_oneof![4 => 0..400u64, 1 => 0..1_100u64]), 1..60)
}

fn part(of: u64, thousandths: u64) -> u64 {
    (u128::from(of) * u128::from(thousandths) / 1_000) as u64
}

proptest! {
    #![proptest_config(seeded(2_000))]

    #[test]
    fn every_decision_is_that_of_a_plain_list(limit in limit(1 << 37), ppm in 0..=100_000u32, steps in steps()) {
        let mut region = Region::new();
        region.drift = Drift::from_ppm(ppm).expect("in range");
        let mut admitted = Admitted::default();
        for (span, more, cost) in steps {
            region.pass(Duration::from_micros(part(limit.period().as_micros() as u64, span) + more));
            ask(&mut region, &mut admitted, limit, part(limit.capacity().burst.0, cost).max(1))?;
        }
    }

    #[test]
    fn a_clock_that_steps_back_lets_nothing_more_through(
        units in 1..20u64, window in 1..2_000u64, steps in proptest::collection::vec((0..800u64, any::<bool>(), 1..6u64), 1..60),
    ) {
        let limit = log(units, Duration::from_micros(window));
        let (mut region, mut admitted, mut real) = (Region::new(), Admitted::default(), 0);
        for (span, back, cost) in steps {
            match back {
                true => region.now = StoreTime::from_micros(region.now.as_micros() - span),
                false => (region.now, real) = (region.now.after(Duration::from_micros(span)), real + span),
            }
            if region.check(&of(limit, cost)).fits {
                admitted.0.push((real, cost));
                prop_assert!(admitted.between(real.saturating_sub(window), real) <= units);
            }
        }
    }

    #[test]
    fn a_step_back_frees_nothing_and_freezes_nothing_for_long(
        limit in limit(1_000_000_000), before in 0..3_000u64, back in 0..6_000u64, cost in 1..1_000u64,
    ) {
        let window = limit.period().as_micros() as u64;
        let units = limit.capacity().burst.0;
        let mut region = Region::new();
        region.now = StoreTime::from_micros(20 * window.max(1_000));
        prop_assert!(region.check(&of(limit, part(units, cost).max(1))).fits);
        region.now = region.now.after(Duration::from_micros(part(window, before)));
        let left = region.level(&of(limit, 1));
        region.now = StoreTime::from_micros(region.now.as_micros() - part(window, back));
        prop_assert!(region.level(&of(limit, 1)) <= left);
        region.check(&of(limit, units)); // whatever it says, the step is written down
        let all = region.check(&of(limit, 0)).reset_after.unwrap_or_default();
        prop_assert!(all <= Duration::from_micros(3 * window + 1), "frozen for {:?}", all);
        region.now = region.now.after(all);
        prop_assert_eq!(region.level(&of(limit, 1)).0, units);
    }
}

#[test]
fn a_hit_late_in_a_window_is_waited_for_until_the_next_one_ends() {
    let limit = sliding(1_000_000, SECOND);
    let mut region = Region::new();
    let begun = region.now; // at a whole second
    let mut at = |ms| {
        region.now = begun.after(Duration::from_millis(ms));
        region.check(&of(limit, 1_000_000))
    };
    assert!(at(900).fits);
    let refused = at(1_100);
    assert_eq!((refused.fits, refused.retry_after), (false, Some(Duration::from_millis(900))));
    assert!(!at(1_999).fits && at(2_000).fits);
}

#[test]
fn the_edges_of_what_a_script_can_hold_are_counted_exactly() {
    for limit in [log(MAX_EXACT, SECOND), sliding(MAX_EXACT, SECOND)] {
        let mut region = Region::new();
        assert!(region.check(&of(limit, MAX_EXACT - 1)).fits);
        assert!(!region.check(&of(limit, 2)).fits && !region.check(&of(limit, u64::MAX)).fits);
        let full = region.check(&of(limit, 1));
        assert_eq!((full.fits, full.remaining), (true, MicroTokens::ZERO));
        assert_eq!(region.check(&of(limit, MAX_EXACT + 1)).retry_after, None, "never");
    }
}

#[test]
fn nothing_is_admitted_while_what_was_lost_may_count() {
    for (limit, drain) in [(log(5, SECOND), SECOND), (sliding(5, SECOND), 2 * SECOND)] {
        let mut region = Region::lost();
        region.drift = Drift::DEFAULT;
        region.open(1, false);
        region.apply(vec![], |_| {});
        let refused = region.check(&of(limit, 1));
        let wait = Drift::DEFAULT.stretch(drain) + MICRO;
        assert_eq!((refused.fits, refused.remaining, refused.retry_after), (false, MicroTokens::ZERO, Some(wait)));
        region.pass(wait - MICRO);
        assert_eq!(region.check(&of(limit, 1)).retry_after, Some(MICRO));
        region.pass(MICRO);
        assert!(region.check(&of(limit, 5)).fits);
    }
}

#[test]
fn budgets_that_begin_anew_wait_for_what_the_former_ones_counted() {
    let mut region = Region::new();
    let mut anew = changed(Capacity::ZERO);
    anew[0].anew = true;
    region.apply(vec![], |finish| finish.changed = anew);
    let limit = log(5, SECOND);
    assert_eq!(region.check(&of(limit, 1)).retry_after, Some(SECOND + MICRO));
    assert_eq!(region.store.usage(region.now, &of(limit, 1), NO_DRIFT), Some(Usage::Counted(MicroTokens(u64::MAX))));
    region.pass(SECOND + MICRO);
    assert_eq!(region.store.usage(region.now, &of(limit, 1), NO_DRIFT), Some(Usage::Counted(MicroTokens::ZERO)));
    assert!(region.check(&of(limit, 5)).fits);
}

#[test]
fn a_loan_counts_while_its_lender_promises_it_for_this_budget() {
    let limit = log(5, SECOND);
    let mut region = Region::new();
    let five = Capacity::new(MicroTokens::ZERO, MicroTokens(5));
    let us: quorate_shared::names::RegionName = "us".parse().expect("a name");
    let holding = Holding { borrowed: [(us.clone(), five)].into(), ..Holding::default() };
    region.apply(vec![holds(&of(limit, 1), holding)], |_| {});
    region.view.leased = true;
    region.view.standing_lenders = [us.clone()].into();
    assert_eq!(region.check(&of(limit, 0)).capacity, five);
    region.view.standing_loans = [(budget("b"), [us.clone()].into())].into();
    assert_eq!(region.check(&of(limit, 0)).capacity, five, "of another budget");
    region.view.standing_loans = [(budget("a"), [us].into())].into();
    let with_loan = region.check(&of(limit, 0));
    assert_eq!((with_loan.capacity.burst, with_loan.used_lease), (MicroTokens(10), true));
}

#[test]
fn the_whole_floor_comes_back_a_drain_after_its_horizon() {
    for (limit, drain) in [(log(5, SECOND), SECOND), (sliding(5, SECOND), 2 * SECOND)] {
        let mut region = Region::new();
        let three = Capacity::new(MicroTokens::ZERO, MicroTokens(3));
        region.apply(vec![holds(&of(limit, 1), lent(three))], |_| {});
        region.view.whole_floor = true;
        region.view.floor_passed = drain - MICRO;
        assert_eq!(region.check(&of(limit, 0)).capacity.burst, MicroTokens(2));
        region.view.floor_passed = drain;
        let whole = region.check(&of(limit, 0));
        assert_eq!((whole.capacity.burst, whole.used_lease), (MicroTokens(5), false));
    }
}

#[test]
fn a_log_has_so_many_entries_at_most_and_refuses_rather_than_forgets() {
    let units = 2 * MAX_LOG_ENTRIES as u64;
    let limit = log(units, SECOND);
    let mut region = Region::new();
    let begun = region.now;
    for i in 0..units {
        region.now = begun.after(Duration::from_micros(i));
        assert!(region.check(&of(limit, 1)).fits);
    }
    assert!(!region.check(&of(limit, 1)).fits);
    let (log, _) = region.store.log(&budget("a")).expect("kept");
    assert_eq!((log.entries().count(), log.total().0), (MAX_LOG_ENTRIES, units));
    region.now = begun.after(SECOND + MICRO);
    assert!(!region.check(&of(limit, 1)).fits, "the first counts for as long as what it was merged with");
    region.now = begun.after(SECOND + MICRO * (MAX_LOG_ENTRIES as u32 + 1));
    assert!(region.check(&of(limit, MAX_LOG_ENTRIES as u64)).fits);
}

#[test]
fn looking_and_refusing_leave_no_trace_of_their_own() {
    for limit in [log(5, SECOND), sliding(5, SECOND)] {
        let mut region = Region::new();
        assert!(region.check(&of(limit, 0)).fits && !region.check(&of(limit, 6)).fits);
        assert_eq!(region.store.kept(), 0);
        assert!(region.check(&of(limit, 1)).fits);
        assert_eq!(region.store.kept(), 1);
        region.pass(3 * SECOND);
        assert!(!region.check(&of(limit, 6)).fits);
        assert_eq!(region.store.kept(), 0, "what counts no more is not kept");
    }
}
