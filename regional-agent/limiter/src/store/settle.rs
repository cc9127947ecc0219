//! Putting true costs in the place of estimates.

use super::{MemoryStore, log_life};
use crate::bucket::exact;
use crate::decision::{LeaseView, Question};
use crate::estimates;
use crate::hold::{Hold, HoldId, Part, Place, SettleReply, Settled};
use crate::share::ShareTerms;
use crate::{sliding, use_log, window};
use quorate_shared::mistake::{self, Mistake};
use quorate_shared::names::BudgetId;
use quorate_shared::policy::Shape;
use quorate_shared::time::StoreTime;
use quorate_shared::units::{MAX_EXACT, MicroTokens};

/// What was given back, and what was not there to be taken.
type Outcome = (MicroTokens, MicroTokens);

impl MemoryStore {
    /// Puts the true `cost` in the place of the estimates of hold `id`; the second time the answer is the first one.
    /// `grounds` tell what is there of budgets whose past use counts; without any, nothing is.
    pub fn settle_hold(&mut self, now: StoreTime, id: HoldId, cost: MicroTokens, grounds: Option<&Question>) -> SettleReply {
        let Some(hold) = self.holds.get(&id).filter(|hold| hold.is_there(now)) else { return SettleReply::Ended };
        let again = mistake::made(Mistake::SettledAgain);
        if let Some(settled) = hold.value.settled.filter(|_| !again) {
            return SettleReply::Settled(settled);
        }
        if cost > hold.value.most {
            return SettleReply::Beyond(hold.value.most);
        }
        let Some(record) = self.record(now) else { return SettleReply::NoRecord };
        let (lost_at, Hold { lost_at: lost_then, parts, .. }) = (record.lost_at, hold.value.clone());
        let outcomes = parts.iter().filter_map(|part| self.settle_part(now, part, cost, lost_at == lost_then, grounds));
        let settled = outcomes.fold(Settled::of(cost), |settled, (returned, owed)| settled.with(returned, owed)).done();
        if let Some(hold) = self.holds.get_mut(&id) {
            let rest = if again { hold.value.clone() } else { Hold::default() };
            hold.value = Hold { settled: Some(settled), ..rest };
        }
        SettleReply::Settled(settled)
    }

    /// The estimates of hold `id` are what it cost: they take no room any more, and nothing of them is given back.
    pub fn close_hold(&mut self, now: StoreTime, id: HoldId) {
        let Some(hold) = self.holds.remove(&id).filter(|hold| hold.is_there(now) && hold.value.settled.is_none()) else { return };
        let Some(lost_at) = self.record(now).map(|record| record.lost_at) else { return };
        for part in &hold.value.parts {
            self.settle_part(now, part, part.estimate, lost_at == hold.value.lost_at, None);
        }
    }

    /// What came of one budget; `None` of slots, which are given back. What was charged before a loss of state is not
    /// corrected.
    fn settle_part(
        &mut self,
        now: StoreTime,
        part: &Part,
        cost: MicroTokens,
        same_state: bool,
        grounds: Option<&Question>,
    ) -> Option<Outcome> {
        let entitlement = || grounds.map(|grounds| self.entitled_to(now, &part.budget, grounds)).unwrap_or_default();
        let outcome = match &part.place {
            Place::Slot(slot) => {
                self.slots.release_of(now, &part.budget, *slot);
                return None;
            }
            _ if !same_state => None,
            Place::Bucket(ticket) => self.settle_bucket(now, part, ticket, cost),
            Place::Window(ticket) => self.settle_window(now, part, ticket, cost),
            Place::Log(ticket) => Some(self.settle_log(now, part, ticket, cost, entitlement())),
            Place::Sliding(ticket) => Some(self.settle_sliding(now, part, ticket, cost, entitlement())),
        };
        let (returned, owed) = outcome.unwrap_or((MicroTokens::ZERO, cost.saturating_sub(part.estimate)));
        self.excesses.note(now, &part.budget, owed, MicroTokens::ZERO);
        Some((returned, owed))
    }

    /// What may count at once of a budget by the lease and the floors that the asker goes by. Who goes by others than the
    /// store has nothing, and who does not know the newest response nothing that rests on a lease.
    fn entitled_to(&self, now: StoreTime, budget: &BudgetId, grounds: &Question) -> MicroTokens {
        let charge = grounds.charges.iter().find(|charge| charge.budget == *budget && charge.limit.shape() == Shape::Share);
        let known = self.record(now).filter(|record| record.policies == grounds.view.policies).zip(charge);
        let Some((record, charge)) = known.filter(|(_, charge)| !grounds.has_ended(charge)) else { return MicroTokens::ZERO };
        let holding = record.holding(budget, exact(charge.lendable));
        if mistake::made(Mistake::SettledByLapsedParts) {
            return holding.entitlement(charge.floor, false, true, |_| true).burst;
        }
        let current = record.is_known_by(grounds.view.number, grounds.view.nonce);
        let LeaseView { leased, whole_floor, .. } = grounds.view;
        let view = LeaseView { leased: leased && current, whole_floor: whole_floor && current, ..grounds.view.clone() };
        ShareTerms::new(charge, &holding, &view, grounds.drift, None, now).entitlement
    }

    /// `None` if the bucket is gone.
    fn settle_bucket(&mut self, now: StoreTime, part: &Part, ticket: &estimates::Ticket, cost: MicroTokens) -> Option<Outcome> {
        let kept = self.buckets.get_mut(&part.budget).filter(|bucket| bucket.is_there(now))?;
        let slow = kept.value.slow;
        let outcome = kept.value.settle(ticket, part.estimate, cost);
        kept.until = kept.until.after(kept.value.slow.saturating_sub(slow));
        Some(outcome)
    }

    /// `None` if the window is over.
    fn settle_window(&mut self, now: StoreTime, part: &Part, ticket: &window::Ticket, cost: MicroTokens) -> Option<Outcome> {
        let record = self.record(now)?;
        let granted = record.grants.get(&(part.budget.clone(), ticket.label)).copied().unwrap_or_default();
        let (usable, lost_at) = (ticket.floor.max(granted.units), record.lost_at);
        let open = now.max(record.clock) < ticket.ends;
        let kept = self.units.get_mut(&part.budget).filter(|units| units.is_there(now))?;
        let same = open && kept.value.label == ticket.label && kept.value.lost_at == lost_at;
        same.then(|| kept.value.settle(usable, part.estimate, cost))
    }

    fn settle_log(
        &mut self,
        now: StoreTime,
        part: &Part,
        ticket: &use_log::Ticket,
        cost: MicroTokens,
        entitlement: MicroTokens,
    ) -> Outcome {
        let (mut returned, mut counted) = (MicroTokens::ZERO, MicroTokens::ZERO);
        if let Some(log) = self.logs.get_mut(&part.budget).filter(|log| log.is_there(now)) {
            if now.since(ticket.at) <= ticket.keep {
                returned = log.value.lower(ticket.at, part.estimate, cost);
            }
            if returned > MicroTokens::ZERO {
                log.until = now.after(log_life(ticket.keep));
            }
            counted = log.value.counted(now, ticket.keep);
        }
        let excess = cost.saturating_sub(part.estimate);
        let taken = excess.min(MicroTokens(MAX_EXACT).saturating_sub(counted));
        self.keep_log(now, &part.budget, ticket.keep, (taken > MicroTokens::ZERO).then_some(taken));
        (returned, excess.saturating_sub(entitlement.saturating_sub(counted)))
    }

    fn settle_sliding(
        &mut self,
        now: StoreTime,
        part: &Part,
        ticket: &sliding::Ticket,
        cost: MicroTokens,
        entitlement: MicroTokens,
    ) -> Outcome {
        let mut count = self.count_at(now, &part.budget, ticket.length);
        let returned = count.lower(ticket.index, part.estimate, cost);
        let counted = count.weighed(ticket.length, now).estimate();
        let excess = cost.saturating_sub(part.estimate);
        count.current = count.current.saturating_add(excess).min(MicroTokens(MAX_EXACT));
        self.keep_count(now, &part.budget, ticket.length, count);
        (returned, excess.saturating_sub(entitlement.saturating_sub(counted)))
    }
}
