//! Bodies of `POST /v1/check`, `/v1/checks`, `/v1/reserve`, `/v1/settle` and `/v1/release`, read strictly.
//!
//! | what | at most |
//! |---|---|
//! | attributes of a check | [`MOST_ATTRIBUTES`] |
//! | an attribute's name | 1 to [`LONGEST_NAME`] bytes |
//! | an attribute's value | [`LONGEST_VALUE`] bytes; any Unicode, NUL included |
//! | `cost` | [`MOST_COST`] tokens, whole; absent or `null`: as each policy says |
//! | `ttl` of a reservation | [`LONGEST_RESERVATION`]; absent or `null`: [`RESERVATION_LIFE`] |
//! | `request_id` | 1 to [`LONGEST_REQUEST_ID`] bytes; absent or `null`: none |
//! | checks in an array | [`MOST_CHECKS`] |
//!
//! An unknown field or one that is written twice is a mistake. All mistakes of a body that is
//! JSON are named together, up to [`MOST_MISTAKES`]; of a body that is not, the first one.

use super::typed::{Reader, Typed};
use crate::decide::Request;
use crate::holds::{LONGEST_RESERVATION, RESERVATION_LIFE};
use quorate_shared::problem::InputError;
use quorate_shared::text::cut;
use quorate_shared::units::{MAX_EXACT, MicroTokens};
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

mod settlement;

pub use settlement::{Settlement, release, settlement};

/// Attributes of one check.
pub const MOST_ATTRIBUTES: usize = 64;
/// Bytes of an attribute's name.
pub const LONGEST_NAME: usize = 128;
/// Bytes of an attribute's value.
pub const LONGEST_VALUE: usize = 8 * 1024;
/// Tokens that one check may cost: what a Redis script counts exactly.
pub const MOST_COST: u64 = MAX_EXACT / MicroTokens::TOKEN.0;
/// Bytes of a request id.
pub const LONGEST_REQUEST_ID: usize = 128;
/// Checks in one array.
pub const MOST_CHECKS: usize = 100;
/// Mistakes that are named one by one, so that an answer is not much longer than its question.
pub const MOST_MISTAKES: usize = 32;

/// One check, without mistakes.
#[derive(Clone, Debug, Default)]
pub struct Check {
    /// What is asked.
    pub request: Request,
    /// Names the attempt, for retries.
    pub request_id: Option<String>,
}

/// Reads the body of `POST /v1/check`.
///
/// # Errors
/// Every mistake, with a JSON pointer to it.
pub fn check(body: &[u8]) -> Result<Check, Vec<InputError>> {
    let mistakes = Mistakes::default();
    let check = read(body, CheckReader { place: Place::default(), mistakes: &mistakes, reserves: false })?;
    mistakes.none_or(check)
}

/// Reads the body of `POST /v1/reserve`.
///
/// # Errors
/// Every mistake, with a JSON pointer to it.
pub fn reserve(body: &[u8]) -> Result<Check, Vec<InputError>> {
    let mistakes = Mistakes::default();
    let check = read(body, CheckReader { place: Place::default(), mistakes: &mistakes, reserves: true })?;
    mistakes.none_or(check)
}

/// Reads the body of `POST /v1/checks`.
///
/// # Errors
/// Every mistake, with a JSON pointer to it.
pub fn checks(body: &[u8]) -> Result<Vec<Check>, Vec<InputError>> {
    let mistakes = Mistakes::default();
    let checks = read(body, ChecksReader { mistakes: &mistakes })?;
    mistakes.none_or(checks)
}

/// The one value that `body` is, by `reader`; an error if it is not JSON.
fn read<'de, R: Reader<'de>>(body: &'de [u8], reader: R) -> Result<R::Value, Vec<InputError>> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let value = Typed(reader).deserialize(&mut json);
    value.and_then(|value| json.end().map(|()| value)).map_err(|e| {
        let line = u64::try_from(e.line()).ok().filter(|line| *line > 0);
        vec![InputError { pointer: String::new(), detail: format!("the body is not JSON: {e}"), line }]
    })
}

/// Where a check is in the body.
#[derive(Clone, Copy, Default)]
struct Place {
    /// Its index, in an array.
    item: Option<usize>,
}

impl Place {
    /// A JSON pointer (RFC 6901) into the check.
    fn pointer(self, path: &[&str]) -> String {
        let mut pointer = self.item.map(|item| format!("/{item}")).unwrap_or_default();
        for part in path {
            pointer.push('/');
            pointer.push_str(&part.replace('~', "~0").replace('/', "~1"));
        }
        pointer
    }
}

/// What is wrong with a body so far. Readers share it.
#[derive(Default)]
struct Mistakes(RefCell<Found>);

#[derive(Default)]
struct Found {
    named: Vec<InputError>,
    unnamed: usize,
}

impl Mistakes {
    fn add(&self, pointer: String, detail: impl Into<String>) {
        let mut found = self.0.borrow_mut();
        match found.named.len() < MOST_MISTAKES {
            true => found.named.push(InputError { pointer, detail: detail.into(), line: None }),
            false => found.unnamed += 1,
        }
    }

    fn none_or<T>(self, value: T) -> Result<T, Vec<InputError>> {
        let Found { mut named, unnamed } = self.0.into_inner();
        if named.is_empty() {
            return Ok(value);
        }
        if unnamed > 0 {
            named.push(InputError { pointer: String::new(), detail: format!("and {unnamed} more mistakes"), line: None });
        }
        Err(named)
    }
}

/// Reads an array of checks.
struct ChecksReader<'m> {
    mistakes: &'m Mistakes,
}

impl<'de> Reader<'de> for ChecksReader<'_> {
    type Value = Vec<Check>;

    fn other(self, found: &'static str) -> Vec<Check> {
        self.mistakes.add(String::new(), format!("must be an array of checks, not {found}"));
        Vec::new()
    }

    fn list<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<Check>, A::Error> {
        let mut checks = Vec::new();
        for item in 0..MOST_CHECKS {
            let reader = CheckReader { place: Place { item: Some(item) }, mistakes: self.mistakes, reserves: false };
            match list.next_element_seed(Typed(reader))? {
                Some(check) => checks.push(check),
                None => return Ok(checks),
            }
        }
        let mut more = 0_usize;
        while list.next_element::<IgnoredAny>()?.is_some() {
            more += 1;
        }
        if more > 0 {
            self.mistakes.add(String::new(), format!("{} checks; at most {MOST_CHECKS}", MOST_CHECKS + more));
        }
        Ok(checks)
    }
}

/// Reads one check.
#[derive(Clone, Copy)]
struct CheckReader<'m> {
    place: Place,
    mistakes: &'m Mistakes,
    /// True if the cost is an estimate, which may have a `ttl`.
    reserves: bool,
}

impl<'de> Reader<'de> for CheckReader<'_> {
    type Value = Check;

    fn other(self, found: &'static str) -> Check {
        self.wrong(&[], format!("must be an object with `attributes`, not {found}"));
        Check::default()
    }

    fn object<A: MapAccess<'de>>(self, mut object: A) -> Result<Check, A::Error> {
        let mut check = Check::default();
        check.request.reserve = self.reserves.then_some(RESERVATION_LIFE);
        let mut seen = [false; 4];
        while let Some(name) = object.next_key::<Cow<'de, str>>()? {
            let field = match &*name {
                "attributes" => {
                    check.request.attributes = object.next_value_seed(Typed(AttributesReader(self)))?;
                    0
                }
                "cost" => {
                    check.request.cost = object.next_value_seed(Typed(CostReader(self)))?;
                    1
                }
                "request_id" => {
                    check.request_id = object.next_value_seed(Typed(RequestIdReader(self)))?;
                    2
                }
                "ttl" if self.reserves => {
                    check.request.reserve = object.next_value_seed(Typed(TtlReader(self)))?;
                    3
                }
                unknown => {
                    object.next_value::<IgnoredAny>()?;
                    self.wrong(&[&cut(unknown)], self.unknown());
                    continue;
                }
            };
            if std::mem::replace(&mut seen[field], true) {
                self.wrong(&[&name], "written twice");
            }
        }
        if !seen[0] {
            self.wrong(&["attributes"], "missing; an object of strings, `{}` if nothing is known of the request");
        }
        Ok(check)
    }
}

impl CheckReader<'_> {
    fn unknown(self) -> &'static str {
        match self.reserves {
            false => "unknown field; a check has `attributes`, `cost` and `request_id`",
            true => "unknown field; a reservation has `attributes`, `cost`, `ttl` and `request_id`",
        }
    }

    fn wrong(self, path: &[&str], detail: impl Into<String>) {
        self.mistakes.add(self.place.pointer(path), detail);
    }
}

/// Reads `attributes`.
struct AttributesReader<'m>(CheckReader<'m>);

impl<'de> Reader<'de> for AttributesReader<'_> {
    type Value = BTreeMap<String, String>;

    fn other(self, found: &'static str) -> Self::Value {
        self.0.wrong(&["attributes"], format!("must be an object of strings, not {found}"));
        BTreeMap::new()
    }

    fn object<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let mut attributes = BTreeMap::new();
        let mut more = 0_usize;
        while let Some(name) = object.next_key::<String>()? {
            if attributes.len() == MOST_ATTRIBUTES && !attributes.contains_key(&name) {
                object.next_value::<IgnoredAny>()?;
                more += 1;
                continue;
            }
            let value = object.next_value_seed(Typed(ValueReader { check: self.0, name: &name }))?;
            if name.is_empty() || name.len() > LONGEST_NAME {
                let detail = format!("the name `{}` has {} bytes; 1 to {LONGEST_NAME} are allowed", cut(&name), name.len());
                self.0.wrong(&["attributes"], detail);
            }
            match attributes.entry(name) {
                Entry::Vacant(place) => _ = place.insert(value),
                Entry::Occupied(first) => self.0.wrong(&["attributes", &cut(first.key())], "written twice"),
            }
        }
        if more > 0 {
            self.0.wrong(&["attributes"], format!("{} attributes; at most {MOST_ATTRIBUTES}", MOST_ATTRIBUTES + more));
        }
        Ok(attributes)
    }
}

/// Reads one attribute's value.
struct ValueReader<'a> {
    check: CheckReader<'a>,
    name: &'a str,
}

impl Reader<'_> for ValueReader<'_> {
    type Value = String;

    fn other(self, found: &'static str) -> String {
        self.check.wrong(&["attributes", &cut(self.name)], format!("must be a string, not {found}"));
        String::new()
    }

    fn text(self, text: &str) -> String {
        if text.len() <= LONGEST_VALUE {
            return text.to_owned();
        }
        self.check.wrong(&["attributes", &cut(self.name)], format!("{} bytes; at most {LONGEST_VALUE}", text.len()));
        String::new()
    }
}

/// Reads `cost`.
struct CostReader<'m>(CheckReader<'m>);

impl Reader<'_> for CostReader<'_> {
    type Value = Option<MicroTokens>;

    fn other(self, found: &'static str) -> Self::Value {
        self.0.wrong(&["cost"], format!("must be a whole number of tokens from 0 to {MOST_COST}, not {found}"));
        None
    }

    fn whole(self, number: u64) -> Self::Value {
        let cost = MicroTokens::from_tokens(number);
        if cost.is_none() {
            self.0.wrong(&["cost"], format!("must be a whole number of tokens from 0 to {MOST_COST}, not {number}"));
        }
        cost
    }

    fn null(self) -> Self::Value {
        None
    }
}

/// Reads `ttl`.
struct TtlReader<'m>(CheckReader<'m>);

impl Reader<'_> for TtlReader<'_> {
    type Value = Option<Duration>;

    fn other(self, found: &'static str) -> Self::Value {
        self.0.wrong(&["ttl"], format!("must be a duration such as `60s`, not {found}"));
        None
    }

    fn text(self, text: &str) -> Self::Value {
        let mistake = match quorate_shared::text::duration(text) {
            Ok(ttl) if (Duration::from_millis(1)..=LONGEST_RESERVATION).contains(&ttl) => return Some(ttl),
            Ok(_) => "from 1ms to 10min".to_owned(),
            Err(unreadable) => unreadable.to_string(),
        };
        self.0.wrong(&["ttl"], mistake);
        None
    }

    fn null(self) -> Self::Value {
        Some(RESERVATION_LIFE)
    }
}

/// Reads `request_id`.
struct RequestIdReader<'m>(CheckReader<'m>);

impl Reader<'_> for RequestIdReader<'_> {
    type Value = Option<String>;

    fn other(self, found: &'static str) -> Self::Value {
        self.0.wrong(&["request_id"], format!("must be a string, not {found}"));
        None
    }

    fn text(self, text: &str) -> Self::Value {
        if (1..=LONGEST_REQUEST_ID).contains(&text.len()) {
            return Some(text.to_owned());
        }
        self.0.wrong(&["request_id"], format!("{} bytes; 1 to {LONGEST_REQUEST_ID} are allowed", text.len()));
        None
    }

    fn null(self) -> Self::Value {
        None
    }
}
