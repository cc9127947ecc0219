//! A sliding log: what was taken when, exact over any interval.
//!
//! The same arithmetic stands in `store/scripts/log.lua` of the agent; a test plays both.

use quorate_shared::policy::MAX_LOG_ENTRIES;
use quorate_shared::time::StoreTime;
use quorate_shared::units::MicroTokens;
use std::collections::VecDeque;
use std::time::Duration;

/// What a hold needs to know of what it was charged in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// When it was taken.
    pub at: StoreTime,
    /// How long it counts.
    pub keep: Duration,
}

/// What was taken when: no two entries of one instant, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UseLog {
    total: MicroTokens,
    taken: VecDeque<(StoreTime, MicroTokens)>,
}

impl UseLog {
    /// What counts at `now` of that which counts for `keep`.
    pub fn counted(&self, now: StoreTime, keep: Duration) -> MicroTokens {
        let expired = self.taken.iter().take_while(|(at, _)| now.since(*at) > keep);
        expired.fold(self.total, |left, (_, units)| left.saturating_sub(*units))
    }

    /// Until at most `goal` counts, if nothing more is taken: the first microsecond at which it is so.
    pub fn time_until(&self, now: StoreTime, keep: Duration, goal: MicroTokens) -> Duration {
        // one from a clock that has stepped back since counts from now on
        let forgotten = |at: &StoreTime| (*at).min(now).after(keep).after(Duration::from_micros(1)).since(now);
        if goal == MicroTokens::ZERO {
            return self.taken.back().map(|(at, _)| forgotten(at)).unwrap_or_default();
        }
        let mut left = self.total;
        let first = self.taken.iter().find(|(_, units)| {
            left = left.saturating_sub(*units);
            left <= goal
        });
        match first {
            Some((at, _)) if self.total > goal => forgotten(at),
            _ => Duration::ZERO,
        }
    }

    /// As of `now`: what counts no more is forgotten, and what a clock that has stepped back since had dated
    /// later is dated anew, so that nothing counts for longer than `keep` from now. True if that changes anything.
    pub fn settle(&mut self, now: StoreTime, keep: Duration) -> bool {
        let before = self.taken.len();
        while let Some((_, units)) = self.taken.pop_front_if(|(at, _)| now.since(*at) > keep) {
            self.total = self.total.saturating_sub(units);
        }
        let stepped_back = self.taken.back().is_some_and(|(at, _)| *at > now);
        if stepped_back {
            self.append(now, MicroTokens::ZERO);
        }
        stepped_back || self.taken.len() != before
    }

    /// Takes `units` at `now`; settled before.
    pub fn take(&mut self, now: StoreTime, units: MicroTokens) {
        self.total = self.total.saturating_add(units);
        self.append(now, units);
        while self.taken.len() > MAX_LOG_ENTRIES {
            self.merge_oldest();
        }
    }

    /// Puts a lower true `cost` in the place of an estimate that was taken `at` an instant: what is given back. Nothing
    /// if the entry of that instant is gone, or holds so little that the estimate is in another one by now.
    pub fn lower(&mut self, at: StoreTime, estimate: MicroTokens, cost: MicroTokens) -> MicroTokens {
        let Ok(place) = self.taken.binary_search_by_key(&at, |(at, _)| *at) else { return MicroTokens::ZERO };
        let Some((_, units)) = self.taken.get_mut(place).filter(|(_, units)| *units >= estimate) else { return MicroTokens::ZERO };
        let returned = estimate.saturating_sub(cost);
        *units = units.saturating_sub(returned);
        self.total = self.total.saturating_sub(returned);
        if *units == MicroTokens::ZERO {
            self.taken.remove(place);
        }
        returned
    }

    /// An entry of `now`, with all that is dated no earlier.
    fn append(&mut self, now: StoreTime, mut units: MicroTokens) {
        while let Some((_, later)) = self.taken.pop_back_if(|(at, _)| *at >= now) {
            units = units.saturating_add(later);
        }
        self.taken.push_back((now, units));
    }

    fn merge_oldest(&mut self) {
        let oldest = self.taken.pop_front();
        if let (Some((_, units)), Some((_, next))) = (oldest, self.taken.front_mut()) {
            *next = next.saturating_add(units);
        }
    }

    /// True if nothing was taken, or all of it has been forgotten.
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// All that was taken and is not forgotten.
    pub fn total(&self) -> MicroTokens {
        self.total
    }

    /// The entries, oldest first.
    pub fn entries(&self) -> impl Iterator<Item = (StoreTime, MicroTokens)> {
        self.taken.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: Duration = Duration::from_secs(1);

    fn at(ms: u64) -> StoreTime {
        StoreTime::from_micros(ms * 1_000)
    }

    fn log(entries: &[(u64, u64)]) -> UseLog {
        let mut log = UseLog::default();
        for (ms, units) in entries {
            log.settle(at(*ms), KEEP);
            log.take(at(*ms), MicroTokens(*units));
        }
        log
    }

    fn entries(log: &UseLog) -> Vec<(u64, u64)> {
        log.entries().map(|(at, units)| (at.as_micros() / 1_000, units.0)).collect()
    }

    #[test]
    fn equal_instants_are_one_entry() {
        let log = log(&[(5, 1), (5, 2), (6, 4)]);
        assert_eq!((entries(&log), log.total()), (vec![(5, 3), (6, 4)], MicroTokens(7)));
    }

    #[test]
    fn a_unit_counts_for_the_whole_of_its_time_and_not_a_microsecond_longer() {
        let log = log(&[(0, 3)]);
        assert_eq!(log.counted(at(1_000), KEEP), MicroTokens(3));
        assert_eq!(log.counted(StoreTime::from_micros(1_000_001), KEEP), MicroTokens::ZERO);
        assert_eq!(log.time_until(at(400), KEEP, MicroTokens::ZERO), Duration::from_micros(600_001));
    }

    #[test]
    fn a_clock_that_steps_back_freezes_nothing_and_frees_nothing() {
        let mut log = log(&[(100, 1), (5_000, 2), (5_500, 4)]);
        assert_eq!(log.time_until(at(200), KEEP, MicroTokens::ZERO), KEEP + Duration::from_micros(1));
        assert!(log.settle(at(200), KEEP));
        assert_eq!((entries(&log), log.total()), (vec![(200, 6)], MicroTokens(6)));
        assert!(!log.settle(at(200), KEEP), "it is written down once");
        assert_eq!(log.counted(at(1_201), KEEP), MicroTokens::ZERO);
    }

    #[test]
    fn memory_is_bounded_and_what_is_merged_counts_longer() {
        let mut log = UseLog::default();
        for i in 0..MAX_LOG_ENTRIES as u64 + 5 {
            log.take(StoreTime::from_micros(i), MicroTokens(1));
        }
        assert_eq!(log.entries().count(), MAX_LOG_ENTRIES);
        assert_eq!(log.entries().next(), Some((StoreTime::from_micros(5), MicroTokens(6))));
        assert_eq!(log.total(), MicroTokens(MAX_LOG_ENTRIES as u64 + 5));
    }
}
