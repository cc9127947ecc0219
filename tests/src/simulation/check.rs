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
///
/// A change of the limit begins a new statement: the old one holds until the change is in force,
/// the new one from then on.
#[derive(Debug, Default)]
pub struct AdmissionMeter {
    queues: BTreeMap<BudgetId, Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    /// Micro-tokens times the period in microseconds.
    length: u128,
    last: Micros,
    policies: u64,
}

impl AdmissionMeter {
    /// Counts an admission under the limit of this version of the policy set.
    pub fn admit(&mut self, at: Micros, budget: &BudgetId, cost: MicroTokens, limit: Limit, policies: u64) -> Result<(), Violation> {
        let queue = self.queues.entry(budget.clone()).or_default();
        if queue.policies != policies {
            *queue = Queue { length: 0, last: at, policies };
        }
        let period = limit.period().as_micros();
        let served = u128::from(at - queue.last) * u128::from(limit.capacity().rate.0);
        queue.length = queue.length.saturating_sub(served) + u128::from(cost.0) * period;
        queue.last = at;
        match queue.length <= u128::from(limit.capacity().burst.0) * period {
            true => Ok(()),
            false => {
                let over = queue.length / period - u128::from(limit.capacity().burst.0);
                Err(Violation { at, what: format!("{budget}: {over} micro-tokens more than burst and refill admitted") })
            }
        }
    }
}
