//! Measuring the overshoot of one budget from the regions' reports.

use quorate_shared::policy::Limit;
use quorate_shared::time::LeaderTime;
use quorate_shared::units::MicroTokens;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A virtual queue that is served at the limit's rate: what stands in it beyond the burst was
/// admitted beyond `B + R·W` over the interval since it last was empty.
///
/// Reports say how much was admitted since the report before, not when, so admissions may seem
/// up to one such span late and bunched: that much refill is allowed for. What is measured is
/// therefore a lower bound of the true overshoot, with the resolution of one heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Meter {
    queue: MicroTokens,
    at: LeaderTime,
    /// The longest span between two reports of one region.
    span: Duration,
}

impl Meter {
    /// Counts `admitted`, reported at `at` for the `span` before it, and gives the overshoot so far seen.
    pub fn count(&mut self, admitted: MicroTokens, at: LeaderTime, span: Duration, limit: Limit) -> MicroTokens {
        self.span = self.span.max(span);
        let refill = refill(limit, at.since(self.at));
        self.queue = self.queue.saturating_sub(refill).saturating_add(admitted);
        self.at = self.at.max(at);
        let allowed = limit.capacity().burst.saturating_add(refill_up(limit, self.span));
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

fn refill_up(limit: Limit, span: Duration) -> MicroTokens {
    refill(limit, span).saturating_add(MicroTokens(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(rate: u64, burst: u64) -> Limit {
        let tokens = |n| MicroTokens::from_tokens(n).expect("small");
        Limit::TokenBucket { rate: tokens(rate), period: Duration::from_secs(1), burst: tokens(burst) }
    }

    #[test]
    fn a_steady_use_of_the_whole_limit_is_no_overshoot() {
        let mut meter = Meter::default();
        for second in 1..100 {
            let at = LeaderTime::ZERO.after(Duration::from_secs(second));
            let seen = meter.count(MicroTokens(10_000_000), at, Duration::from_secs(1), limit(10, 20));
            assert_eq!(seen, MicroTokens::ZERO, "second {second}");
        }
    }

    #[test]
    fn what_exceeds_burst_and_refill_is_seen() {
        let mut meter = Meter::default();
        let at = LeaderTime::ZERO.after(Duration::from_secs(1));
        let seen = meter.count(MicroTokens(45_000_000), at, Duration::from_secs(1), limit(10, 20));
        assert!(seen > MicroTokens(14_900_000) && seen <= MicroTokens(15_000_000), "{seen}");
    }
}
