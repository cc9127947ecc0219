//! What is kept beside a decision: settling what a hold was charged, and giving slots back.

use super::account::{Account, Count};
use super::{Expiring, MemoryStore};
use crate::decision::Charge;
use crate::excess::ExcessBook;
use crate::hold::{Beside, Hold, HoldId};
use crate::share::ShareTerms;
use crate::slots::{Slot, Slots};
use quorate_shared::names::BudgetId;
use quorate_shared::time::StoreTime;
use quorate_shared::units::MicroTokens;
use std::time::Duration;

impl MemoryStore {
    /// Keeps what was charged, to be settled.
    pub(super) fn keep_hold(&mut self, now: StoreTime, beside: &Beside, charged: Hold) {
        if let Some(hold) = beside.hold {
            self.holds.insert(hold.id, Expiring { value: charged, until: now.after(hold.life) });
            self.bound_memory(now);
        }
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
        let slots = self.slots.get(now, &charge.budget);
        let counted = slots.map(|slots| slots.counted(now, keep)).unwrap_or_default();
        let room = slots.is_none_or(|slots| slots.has_room(now, keep));
        Account { charge, fits: room && terms.fits(counted, charge.cost), count: Count::Slots(terms, keep, id) }
    }

    /// Writes down what slots have come to, and which was taken; nothing if that is what it was.
    pub(super) fn keep_slots(&mut self, now: StoreTime, budget: &BudgetId, keep: Duration, taken: Option<(HoldId, MicroTokens)>) {
        let slot = taken.map(|(id, units)| Slot { at: now, id, units });
        let outlived = self.slots.keep(now, budget, keep, slot);
        self.excesses.note(now, budget, MicroTokens::ZERO, outlived);
        self.bound_memory(now);
    }

    /// What was used beyond limits.
    pub fn excesses(&self) -> &ExcessBook {
        &self.excesses
    }

    /// Gives back the slots that were taken by `id`. False if there are none any more.
    pub fn release(&mut self, now: StoreTime, id: HoldId) -> bool {
        self.slots.release(now, id)
    }

    /// True if the slots that were taken by `id` are held yet.
    pub fn holds_slots(&self, now: StoreTime, id: HoldId) -> bool {
        self.slots.holds(now, id)
    }

    /// Slots as they were last written, and until when they are kept.
    pub fn slots(&self, budget: &BudgetId) -> Option<(&Slots, StoreTime)> {
        self.slots.kept(budget)
    }

    /// A hold, and until when it is kept.
    pub fn hold(&self, id: HoldId) -> Option<(&Hold, StoreTime)> {
        self.holds.get(&id).map(|hold| (&hold.value, hold.until))
    }
}
