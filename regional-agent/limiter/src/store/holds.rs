//! Settling what a hold was charged.

use super::MemoryStore;
use crate::hold::{Hold, HoldId, Part, Place, SettleReply, Settled};
use quorate_shared::time::StoreTime;
use quorate_shared::units::MicroTokens;

impl MemoryStore {
    /// Puts the true `cost` in the place of the estimates of hold `id`; the second time the answer is the first one.
    pub fn settle_hold(&mut self, now: StoreTime, id: HoldId, cost: MicroTokens) -> SettleReply {
        let Some(hold) = self.holds.get(&id).filter(|hold| hold.is_there(now)) else { return SettleReply::Ended };
        if let Some(settled) = hold.value.settled {
            return SettleReply::Settled(settled);
        }
        let Some(record) = self.record(now) else { return SettleReply::NoRecord };
        let (lost_at, Hold { lost_at: lost_then, parts, .. }) = (record.lost_at, hold.value.clone());
        let outcomes = parts.iter().map(|part| match lost_at == lost_then {
            true => self.settle_part(now, part, cost),
            false => (MicroTokens::ZERO, cost.saturating_sub(part.estimate)),
        });
        let settled = outcomes.fold(Settled::of(cost), |settled, (returned, owed)| settled.with(returned, owed)).done();
        if let Some(hold) = self.holds.get_mut(&id) {
            hold.value = Hold { settled: Some(settled), ..Hold::default() };
        }
        SettleReply::Settled(settled)
    }

    /// What came back of one budget, and what was not there to be taken.
    fn settle_part(&mut self, now: StoreTime, part: &Part, cost: MicroTokens) -> (MicroTokens, MicroTokens) {
        match &part.place {
            Place::Bucket(ticket) => {
                let Some(kept) = self.buckets.get_mut(&part.budget).filter(|bucket| bucket.is_there(now)) else {
                    return (MicroTokens::ZERO, cost.saturating_sub(part.estimate));
                };
                let slow = kept.value.slow;
                let outcome = kept.value.settle(ticket, part.estimate, cost);
                kept.until = kept.until.after(kept.value.slow.saturating_sub(slow));
                outcome
            }
        }
    }

    /// A hold, and until when it is kept.
    pub fn hold(&self, id: HoldId) -> Option<(&Hold, StoreTime)> {
        self.holds.get(&id).map(|hold| (&hold.value, hold.until))
    }
}
