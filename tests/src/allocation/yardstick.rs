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
        self.level = (self.level + u128::from(now - self.last) * self.rate).min(self.full);
        self.last = now;
        let cost = u128::from(cost.0) * PERIOD;
        let fits = cost <= self.level;
        if fits {
            self.level -= cost;
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
