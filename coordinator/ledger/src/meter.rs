//! Measuring the overshoot of one budget from the regions' reports.

use crate::terms::Terms;
use quorate_shared::time::{Drift, LeaderTime};
use quorate_shared::units::{Capacity, MicroTokens};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A virtual queue that is served at the limit's rate: what stands in it beyond the burst was
/// admitted beyond `B + R·W` over the interval since it last was empty.
///
/// A report says how much was admitted since the one before, not when, and is a while on its way.
/// All of it was admitted after the report before was read, which is known to be no earlier than
/// some instant of the leader's clock: of a span that goes back that far the refill is allowed for.
/// So what is measured is a lower bound of the true overshoot, and misses at most that refill.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Meter {
    queue: MicroTokens,
    at: LeaderTime,
    /// How far back the reports in the queue go at most.
    span: Duration,
}

/// By what a measurement is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measure {
    /// The burst, and the rate with what the bound allows of it beyond the limit: a rate that was
    /// promised exceeds any amount in time.
    pub limit: Capacity,
    pub period: Duration,
    pub drift: Drift,
}

impl Measure {
    /// For a flow under these terms.
    pub fn of(terms: &Terms, drift: Drift) -> Self {
        let limit = terms.limit.capacity();
        let floors: Capacity = terms.floors.values().map(|f| f.floor).sum();
        let static_rate = floors.plus(terms.reserved).rate;
        Self { limit: Capacity::new(limit.rate.max(static_rate), limit.burst), period: terms.limit.period(), drift }
    }

    /// What is served in `span` at most, however slow the leader's clock is.
    fn refill(&self, span: Duration) -> MicroTokens {
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        self.limit.rate.scale_floor(micros(self.drift.stretch(span)), micros(self.period)).saturating_add(MicroTokens(1))
    }
}

impl Meter {
    /// Counts what was `admitted` after `from`, as reported at `at`, and gives the overshoot that
    /// is in the queue.
    pub fn count(&mut self, admitted: MicroTokens, from: LeaderTime, at: LeaderTime, by: Measure) -> MicroTokens {
        self.queue = self.queue.saturating_sub(by.refill(at.since(self.at)));
        if self.queue == MicroTokens::ZERO {
            self.span = Duration::ZERO;
        }
        self.at = self.at.max(at);
        self.span = self.span.max(at.since(from));
        self.queue = self.queue.saturating_add(admitted);
        self.queue.saturating_sub(by.limit.burst.saturating_add(by.refill(self.span)))
    }

    /// Forgets everything: the clock or the limit is another.
    pub fn restart(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 a second, 20 at once.
    fn by() -> Measure {
        let tokens = |n| MicroTokens::from_tokens(n).expect("small");
        Measure { limit: Capacity::new(tokens(10), tokens(20)), period: Duration::from_secs(1), drift: Drift::default() }
    }

    fn at(ms: u64) -> LeaderTime {
        LeaderTime::ZERO.after(Duration::from_millis(ms))
    }

    /// Each second so much, by reports that go back 1.2 s.
    fn after(seconds: u64, each: u64) -> MicroTokens {
        let mut meter = Meter::default();
        let count = |second: u64| meter.count(MicroTokens(each), at(second * 1_000 - 200), at(second * 1_000 + 1_000), by());
        (1..=seconds).map(count).max().unwrap_or_default()
    }

    #[test]
    fn a_steady_use_of_the_whole_limit_is_no_overshoot() {
        assert_eq!(after(1_000, 10_000_000), MicroTokens::ZERO);
    }

    #[test]
    fn what_exceeds_burst_and_refill_is_seen_less_the_refill_of_what_a_report_covers() {
        let mut meter = Meter::default();
        let seen = meter.count(MicroTokens(95_000_000), at(1_000), at(2_200), by());
        // 20 at once and 12 in 1.2 s, stretched by 1000 millionths
        assert_eq!(seen, MicroTokens(95_000_000 - 20_000_000 - 12_012_000 - 1));
    }

    #[test]
    fn a_use_beyond_the_rate_is_seen_in_time() {
        // 2 too many a second: the burst of 20 and 12 for the span are used up in the 12th second
        assert_eq!(after(11, 12_000_000), MicroTokens::ZERO);
        let seen = after(30, 12_000_000);
        assert!(seen > MicroTokens(36_000_000) && seen < MicroTokens(40_000_000), "{seen}");
    }

    #[test]
    fn a_report_that_goes_back_far_blurs_only_what_is_measured_with_it() {
        let mut meter = Meter::default();
        assert_eq!(meter.count(MicroTokens(60_000_000), at(0), at(4_000), by()), MicroTokens::ZERO, "4 s and the burst");
        let quiet = 20_000;
        let seen = meter.count(MicroTokens(40_000_000), at(quiet - 1_000), at(quiet), by());
        assert!(seen > MicroTokens(9_900_000), "{seen}");
    }
}
