//! docs/protocol.md, "The bound": what is published is never less than what happens, and what is
//! measured never more.

use super::{Violation, Watch};
use crate::simulation::{Micros, SECOND};
use quorate_ledger::Ledger;
use quorate_shared::names::{PolicyName, RegionName};
use quorate_shared::policy::Mode;
use quorate_shared::units::MicroTokens;

const RULE: &str = "the published bound holds";

/// A region that is leased has sent a heartbeat within this span.
const REPORTED: Micros = 8 * SECOND;

/// Checks the bound and the measurement of every policy.
///
/// Admissions beyond `B + R·W` and the terms of the bound are a violation of their own. So the true overshoot
/// is what floors beyond the limit allow on purpose, or what steps of wall clocks gave: if agents could
/// see them all (`steps_seen`), what is published must cover it. Without either there is none.
/// What settlements came to beyond what was there must be in it too, if no store forgot it (`stores_kept`).
pub fn check(at: Micros, watch: &Watch, ledger: &Ledger, steps_seen: bool, stores_kept: bool) -> Result<(), Violation> {
    for published in ledger.bounds(None).policies {
        if steps_seen && published.measured_beyond_bound > 0.0 {
            let what = format!("{}: {} measured beyond the bound that was published", published.policy, published.measured_beyond_bound);
            return Err(Violation { at, rule: RULE, what });
        }
        let mode = ledger.active_policies().policies.iter().find(|p| p.name.as_str() == published.policy).map(|p| p.mode);
        if mode != Some(Mode::Enforce) {
            // refusals that are not enforced are no promise, and that is to be said
            match published.bound.overshoot_bound {
                None => continue,
                Some(bound) => {
                    return Err(Violation { at, rule: RULE, what: format!("{}: {bound} published, {mode:?}", published.policy) });
                }
            }
        }
        let (Some(bound), Some(per_period)) = (published.bound.overshoot_bound, published.bound.overshoot_per_period) else {
            if watch.one_unheard {
                continue; // it may not know the policy
            }
            return Err(Violation { at, rule: RULE, what: format!("{}: unbounded", published.policy) });
        };
        for terms in watch.terms.iter().flatten().filter(|terms| terms.budget.policy.as_str() == published.policy) {
            let excess = terms.whole.minus(terms.limit.capacity());
            if bound < excess.burst.tokens() || per_period < excess.rate.tokens() {
                let what = format!("{}: {bound} and {per_period} per period published, {excess:?} allowed", terms.budget);
                return Err(Violation { at, rule: RULE, what });
            }
        }
        if stores_kept {
            check_owed(at, watch, &published.policy, bound)?;
        }
        if steps_seen && watch.version == 1 {
            check_steps(at, watch, &published.policy, bound)?;
        }
        if !watch.widened && published.measured_overshoot > bound {
            let what = format!("{}: {} measured, and none happened", published.policy, published.measured_overshoot);
            return Err(Violation { at, rule: RULE, what });
        }
    }
    Ok(())
}

fn check_owed(at: Micros, watch: &Watch, policy: &str, bound: f64) -> Result<(), Violation> {
    for (place, terms) in watch.terms.iter().enumerate() {
        let Some(terms) = terms.as_ref().filter(|terms| terms.budget.policy.as_str() == policy) else { continue };
        let reported = watch.owed.iter().filter(|(then, its, _)| *its == place && then + REPORTED <= at);
        let owed = reported.map(|(_, _, owed)| *owed).fold(MicroTokens::ZERO, MicroTokens::saturating_add);
        if bound < owed.tokens() {
            return Err(Violation { at, rule: RULE, what: format!("{}: {bound} published, {owed} owed", terms.budget) });
        }
    }
    Ok(())
}

/// What happened under the first set, whose limits the published bound speaks of.
fn check_steps(at: Micros, watch: &Watch, policy: &str, bound: f64) -> Result<(), Violation> {
    for (place, terms) in watch.terms.iter().enumerate() {
        let Some(terms) = terms.as_ref().filter(|terms| terms.budget.policy.as_str() == policy) else { continue };
        let happened = watch.admissions.overshoot(place, terms);
        if happened > bound {
            return Err(Violation { at, rule: RULE, what: format!("{}: {bound} published, {happened} happened", terms.budget) });
        }
    }
    Ok(())
}

/// A region lets pass what a policy limits, since it does not know the policy: so that is to be said.
///
/// # Errors
/// If a number is published.
pub fn check_passed_by(at: Micros, region: &RegionName, policy: &PolicyName, ledger: &Ledger) -> Result<(), Violation> {
    let bounds = ledger.bounds(None).policies;
    match bounds.iter().find(|published| published.policy == policy.as_str()).and_then(|published| published.bound.overshoot_bound) {
        None => Ok(()),
        Some(bound) => {
            Err(Violation { at, rule: RULE, what: format!("{policy}: {bound} published, and {region} does not know the policy") })
        }
    }
}

/// The violation, if a region lets pass what is enforced.
pub fn let_pass(at: Micros, region: &RegionName, policy: &PolicyName) -> Violation {
    Violation { at, rule: RULE, what: format!("{region} lets pass what does not fit {policy}, which is enforced") }
}
