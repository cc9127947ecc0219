//! Slots of all budgets, found by budget and by the id that gives them back.

use super::Expiring;
use crate::hold::HoldId;
use crate::slots::{REMEMBERED, Slot, Slots};
use quorate_shared::names::BudgetId;
use quorate_shared::time::StoreTime;
use quorate_shared::units::MicroTokens;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Slots of one budget, and how long each lasts.
#[derive(Clone, Debug)]
struct Kept {
    budget: Arc<BudgetId>,
    slots: Slots,
    keep: Duration,
}

/// The slots of a region.
#[derive(Clone, Debug, Default)]
pub(super) struct SlotBook {
    of: BTreeMap<Arc<BudgetId>, Expiring<Kept>>,
    places: Places,
}

impl SlotBook {
    /// Those of a budget.
    pub fn get(&self, now: StoreTime, budget: &BudgetId) -> Option<&Slots> {
        self.of.get(budget).filter(|kept| kept.is_there(now)).map(|kept| &kept.value.slots)
    }

    /// Those of a budget as they were last written, and until when they are kept.
    pub fn kept(&self, budget: &BudgetId) -> Option<(&Slots, StoreTime)> {
        self.of.get(budget).map(|kept| (&kept.value.slots, kept.until))
    }

    /// Budgets with slots.
    pub fn len(&self) -> usize {
        self.of.len()
    }

    /// Writes down what the slots of a budget have come to, and which was taken. How many have ended.
    pub fn keep(&mut self, now: StoreTime, budget: &BudgetId, keep: Duration, taken: Option<Slot>) -> MicroTokens {
        let until = now.after(life(keep));
        let Some(kept) = self.of.get_mut(budget).filter(|kept| kept.is_there(now)) else {
            self.forget(budget);
            taken.into_iter().for_each(|slot| self.begin(budget, Kept::new(budget, keep), slot, until));
            return MicroTokens::ZERO;
        };
        let (ended, dated_anew) = kept.value.slots.settle(now, keep);
        if dated_anew || !ended.is_empty() || taken.is_some() {
            (kept.value.keep, kept.until) = (keep, until);
        }
        ended.iter().for_each(|slot| self.places.remove(budget, slot.id));
        if let Some(slot) = taken {
            kept.value.slots.take(slot);
            self.places.add(slot.id, &kept.value.budget);
        } else if kept.value.slots.is_empty() {
            self.of.remove(budget);
        }
        ended.iter().fold(MicroTokens::ZERO, |units, slot| units.saturating_add(slot.units))
    }

    fn begin(&mut self, budget: &BudgetId, mut kept: Kept, slot: Slot, until: StoreTime) {
        debug_assert!(!self.of.contains_key(budget), "it has begun");
        kept.slots.take(slot);
        self.places.add(slot.id, &kept.budget);
        self.of.insert(Arc::clone(&kept.budget), Expiring { value: kept, until });
    }

    /// Gives back the slots that were taken by `id`. False if there are none any more.
    pub fn release(&mut self, now: StoreTime, id: HoldId) -> bool {
        let budgets: Vec<Arc<BudgetId>> = self.places.of(id).map(|(_, budget)| Arc::clone(budget)).collect();
        budgets.iter().filter(|budget| self.release_of(now, budget, id)).count() > 0
    }

    /// True if slots that were taken by `id` are there, and none of them has ended.
    pub fn holds(&self, now: StoreTime, id: HoldId) -> bool {
        let kept = self.places.of(id).filter_map(|(_, budget)| self.of.get(budget));
        let mut held = kept.filter_map(|kept| Some((kept, kept.value.slots.of(id)?))).peekable();
        held.peek().is_some() && held.all(|(kept, slot)| kept.is_there(now) && !slot.has_ended(now, kept.value.keep))
    }

    /// Gives back the slots of one budget that were taken by `id`.
    pub fn release_of(&mut self, now: StoreTime, budget: &BudgetId, id: HoldId) -> bool {
        let Some(kept) = self.of.get_mut(budget).filter(|kept| kept.is_there(now)) else { return false };
        if !kept.value.slots.release(now, kept.value.keep, id) {
            return false;
        }
        if kept.value.slots.is_empty() {
            self.of.remove(budget);
        }
        self.places.remove(budget, id);
        true
    }

    /// Drops what has expired.
    pub fn sweep(&mut self, now: StoreTime) {
        let expired = self.of.iter().filter(|(_, kept)| !kept.is_there(now));
        let expired: Vec<Arc<BudgetId>> = expired.map(|(budget, _)| Arc::clone(budget)).collect();
        expired.iter().for_each(|budget| self.forget(budget));
    }

    fn forget(&mut self, budget: &BudgetId) {
        let slots = self.of.remove(budget).map(|kept| kept.value.slots).unwrap_or_default();
        slots.entries().for_each(|slot| self.places.remove(budget, slot.id));
    }
}

/// How long slots are kept, in whole milliseconds.
fn life(keep: Duration) -> Duration {
    Duration::from_millis(u64::try_from(keep.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)).saturating_add(REMEMBERED)
}

impl Kept {
    fn new(budget: &BudgetId, keep: Duration) -> Self {
        Self { budget: Arc::new(budget.clone()), slots: Slots::default(), keep }
    }
}

/// In which budget each slot is, by a part of its id and a number that tells those apart which share it.
#[derive(Clone, Debug, Default)]
struct Places(BTreeMap<(u32, u32), Arc<BudgetId>>);

impl Places {
    /// Where slots of this id may be.
    fn of(&self, id: HoldId) -> impl DoubleEndedIterator<Item = (&(u32, u32), &Arc<BudgetId>)> {
        let short = id.folded();
        self.0.range((short, 0)..=(short, u32::MAX))
    }

    fn add(&mut self, id: HoldId, budget: &Arc<BudgetId>) {
        let number = self.of(id).next_back().map_or(0, |((_, number), _)| number.saturating_add(1));
        self.0.insert((id.folded(), number), Arc::clone(budget));
    }

    /// Forgets one slot of this id, or of one that is not told apart from it.
    fn remove(&mut self, budget: &BudgetId, id: HoldId) {
        let place = self.of(id).find(|(_, its)| ***its == *budget).map(|(place, _)| *place);
        place.map(|place| self.0.remove(&place));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_shared::names::{SubjectHash, SubjectKey};

    const KEEP: Duration = Duration::from_secs(1);

    fn budget(subject: &str) -> BudgetId {
        let policy = "p".parse().expect("a name");
        let subject = SubjectHash::of(&SubjectKey::new([1; 32]), &policy, [subject]);
        BudgetId { policy, generation: 1, subject }
    }

    fn at(ms: u64) -> StoreTime {
        StoreTime::from_micros(ms * 1_000)
    }

    fn take(book: &mut SlotBook, ms: u64, subject: &str, id: u128) {
        let slot = Slot { at: at(ms), id: HoldId::from_bits(id), units: MicroTokens(1) };
        book.keep(at(ms), &budget(subject), KEEP, Some(slot));
    }

    /// Ids that share the part by which places are found.
    const ALIKE: [u128; 3] = [7, 7 << 32, 7 << 64];

    #[test]
    fn ids_that_are_alike_are_told_apart() {
        let mut book = SlotBook::default();
        for (id, subject) in ALIKE.into_iter().zip(["a", "a", "b"]) {
            assert_eq!(HoldId::from_bits(id).folded(), 7);
            take(&mut book, 0, subject, id);
        }
        assert_eq!(ALIKE.map(|id| book.holds(at(1), HoldId::from_bits(id))), [true; 3]);
        let mut release = |id| book.release(at(1), HoldId::from_bits(id));
        assert_eq!([ALIKE[1], ALIKE[1], ALIKE[2], ALIKE[0], ALIKE[0]].map(&mut release), [true, false, true, true, false]);
        assert!(book.of.is_empty() && book.places.0.is_empty());
    }

    #[test]
    fn one_id_gives_back_what_it_took_of_several_budgets() {
        let mut book = SlotBook::default();
        take(&mut book, 0, "a", 1);
        take(&mut book, 0, "b", 1);
        assert!(book.release(at(1), HoldId::from_bits(1)) && book.of.is_empty() && book.places.0.is_empty());
    }

    #[test]
    fn nothing_is_left_of_what_ended() {
        let mut book = SlotBook::default();
        for id in 1..=5 {
            take(&mut book, 0, "a", id);
            take(&mut book, 900, "b", id + 100);
        }
        assert!(!book.release(at(1_001), HoldId::from_bits(1)));
        assert_eq!([1, 101, 9].map(|id| book.holds(at(1_001), HoldId::from_bits(id))), [false, true, false]);
        assert_eq!(book.keep(at(1_001), &budget("a"), KEEP, None), MicroTokens(5));
        assert_eq!((book.of.len(), book.places.0.len()), (1, 5));
        book.sweep(at(10_000_000));
        assert!(book.of.is_empty() && book.places.0.is_empty());
    }
}
