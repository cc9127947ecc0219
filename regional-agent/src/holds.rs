//! Reservations (an estimate is taken now, the true cost is settled later), and slots that are given back.

use crate::decide::{DecideError, STORE_RETRY};
use crate::region::Region;
use quorate_limiter::decision::Question;
use quorate_limiter::hold::{Grounds, HoldId, SettleReply, Settled};
use quorate_shared::names::BudgetId;
use quorate_shared::units::MicroTokens;
use std::time::Duration;

/// For how long an estimate is held unless the request says so.
pub const RESERVATION_LIFE: Duration = Duration::from_secs(60);

/// For how long an estimate is held at most.
pub const LONGEST_RESERVATION: Duration = Duration::from_secs(600);

/// An id that nobody has guessed.
pub(crate) fn new_id() -> Result<HoldId, DecideError> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).map_err(|e| unavailable(format!("no randomness for a reservation or a slot: {e}")))?;
    Ok(HoldId::from_bits(u128::from_le_bytes(bits)))
}

impl Region {
    /// Puts the true `cost` in the place of an estimate; `None` if the reservation has ended or never was.
    ///
    /// # Errors
    /// If the cost is beyond all that the reservation may be settled at, or the region's store cannot be asked. It may have
    /// been done nevertheless: asking again does no harm.
    pub async fn settle(&self, reservation: HoldId, cost: MicroTokens) -> Result<Option<Settled>, DecideError> {
        if reservation == HoldId::NOTHING {
            return Ok(Some(Settled { cost, ..Settled::default() }));
        }
        match self.store.settle(reservation, cost, |budgets| self.grounds(&budgets)).await {
            Ok(SettleReply::Settled(settled)) => {
                self.metrics.settlement(&settled);
                Ok(Some(settled))
            }
            Ok(SettleReply::Ended) => Ok(None),
            Ok(SettleReply::Beyond(most)) => Err(DecideError::BeyondSettlement { most }),
            Ok(SettleReply::NoRecord) => Err(unavailable("no session with the store yet".into())),
            Err(error) => {
                self.metrics.store_error(&error);
                Err(unavailable(error.to_string()))
            }
        }
    }

    /// By what to tell what there is of budgets, beyond what was taken; `None` while nothing may be admitted.
    fn grounds(&self, budgets: &[BudgetId]) -> Option<Grounds> {
        let basis = self.basis()?;
        let charges = budgets.iter().filter_map(|budget| basis.table.look(budget)).collect();
        let question = Question { view: basis.view, drift: basis.drift, charges };
        Some(Grounds::new(question, basis.horizon.since(basis.asked)))
    }

    /// Gives slots back. False if they have ended, or were given back before.
    ///
    /// # Errors
    /// If the region's store cannot be asked. They end by themselves at the latest.
    pub async fn release(&self, slot: HoldId) -> Result<bool, DecideError> {
        self.store.release(slot).await.map_err(|error| {
            self.metrics.store_error(&error);
            unavailable(error.to_string())
        })
    }
}

fn unavailable(reason: String) -> DecideError {
    DecideError::StoreUnavailable { policies: Vec::new(), retry_after: STORE_RETRY, reason }
}
