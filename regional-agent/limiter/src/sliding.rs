//! A sliding-window counter: what was taken in the present window in full, and of the one before the part
//! that an interval as long as a window still covers, as if it had been taken evenly.
//!
//! The same arithmetic stands in `store/scripts/sliding.lua` of the agent; a test plays both.

use quorate_shared::time::StoreTime;
use quorate_shared::units::{MAX_EXACT, MicroTokens};
use std::time::Duration;

/// Parts of a window that the weight of the one before is counted in, at most: what a script divides
/// exactly. Up to 38 h a part is a microsecond.
const MAX_PARTS: u64 = 1 << 37;

/// What was taken in a window and in the one before. Windows begin at multiples of their length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowCount {
    /// Which window: how many there were before it.
    pub index: u64,
    /// Taken in it.
    pub current: MicroTokens,
    /// Taken in the one before.
    pub previous: MicroTokens,
}

/// What a hold needs to know of what it was charged in windows that slide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// In which window.
    pub index: u64,
    /// How long a window is.
    pub length: Duration,
}

impl WindowCount {
    /// The count at `now`, by what was `stored`.
    ///
    /// A clock that stepped back into the window before stays at the beginning of the newest: nothing
    /// decays until it is there again. One that stepped back further begins a window there with all that
    /// was taken in both, so that nothing counts for more than two windows from now on.
    pub fn settled(stored: Option<&Self>, length: Duration, now: StoreTime) -> Self {
        let index = now.as_micros() / micros(length);
        let Some(stored) = stored else { return Self { index, ..Self::default() } };
        if stored.index > index.saturating_add(1) {
            let both = stored.current.saturating_add(stored.previous).min(MicroTokens(MAX_EXACT));
            return Self { index, current: both, previous: MicroTokens::ZERO };
        }
        match index.saturating_sub(stored.index) {
            0 => *stored,
            1 => Self { index, current: MicroTokens::ZERO, previous: stored.current },
            _ => Self { index, ..Self::default() },
        }
    }

    /// Puts a lower true `cost` in the place of an estimate that was taken in window `index`; settled before. What is
    /// given back: nothing if that window counts no more, or holds so little that the estimate is not in it.
    pub fn lower(&mut self, index: u64, estimate: MicroTokens, cost: MicroTokens) -> MicroTokens {
        let part = match self.index.checked_sub(index) {
            Some(0) => &mut self.current,
            Some(1) => &mut self.previous,
            _ => return MicroTokens::ZERO,
        };
        let returned = if *part >= estimate { estimate.saturating_sub(cost) } else { MicroTokens::ZERO };
        *part = part.saturating_sub(returned);
        returned
    }

    /// As it counts at `now`; settled before.
    pub fn weighed(&self, length: Duration, now: StoreTime) -> Weighed {
        let length = micros(length);
        let left = length - now.as_micros() % length;
        let ahead = if self.index > now.as_micros() / length { length } else { 0 };
        Weighed { current: self.current, previous: self.previous, left: left.saturating_add(ahead), length }
    }

    /// True if nothing was taken in either.
    pub fn is_empty(&self) -> bool {
        self.current == MicroTokens::ZERO && self.previous == MicroTokens::ZERO
    }
}

/// A count at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weighed {
    /// Taken in the newest window.
    pub current: MicroTokens,
    /// Taken in the one before.
    pub previous: MicroTokens,
    /// Until the newest window ends, in microseconds: more than its length if it has not begun by a clock that
    /// stepped back.
    left: u64,
    /// Of a window, in microseconds.
    length: u64,
}

impl Weighed {
    /// As a script tells it, with the microseconds `left` of a window of this `length`.
    pub fn new(current: MicroTokens, previous: MicroTokens, left: u64, length: Duration) -> Self {
        Self { current, previous, left, length: micros(length) }
    }

    /// What counts: never less than the rule says, and exactly that in windows of up to 38 h.
    pub fn estimate(&self) -> MicroTokens {
        let parts = self.parts();
        let left = self.left.div_ceil(self.part()).min(parts);
        let weighed = (u128::from(self.previous.0) * u128::from(left)).div_ceil(u128::from(parts));
        // at most `previous`
        self.current.saturating_add(MicroTokens(u64::try_from(weighed).unwrap_or(u64::MAX)))
    }

    /// Until at most `goal` counts, if nothing more is taken: the first microsecond at which it is so.
    pub fn time_until(&self, goal: MicroTokens) -> Duration {
        if self.estimate() <= goal {
            return Duration::ZERO;
        }
        let wait = match goal.0.checked_sub(self.current.0) {
            Some(room) => self.left - self.left_for(self.previous, room),
            None => self.left.saturating_add(self.length - self.left_for(self.current, goal.0)),
        };
        Duration::from_micros(wait)
    }

    /// How long the window must last yet at most for so many units of the one before to count as at most `room`,
    /// which is less than they are.
    fn left_for(&self, units: MicroTokens, room: u64) -> u64 {
        let parts = u128::from(room) * u128::from(self.parts()) / u128::from(units.0.max(1));
        u64::try_from(parts).unwrap_or(u64::MAX).saturating_mul(self.part()).min(self.length)
    }

    /// How long the count matters, and so is kept.
    pub fn life(&self) -> Duration {
        let milliseconds = self.left.div_ceil(1_000).saturating_add(self.length.div_ceil(1_000));
        Duration::from_millis(milliseconds)
    }

    /// Microseconds in a part; what is left is rounded up to whole parts.
    fn part(&self) -> u64 {
        self.length.div_ceil(MAX_PARTS)
    }

    /// Parts of a window, rounded down.
    fn parts(&self) -> u64 {
        self.length / self.part()
    }
}

fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(ms: u64) -> StoreTime {
        StoreTime::from_micros(ms * 1_000)
    }

    fn count(index: u64, current: u64, previous: u64) -> WindowCount {
        WindowCount { index, current: MicroTokens(current), previous: MicroTokens(previous) }
    }

    fn estimate(count: &WindowCount, now: StoreTime) -> u64 {
        count.weighed(SECOND, now).estimate().0
    }

    #[test]
    fn the_window_before_counts_by_what_is_left_and_rounded_up() {
        let count = count(7, 2, 3);
        let estimates = [7_000, 7_001, 7_333, 7_334, 7_500, 7_999].map(|ms| estimate(&count, at(ms)));
        assert_eq!(estimates, [5, 5, 5, 4, 4, 3]);
    }

    #[test]
    fn a_window_passes_on_what_was_taken_in_it_once() {
        let stored = count(7, 5, 9);
        assert_eq!(WindowCount::settled(Some(&stored), SECOND, at(7_999)), stored);
        assert_eq!(WindowCount::settled(Some(&stored), SECOND, at(8_000)), count(8, 0, 5));
        assert_eq!(WindowCount::settled(Some(&stored), SECOND, at(9_000)), count(9, 0, 0));
    }

    #[test]
    fn a_hit_late_in_a_window_counts_until_the_end_of_the_next() {
        let taken = count(0, 1_000_000, 0);
        assert_eq!(taken.weighed(SECOND, at(900)).time_until(MicroTokens::ZERO), Duration::from_millis(1_100));
        let later = WindowCount::settled(Some(&taken), SECOND, at(1_100)).weighed(SECOND, at(1_100));
        assert_eq!((later.estimate(), later.time_until(MicroTokens::ZERO)), (MicroTokens(900_000), Duration::from_millis(900)));
    }

    #[test]
    fn a_small_step_back_stops_the_decay_and_a_great_one_begins_anew() {
        let stored = count(7, 4, 6);
        let small = WindowCount::settled(Some(&stored), SECOND, at(6_400));
        assert_eq!((small, estimate(&small, at(6_400))), (stored, 10));
        assert_eq!(small.weighed(SECOND, at(6_400)).time_until(MicroTokens(7)), Duration::from_millis(1_100));
        let great = WindowCount::settled(Some(&stored), SECOND, at(5_400));
        assert_eq!((great, estimate(&great, at(5_400))), (count(5, 10, 0), 10));
        let most = count(9, MAX_EXACT, MAX_EXACT);
        assert_eq!(WindowCount::settled(Some(&most), SECOND, at(0)), count(0, MAX_EXACT, 0));
    }

    #[test]
    fn a_century_is_counted_in_parts_and_never_to_the_advantage_of_the_client() {
        let century = Duration::from_hours(100 * 365 * 24);
        let length = century.as_micros() as u64;
        for left in [1, 22_945, 22_946, length / 2, length - 1, length] {
            let weighed = Weighed::new(MicroTokens::ZERO, MicroTokens(MAX_EXACT), left, century);
            let exact = (u128::from(MAX_EXACT) * u128::from(left)).div_ceil(u128::from(length)) as u64;
            let estimate = weighed.estimate().0;
            // a part is 22,945 µs, and the length is rounded down by less than that
            assert!(exact <= estimate && estimate - exact <= 2 * 22_946 * (MAX_EXACT / length + 1) * 2, "{left}: {exact}, {estimate}");
        }
    }
}
