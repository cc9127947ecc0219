//! JSON values of any type, read on past those of a wrong one.
//!
//! Serde stops at the first value that is not as expected. Here the reader of a value is told
//! what was found instead, so that all mistakes of a body can be named together.

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Reads one value. A type that it does not expect goes to [`Reader::other`]; lists and objects
/// are skipped first, at any depth and without recursion.
pub trait Reader<'de>: Sized {
    /// What becomes of the value.
    type Value;

    /// Takes a value of another type; `found` names that with its article.
    fn other(self, found: &'static str) -> Self::Value;

    /// Takes a string.
    fn text(self, _text: &str) -> Self::Value {
        self.other("a string")
    }

    /// Takes a whole number.
    fn whole(self, _number: u64) -> Self::Value {
        self.other("a number")
    }

    /// Takes `null`.
    fn null(self) -> Self::Value {
        self.other("null")
    }

    /// Takes an array.
    fn list<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(self.other("an array"))
    }

    /// Takes an object.
    fn object<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(self.other("an object"))
    }
}

/// Serde's view of a [`Reader`].
pub struct Typed<R>(pub R);

impl<'de, R: Reader<'de>> DeserializeSeed<'de> for Typed<R> {
    type Value = R::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<R::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, R: Reader<'de>> Visitor<'de> for Typed<R> {
    type Value = R::Value;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<R::Value, E> {
        Ok(self.0.other("a boolean"))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<R::Value, E> {
        Ok(self.0.whole(number))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<R::Value, E> {
        Ok(self.0.other("a negative number"))
    }

    /// `1.0` and `1e3` are whole numbers too (JSON Schema 2020-12, section 4.2.3).
    fn visit_f64<E: Error>(self, number: f64) -> Result<R::Value, E> {
        if let Some(whole) = whole(number) {
            return Ok(self.0.whole(whole));
        }
        Ok(self.0.other(match number {
            n if n.is_sign_negative() => "a negative number",
            n if n >= u64::MAX as f64 => "a number that large",
            _ => "a number with a fraction",
        }))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<R::Value, E> {
        Ok(self.0.text(text))
    }

    fn visit_unit<E: Error>(self) -> Result<R::Value, E> {
        Ok(self.0.null())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<R::Value, A::Error> {
        self.0.list(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<R::Value, A::Error> {
        self.0.object(object)
    }
}

/// The whole number that a float stands for exactly.
fn whole(number: f64) -> Option<u64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let is_whole = (0.0..EXACT).contains(&number) && number.fract() == 0.0 && number.is_sign_positive();
    is_whole.then_some(number as u64)
}
