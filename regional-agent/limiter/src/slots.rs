//! Slots of a concurrency limit: which are taken since when, each with an id of its own.
//!
//! A slot that is not given back ends by itself. Giving it back needs its id, so doing so twice, or after it
//! ended, changes nothing. The same stands in `store/scripts/slots.lua` of the agent; a test plays both.

use crate::hold::HoldId;
use quorate_shared::time::StoreTime;
use quorate_shared::units::MicroTokens;
use std::collections::BTreeMap;
use std::time::Duration;

/// Slots of one budget in one region at most: an admission that would need more does not fit.
pub const MOST_SLOTS: usize = 10_000;

/// The slots that are taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    total: MicroTokens,
    taken: BTreeMap<(StoreTime, HoldId), MicroTokens>,
}

impl Slots {
    /// What counts at `now` of that which counts for `keep`.
    pub fn counted(&self, now: StoreTime, keep: Duration) -> MicroTokens {
        self.ended(now, keep).fold(self.total, |left, (_, units)| left.saturating_sub(*units))
    }

    /// True if there is room for one more.
    pub fn has_room(&self, now: StoreTime, keep: Duration) -> bool {
        self.taken.len() - self.ended(now, keep).count() < MOST_SLOTS
    }

    /// Until at most `goal` counts, if nothing more is taken or given back: the first microsecond at which it is so.
    pub fn time_until(&self, now: StoreTime, keep: Duration, goal: MicroTokens) -> Duration {
        let mut left = self.total;
        let first = self.taken.iter().find(|(_, units)| {
            left = left.saturating_sub(**units);
            left <= goal
        });
        first.filter(|_| self.total > goal).map(|((at, _), _)| ends_in(*at, now, keep)).unwrap_or_default()
    }

    /// Until the oldest that counts ends.
    pub fn time_until_room(&self, now: StoreTime, keep: Duration) -> Duration {
        let oldest = self.taken.keys().find(|(at, _)| now.since(*at) <= keep);
        oldest.map(|(at, _)| ends_in(*at, now, keep)).unwrap_or_default()
    }

    /// As of `now`: what has ended is forgotten, and what a clock that has stepped back since had dated later is
    /// dated anew, so that nothing counts for longer than `keep` from now. True if that changes anything.
    pub fn settle(&mut self, now: StoreTime, keep: Duration) -> bool {
        let ended = self.ended(now, keep).count();
        for _ in 0..ended {
            if let Some((_, units)) = self.taken.pop_first() {
                self.total = self.total.saturating_sub(units);
            }
        }
        let later = self.taken.split_off(&(now.after(Duration::from_micros(1)), HoldId::NOTHING));
        let stepped_back = !later.is_empty();
        self.taken.extend(later.into_iter().map(|((_, id), units)| ((now, id), units)));
        stepped_back || ended > 0
    }

    /// Takes `units` at `now`; settled before, and of an id that has none.
    pub fn take(&mut self, now: StoreTime, id: HoldId, units: MicroTokens) {
        self.total = self.total.saturating_add(units);
        self.taken.insert((now, id), units);
    }

    /// Gives back what was taken by `id`. False if that has ended, or was given back before.
    pub fn release(&mut self, id: HoldId) -> bool {
        let Some(key) = self.taken.keys().find(|(_, its)| *its == id).copied() else { return false };
        if let Some(units) = self.taken.remove(&key) {
            self.total = self.total.saturating_sub(units);
        }
        true
    }

    /// True if none is taken.
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// All that was taken and is not forgotten.
    pub fn total(&self) -> MicroTokens {
        self.total
    }

    /// Since when, by which id, how much; oldest first.
    pub fn entries(&self) -> impl Iterator<Item = (StoreTime, HoldId, MicroTokens)> {
        self.taken.iter().map(|((at, id), units)| (*at, *id, *units))
    }

    fn ended(&self, now: StoreTime, keep: Duration) -> impl Iterator<Item = (&(StoreTime, HoldId), &MicroTokens)> {
        self.taken.iter().take_while(move |((at, _), _)| now.since(*at) > keep)
    }
}

/// Until one that was taken at `at` ends; one from a clock that has stepped back since counts from now on.
fn ends_in(at: StoreTime, now: StoreTime, keep: Duration) -> Duration {
    at.min(now).after(keep).after(Duration::from_micros(1)).since(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: Duration = Duration::from_secs(1);

    fn at(ms: u64) -> StoreTime {
        StoreTime::from_micros(ms * 1_000)
    }

    fn id(n: u128) -> HoldId {
        HoldId::from_bits(n)
    }

    #[test]
    fn a_slot_is_given_back_once_and_not_after_it_ended() {
        let mut slots = Slots::default();
        slots.take(at(0), id(1), MicroTokens(2));
        slots.take(at(0), id(2), MicroTokens(3));
        assert_eq!((slots.release(id(1)), slots.release(id(1)), slots.release(id(3))), (true, false, false));
        assert_eq!(slots.counted(at(0), KEEP), MicroTokens(3));
        assert!(slots.settle(at(1_001), KEEP));
        assert!(!slots.release(id(2)) && slots.is_empty() && slots.total() == MicroTokens::ZERO);
    }

    #[test]
    fn a_slot_that_nobody_gives_back_ends_by_itself() {
        let mut slots = Slots::default();
        slots.take(at(0), id(1), MicroTokens(2));
        slots.take(at(300), id(2), MicroTokens(3));
        assert_eq!(slots.time_until(at(400), KEEP, MicroTokens(3)), Duration::from_micros(600_001));
        assert_eq!(slots.time_until(at(400), KEEP, MicroTokens(0)), Duration::from_micros(900_001));
        assert_eq!([at(1_000), StoreTime::from_micros(1_000_001)].map(|now| slots.counted(now, KEEP).0), [5, 3]);
    }

    #[test]
    fn a_clock_that_steps_back_frees_nothing_and_holds_nothing_for_longer() {
        let mut slots = Slots::default();
        slots.take(at(5_000), id(1), MicroTokens(2));
        assert_eq!(slots.counted(at(100), KEEP), MicroTokens(2));
        assert!(slots.settle(at(100), KEEP) && !slots.settle(at(100), KEEP));
        assert_eq!(slots.counted(at(1_101), KEEP), MicroTokens::ZERO);
        assert!(slots.release(id(1)), "by its id, whatever its date");
    }
}
