//! Measuring the overshoot of one budget from the regions' reports.

use quorate_shared::policy::Limit;
use quorate_shared::time::{Drift, LeaderTime};
use quorate_shared::units::MicroTokens;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A virtual queue that is served at the limit's rate: what stands in it beyond the burst was
/// admitted beyond `B + R·W` over the interval since it last was empty.
///
/// Reports say how much was admitted since the report before, not when, and are a while on their
/// way, so admissions may seem late and bunched: the refill of that span and of one lease, by
/// which a report is late at most while its region is live, is allowed for. What is measured is
/// therefore a lower bound of the true overshoot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Meter {
    queue: MicroTokens,
    at: LeaderTime,
    /// The longest span between two reports of one region.
    span: Duration,
}

/// By which clock and lease a measurement is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measure {
    pub limit: Limit,
    pub drift: Drift,
    pub lease: Duration,
}

impl Meter {
    /// Counts `admitted`, reported at `at` for the `span` before it, and gives the overshoot so
    /// far seen. After a span longer than a lease it begins anew.
    pub fn count(&mut self, admitted: MicroTokens, at: LeaderTime, span: Duration, by: Measure) -> MicroTokens {
        if span > by.lease {
            self.restart();
            return MicroTokens::ZERO;
        }
        self.span = self.span.max(span);
        // a slow clock of the leader is no overshoot
        let served = refill(by.limit, by.drift.stretch(at.since(self.at)));
        self.queue = self.queue.saturating_sub(served).saturating_add(admitted);
        self.at = self.at.max(at);
        let late = refill(by.limit, by.drift.stretch(self.span.saturating_add(by.lease)));
        let allowed = by.limit.capacity().burst.saturating_add(late).saturating_add(MicroTokens(1));
        self.queue.saturating_sub(allowed)
    }

    /// Forgets everything: the clock or the limit is another.
    pub fn restart(&mut self) {
        *self = Self::default();
    }
}

fn refill(limit: Limit, span: Duration) -> MicroTokens {
    let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    let period = u64::try_from(limit.period().as_micros()).unwrap_or(u64::MAX);
    limit.capacity().rate.scale_floor(micros, period)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(rate: u64, burst: u64) -> Measure {
        let tokens = |n| MicroTokens::from_tokens(n).expect("small");
        let limit = Limit::TokenBucket { rate: tokens(rate), period: Duration::from_secs(1), burst: tokens(burst) };
        Measure { limit, drift: Drift::default(), lease: Duration::from_secs(5) }
    }

    #[test]
    fn a_steady_use_of_the_whole_limit_is_no_overshoot() {
        let mut meter = Meter::default();
        for second in 1..100 {
            let at = LeaderTime::ZERO.after(Duration::from_secs(second));
            let seen = meter.count(MicroTokens(10_000_000), at, Duration::from_secs(1), by(10, 20));
            assert_eq!(seen, MicroTokens::ZERO, "second {second}");
        }
    }

    #[test]
    fn what_exceeds_burst_and_refill_is_seen() {
        let mut meter = Meter::default();
        let at = LeaderTime::ZERO.after(Duration::from_secs(1));
        let seen = meter.count(MicroTokens(95_000_000), at, Duration::from_secs(1), by(10, 20));
        assert!(seen > MicroTokens(14_900_000) && seen <= MicroTokens(15_000_000), "{seen}");
    }

    #[test]
    fn a_use_beyond_the_rate_is_seen_in_time() {
        let mut meter = Meter::default();
        let twice = |meter: &mut Meter, second| {
            meter.count(MicroTokens(20_000_000), LeaderTime::ZERO.after(Duration::from_secs(second)), Duration::from_secs(1), by(10, 20))
        };
        assert!((1..30).any(|second| twice(&mut meter, second) > MicroTokens(100_000_000)));
    }
}
