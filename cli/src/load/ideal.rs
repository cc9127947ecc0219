//! The yardstick of utilisation: what a single bucket for each budget would have admitted.
//!
//! No distance, no delay, no regions: every request is decided at the instant it was sent, over all its
//! budgets, all or nothing, in exact integers.

use quorate_shared::policy::Limit;
use quorate_shared::units::MicroTokens;
use std::time::Duration;

/// One budget's part of a request. `budget` indexes the limits given to [`IdealBuckets::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Which bucket.
    pub budget: usize,
    /// What it takes.
    pub cost: MicroTokens,
    /// False: never refuses the request, and is taken if it fits.
    pub enforced: bool,
}

/// One full bucket for each budget.
///
/// Requests must come in the order of their instants; an earlier instant refills nothing.
#[derive(Clone, Debug)]
pub struct IdealBuckets {
    buckets: Vec<Bucket>,
}

impl IdealBuckets {
    /// Full buckets of these limits.
    pub fn new(limits: impl IntoIterator<Item = Limit>) -> Self {
        Self { buckets: limits.into_iter().map(Bucket::full).collect() }
    }

    /// Takes the charges if all enforced ones fit, and says whether they did.
    pub fn handle_request(&mut self, at: Duration, charges: &[Charge]) -> bool {
        for charge in charges {
            self.buckets[charge.budget].refill(at);
        }
        let fits = |charge: &Charge| self.buckets[charge.budget].fits(charge.cost);
        if !charges.iter().all(|c| !c.enforced || fits(c)) {
            return false;
        }
        for charge in charges {
            self.buckets[charge.budget].take_if_fits(charge.cost);
        }
        true
    }
}

/// Levels are counted in micro-tokens times the period in nanoseconds, so that no refill is rounded.
#[derive(Clone, Debug)]
struct Bucket {
    rate: u128,
    period: u128,
    full: u128,
    level: u128,
    last: Duration,
}

impl Bucket {
    fn full(limit: Limit) -> Self {
        let capacity = limit.capacity();
        let period = limit.period().as_nanos().max(1);
        let full = u128::from(capacity.burst.0) * period;
        Self { rate: u128::from(capacity.rate.0), period, full, level: full, last: Duration::ZERO }
    }

    fn refill(&mut self, at: Duration) {
        let refilled = self.rate.saturating_mul(at.saturating_sub(self.last).as_nanos());
        self.level = self.level.saturating_add(refilled).min(self.full);
        self.last = self.last.max(at);
    }

    fn fits(&self, cost: MicroTokens) -> bool {
        u128::from(cost.0) * self.period <= self.level
    }

    fn take_if_fits(&mut self, cost: MicroTokens) {
        if self.fits(cost) {
            self.level -= u128::from(cost.0) * self.period;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::interval::{Admission, overshoot};
    use proptest::prelude::*;

    const TOKEN: u64 = MicroTokens::TOKEN.0;

    fn limit(rate: u64, burst: u64) -> Limit {
        Limit::TokenBucket { rate: MicroTokens(rate * TOKEN), period: Duration::from_secs(1), burst: MicroTokens(burst * TOKEN) }
    }

    fn one(budget: usize) -> Charge {
        Charge { budget, cost: MicroTokens::TOKEN, enforced: true }
    }

    #[test]
    fn a_burst_then_the_rate() {
        let mut ideal = IdealBuckets::new([limit(10, 3)]);
        let admitted = |ideal: &mut IdealBuckets, ms: u64| ideal.handle_request(Duration::from_millis(ms), &[one(0)]);
        let at_once: Vec<bool> = (0..4).map(|_| admitted(&mut ideal, 0)).collect();
        assert_eq!(at_once, [true, true, true, false]);
        assert!(!admitted(&mut ideal, 99));
        assert!(admitted(&mut ideal, 100));
        assert!(!admitted(&mut ideal, 100));
    }

    #[test]
    fn a_refusal_takes_from_no_bucket() {
        let mut ideal = IdealBuckets::new([limit(1, 1), limit(1, 5)]);
        let both = [one(0), one(1)];
        assert!(ideal.handle_request(Duration::ZERO, &both));
        assert!(!ideal.handle_request(Duration::ZERO, &both));
        let four = Charge { cost: MicroTokens(4 * TOKEN), ..one(1) };
        assert!(ideal.handle_request(Duration::ZERO, &[four]), "the refusal must have left four in the second bucket");
    }

    #[test]
    fn an_observed_budget_refuses_nothing() {
        let mut ideal = IdealBuckets::new([limit(1, 1)]);
        let observed = Charge { enforced: false, ..one(0) };
        assert!((0..3).all(|_| ideal.handle_request(Duration::ZERO, &[observed])));
        assert!(!ideal.handle_request(Duration::ZERO, &[one(0)]), "the first of them fitted and was taken");
    }

    #[test]
    fn a_long_pause_fills_and_does_not_overflow() {
        let mut ideal = IdealBuckets::new([limit(1_000_000, 2)]);
        assert!(ideal.handle_request(Duration::ZERO, &[one(0)]));
        assert!(ideal.handle_request(Duration::MAX, &[Charge { cost: MicroTokens(2 * TOKEN), ..one(0) }]));
        assert!(!ideal.handle_request(Duration::MAX, &[one(0)]));
    }

    proptest! {
        #[test]
        fn what_the_ideal_admits_never_exceeds_the_limit(mut at in prop::collection::vec(0..3_000_000_u64, 1..200), rate in 1..50_u64, burst in 1..9_u64) {
            at.sort_unstable();
            let mut ideal = IdealBuckets::new([limit(rate, burst)]);
            let instants = at.into_iter().map(Duration::from_micros).filter(|t| ideal.handle_request(*t, &[one(0)]));
            let admitted: Vec<Admission> = instants.map(|t| Admission { sent: t, answered: t, cost: MicroTokens::TOKEN }).collect();
            prop_assert_eq!(overshoot(limit(rate, burst), &admitted), None);
        }
    }
}
