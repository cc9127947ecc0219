//! What the regions are measured by: an ideal bucket, and the queue that finds every excess.

use super::Micros;
use quorate_shared::units::{Capacity, MicroTokens};

/// A token bucket without rounding: of one second's rate, with levels in micro-tokens times
/// microseconds in a second.
#[derive(Clone, Debug)]
pub struct IdealBucket {
    rate: u128,
    full: u128,
    level: u128,
    last: Micros,
}

/// Microseconds in the period of every limit here.
const PERIOD: u128 = 1_000_000;

impl IdealBucket {
    /// A full one.
    pub fn new(capacity: Capacity) -> Self {
        let full = u128::from(capacity.burst.0) * PERIOD;
        Self { rate: u128::from(capacity.rate.0), full, level: full, last: 0 }
    }

    /// Takes `cost` at `now` if it is there.
    pub fn admits(&mut self, now: Micros, cost: MicroTokens) -> bool {
        self.fill(now);
        let cost = u128::from(cost.0) * PERIOD;
        let fits = cost <= self.level;
        if fits {
            self.level -= cost;
        }
        fits
    }

    fn fill(&mut self, now: Micros) {
        self.level = (self.level + u128::from(now - self.last) * self.rate).min(self.full);
        self.last = now;
    }
}

/// The ideal under a policy that keeps a part of each floor at home: a bucket for each region of
/// what may not be lent, and one for all of the rest, under the whole limit. No plan, however
/// quick, admits more.
#[derive(Clone, Debug)]
pub struct AllowedBuckets {
    whole: IdealBucket,
    kept: Vec<IdealBucket>,
    common: IdealBucket,
}

impl AllowedBuckets {
    /// Full ones; `kept` of the limit by region, each with room for `cost` at least.
    pub fn new(limit: Capacity, kept: &[Capacity], cost: MicroTokens) -> Self {
        let common = limit.minus(kept.iter().copied().sum());
        Self {
            whole: IdealBucket::new(limit),
            kept: kept.iter().map(|k| IdealBucket::new(Capacity::new(k.rate, k.burst.max(cost)))).collect(),
            common: IdealBucket::new(common),
        }
    }

    /// Takes `cost` for a region at `now`: what is its own first.
    pub fn admits(&mut self, region: usize, now: Micros, cost: MicroTokens) -> bool {
        let Some(own) = self.kept.get_mut(region) else { return false };
        own.fill(now);
        self.common.fill(now);
        let micros = u128::from(cost.0) * PERIOD;
        let fits = micros <= own.level + self.common.level && self.whole.admits(now, cost);
        if fits {
            let of_own = own.level.min(micros);
            own.level -= of_own;
            self.common.level -= micros - of_own;
        }
        fits
    }
}

/// Over any interval `W`, at most `B + R·W` may be admitted. A queue that is served at `R` is
/// longer than `B` exactly when some interval saw more.
#[derive(Clone, Debug)]
pub struct Excess {
    rate: u128,
    burst: u128,
    length: u128,
    last: Micros,
    worst: u128,
}

impl Excess {
    /// Of a limit per second.
    pub fn new(limit: Capacity) -> Self {
        let burst = u128::from(limit.burst.0) * PERIOD;
        Self { rate: u128::from(limit.rate.0), burst, length: 0, last: 0, worst: 0 }
    }

    /// Counts an admission.
    pub fn admit(&mut self, now: Micros, cost: MicroTokens) {
        let served = u128::from(now - self.last) * self.rate;
        self.length = self.length.saturating_sub(served) + u128::from(cost.0) * PERIOD;
        self.last = now;
        self.worst = self.worst.max(self.length.saturating_sub(self.burst));
    }

    /// The most that any interval saw beyond the limit, rounded up to a micro-token.
    pub fn worst(&self) -> MicroTokens {
        MicroTokens(u64::try_from(self.worst.div_ceil(PERIOD)).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_at_home_serves_its_own_region_alone() {
        let tokens = |n: u64| MicroTokens(n * MicroTokens::TOKEN.0);
        let cap = |n: u64| Capacity::new(tokens(n), tokens(n));
        let mut allowed = AllowedBuckets::new(cap(10), &[cap(1), cap(2)], tokens(1));
        assert_eq!((0..20).filter(|_| allowed.admits(0, 0, tokens(1))).count(), 8);
        assert_eq!((0..20).filter(|_| allowed.admits(1, 0, tokens(1))).count(), 2);
        assert!(!allowed.admits(2, 1_000_000, tokens(1)), "no such region");
    }

    #[test]
    fn what_is_kept_at_home_is_part_of_the_whole() {
        let tokens = |n: u64| MicroTokens(n * MicroTokens::TOKEN.0);
        let part = Capacity::new(MicroTokens(20_000), MicroTokens(20_000));
        let mut allowed = AllowedBuckets::new(Capacity::new(tokens(1), tokens(1)), &[part; 5], tokens(1));
        assert_eq!((0..5).filter(|r| allowed.admits(*r, 0, tokens(1))).count(), 1, "each bucket has room for one");
        assert!(!allowed.admits(1, 900_000, tokens(1)) && allowed.admits(1, 1_000_000, tokens(1)));
    }

    #[test]
    fn one_more_than_burst_and_refill_is_an_excess() {
        let tokens = |n: u64| MicroTokens(n * MicroTokens::TOKEN.0);
        let limit = Capacity::new(tokens(10), tokens(5));
        let mut excess = Excess::new(limit);
        let mut ideal = IdealBucket::new(limit);
        (0..5).for_each(|_| excess.admit(0, tokens(1)));
        assert!((0..5).all(|_| ideal.admits(0, tokens(1))) && !ideal.admits(99_999, tokens(1)));
        assert_eq!(excess.worst(), MicroTokens::ZERO);
        excess.admit(99_999, tokens(1));
        assert_eq!(excess.worst(), MicroTokens(10));
    }
}
