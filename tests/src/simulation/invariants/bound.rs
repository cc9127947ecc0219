//! docs/protocol.md, "The bound": what is published is never less than what happens, and what is
//! measured never more.

use super::{Violation, Watch};
use crate::simulation::Micros;
use quorate_ledger::Ledger;

const RULE: &str = "the published bound holds";

/// Checks the bound and the measurement of every policy.
///
/// Admissions beyond `B + R·W` are a violation of their own, so the true overshoot is what floors beyond the
/// limit allow on purpose; where they do not, and no wall clock was put forward, it is zero.
pub fn check(at: Micros, watch: &Watch, ledger: &Ledger) -> Result<(), Violation> {
    for published in ledger.bounds(None).policies {
        let (Some(bound), Some(per_period)) = (published.bound.overshoot_bound, published.bound.overshoot_per_period) else {
            return Err(Violation { at, rule: RULE, what: format!("{}: unbounded", published.policy) });
        };
        for terms in watch.terms.iter().flatten().filter(|terms| terms.budget.policy.as_str() == published.policy) {
            let excess = terms.whole.minus(terms.limit.capacity());
            if bound < excess.burst.tokens() || per_period < excess.rate.tokens() {
                let what = format!("{}: {bound} and {per_period} per period published, {excess:?} allowed", terms.budget);
                return Err(Violation { at, rule: RULE, what });
            }
        }
        if !watch.widened && published.measured_overshoot > bound {
            let what = format!("{}: {} measured, and none happened", published.policy, published.measured_overshoot);
            return Err(Violation { at, rule: RULE, what });
        }
    }
    Ok(())
}
