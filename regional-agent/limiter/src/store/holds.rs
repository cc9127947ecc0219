//! What is kept beside a decision: settling what a hold was charged, and giving slots back.

use super::account::{Account, Count};
use super::{Expiring, MemoryStore, log_life, there};
use crate::decision::Charge;
use crate::hold::{Beside, Hold, HoldId, Part, Place};
use crate::share::ShareTerms;
use crate::slots::Slots;
use quorate_shared::names::BudgetId;
use quorate_shared::time::StoreTime;
use quorate_shared::units::MicroTokens;
use std::time::Duration;

impl MemoryStore {
    /// Keeps what was charged, and which slots were taken.
    pub(super) fn keep_beside(&mut self, now: StoreTime, beside: &Beside, charged: Hold, slots: Vec<(Part, Duration)>) {
        if let (Some(id), Some(life)) = (beside.slot, slots.iter().map(|(_, keep)| *keep).max()) {
            let parts = slots.into_iter().map(|(part, _)| part).collect();
            let taken = Hold { lost_at: charged.lost_at, parts, settled: None };
            self.holds.insert(id, Expiring { value: taken, until: now.after(log_life(life)) });
        }
        if let Some(hold) = beside.hold {
            self.holds.insert(hold.id, Expiring { value: charged, until: now.after(hold.life) });
        }
        self.bound_memory(now);
    }

    /// How a charge on slots stands.
    pub(super) fn slots_account<'a>(
        &self,
        now: StoreTime,
        charge: &'a Charge,
        terms: ShareTerms,
        keep: Duration,
        id: HoldId,
    ) -> Account<'a> {
        let slots = there(&self.slots, now, &charge.budget);
        let counted = slots.map(|slots| slots.counted(now, keep)).unwrap_or_default();
        let room = slots.is_none_or(|slots| slots.has_room(now, keep));
        Account { charge, fits: room && terms.fits(counted, charge.cost), count: Count::Slots(terms, keep, id) }
    }

    /// Writes down what slots have come to, and which was taken; nothing if that is what it was.
    pub(super) fn keep_slots(&mut self, now: StoreTime, budget: &BudgetId, keep: Duration, taken: Option<(HoldId, MicroTokens)>) {
        let mut slots = self.slots.remove(budget).unwrap_or_else(|| Expiring { value: Slots::default(), until: now });
        let settled = slots.value.settle(now, keep);
        if let Some((id, units)) = taken {
            slots.value.take(now, id, units);
        }
        if settled || taken.is_some() {
            slots.until = now.after(log_life(keep));
        }
        if !slots.value.is_empty() {
            self.slots.insert(budget.clone(), slots);
        }
        self.bound_memory(now);
    }

    /// Gives back the slots that were taken by `id`. False if there are none any more.
    pub fn release(&mut self, now: StoreTime, id: HoldId) -> bool {
        let Some(taken) = self.holds.remove(&id).filter(|hold| hold.is_there(now)) else { return false };
        let mut released = false;
        for part in &taken.value.parts {
            if let Place::Slot(slot) = part.place {
                released |= self.release_slot(&part.budget, slot);
            }
        }
        released
    }

    pub(super) fn release_slot(&mut self, budget: &BudgetId, slot: HoldId) -> bool {
        let Some(slots) = self.slots.get_mut(budget) else { return false };
        let released = slots.value.release(slot);
        if slots.value.is_empty() {
            self.slots.remove(budget);
        }
        released
    }

    /// Slots as they were last written, and until when they are kept.
    pub fn slots(&self, budget: &BudgetId) -> Option<(&Slots, StoreTime)> {
        self.slots.get(budget).map(|slots| (&slots.value, slots.until))
    }

    /// A hold, and until when it is kept.
    pub fn hold(&self, id: HoldId) -> Option<(&Hold, StoreTime)> {
        self.holds.get(&id).map(|hold| (&hold.value, hold.until))
    }
}
