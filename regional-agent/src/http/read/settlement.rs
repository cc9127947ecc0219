//! The body of `POST /v1/settle`.

use super::{MOST_COST, Mistakes, read};
use crate::http::typed::{Reader, Typed};
use quorate_limiter::hold::HoldId;
use quorate_shared::problem::InputError;
use quorate_shared::text::cut;
use quorate_shared::units::MicroTokens;
use serde::de::{IgnoredAny, MapAccess};
use std::borrow::Cow;

/// What a reservation truly cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// Which.
    pub reservation: HoldId,
    /// How much.
    pub cost: MicroTokens,
}

/// Reads the body of `POST /v1/settle`.
///
/// # Errors
/// Every mistake, with a JSON pointer to it.
pub fn settlement(body: &[u8]) -> Result<Settlement, Vec<InputError>> {
    let mistakes = Mistakes::default();
    let read = read(body, SettlementReader(&mistakes))?;
    let (reservation, cost) = mistakes.none_or(read)?;
    Ok(Settlement { reservation: reservation.unwrap_or_default(), cost: cost.unwrap_or_default() })
}

struct SettlementReader<'m>(&'m Mistakes);

impl SettlementReader<'_> {
    fn wrong(&self, field: &str, detail: impl Into<String>) {
        self.0.add(if field.is_empty() { String::new() } else { format!("/{field}") }, detail);
    }
}

impl<'de> Reader<'de> for SettlementReader<'_> {
    type Value = (Option<HoldId>, Option<MicroTokens>);

    fn other(self, found: &'static str) -> Self::Value {
        self.wrong("", format!("must be an object with `reservation` and `cost`, not {found}"));
        (None, None)
    }

    fn object<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let (mut reservation, mut cost) = (None, None);
        let mut seen = [false; 2];
        while let Some(name) = object.next_key::<Cow<'de, str>>()? {
            let field = match &*name {
                "reservation" => {
                    reservation = object.next_value_seed(Typed(IdReader(&self)))?;
                    0
                }
                "cost" => {
                    cost = object.next_value_seed(Typed(TrueCostReader(&self)))?;
                    1
                }
                unknown => {
                    object.next_value::<IgnoredAny>()?;
                    let pointer = cut(unknown).replace('~', "~0").replace('/', "~1");
                    self.wrong(&pointer, "unknown field; a settlement has `reservation` and `cost`");
                    continue;
                }
            };
            if std::mem::replace(&mut seen[field], true) {
                self.wrong(&name, "written twice");
            }
        }
        for (field, _) in ["reservation", "cost"].into_iter().zip(seen).filter(|(_, seen)| !seen) {
            self.wrong(field, "missing");
        }
        Ok((reservation, cost))
    }
}

struct IdReader<'m>(&'m SettlementReader<'m>);

impl Reader<'_> for IdReader<'_> {
    type Value = Option<HoldId>;

    fn other(self, found: &'static str) -> Self::Value {
        self.0.wrong("reservation", format!("must be a string as it was answered, not {found}"));
        None
    }

    fn text(self, text: &str) -> Self::Value {
        let id = text.parse();
        if id.is_err() {
            self.0.wrong("reservation", "is not one that was answered");
        }
        id.ok()
    }
}

struct TrueCostReader<'m>(&'m SettlementReader<'m>);

impl Reader<'_> for TrueCostReader<'_> {
    type Value = Option<MicroTokens>;

    fn other(self, found: &'static str) -> Self::Value {
        self.0.wrong("cost", format!("must be a whole number of tokens from 0 to {MOST_COST}, not {found}"));
        None
    }

    fn whole(self, number: u64) -> Self::Value {
        let cost = MicroTokens::from_tokens(number);
        if cost.is_none() {
            self.0.wrong("cost", format!("must be a whole number of tokens from 0 to {MOST_COST}, not {number}"));
        }
        cost
    }
}
