//! The bodies of `POST /v1/settle` and `/v1/release`.

use super::{MOST_COST, Mistakes, Place, read};
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
    let (reservation, cost) = fields(body, &["reservation", "cost"])?;
    Ok(Settlement { reservation, cost })
}

/// Reads the body of `POST /v1/release`: which slot.
///
/// # Errors
/// Every mistake, with a JSON pointer to it.
pub fn release(body: &[u8]) -> Result<HoldId, Vec<InputError>> {
    fields(body, &["slot"]).map(|(slot, _)| slot)
}

/// An object that has each of these fields: an id, and perhaps a cost.
fn fields(body: &[u8], names: &[&'static str]) -> Result<(HoldId, MicroTokens), Vec<InputError>> {
    let mistakes = Mistakes::default();
    let read = read(body, FieldsReader { names, mistakes: &mistakes })?;
    mistakes.none_or(read)
}

struct FieldsReader<'m> {
    names: &'m [&'static str],
    mistakes: &'m Mistakes,
}

impl FieldsReader<'_> {
    fn wrong(&self, path: &[&str], detail: impl Into<String>) {
        self.mistakes.add(Place::default().pointer(path), detail);
    }

    fn named(&self) -> String {
        self.names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" and ")
    }
}

impl<'de> Reader<'de> for FieldsReader<'_> {
    type Value = (HoldId, MicroTokens);

    fn other(self, found: &'static str) -> Self::Value {
        self.wrong(&[], format!("must be an object with {}, not {found}", self.named()));
        Self::Value::default()
    }

    fn object<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let mut value = Self::Value::default();
        let mut seen = vec![false; self.names.len()];
        while let Some(name) = object.next_key::<Cow<'de, str>>()? {
            let Some(field) = self.names.iter().position(|known| *known == name) else {
                object.next_value::<IgnoredAny>()?;
                self.wrong(&[&cut(&name)], format!("unknown field; there is {}", self.named()));
                continue;
            };
            match field {
                0 => value.0 = object.next_value_seed(Typed(IdReader { of: &self, name: self.names[0] }))?,
                _ => value.1 = object.next_value_seed(Typed(TrueCostReader(&self)))?,
            }
            if std::mem::replace(&mut seen[field], true) {
                self.wrong(&[&name], "written twice");
            }
        }
        for (name, _) in self.names.iter().zip(seen).filter(|(_, seen)| !seen) {
            self.wrong(&[name], "missing");
        }
        Ok(value)
    }
}

struct IdReader<'m> {
    of: &'m FieldsReader<'m>,
    name: &'static str,
}

impl Reader<'_> for IdReader<'_> {
    type Value = HoldId;

    fn other(self, found: &'static str) -> HoldId {
        self.of.wrong(&[self.name], format!("must be a string as it was answered, not {found}"));
        HoldId::NOTHING
    }

    fn text(self, text: &str) -> HoldId {
        text.parse().unwrap_or_else(|_| {
            self.of.wrong(&[self.name], "is not one that was answered");
            HoldId::NOTHING
        })
    }
}

struct TrueCostReader<'m>(&'m FieldsReader<'m>);

impl Reader<'_> for TrueCostReader<'_> {
    type Value = MicroTokens;

    fn other(self, found: &'static str) -> MicroTokens {
        self.0.wrong(&["cost"], format!("must be a whole number of tokens from 0 to {MOST_COST}, not {found}"));
        MicroTokens::ZERO
    }

    fn whole(self, number: u64) -> MicroTokens {
        MicroTokens::from_tokens(number).unwrap_or_else(|| {
            self.0.wrong(&["cost"], format!("must be a whole number of tokens from 0 to {MOST_COST}, not {number}"));
            MicroTokens::ZERO
        })
    }
}
