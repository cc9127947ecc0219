//! What a region has used: what of it counts still, and what was spent of which window.

use super::{Region, SET_UP};
use crate::setting;
use quorate_limiter::decision::{Charge, Decision, Question, Reply};
use quorate_limiter::lease_book::Count;
use quorate_limiter::store::Usage;
use quorate_shared::heartbeat::{OpenWindow, Spent};
use quorate_shared::mistake::{self, Mistake};
use quorate_shared::names::BudgetId;
use quorate_shared::policy::Shape;
use quorate_shared::time::LocalTime;
use quorate_shared::units::MicroTokens;

impl Region {
    /// The window that is open, and what was spent of it.
    pub(super) fn windows(&mut self, now: LocalTime) -> (Vec<OpenWindow>, Vec<Spent>) {
        if !self.has_windows() {
            return Default::default();
        }
        let record = self.store.open_windows(self.store_time(now)).expect("a session is open");
        let windows = self.table.open_windows(record.clock, record.burnt_until());
        let spent = match self.usage(now) {
            Some(Usage::Spent(units)) => vec![Spent { budget: setting::budget(), label: units.label, units: units.spent }],
            _ => Vec::new(),
        };
        let spent = if mistake::made(Mistake::SpentReadEarly) { std::mem::replace(&mut self.told, spent) } else { spent };
        (windows, spent)
    }

    pub(super) fn note_count(&mut self, now: LocalTime) {
        let drained: Vec<BudgetId> = self.book.draining_budgets().cloned().collect();
        for budget in drained {
            let count = Count { units: self.counted(now), floor: self.terms.floor, drain: self.limit.drain() };
            self.book.note_count(&budget, count, now);
        }
    }

    /// What counts of the budget now.
    pub fn counted(&self, now: LocalTime) -> MicroTokens {
        if self.limit.drain().is_zero() {
            return MicroTokens::ZERO;
        }
        match self.usage(now) {
            Some(Usage::Counted(units)) => units,
            _ => MicroTokens::ZERO,
        }
    }

    fn charge(&self) -> Option<Charge> {
        self.table.look(&setting::budget()).map(|charge| Charge { cost: MicroTokens::TOKEN, ..charge })
    }

    /// Takes all that it may of the budget, unless it refills: nobody could have more counting, or spent.
    pub fn use_all(&mut self, now: LocalTime) {
        let Some(charge) = self.charge().filter(|charge| charge.limit.shape() != Shape::Flow) else { return };
        let question = Question { view: self.book.view(now), drift: self.drift, charges: vec![charge] };
        let mut taken = MicroTokens::ZERO;
        while let Reply::Decided(Decision { allowed: true, .. }) = self.store.decide(self.store_time(now), &question) {
            taken = taken.saturating_add(MicroTokens::TOKEN);
        }
        if let Some(Usage::Spent(units)) = self.usage(now) {
            let window = usize::from(units.label.start() > SET_UP);
            self.spent[window] = self.spent[window].saturating_add(taken);
        }
    }

    fn usage(&self, now: LocalTime) -> Option<Usage> {
        self.store.usage(self.store_time(now), &self.charge()?, self.drift)
    }
}
