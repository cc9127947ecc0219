//! docs/protocol.md, "What a region may use": a live region is never below its floor, except for
//! what it was told to leave alone.

use super::{Violation, fits};
use crate::simulation::Micros;
use crate::simulation::region::Usable;
use quorate_ledger::Reckoning;
use quorate_shared::names::RegionName;
use quorate_shared::units::Capacity;

const RULE: &str = "a region never below its floor";

/// Checks that a region leaves alone no more than the ledger told it to; or after a loss of its
/// state, than may ever be lent (R7).
pub fn check(at: Micros, name: &RegionName, usable: &Usable, reckoning: &Reckoning) -> Result<(), Violation> {
    if !reckoning.live || usable.whole || !usable.settled {
        return Ok(());
    }
    let burnt = if usable.burnt { usable.lendable } else { Capacity::ZERO };
    fits(at, RULE, usable.lent, reckoning.lent_most.max(burnt), || format!("{name} leaves alone"))
}
