//! What must hold, whatever happens.

use super::Micros;
use quorate_shared::names::BudgetId;
use quorate_shared::policy::Limit;
use quorate_shared::units::{Capacity, MicroTokens};
use std::collections::BTreeMap;

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When.
    pub at: Micros,
    /// Which promise, and by how much.
    pub what: String,
}

/// docs/protocol.md, "Entitlement": the entitlements of all regions add up to at most the limit,
/// at every instant.
pub fn entitlements(at: Micros, budget: &BudgetId, limit: Limit, each: &[Capacity]) -> Result<(), Violation> {
    let sum: Capacity = each.iter().copied().sum();
    match sum.fits(limit.capacity()) {
        true => Ok(()),
        false => Err(Violation { at, what: format!("entitlements to {budget} add up to {sum:?} of {:?}: {each:?}", limit.capacity()) }),
    }
}

/// docs/protocol.md, "Shapes": over any interval `W`, all regions together admit at most `B + R·W`.
///
/// A queue that is served at the limit's rate and never holds more than its burst is the same
/// statement about all intervals at once. Kept in micro-tokens times the period, so nothing is rounded.
#[derive(Debug, Default)]
pub struct AdmissionMeter {
    queues: BTreeMap<BudgetId, (u128, Micros)>,
}

impl AdmissionMeter {
    /// Counts an admission.
    pub fn admit(&mut self, at: Micros, budget: &BudgetId, cost: MicroTokens, limit: Limit) -> Result<(), Violation> {
        let (queue, last) = self.queues.entry(budget.clone()).or_insert((0, at));
        let period = limit.period().as_micros();
        let served = u128::from(at - *last) * u128::from(limit.capacity().rate.0);
        *queue = queue.saturating_sub(served) + u128::from(cost.0) * period;
        *last = at;
        match *queue <= u128::from(limit.capacity().burst.0) * period {
            true => Ok(()),
            false => {
                let over = *queue / period - u128::from(limit.capacity().burst.0);
                Err(Violation { at, what: format!("{budget}: {over} micro-tokens more than burst and refill admitted") })
            }
        }
    }
}
