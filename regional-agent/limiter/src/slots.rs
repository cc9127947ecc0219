//! Slots of a concurrency limit: which are taken since when, each with an id of its own.
//!
//! A slot that is not given back ends by itself. Giving it back needs its id, so doing so twice, or after it
//! ended, changes nothing. The same stands in `store/scripts/slots.lua` of the agent; a test plays both.

use crate::hold::HoldId;
use quorate_shared::time::StoreTime;
use quorate_shared::units::MicroTokens;
use std::collections::VecDeque;
use std::time::Duration;

/// Slots of one budget in one region at most: an admission that would need more does not fit.
pub const MOST_SLOTS: usize = 10_000;

/// How much longer than a slot may last it is remembered that one ended without being given back: it is counted once
/// somebody asks again.
pub const REMEMBERED: Duration = crate::excess::SPAN;

/// One slot, or as many as a request takes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    /// Since when it is taken.
    pub at: StoreTime,
    /// By what it is given back.
    pub id: HoldId,
    /// How many.
    pub units: MicroTokens,
}

impl Slot {
    pub(crate) fn has_ended(&self, now: StoreTime, keep: Duration) -> bool {
        now.since(self.at) > keep
    }

    /// Until it ends; one from a clock that has stepped back since counts from now on.
    fn ends_in(&self, now: StoreTime, keep: Duration) -> Duration {
        self.at.min(now).after(keep).after(Duration::from_micros(1)).since(now)
    }
}

/// The slots that are taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    total: MicroTokens,
    /// In the order of [`Slot`]: oldest first.
    taken: VecDeque<Slot>,
}

impl Slots {
    /// What counts at `now` of that which counts for `keep`.
    pub fn counted(&self, now: StoreTime, keep: Duration) -> MicroTokens {
        self.ended(now, keep).fold(self.total, |left, slot| left.saturating_sub(slot.units))
    }

    /// True if there is room for one more.
    pub fn has_room(&self, now: StoreTime, keep: Duration) -> bool {
        self.taken.len() < MOST_SLOTS || self.taken.len() - self.ended(now, keep).count() < MOST_SLOTS
    }

    /// Until at most `goal` counts, if nothing more is taken or given back: the first microsecond at which it is so.
    pub fn time_until(&self, now: StoreTime, keep: Duration, goal: MicroTokens) -> Duration {
        if goal == MicroTokens::ZERO {
            return self.taken.back().map(|slot| slot.ends_in(now, keep)).unwrap_or_default();
        }
        let mut left = self.total;
        let first = self.taken.iter().find(|slot| {
            left = left.saturating_sub(slot.units);
            left <= goal
        });
        first.filter(|_| self.total > goal).map(|slot| slot.ends_in(now, keep)).unwrap_or_default()
    }

    /// Until the oldest that counts ends.
    pub fn time_until_room(&self, now: StoreTime, keep: Duration) -> Duration {
        let oldest = self.taken.iter().find(|slot| !slot.has_ended(now, keep));
        oldest.map(|slot| slot.ends_in(now, keep)).unwrap_or_default()
    }

    /// As of `now`: what has ended is forgotten, and what a clock that has stepped back since had dated later is
    /// dated anew, so that nothing counts for longer than `keep` from now. What ended, and true if anything else changed.
    pub fn settle(&mut self, now: StoreTime, keep: Duration) -> (Vec<Slot>, bool) {
        let ended = self.ended(now, keep).count();
        let ended: Vec<Slot> = self.taken.drain(..ended).collect();
        self.total = ended.iter().fold(self.total, |total, slot| total.saturating_sub(slot.units));
        let stepped_back = self.taken.back().is_some_and(|slot| slot.at > now);
        if stepped_back {
            let slots = self.taken.make_contiguous();
            slots.iter_mut().for_each(|slot| slot.at = slot.at.min(now));
            slots.sort_unstable();
        }
        (ended, stepped_back)
    }

    /// Takes a slot; settled before, and of an id that has none.
    pub fn take(&mut self, slot: Slot) {
        self.total = self.total.saturating_add(slot.units);
        if self.taken.len() == self.taken.capacity() {
            // most subjects have few, and many subjects have some
            self.taken.reserve_exact(self.taken.len() / 2 + 2);
        }
        let later = self.taken.iter().rev().take_while(|other| **other > slot).count();
        self.taken.insert(self.taken.len() - later, slot);
    }

    /// Gives back what was taken by `id`. False if that has ended, or was given back before.
    pub fn release(&mut self, now: StoreTime, keep: Duration, id: HoldId) -> bool {
        let place = self.taken.iter().position(|slot| slot.id == id && !slot.has_ended(now, keep));
        let Some(slot) = place.and_then(|place| self.taken.remove(place)) else { return false };
        self.total = self.total.saturating_sub(slot.units);
        true
    }

    /// What was taken by `id`, and is not forgotten.
    pub(crate) fn of(&self, id: HoldId) -> Option<&Slot> {
        self.taken.iter().find(|slot| slot.id == id)
    }

    /// True if none is taken.
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// All that was taken and is not forgotten.
    pub fn total(&self) -> MicroTokens {
        self.total
    }

    /// Each, oldest first.
    pub fn entries(&self) -> impl Iterator<Item = Slot> {
        self.taken.iter().copied()
    }

    fn ended(&self, now: StoreTime, keep: Duration) -> impl Iterator<Item = &Slot> {
        self.taken.iter().take_while(move |slot| slot.has_ended(now, keep))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: Duration = Duration::from_secs(1);

    fn at(ms: u64) -> StoreTime {
        StoreTime::from_micros(ms * 1_000)
    }

    fn slot(ms: u64, id: u128, units: u64) -> Slot {
        Slot { at: at(ms), id: HoldId::from_bits(id), units: MicroTokens(units) }
    }

    fn release(slots: &mut Slots, now: StoreTime, id: u128) -> bool {
        slots.release(now, KEEP, HoldId::from_bits(id))
    }

    #[test]
    fn a_slot_is_given_back_once_and_not_after_it_ended() {
        let mut slots = Slots::default();
        slots.take(slot(0, 1, 2));
        slots.take(slot(0, 2, 3));
        assert_eq!([1, 1, 3].map(|id| release(&mut slots, at(0), id)), [true, false, false]);
        assert_eq!(slots.counted(at(0), KEEP), MicroTokens(3));
        assert!(!release(&mut slots, at(1_001), 2), "it has ended, though nobody looked");
        assert_eq!(slots.settle(at(1_001), KEEP), (vec![slot(0, 2, 3)], false));
        assert!(slots.is_empty() && slots.total() == MicroTokens::ZERO);
    }

    #[test]
    fn a_slot_that_nobody_gives_back_ends_by_itself() {
        let mut slots = Slots::default();
        slots.take(slot(0, 1, 2));
        slots.take(slot(300, 2, 3));
        assert_eq!(slots.time_until(at(400), KEEP, MicroTokens(3)), Duration::from_micros(600_001));
        assert_eq!(slots.time_until(at(400), KEEP, MicroTokens(0)), Duration::from_micros(900_001));
        assert_eq!([at(1_000), StoreTime::from_micros(1_000_001)].map(|now| slots.counted(now, KEEP).0), [5, 3]);
    }

    #[test]
    fn a_clock_that_steps_back_frees_nothing_and_holds_nothing_for_longer() {
        let mut slots = Slots::default();
        slots.take(slot(100, 3, 1));
        slots.take(slot(5_000, 1, 2));
        assert_eq!(slots.counted(at(100), KEEP), MicroTokens(3));
        assert_eq!([slots.settle(at(100), KEEP), slots.settle(at(100), KEEP)], [(vec![], true), (vec![], false)]);
        assert_eq!(slots.entries().map(|slot| slot.id).collect::<Vec<_>>(), [1, 3].map(HoldId::from_bits));
        assert_eq!(slots.counted(at(1_101), KEEP), MicroTokens::ZERO);
        assert!(release(&mut slots, at(100), 1), "by its id, whatever its date");
    }
}
