//! docs/protocol.md, R4 and "Why it holds", C: nothing is minted, nothing is counted twice, and
//! what a region acts on lies within what the ledger reckons with.

use super::{Terms, Violation, fits};
use crate::simulation::Micros;
use crate::simulation::region::Usable;
use quorate_ledger::{Ledger, Reckoning};
use quorate_shared::names::RegionName;
use quorate_shared::units::Capacity;

/// R4 on the whole state of the ledger, by its own check, which must never have failed before.
pub fn check_ledger(at: Micros, ledger: &Ledger) -> Result<(), Violation> {
    const RULE: &str = "the ledger's sums (R4)";
    if let Some(alarm) = ledger.alarm() {
        return Err(Violation { at, rule: RULE, what: format!("its own check failed: {alarm}") });
    }
    ledger.check().map_err(|violation| Violation { at, rule: RULE, what: violation.to_string() })
}

/// No part of the limit is used twice: the parts of the pool in use add up to at most the pool, and
/// what others use of one region's floor, with what it uses itself, to at most that floor.
pub fn check_parts<'a>(at: Micros, terms: &Terms, each: impl Iterator<Item = &'a Usable> + Clone) -> Result<(), Violation> {
    const RULE: &str = "no part is used twice";
    let sum = |part: &dyn Fn(&Usable) -> Capacity| -> Capacity {
        each.clone().map(|usable| terms.in_this_period(part(usable), usable.period)).sum()
    };
    fits(at, RULE, sum(&|usable| usable.pool), terms.pool, || format!("{}: the pool in use", terms.budget))?;
    for (lender, usable) in each.clone().enumerate() {
        let own = terms.in_this_period(usable.own, usable.period);
        let in_use = sum(&|usable| usable.loans[lender]).plus(own);
        fits(at, RULE, in_use, terms.floors[lender], || format!("{}: the floor of region {lender} in use", terms.budget))?;
    }
    Ok(())
}

/// C: what a region can use under its lease is at most what the ledger reckons with, and until its
/// floor is its own again it leaves alone at least what the ledger counts on.
pub fn check_reckoning(at: Micros, regions: &[RegionName], r: usize, usable: &Usable, reckoning: &Reckoning) -> Result<(), Violation> {
    const RULE: &str = "regions act within what the ledger reckons with (C)";
    let name = &regions[r];
    fits(at, RULE, usable.pool, reckoning.pool, || format!("{name} uses of the pool"))?;
    for (lender, loan) in regions.iter().zip(usable.loans) {
        let most = reckoning.borrowed.get(lender).copied().unwrap_or_default();
        fits(at, RULE, loan, most, || format!("{name} uses of the floor of {lender}"))?;
    }
    // what is lent of a floor that is smaller by now is as good as the whole of it
    let counted_on = reckoning.lent_least.min(usable.floor);
    match usable.whole {
        true => Ok(()),
        false => fits(at, RULE, counted_on, usable.lent, || format!("{name} is to leave alone")),
    }
}
