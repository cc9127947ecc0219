//! What happened within the last hour, by the leader's clock, in bounded memory.
//!
//! Something is forgotten only once it is known to be older than an hour: slots end late, and what
//! happened under an earlier office, whose dates mean nothing now, counts as of the moment when the
//! present one was first heard.

use quorate_shared::bound::Steps;
use quorate_shared::time::LeaderTime;
use quorate_shared::units::MicroTokens;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::Duration;

/// What one slot covers.
const SLOT: Duration = Duration::from_secs(5 * 60);
/// From a slot's beginning: its length, and an hour by any clock that drifts as much as is allowed.
const KEPT: Duration = Duration::from_secs((5 + 66) * 60);

/// What two values come to together.
pub(crate) trait Together {
    fn together(self, other: Self) -> Self;
}

/// Of two overshoots the worse.
impl Together for MicroTokens {
    fn together(self, other: Self) -> Self {
        self.max(other)
    }
}

impl Together for Steps {
    fn together(self, other: Self) -> Self {
        self.and(other)
    }
}

/// Values of the last hour: at most fifteen slots and one value carried over.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LastHour<T> {
    /// By their beginnings.
    slots: VecDeque<(LeaderTime, T)>,
    /// Of earlier offices, and when the present one was first heard.
    carried: Option<(LeaderTime, T)>,
}

impl<T: Copy + Default + Together> LastHour<T> {
    /// Notes `value` at `at`, which no office dates before what it noted earlier.
    pub fn note(&mut self, value: T, at: LeaderTime) {
        self.forget_before(at);
        match self.slots.back_mut().filter(|(start, _)| at < start.after(SLOT)) {
            Some((_, slot)) => *slot = slot.together(value),
            None => self.slots.push_back((at, value)),
        }
    }

    /// All that is not known to be older than an hour at `at`, together.
    pub fn total(&self, at: LeaderTime) -> T {
        let kept = self.slots.iter().chain(&self.carried).filter(|(start, _)| at <= start.after(KEPT));
        kept.map(|(_, value)| *value).fold(T::default(), T::together)
    }

    /// A new office, first heard at `first`: no date before it means anything.
    pub fn forget_dates(&mut self, first: LeaderTime) {
        let slots = std::mem::take(&mut self.slots);
        let values = slots.into_iter().chain(self.carried.take()).map(|(_, value)| value);
        self.carried = values.reduce(T::together).map(|value| (first, value));
    }

    fn forget_before(&mut self, at: LeaderTime) {
        self.slots.retain(|(start, _)| at <= start.after(KEPT));
        self.carried = self.carried.take().filter(|(start, _)| at <= start.after(KEPT));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minute(n: u64) -> LeaderTime {
        LeaderTime::ZERO.after(Duration::from_secs(60 * n))
    }

    #[test]
    fn an_hour_is_kept_whole_and_little_more() {
        let mut worst = LastHour::default();
        worst.note(MicroTokens(9), minute(0));
        worst.note(MicroTokens(5), minute(30));
        assert_eq!(worst.total(minute(60)), MicroTokens(9));
        assert_eq!(worst.total(minute(72)), MicroTokens(5));
        assert_eq!(worst.total(minute(102)), MicroTokens(0));
    }

    #[test]
    fn memory_is_bounded_however_much_is_noted() {
        let mut sum = LastHour::default();
        let step = Steps { count: 1, total: Duration::from_secs(1) };
        for second in 0..100_000 {
            sum.note(step, LeaderTime::ZERO.after(Duration::from_secs(second)));
        }
        assert!(sum.slots.len() <= 15, "{}", sum.slots.len());
        let kept = sum.total(LeaderTime::ZERO.after(Duration::from_secs(99_999))).count;
        assert!((3_600..=4_560).contains(&kept), "{kept}");
    }

    #[test]
    fn what_an_earlier_office_saw_is_kept_until_it_is_surely_old() {
        let mut worst = LastHour::default();
        worst.note(MicroTokens(9), minute(500));
        worst.forget_dates(minute(2));
        worst.note(MicroTokens(3), minute(10));
        assert_eq!(worst.total(minute(70)), MicroTokens(9));
        worst.forget_dates(minute(1));
        assert_eq!(worst.total(minute(61)), MicroTokens(9), "its age is not known, so it begins anew");
        assert_eq!(worst.total(minute(73)), MicroTokens(0));
    }
}
