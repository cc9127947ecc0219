//! The token bucket alone: exact values, and against a model with rational numbers.

use crate::region::{Region, SECOND, charge, costing, seeded, tokens};
use proptest::prelude::*;
use quorate_limiter::bucket::{Fill, GRACE, LONGEST_LIFE, Period};
use quorate_shared::policy::Limit;
use quorate_shared::units::{MAX_EXACT, MicroTokens};
use std::time::Duration;

const TEN_YEARS: Duration = Duration::from_secs(3653 * 24 * 3600);
/// In microseconds, where durations stop: 584,542 years.
const END_OF_TIME: i128 = u64::MAX as i128;
const LONGEST_PERIOD: Duration = Duration::from_secs(36 * 3600);

fn period(span: Duration) -> Period {
    Period::of(Limit::TokenBucket { rate: MicroTokens::TOKEN, period: span, burst: MicroTokens::TOKEN })
}

#[test]
fn ten_seconds_admit_the_burst_and_what_refills_and_not_one_more() {
    let mut region = Region::new();
    let limit = charge("a", 2_000, SECOND, 500);
    let mut admitted = region.drain(&limit);
    for _ in 0..100_000 {
        region.pass(Duration::from_micros(100));
        admitted += u64::from(region.check(&limit).fits);
    }
    assert_eq!(admitted, 500 + 20_000);
}

#[test]
fn drift_shortens_the_refill_and_nothing_else() {
    let mut region = Region::new();
    region.drift = quorate_shared::time::Drift::DEFAULT;
    let limit = charge("a", 2_000, SECOND, 500);
    assert_eq!(region.drain(&limit), 500);
    let mut admitted = 0;
    for _ in 0..10_000 {
        region.pass(Duration::from_millis(1));
        admitted += region.drain(&limit);
    }
    assert_eq!(admitted, 19_980);
}

#[test]
fn a_token_returns_at_its_time_whatever_the_traffic() {
    let mut region = Region::new();
    let limit = charge("a", 10, 30 * SECOND, 10);
    assert_eq!(region.drain(&limit), 10);
    let admitted: Vec<bool> = (1..=30)
        .map(|_| {
            region.pass(SECOND);
            region.check(&limit).fits
        })
        .collect();
    let expected: Vec<bool> = (1..=30).map(|second| second % 3 == 0).collect();
    assert_eq!(admitted, expected);

    let limit = charge("b", 3, SECOND, 3);
    let admitted = (0..100).filter(|_| {
        let fits = region.check(&limit).fits;
        region.pass(Duration::from_millis(100));
        fits
    });
    assert_eq!(admitted.count(), 32);
}

#[test]
fn an_idle_decade_fills_the_bucket_and_no_more() {
    let mut region = Region::new();
    let limit = charge("a", 1_000_000_000, SECOND, 1_000_000_000);
    assert!(region.check(&costing(&limit, tokens(1_000_000_000))).fits);
    region.pass(TEN_YEARS);
    assert_eq!(region.level(&limit), tokens(1_000_000_000));
    assert!(region.check(&costing(&limit, tokens(1_000_000_000))).fits);
    assert!(!region.check(&limit).fits);
}

#[test]
fn a_cost_beyond_the_capacity_is_refused_for_good_and_takes_nothing() {
    let mut region = Region::new();
    let limit = charge("a", 10, SECOND, 10);
    let refused = region.check(&costing(&limit, tokens(11)));
    assert_eq!((refused.fits, refused.retry_after, refused.remaining), (false, None, tokens(10)));
    let absurd = region.check(&costing(&limit, MicroTokens(u64::MAX)));
    assert_eq!((absurd.fits, absurd.retry_after, absurd.remaining), (false, None, tokens(10)));
    assert!(region.check(&costing(&limit, tokens(10))).fits);
}

#[test]
fn a_refusal_takes_nothing_so_a_smaller_cost_may_fit() {
    let mut region = Region::new();
    let limit = charge("a", 1, 60 * SECOND, 10);
    assert!(region.check(&costing(&limit, tokens(8))).fits);
    let refused = region.check(&costing(&limit, tokens(5)));
    assert_eq!((refused.fits, refused.remaining), (false, tokens(2)));
    assert!(region.check(&limit).fits);
}

#[test]
fn a_look_admits_and_leaves_no_trace() {
    let mut region = Region::new();
    let limit = charge("a", 1, 60 * SECOND, 10);
    assert!(region.check(&costing(&limit, tokens(9))).fits);
    let before = region.store.bucket(&limit.budget).map(|(bucket, until)| (bucket.clone(), until));
    for _ in 0..10 {
        region.pass(Duration::from_millis(7));
        let look = region.check(&costing(&limit, MicroTokens::ZERO));
        assert!(look.fits);
        assert_eq!(look.remaining.tokens_floor(), 1);
        assert_eq!(look.retry_after, None);
    }
    assert_eq!(region.store.bucket(&limit.budget).map(|(bucket, until)| (bucket.clone(), until)), before);
    let unseen = charge("b", 1, SECOND, 10);
    assert_eq!(region.level(&unseen), tokens(10));
    assert!(region.store.bucket(&unseen.budget).is_none());
}

#[test]
fn a_limit_of_nothing_refuses_all_but_a_look() {
    let mut region = Region::new();
    let limit = charge("a", 0, SECOND, 0);
    let refused = region.check(&limit);
    assert_eq!((refused.fits, refused.retry_after), (false, None));
    assert!(region.check(&costing(&limit, MicroTokens(1))).retry_after.is_none());
    assert!(region.check(&costing(&limit, MicroTokens::ZERO)).fits);
}

#[test]
fn a_low_rate_is_limited_too() {
    let mut region = Region::new();
    let limit = charge("a", 3, SECOND, 1);
    let admitted = (0..5).filter(|_| region.check(&limit).fits).count();
    assert_eq!(admitted, 1);
    let (_, until) = region.store.bucket(&limit.budget).expect("kept");
    assert!(until.since(region.now) > GRACE);
}

#[test]
fn a_clock_that_steps_back_keeps_the_level_and_refills_on() {
    let mut region = Region::new();
    let limit = charge("a", 1, SECOND, 10);
    assert!(region.check(&costing(&limit, tokens(5))).fits);
    region.now = quorate_shared::time::StoreTime::from_micros(1);
    assert!(!region.check(&costing(&limit, tokens(6))).fits);
    region.pass(SECOND);
    assert_eq!(region.level(&limit), tokens(6));
    region.pass(2 * 24 * 3600 * SECOND);
    assert_eq!(region.drain(&limit), 10);
}

#[test]
fn two_charges_are_taken_together_or_not_at_all() {
    let mut region = Region::new();
    let user = charge("user", 1, 60 * SECOND, 1);
    let site = charge("site", 1, 60 * SECOND, 10);
    assert!(region.check(&user).fits);
    let both = region.decide(&[user.clone(), site.clone()]);
    assert!(!both.allowed);
    assert_eq!((both.limits[0].fits, both.limits[1].fits), (false, true));
    assert_eq!((both.limits[1].remaining, both.limits[1].retry_after), (tokens(10), None));
    assert_eq!(region.level(&site), tokens(10));
    region.pass(60 * SECOND);
    assert!(region.decide(&[user, site.clone()]).allowed);
    assert_eq!(region.level(&site), tokens(9));
}

#[test]
fn an_observed_charge_never_refuses_and_is_taken_if_it_fits() {
    let mut region = Region::new();
    let observed = quorate_limiter::decision::Charge { enforced: false, ..charge("watched", 1, 60 * SECOND, 1) };
    let enforced = charge("site", 1, 60 * SECOND, 3);
    let decisions: Vec<_> = (0..4).map(|_| region.decide(&[observed.clone(), enforced.clone()])).collect();
    assert_eq!(decisions.iter().map(|d| d.allowed).collect::<Vec<_>>(), [true, true, true, false]);
    assert_eq!(decisions.iter().map(|d| d.limits[0].fits).collect::<Vec<_>>(), [true, false, false, false]);
}

#[test]
fn what_is_absent_was_full_before_it_went() {
    let mut region = Region::new();
    let limit = charge("a", 7, 3 * SECOND, 1_000);
    assert_eq!(region.drain(&limit), 1_000);
    let (bucket, until) = region.store.bucket(&limit.budget).map(|(b, u)| (b.clone(), u)).expect("kept");
    let full = bucket.fill.time_until(tokens(1_000), bucket.rate, period(3 * SECOND)).expect("refills");
    assert!(until.since(region.now) >= full + GRACE);
    assert!(until.since(region.now) <= full + GRACE + SECOND);
}

#[test]
fn nothing_is_kept_for_ever() {
    let mut region = Region::new();
    let slow = charge("a", 1, LONGEST_PERIOD, 9_000_000_000);
    assert!(region.check(&slow).fits);
    let (_, until) = region.store.bucket(&slow.budget).expect("kept");
    assert_eq!(until.since(region.now), LONGEST_LIFE + GRACE);

    for i in 0..5_000 {
        assert!(region.check(&charge(&format!("s{i}"), 1, SECOND, 1)).fits);
        region.pass(Duration::from_millis(100));
    }
    assert!(region.store.kept() < 2_100, "{} buckets", region.store.kept());
}

#[test]
fn the_edges_of_what_a_script_can_hold_are_exact() {
    let cap = MicroTokens(MAX_EXACT);
    let just_under = MicroTokens(MAX_EXACT - 1);
    let refill = |level: u64, elapsed: u64, rate: u64, span: Duration| {
        let fill = Fill::at(MicroTokens(level)).refilled(cap, Duration::from_micros(elapsed), MicroTokens(rate), period(span));
        (fill.level.0, fill.fraction)
    };
    let longest = LONGEST_PERIOD.as_micros() as u64;
    assert_eq!(refill(0, longest - 1, MAX_EXACT, LONGEST_PERIOD), (9_007_199_254_671_491, 745_259_009));
    assert_eq!(refill(0, longest, just_under.0, LONGEST_PERIOD), (MAX_EXACT - 1, 0));
    assert_eq!(refill(MAX_EXACT - 1, 1, 1, Duration::from_micros(1)), (MAX_EXACT, 0));
    assert_eq!(refill(0, TEN_YEARS.as_micros() as u64, MAX_EXACT, Duration::from_micros(1)), (MAX_EXACT, 0));
    assert_eq!(refill(0, u64::MAX, u64::MAX, Duration::from_micros(1)), (MAX_EXACT, 0));
}

#[derive(Clone, Copy, Debug)]
struct Step {
    wait: u64,
    cost: u64,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let wait = prop_oneof![0..5u64, 0..2_000_000u64, 0..100_000_000_000u64, Just(TEN_YEARS.as_micros() as u64)];
    prop::collection::vec((wait, any::<u64>()).prop_map(|(wait, cost)| Step { wait, cost }), 1..40)
}

/// A bucket with one number: tokens times the period, exactly.
struct Rational {
    level: i128,
    cap: i128,
    rate: i128,
    period: i128,
}

impl Rational {
    fn step(&mut self, wait: u64, cost: u64) -> bool {
        self.level = (self.level + i128::from(wait) * self.rate).min(self.cap * self.period);
        let fits = self.level >= i128::from(cost) * self.period;
        if fits {
            self.level -= i128::from(cost) * self.period;
        }
        fits
    }
}

proptest! {
    #![proptest_config(seeded(256))]

    #[test]
    fn every_decision_is_that_of_exact_arithmetic(
        rate in prop_oneof![1..=5u64, 1..=MAX_EXACT, Just(MAX_EXACT)],
        span in prop_oneof![1..=5u64, 1..=LONGEST_PERIOD.as_micros() as u64, Just(LONGEST_PERIOD.as_micros() as u64)],
        burst in prop_oneof![1..=5u64, 1..=MAX_EXACT, Just(MAX_EXACT)],
        steps in steps(),
    ) {
        let mut region = Region::new();
        let limit = Limit::TokenBucket { rate: MicroTokens(rate), period: Duration::from_micros(span), burst: MicroTokens(burst) };
        let limit = quorate_limiter::decision::Charge { limit, floor: limit.capacity(), ..charge("a", 1, SECOND, 1) };
        let mut model = Rational { level: i128::from(burst) * i128::from(span), cap: burst.into(), rate: rate.into(), period: span.into() };
        for Step { wait, cost } in steps {
            let cost = 1 + cost % burst;
            region.pass(Duration::from_micros(wait));
            let got = region.check(&costing(&limit, MicroTokens(cost)));
            prop_assert_eq!(got.fits, model.step(wait, cost));
            prop_assert_eq!(i128::from(got.remaining.0), model.level / model.period);
            if !got.fits {
                // exactly that long, and not a microsecond less
                let retry = got.retry_after.expect("it fits the capacity").as_micros() as i128;
                prop_assert!(retry >= 1);
                let due = i128::from(cost) * model.period;
                prop_assert!(retry == END_OF_TIME || model.level + retry * model.rate >= due);
                prop_assert!(model.level + (retry - 1) * model.rate < due);
            }
            let reset = got.reset_after.expect("it refills").as_micros() as i128;
            prop_assert!(reset == END_OF_TIME || model.level + reset * model.rate >= model.cap * model.period);
        }
    }

    #[test]
    fn waiting_as_told_is_enough(rate in 1_000..=10_000_000u64, cost in 11..=50u64, early in 1..=1_000_000u64) {
        let mut region = Region::new();
        region.drift = quorate_shared::time::Drift::DEFAULT;
        let limit = Limit::TokenBucket { rate: MicroTokens(rate), period: SECOND, burst: tokens(50) };
        let limit = quorate_limiter::decision::Charge { limit, floor: limit.capacity(), ..charge("a", 1, SECOND, 1) };
        region.drain(&limit);
        region.pass(Duration::from_micros(early));
        let cost = costing(&limit, tokens(cost));
        let refused = region.check(&cost);
        prop_assert!(!refused.fits);
        region.pass(refused.retry_after.expect("it fits the capacity"));
        prop_assert!(region.check(&cost).fits);
    }
}
