//! The overshoot bound: what can still be admitted beyond a limit, term by term.
//!
//! One formula, called by the coordinator, the command line, the dashboard, the metrics and the
//! simulator; the ledger judges what it measured by it.
//!
//! # What the number means
//!
//! A bound is an amount `a` and, for a flow, an amount `r` in each period. For every budget of the
//! policy:
//!
//! | shape | what holds |
//! |---|---|
//! | flow, `R` in each period `p`, burst `B` | over any interval `W`: admitted ≤ `B + a + (R + r)·W/p` |
//! | allowance of `R` units | in each window, all regions together: spent ≤ `R + a` |
//! | share of `R` units or slots | at every instant: what counts ≤ `R + a` |
//!
//! `r` is 0 for the other two shapes. `a` and `r` are the sums of the terms: what each term allows
//! may happen at the same time as what the others allow.
//!
//! # Derivation
//!
//! The protocol keeps `Σ_i entitlement_i(t) ≤ max(R, Σ f)` for every budget at every real instant
//! (docs/protocol.md, "Why it holds"), in both parts of a flow's capacity, for every window of an
//! allowance, and for a share counting each part until it has drained. So:
//!
//! - *flow.* Region i admits over `W` at most what its bucket held, `≤ b_i`, and what it refilled.
//!   The refill runs at the least entitlement in force, shortened by ρ, so over a true interval it
//!   gives at most `rate_i·W`. A part that moves leaves a full bucket behind it in neither region:
//!   a reduction cuts the level and a raise leaves it. Added up: `max(B, Σ b) + max(R, Σ f)·W`.
//! - *allowance.* Each region spends of a window at most the greatest of its floor and its grants.
//!   Their sum is at most `max(R, Σ f)` for every window.
//! - *share.* At an admission what counts is within the entitlement, and each part of that stays
//!   reserved until the use it admitted has aged out. The sum is at most `max(R, Σ f)`.
//!
//! What remains is what the derivation assumed, term by term. Each is 0 unless somebody chose
//! otherwise or something happened:
//!
//! 1. `floors`: `max(R, Σ f) − R`, where floors beyond the limit were asked for.
//! 2. `emergency`: what is spent without the region's store and was not set aside of a floor. What is set aside
//!    is divided among the agents that the region may have, and is in no entitlement: `Σ f` above counts the
//!    whole floors, what the regions use together is `R` less all of it, and each agent's part is a region of its
//!    own in this derivation. So it adds nothing.
//! 3. `fail-open`: without its store a region admits everything. No number holds.
//! 4. `observe`: refusals are not enforced. No number holds.
//! 5. `lost-store`: admissions that a store forgot and that were not counted as if all were used up.
//! 6. `drift`: `ρ·R·W` where refill is not shortened.
//! 7. `wall-clock-steps`: a store's clock that jumps forward by `x` gives each bucket a refill for
//!    time that did not pass, `min(cap, rate·x)`, once, for an interval that holds the jump and what
//!    it admitted; what is left of it fills the bucket to its cap at most, which is within `B`. For
//!    a share, past use ages `x` too early: at most all that may count. `cap` and `rate` of a region
//!    are at most those of the whole limit, by which `n` jumps of `x` together give at most
//!    `min(n·cap, rate·x)`. A window of an allowance opens early and no unit is counted twice.
//! 8. `slices`: units held in a process are given up at the lease's end.
//! 9. `max-hold`: a slot ends after the longest request that is allowed; a request that goes on is
//!    not counted any more. At most so many go on as slots ended without being given back, for as long as
//!    those are remembered. A holder that crashed looks like one that goes on.
//! 10. `settlements`: a reservation's true cost counts when it is settled, and nothing can refuse it then: by
//!     what it exceeds the estimate and what is there. A bucket pays for what is there at once, a window and a
//!     count have room for it; for the rest each exceeds its limit.
//! 11. `parts`: gateways spend by themselves what was drawn for them up to `T` before. What they let pass in an interval
//!     `W` was drawn within `W + T`, so it is at most `B + R·(W + T)`: by `R·T` more, all regions together. Agents say so
//!     of a policy before they tell the first part of it, by the limit in force then, and it counts for an hour more.
//! 12. `labels`: windows are told apart by wall clocks, and each holds by itself. One that began under an
//!     older set goes by the limit of that, which may be greater: by the difference.
//! 13. `policy-change`: until a change is active every offer and floor obeys the old limit. A region
//!     that goes by a set without the policy, or by one that charges other requests, lets pass whatever
//!     it does not charge; so may one that was taken out and is named again, whatever its set was. No
//!     number holds until it has the active one.
//! 14. `alarm`: the ledger found its own invariant broken. A bug, so no number holds.

use crate::policy::{Limit, Mode, OnStoreFailure, Policy, Shape};
use crate::text::{DurationText, ShareText};
use crate::units::{Capacity, MicroTokens, PartsPerMillion};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa::ToSchema;

/// One way in which a limit can be exceeded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Term {
    /// Short name, stable.
    pub name: String,
    /// Tokens at once, beyond the burst, the window's units or the count; `None`: unbounded.
    pub amount: Option<f64>,
    /// Tokens more in each period, for as long as it lasts; `None`: unbounded. 0 for shapes without a rate.
    #[serde(default = "nothing")]
    pub amount_per_period: Option<f64>,
    /// Why it is this much.
    pub why: String,
}

fn nothing() -> Option<f64> {
    Some(0.0)
}

/// The bound of one policy: of each of its budgets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Bound {
    /// Tokens beyond the limit at once at most, the sum of the terms; `null` if unbounded.
    pub overshoot_bound: Option<f64>,
    /// Tokens beyond the limit in each period at most; `null` if unbounded.
    #[serde(default = "nothing")]
    pub overshoot_per_period: Option<f64>,
    /// True if some term has no number.
    pub unbounded: bool,
    /// Every term, those that are zero too.
    pub terms: Vec<Term>,
}

/// What the bound depends on beside the policy itself.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// How the limit counts.
    pub shape: Shape,
    /// The greatest rate and the greatest burst (or units) of all limits of the policy.
    pub limit: Capacity,
    /// The span that the rate speaks of.
    pub period: Duration,
    /// The most by which the floors exceed a limit of the policy: `Σ f − R`, part by part.
    pub floors_beyond: Capacity,
    /// Forward jumps of the regions' stores' clocks.
    pub steps: Steps,
    /// For slots that are held: how many requests may run on.
    pub held: Option<Held>,
    /// What reservations of one budget cost beyond their estimates, and beyond what was there.
    pub settled: MicroTokens,
    /// What gateways may spend of one budget later than it was drawn: what refills meanwhile.
    pub parts: MicroTokens,
    /// Of an allowance: the greatest limit of an older set under which windows began that are not closed.
    pub former_units: MicroTokens,
    /// A change that is not active yet, in words.
    pub pending: Option<String>,
    /// Regions that may go by a set without this policy, or where it charges other requests, in words.
    pub passed_by: Option<String>,
    /// An internal check of the ledger that failed, in words.
    pub alarm: Option<String>,
}

/// Forward jumps of clocks within some span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steps {
    /// How many.
    pub count: u64,
    /// By how much together, at most.
    pub total: Duration,
}

impl Steps {
    /// Both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { count: self.count.saturating_add(other.count), total: self.total.saturating_add(other.total) }
    }
}

/// Slots that requests hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// After this a slot ends by itself.
    pub max_hold: Duration,
    /// Slots of one budget that ended so of late, and whose requests may still run.
    pub outlived: MicroTokens,
}

impl Circumstances {
    /// Those of a policy with these limits, to which nothing has happened.
    pub fn quiet(limits: impl IntoIterator<Item = Limit>, floors_beyond: Capacity) -> Self {
        let mut quiet = Self {
            shape: Shape::Flow,
            limit: Capacity::ZERO,
            period: Duration::ZERO,
            floors_beyond,
            steps: Steps::default(),
            held: None,
            settled: MicroTokens::ZERO,
            parts: MicroTokens::ZERO,
            former_units: MicroTokens::ZERO,
            pending: None,
            passed_by: None,
            alarm: None,
        };
        for limit in limits {
            (quiet.shape, quiet.period) = (limit.shape(), limit.period());
            quiet.limit = quiet.limit.max(limit.capacity());
            if let Limit::Concurrency { max_hold, .. } = limit {
                quiet.held = Some(Held { max_hold, outlived: MicroTokens::ZERO });
            }
        }
        quiet
    }
}

/// A term before it is written out: burst and rate; `None`: unbounded.
struct Assessed {
    name: &'static str,
    excess: Option<Capacity>,
    why: String,
}

/// The bound of `policy`, by the derivation of this module.
pub fn bound(policy: &Policy, now: &Circumstances) -> Bound {
    let assessed = assess(policy, now);
    let sum = sum(&assessed);
    Bound {
        overshoot_bound: sum.map(|s| s.burst.tokens()),
        overshoot_per_period: sum.map(|s| s.rate.tokens()),
        unbounded: sum.is_none(),
        terms: assessed.into_iter().map(Term::from).collect(),
    }
}

/// The same in exact amounts: at once (burst) and in each period (rate); `None`: unbounded.
pub fn excess(policy: &Policy, now: &Circumstances) -> Option<Capacity> {
    sum(&assess(policy, now))
}

fn sum(terms: &[Assessed]) -> Option<Capacity> {
    terms.iter().map(|term| term.excess).sum()
}

impl From<Assessed> for Term {
    fn from(term: Assessed) -> Self {
        Self {
            name: term.name.to_owned(),
            amount: term.excess.map(|e| e.burst.tokens()),
            amount_per_period: term.excess.map(|e| e.rate.tokens()),
            why: term.why,
        }
    }
}

fn assess(policy: &Policy, now: &Circumstances) -> Vec<Assessed> {
    vec![
        floors(policy, now),
        emergency(policy),
        fail_open(policy),
        observe(policy),
        lost_store(now),
        drift(now),
        steps(now),
        slices(),
        max_hold(now),
        settlements(now),
        parts(now),
        labels(now),
        policy_change(now),
        alarm(now),
    ]
}

fn zero(name: &'static str, why: impl Into<String>) -> Assessed {
    Assessed { name, excess: Some(Capacity::ZERO), why: why.into() }
}

fn unbounded(name: &'static str, why: impl Into<String>) -> Assessed {
    Assessed { name, excess: None, why: why.into() }
}

fn floors(policy: &Policy, now: &Circumstances) -> Assessed {
    let percent = policy.floor.total() as f64 * 100.0 / f64::from(PartsPerMillion::WHOLE.0);
    let beyond = now.floors_beyond;
    if beyond.is_zero() {
        return zero("floors", format!("floors are {percent}% of the limit: within it"));
    }
    let much = match now.shape {
        Shape::Flow => format!("{} more at once and {} more in each period", beyond.burst, beyond.rate),
        Shape::Allowance => format!("{} more in each window", beyond.burst),
        Shape::Share => format!("{} more at every instant", beyond.burst),
    };
    let why = format!("floors are {percent}% of the limit on purpose (allow-overcommit): {much}");
    Assessed { name: "floors", excess: Some(beyond), why }
}

fn emergency(policy: &Policy) -> Assessed {
    zero(
        "emergency",
        match (policy.on_store_failure, policy.emergency) {
            (OnStoreFailure::Closed, _) => "no emergency budget was asked for".to_owned(),
            (_, PartsPerMillion(0)) => "nothing is set aside, so nothing is spent without the region's store".to_owned(),
            (_, part) => format!(
                "{} of each floor is set aside for agents without their store, divided by those that the region may have: it is in no lease and in no store",
                ShareText(part)
            ),
        },
    )
}

fn fail_open(policy: &Policy) -> Assessed {
    match policy.on_store_failure {
        OnStoreFailure::Open => unbounded("fail-open", "on-store-failure is open: a region without its store admits everything"),
        OnStoreFailure::OpenFor(span) => {
            let span = DurationText(span);
            unbounded("fail-open", format!("on-store-failure is open: a region without its store admits everything for {span}"))
        }
        OnStoreFailure::Closed | OnStoreFailure::Emergency => {
            zero("fail-open", "a region without its store admits no more than was set aside for that")
        }
    }
}

fn observe(policy: &Policy) -> Assessed {
    match policy.mode {
        Mode::Enforce => zero("observe", "refusals are enforced for all subjects"),
        Mode::Observe => unbounded("observe", "the policy only observes: refusals are not enforced"),
        Mode::Canary(_) => unbounded("observe", "refusals of the subjects that the canary leaves out are not enforced"),
    }
}

fn lost_store(now: &Circumstances) -> Assessed {
    zero(
        "lost-store",
        match now.shape {
            Shape::Flow => "a store that lost its state is burnt: its buckets begin empty",
            Shape::Allowance => {
                "a store that lost its state is burnt: it counts its part of every window as spent that began up to a minute ahead of its clock"
            }
            Shape::Share => "a store that lost its state is burnt: it admits nothing until past use has aged out",
        },
    )
}

fn drift(now: &Circumstances) -> Assessed {
    zero(
        "drift",
        match now.shape {
            Shape::Flow => "refill is shortened by the drift bound",
            Shape::Allowance => "units do not refill",
            Shape::Share => "past use keeps counting for the drift bound longer",
        },
    )
}

fn steps(now: &Circumstances) -> Assessed {
    let Steps { count, total } = now.steps;
    if count == 0 {
        return zero("wall-clock-steps", "no forward step of a store's clock was seen within the last hour");
    }
    let seen = format!("clocks of stores stepped forward within the last hour, {count} times by {total:?} together at most");
    let all = MicroTokens(now.limit.burst.0.saturating_mul(count));
    let (excess, why) = match now.shape {
        Shape::Flow => (all.min(refill(now, total)), "each bucket may have refilled for time that did not pass"),
        Shape::Share => (all, "past use may have been forgotten too early"),
        Shape::Allowance => (MicroTokens::ZERO, "a window may have opened early, and each holds by itself"),
    };
    Assessed { name: "wall-clock-steps", excess: Some(Capacity::new(MicroTokens::ZERO, excess)), why: format!("{seen}: {why}") }
}

/// What a bucket of the whole limit refills in `span`, rounded up.
fn refill(now: &Circumstances, span: Duration) -> MicroTokens {
    let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    now.limit.rate.scale_floor(micros(span), micros(now.period).max(1)).saturating_add(MicroTokens(1))
}

fn slices() -> Assessed {
    zero("slices", "no units are held outside the region's store")
}

fn max_hold(now: &Circumstances) -> Assessed {
    let Some(Held { max_hold, outlived }) = now.held else { return zero("max-hold", "nothing is held: the limit is not on concurrency") };
    match outlived {
        MicroTokens::ZERO => zero("max-hold", format!("of late each slot was given back before it ended, after {max_hold:?}")),
        n => Assessed {
            name: "max-hold",
            excess: Some(Capacity::new(MicroTokens::ZERO, n)),
            why: format!(
                "{n} slots of one budget ended after {max_hold:?} within the last hour, or two, without being given back: their requests may run on, unless the holders have crashed"
            ),
        },
    }
}

fn settlements(now: &Circumstances) -> Assessed {
    let why = match now.settled {
        MicroTokens::ZERO => "of late no reservation cost more than its estimate and what was there".to_owned(),
        n => format!("reservations of one budget cost {n} more than their estimates and what was there within the last hour, or two"),
    };
    Assessed { name: "settlements", excess: Some(Capacity::new(MicroTokens::ZERO, now.settled)), why }
}

fn parts(now: &Circumstances) -> Assessed {
    let why = match now.parts {
        MicroTokens::ZERO => "of late no gateway spent a part of a budget by itself".to_owned(),
        n => format!("gateways spend parts by themselves after they were drawn: {n} of one budget may refill elsewhere meanwhile"),
    };
    Assessed { name: "parts", excess: Some(Capacity::new(MicroTokens::ZERO, now.parts)), why }
}

fn labels(now: &Circumstances) -> Assessed {
    let beyond = now.former_units.saturating_sub(now.limit.burst);
    if beyond > MicroTokens::ZERO {
        let excess = Some(Capacity::new(MicroTokens::ZERO, beyond));
        let why = format!("windows that began under an older set go by its limit of {} until they end", now.former_units);
        return Assessed { name: "labels", excess, why };
    }
    zero(
        "labels",
        match now.shape {
            Shape::Allowance => {
                "the limit holds for each window by itself: while wall clocks of regions differ around a boundary, two are open at once"
            }
            Shape::Flow | Shape::Share => "the limit has no labelled window",
        },
    )
}

fn policy_change(now: &Circumstances) -> Assessed {
    if let Some(regions) = &now.passed_by {
        let why = "may go by an older set, which does not limit all that this policy limits: until heard of, or fenced by an operator";
        return unbounded("policy-change", format!("{regions} {why}"));
    }
    match &now.pending {
        Some(change) => zero("policy-change", format!("this is the bound of the old limit until a change is active: {change}")),
        None => zero("policy-change", "no change is pending"),
    }
}

fn alarm(now: &Circumstances) -> Assessed {
    match &now.alarm {
        None => zero("alarm", "no internal check of the ledger failed"),
        Some(what) => unbounded("alarm", format!("an internal check failed, which is a bug, so no number is promised: {what}")),
    }
}

#[cfg(test)]
mod tests;
