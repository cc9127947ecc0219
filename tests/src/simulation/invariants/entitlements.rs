//! docs/protocol.md, "What a region may use": the entitlements of all regions add up to at most
//! the limit, at every instant.

use super::{Terms, Violation, fits};
use crate::simulation::Micros;
use crate::simulation::region::Usable;
use quorate_shared::units::Capacity;

const RULE: &str = "entitlements within the limit";

/// Checks the sum. A region that goes by an earlier generation counts in the period of this one.
pub fn check<'a>(at: Micros, terms: &Terms, each: impl Iterator<Item = &'a Usable> + Clone) -> Result<(), Violation> {
    let sum: Capacity = each.clone().map(|usable| terms.in_this_period(usable.total(), usable.period)).sum();
    fits(at, RULE, sum, terms.whole, || format!("{}: {:?} add up to", terms.budget, each.map(Usable::total).collect::<Vec<_>>()))
}
