//! A document as a tree in which every value knows where it stands, whatever its format.
//!
//! A front end (YAML, JSON, TOML) makes a [`Node`]; a reader walks it with [`Located`] and
//! [`Fields`] and writes everything that is wrong into a [`Report`] instead of stopping at the
//! first mistake. Nothing here knows a format or does I/O.
//!
//! Keys of known fields are written `kebab-case` in YAML and TOML and `snake_case` in JSON;
//! `_` and `-` count as one character when they are compared, and nothing else is folded. Keys
//! that are data (names of regions or attributes) are compared exactly.

mod lines;
mod nearest;
mod once;
mod reader;

pub use lines::Lines;
pub use nearest::nearest;
pub use once::Once;
pub use reader::{Fields, Located, Report};

use crate::problem::InputError;
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use std::fmt;

/// A place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// From 1.
    pub line: u64,
    /// In characters, from 1.
    pub column: u64,
}

/// A value and where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// `None` of a value that was not read from a text.
    pub at: Option<Place>,
    /// The value.
    pub value: Value,
}

/// What every format has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Nothing: `null`, or a YAML key without a value.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number as it was written (`1`, `0.10`, `0x1f`), so that nothing is lost before it is
    /// known what it stands for.
    Number(String),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A map in the order of the text. A front end leaves duplicate keys in.
    Map(Vec<(Key, Node)>),
}

/// A key of a map and where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// As written.
    pub name: String,
    /// `None` of a key that was not read from a text.
    pub at: Option<Place>,
}

impl Node {
    /// A value that was not read from a text.
    pub const fn new(value: Value) -> Self {
        Self { at: None, value }
    }

    /// Text that was not read from a text.
    pub fn text(text: impl fmt::Display) -> Self {
        Self::new(Value::Text(text.to_string()))
    }

    /// A number that was not read from a text.
    pub fn number(number: impl fmt::Display) -> Self {
        Self::new(Value::Number(number.to_string()))
    }

    /// A list that was not read from a text.
    pub fn list(items: impl IntoIterator<Item = Self>) -> Self {
        Self::new(Value::List(items.into_iter().collect()))
    }

    /// A map that was not read from a text.
    pub fn map<K: Into<String>>(entries: impl IntoIterator<Item = (K, Self)>) -> Self {
        let entry = |(name, node): (K, Self)| (Key { name: name.into(), at: None }, node);
        Self::new(Value::Map(entries.into_iter().map(entry).collect()))
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.value {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(b) => serializer.serialize_bool(*b),
            Value::Number(number) => serialize_number(number, serializer),
            Value::Text(text) => serializer.serialize_str(text),
            Value::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| list.serialize_element(item))?;
                list.end()
            }
            Value::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                entries.iter().try_for_each(|(key, node)| map.serialize_entry(&key.name, node))?;
                map.end()
            }
        }
    }
}

/// As a number if the format's number reads back as what was written, else as text.
fn serialize_number<S: Serializer>(written: &str, serializer: S) -> Result<S::Ok, S::Error> {
    match (written.parse::<u64>(), written.parse::<f64>()) {
        (Ok(n), _) if n.to_string() == written => serializer.serialize_u64(n),
        (_, Ok(n)) if n.is_finite() && n.to_string() == written => serializer.serialize_f64(n),
        _ => serializer.serialize_str(written),
    }
}

/// One thing wrong with a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// JSON pointer (RFC 6901) to the value; empty for the document itself.
    pub pointer: String,
    /// Where that is in the text, if it was a text. Of a missing field: where it is missing.
    pub at: Option<Place>,
    /// What is wrong and what would be right.
    pub detail: String,
}

/// Something that is taken as written, and is probably not what was meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// As in [`Mistake::pointer`].
    pub pointer: String,
    /// As in [`Mistake::at`].
    pub at: Option<Place>,
    /// What follows from it.
    pub detail: String,
}

impl From<Mistake> for InputError {
    fn from(mistake: Mistake) -> Self {
        Self { pointer: mistake.pointer, detail: mistake.detail, line: mistake.at.map(|at| at.line) }
    }
}

impl From<Warning> for InputError {
    fn from(warning: Warning) -> Self {
        Self { pointer: warning.pointer, detail: warning.detail, line: warning.at.map(|at| at.line) }
    }
}

macro_rules! display_finding {
    ($kind:ident) => {
        impl fmt::Display for $kind {
            /// `LINE:COLUMN: POINTER: DETAIL`, each part if there is one.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                if let Some(at) = self.at {
                    write!(f, "{}:{}: ", at.line, at.column)?;
                }
                if !self.pointer.is_empty() {
                    write!(f, "{}: ", self.pointer)?;
                }
                f.write_str(&self.detail)
            }
        }
    };
}
display_finding!(Mistake);
display_finding!(Warning);
