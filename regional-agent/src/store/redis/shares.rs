//! Arguments and answers of charges that count past use for a while.

use super::wire::{Words, flag, lenders};
use crate::store::StoreError;
use quorate_limiter::bucket::exact;
use quorate_limiter::decision::{Charge, LeaseView, LimitDecision};
use quorate_limiter::share::ShareStanding;
use quorate_limiter::sliding::Weighed;
use quorate_shared::policy::Limit;
use quorate_shared::time::Drift;
use quorate_shared::units::MicroTokens;
use std::collections::BTreeSet;
use std::time::Duration;

/// How a charge on a sliding log is counted, and what that needs.
pub fn log(charge: &Charge, view: &LeaseView, drift: Drift) -> Vec<String> {
    [vec!["log".to_owned()], terms(charge, view, drift)].concat()
}

/// How a charge on slots is counted, and what that needs.
pub fn slots(charge: &Charge, view: &LeaseView, drift: Drift) -> Vec<String> {
    [vec!["slots".to_owned()], terms(charge, view, drift)].concat()
}

/// How a charge on windows of this length is counted, and what that needs.
pub fn sliding(charge: &Charge, window: Duration, view: &LeaseView, drift: Drift) -> Vec<String> {
    [vec!["sliding".to_owned(), micros(window)], terms(charge, view, drift)].concat()
}

/// How what counts of a budget is read, and what that needs.
pub fn usage(limit: Limit, drift: Drift) -> Vec<String> {
    let keep = micros(drift.stretch(limit.drain()));
    match limit {
        Limit::SlidingWindow { window, .. } => vec!["sliding".to_owned(), micros(window), keep],
        Limit::Concurrency { .. } => vec!["slots".to_owned(), keep],
        _ => vec!["log".to_owned(), keep],
    }
}

/// Floor, lendable, whole floor, lenders whose promise stands for this budget, how long past use counts.
pub fn terms(charge: &Charge, view: &LeaseView, drift: Drift) -> Vec<String> {
    let drain = charge.limit.drain();
    let standing = view.standing_loans.get(&charge.budget);
    vec![
        exact(charge.floor).burst.0.to_string(),
        exact(charge.lendable).burst.0.to_string(),
        flag(view.allows_whole_floor(drain, drift)),
        lenders(standing.unwrap_or(&BTreeSet::new())),
        micros(drift.stretch(drain)),
    ]
}

fn micros(span: Duration) -> String {
    span.as_micros().to_string()
}

/// The answer of `log_account` and of `slots_account`.
pub fn log_decision(charge: &Charge, words: &mut Words) -> Result<LimitDecision, StoreError> {
    let first = standing(words)?;
    let standing = ShareStanding { counted: words.micro_tokens()?, admits_in: words.span()?, empty_in: words.span()?, ..first };
    Ok(standing.decision(charge.cost))
}

/// The answer of `sliding_account`, of windows of this length.
pub fn sliding_decision(charge: &Charge, window: Duration, words: &mut Words) -> Result<LimitDecision, StoreError> {
    let standing = standing(words)?;
    let weighed = Weighed::new(words.micro_tokens()?, words.micro_tokens()?, words.number()?, window);
    Ok(standing.weighed(&weighed, charge.cost).decision(charge.cost))
}

/// What both begin with.
fn standing(words: &mut Words) -> Result<ShareStanding, StoreError> {
    Ok(ShareStanding {
        fits: words.flag()?,
        entitlement: words.micro_tokens()?,
        quarantine: words.span()?,
        used_lease: words.flag()?,
        counted: MicroTokens::ZERO,
        admits_in: Duration::ZERO,
        empty_in: Duration::ZERO,
    })
}
