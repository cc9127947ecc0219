//! Arguments and answers of charges on windows, and of what is read for a heartbeat. A script knows no
//! calendar: it is told which windows are open.

use super::shares;
use super::wire::{Words, done};
use crate::store::{LeaseError, StoreError, Usages};
use quorate_limiter::decision::{Charge, LimitDecision};
use quorate_limiter::store::Usage;
use quorate_limiter::window::{Standing, Units, floor_in};
use quorate_shared::policy::Limit;
use quorate_shared::time::{Drift, StoreTime, WindowLabel};

/// What a script says that was told which windows are open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told<T> {
    /// They are.
    Right(T),
    /// They are not: its clock shows, or counts as showing, this. Nothing was done.
    OtherWindow(StoreTime),
}

/// How a charge on a window is counted, and what that needs.
pub fn window(charge: &Charge, label: WindowLabel) -> Vec<String> {
    let [start, end] = [label.start(), charge.limit.end_of(label)].map(|instant| instant.as_micros().to_string());
    vec!["window".to_owned(), start, end, floor_in(charge, label).0.to_string()]
}

/// What a script says of a charge on a window.
pub fn decision(charge: &Charge, words: &mut Words) -> Result<LimitDecision, StoreError> {
    let standing = Standing { fits: words.flag()?, usable: words.micro_tokens()?, used: words.micro_tokens()?, ends_in: words.span()? };
    Ok(standing.decision(charge.cost))
}

/// Arguments of `usage.lua`, for a store whose clock shows `at`: no flows.
pub fn usage(charges: &[Charge], at: StoreTime, drift: Drift) -> Vec<String> {
    let of = |charge: &Charge| match charge.limit {
        Limit::FixedWindow { window: cut, .. } => window(charge, cut.at(at)),
        _ => shares::usage(charge.limit, drift),
    };
    charges.iter().flat_map(of).collect()
}

/// The answer of `usage.lua`, to which windows were told by a clock that showed `at`.
pub fn usages(charges: &[Charge], at: StoreTime, answer: Vec<String>) -> Result<Told<Usages>, LeaseError> {
    if answer.first().is_some_and(|status| status == "other-window") {
        return Ok(Told::OtherWindow(Words::of(answer)?.1.instant()?));
    }
    let mut words = done(answer)?;
    let (clock, lost_at) = (words.instant()?, words.maybe_instant()?);
    let of = |charge: &Charge| {
        let units = words.micro_tokens()?;
        Ok(match charge.limit.window_at(at) {
            Some(label) => Usage::Spent(Units { label, spent: units, lost_at, ..Units::default() }),
            None => Usage::Counted(units),
        })
    };
    let of = charges.iter().map(of).collect::<Result<_, StoreError>>()?;
    Ok(Told::Right(Usages { clock, lost_at, of }))
}
