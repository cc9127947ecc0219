//! The overshoot bound: what can still be admitted beyond a limit, term by term.
//!
//! One formula, called by the coordinator, the command line, the dashboard and the simulator.
//!
//! # Derivation
//!
//! By the protocol the entitlements of all regions add up to at most the larger of the limit `R`
//! and the sum of the floors, at every real instant (docs/protocol.md). A bucket whose refill is
//! shortened by ρ admits no more than its entitlement over any interval, so over an interval `W`
//! all regions together admit at most `B + R·W` plus the terms below. Each term is zero unless
//! somebody chose otherwise.

use crate::policy::{OnStoreFailure, Policy};
use crate::units::{Capacity, MicroTokens, PartsPerMillion};
use serde::{Deserialize, Serialize};

/// One way in which a limit can be exceeded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Term {
    /// Short name, stable.
    pub name: String,
    /// Tokens in one burst; `None`: unbounded.
    pub amount: Option<f64>,
    /// Why it is this much.
    pub why: String,
}

/// The bound of one policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// Tokens beyond the limit at most, the sum of the terms; `null` if unbounded.
    pub overshoot_bound: Option<f64>,
    /// True if some term has no number.
    pub unbounded: bool,
    /// Every term, those that are zero too.
    pub terms: Vec<Term>,
}

/// What the bound depends on beside the policy itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Circumstances {
    /// Of the policy's largest limit.
    pub limit: Capacity,
    /// `Σ f` under that limit.
    pub floors: Capacity,
    /// True while a change of the limit stands: the bound is that of the old limit until then.
    pub change_pending: bool,
}

/// The bound of `policy`, by the derivation of this module.
pub fn bound(policy: &Policy, now: Circumstances) -> Bound {
    let excess = now.floors.minus(now.limit);
    let percent = policy.floor.total() as f64 * 100.0 / f64::from(PartsPerMillion::WHOLE.0);
    let floors = match excess.is_zero() {
        true => zero("floors", format!("floors are {percent}% of the limit: within it")),
        false => term(
            "floors",
            Some(excess.burst.max(excess.rate)),
            format!(
                "floors are {percent}% of the limit on purpose (allow-overcommit): {} more at once and {} more in each period",
                excess.burst, excess.rate
            ),
        ),
    };
    let store = match policy.on_store_failure {
        OnStoreFailure::Open => term("fail-open", None, "on-store-failure is open: a region without its store admits everything".into()),
        OnStoreFailure::Closed | OnStoreFailure::Emergency => zero("fail-open", "a region without its store refuses".into()),
    };
    let observed = match policy.mode {
        crate::policy::Mode::Enforce => zero("observe", "refusals are enforced for all subjects".into()),
        _ => term("observe", None, "refusals of observed subjects are not enforced".into()),
    };
    let terms = vec![
        floors,
        zero("emergency", "no budget is spent without the region's store".into()),
        store,
        observed,
        zero("lost-store", "a store that lost its state is burnt: its buckets begin empty".into()),
        zero("drift", "refill is shortened by the drift bound".into()),
        zero("wall-clock-steps", "no forward step of a store host's clock was seen".into()),
        zero("slices", "no units are held outside the region's store".into()),
        zero("max-hold", "the limit is not on concurrency".into()),
        zero("labels", "the limit has no labelled window".into()),
        match now.change_pending {
            true => {
                zero("policy-change", "a change is pending: this is the bound of the old limit until every region has confirmed it".into())
            }
            false => zero("policy-change", "no change is pending".into()),
        },
    ];
    let unbounded = terms.iter().any(|t| t.amount.is_none());
    let sum = terms.iter().filter_map(|t| t.amount).sum();
    Bound { overshoot_bound: (!unbounded).then_some(sum), unbounded, terms }
}

fn zero(name: &str, why: String) -> Term {
    term(name, Some(MicroTokens::ZERO), why)
}

fn term(name: &str, amount: Option<MicroTokens>, why: String) -> Term {
    Term { name: name.to_owned(), amount: amount.map(MicroTokens::tokens), why }
}
