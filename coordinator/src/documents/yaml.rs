//! Text to tree.
//!
//! The parser's own budgets hold off aliases that multiply, nesting and floods of nodes;
//! duplicate keys are left in the tree, so that all of them are reported with the rest.

use quorate_shared::located::{Key, Lines, Mistake, Node, Place, Value};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{Error, Location, Options, Spanned, UserMessageFormatter};
use std::fmt;

/// A document at most. The largest policy set that is allowed fits.
pub const MAX_BYTES: usize = 1 << 20;

/// Nodes that aliases may stand for, all together.
const MAX_ALIASED: usize = 20_000;

/// A key in one line with its value at most, in characters.
const MAX_KEY: usize = 16_384;

/// Reads YAML or JSON into a tree.
///
/// # Errors
/// One mistake: too large, not UTF-8, not YAML, several documents, or hostile.
pub fn parse(text: &[u8]) -> Result<Node, Vec<Mistake>> {
    let whole = |at, detail: String| vec![Mistake { pointer: String::new(), at, detail }];
    if text.len() > MAX_BYTES {
        return Err(whole(None, format!("the document has {} bytes; at most {MAX_BYTES}", text.len())));
    }
    let text = utf8(text).map_err(|at| whole(Some(at), "this is not UTF-8".into()))?;
    let read = |text: &str| serde_saphyr::from_str_with_options::<Spanned<Raw>>(text, options()).map(|document| node(document, text));
    let refused = match read(text) {
        Ok(document) => return Ok(document),
        Err(e) => e,
    };
    let in_yaml_terms = json_escaped(text).and_then(|text| read(&text).ok());
    in_yaml_terms.ok_or_else(|| whole(refused.location().map(place), told(&refused)))
}

/// JSON in which the characters that JSON allows in a string and YAML does not are escaped;
/// `None` if there is none, or this is not JSON. Elsewhere than in a string JSON has no such
/// character, so it may be escaped wherever it stands.
fn json_escaped(text: &str) -> Option<String> {
    let only_in_json = |c: char| matches!(c, '\u{7f}'..='\u{84}' | '\u{86}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}');
    if !text.contains(only_in_json) || serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
        return None;
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if only_in_json(c) {
            escaped.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            escaped.push(c);
        }
    }
    Some(escaped)
}

/// The text, or the place of the first byte that is no UTF-8.
///
/// # Errors
/// That place.
pub fn utf8(text: &[u8]) -> Result<&str, Place> {
    std::str::from_utf8(text).map_err(|e| {
        let good = String::from_utf8_lossy(&text[..e.valid_up_to()]);
        Lines::of(&good).place(good.len())
    })
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: 32, simple_key_max_lookahead: MAX_KEY, max_aliases: 1_000, max_anchors: 1_000, max_merge_keys: 1_000 },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_ALIASED },
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        // YAML 1.2: `yes` and `on` are words
        strict_booleans: true,
        // of a key; a value that is null stays null
        null_as_string: true,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        reject_unsupported_tags: true,
        emit_comments: false,
        with_snippet: false,
    }
}

fn place(at: Location) -> Place {
    Place { line: at.line(), column: at.column() }
}

/// The parser's message without its place, or ours where the parser speaks to programmers.
fn told(error: &Error) -> String {
    let mut error = error.without_snippet();
    while let Error::AliasError { error: inner, .. } = error {
        error = inner;
    }
    match error {
        Error::MultipleDocuments { .. } => "a second document begins here; a file holds one".into(),
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => "the document is nested too deeply, or has too many values or aliases".into(),
        Error::RecursiveReferencesRequireWeakTypes { .. } => "an alias stands inside of what it stands for".into(),
        Error::UnknownAnchor { .. } => "an alias stands here for an anchor that is nowhere before it".into(),
        Error::Unexpected { expected, .. } if *expected == "string scalar" => "a key must be a text".into(),
        error => {
            let text = error.render_with_formatter(&UserMessageFormatter);
            let place = error.location().map(|at| format!(" at line {}, column {}", at.line(), at.column()));
            let text = place.and_then(|place| text.strip_suffix(&place).map(str::to_owned)).unwrap_or(text);
            format!("cannot be read as YAML: {text}")
        }
    }
}

/// A value as the parser gives it. A number is read once more from the text, as written.
enum Raw {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Spanned<Self>>),
    Map(Vec<(Spanned<String>, Spanned<Self>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw::Number(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Number(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
        Ok(Raw::Number(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Raw, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Raw::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Raw, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Raw::Map(map))
    }

    fn visit_bytes<E: serde::de::Error>(self, _: &[u8]) -> Result<Raw, E> {
        Err(E::custom("binary values have no meaning here"))
    }
}

fn node(raw: Spanned<Raw>, text: &str) -> Node {
    let written = raw.defined;
    let value = match raw.value {
        Raw::Null => Value::Null,
        Raw::Bool(value) => bool_or_word(value, written, text),
        Raw::Number(read) => Value::Number(as_written(written, text).filter(|t| is_number(t)).map_or(read, str::to_owned)),
        Raw::Text(text) => Value::Text(text),
        Raw::List(items) => Value::List(items.into_iter().map(|item| node(item, text)).collect()),
        Raw::Map(entries) => Value::Map(
            entries.into_iter().map(|(key, value)| (Key { name: key.value, at: Some(place(key.referenced)) }, node(value, text))).collect(),
        ),
    };
    Node { at: Some(place(raw.referenced)), value }
}

/// `True` is a word, since an attribute's value may be spelled so; only `true` and `false`, as
/// in JSON, are truth values.
fn bool_or_word(value: bool, written: Location, text: &str) -> Value {
    match as_written(written, text) {
        Some(word) if word != value.to_string() && word.eq_ignore_ascii_case(&value.to_string()) => Value::Text(word.to_owned()),
        _ => Value::Bool(value),
    }
}

fn as_written(at: Location, text: &str) -> Option<&str> {
    let span = at.span();
    let start = usize::try_from(span.byte_offset()?).ok()?;
    let length = usize::try_from(span.byte_len()?).ok()?;
    text.get(start..start.checked_add(length)?)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.' | b'_'))
}
