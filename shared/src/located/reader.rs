//! Walking a document and writing down every mistake on the way.

use super::{Key, Mistake, Node, Place, Value, Warning, nearest};
use crate::text::{Unreadable, cut};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Mistakes that are kept; of further ones only the number. No one reads more, and a hostile
/// document may hold one for every few bytes.
const KEPT: usize = 500;

/// Mistakes that may come with a guess of what was meant: guessing costs more than reading.
const GUESSED: usize = 50;

/// Where mistakes and warnings are collected.
#[derive(Debug, Default)]
pub struct Report {
    mistakes: RefCell<Vec<Mistake>>,
    more: RefCell<usize>,
    warnings: RefCell<Vec<Warning>>,
}

impl Report {
    /// What was read, if there was no mistake.
    ///
    /// # Errors
    /// All mistakes, in the order of the text. `read` is `None` only if there is one.
    pub fn finish<T>(self, read: Option<T>) -> Result<(T, Vec<Warning>), Vec<Mistake>> {
        let mut mistakes = self.mistakes.into_inner();
        let more = self.more.into_inner();
        match read {
            Some(value) if mistakes.is_empty() => Ok((value, self.warnings.into_inner())),
            _ => {
                mistakes.sort_by_key(|m| m.at);
                if more > 0 {
                    mistakes.push(Mistake { pointer: String::new(), at: None, detail: format!("and {more} more mistakes") });
                }
                Err(mistakes)
            }
        }
    }

    fn mistake(&self, pointer: String, at: Option<Place>, detail: String) {
        let mut mistakes = self.mistakes.borrow_mut();
        if mistakes.len() < KEPT {
            mistakes.push(Mistake { pointer, at, detail });
        } else {
            *self.more.borrow_mut() += 1;
        }
    }
}

/// A value of a document, the way to it, and the report that its mistakes go to.
#[derive(Clone, Debug)]
pub struct Located<'a> {
    node: &'a Node,
    pointer: String,
    report: &'a Report,
}

impl<'a> Located<'a> {
    /// The whole document.
    pub const fn root(node: &'a Node, report: &'a Report) -> Self {
        Self { node, pointer: String::new(), report }
    }

    /// The value itself.
    pub const fn value(&self) -> &'a Value {
        &self.node.value
    }

    /// Line in the text, if it was a text.
    pub fn line(&self) -> Option<u64> {
        self.node.at.map(|at| at.line)
    }

    /// Its JSON pointer (RFC 6901).
    pub fn pointer(&self) -> &str {
        &self.pointer
    }

    /// Reports a mistake here.
    pub fn refuse(&self, detail: impl Into<String>) {
        self.report.mistake(self.pointer.clone(), self.node.at, detail.into());
    }

    /// Reports a warning here.
    pub fn warn(&self, detail: impl Into<String>) {
        let mut warnings = self.report.warnings.borrow_mut();
        if warnings.len() < KEPT {
            warnings.push(Warning { pointer: self.pointer.clone(), at: self.node.at, detail: detail.into() });
        }
    }

    /// Reports that `expected` was expected here and something else was found.
    pub fn refuse_kind(&self, expected: &str) {
        self.refuse(format!("expected {expected}, found {}", self.found()));
    }

    /// Of `known`, what was probably meant by `word`; nothing any more after many mistakes.
    pub fn meant<'k>(&self, word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
        if self.report.mistakes.borrow().len() < GUESSED { nearest(word, known) } else { None }
    }

    /// What is here, in words.
    fn found(&self) -> String {
        match &self.node.value {
            Value::Null => "nothing".into(),
            Value::Bool(b) => format!("`{b}`"),
            Value::Number(n) => format!("the number `{}`", cut(n)),
            Value::Text(t) => format!("the text `{}`", cut(t)),
            Value::List(_) => "a list".into(),
            Value::Map(_) => "a map".into(),
        }
    }

    /// Text.
    pub fn text(&self, expected: &str) -> Option<&'a str> {
        match &self.node.value {
            Value::Text(text) => Some(text),
            _ => self.kind(expected),
        }
    }

    /// Text, or a number or truth value as the text that it was written as.
    pub fn scalar(&self, expected: &str) -> Option<&'a str> {
        match &self.node.value {
            Value::Text(text) | Value::Number(text) => Some(text),
            Value::Bool(true) => Some("true"),
            Value::Bool(false) => Some("false"),
            _ => self.kind(expected),
        }
    }

    /// Text or a number that `read` takes.
    pub fn read<T>(&self, expected: &str, read: impl FnOnce(&str) -> Result<T, Unreadable>) -> Option<T> {
        match &self.node.value {
            Value::Text(text) | Value::Number(text) => self.taken(read(text)),
            _ => self.kind(expected),
        }
    }

    /// The value, or a mistake that says why there is none.
    pub fn taken<T, E: std::fmt::Display>(&self, read: Result<T, E>) -> Option<T> {
        read.map_err(|e| self.refuse(e.to_string())).ok()
    }

    /// `true` or `false`.
    pub fn bool(&self) -> Option<bool> {
        match &self.node.value {
            Value::Bool(b) => Some(*b),
            _ => self.kind("`true` or `false`"),
        }
    }

    /// A whole number in `range`.
    pub fn whole(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let expected = || format!("a whole number from {} to {}", range.start(), range.end());
        let Value::Number(written) = &self.node.value else { return self.kind(&expected()) };
        let plain = written.bytes().all(|b| b.is_ascii_digit()) && (written.len() == 1 || !written.starts_with('0'));
        match written.parse() {
            Ok(n) if plain && range.contains(&n) => Some(n),
            _ => self.kind(&expected()),
        }
    }

    /// One of a few words.
    pub fn word<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
        let expected = one_of(&names);
        let text = self.text(&expected)?;
        match words.iter().find(|(name, _)| *name == text) {
            Some((_, value)) => Some(*value),
            None => {
                let meant = self.meant(text, names).map(|m| format!("; did you mean `{m}`?")).unwrap_or_default();
                self.refuse(format!("expected {expected}, found `{}`{meant}", cut(text)));
                None
            }
        }
    }

    /// The items of a list.
    pub fn list(&self, expected: &str) -> Option<Vec<Located<'a>>> {
        match &self.node.value {
            Value::List(items) => {
                let item = |(i, node)| Located { node, pointer: format!("{}/{i}", self.pointer), report: self.report };
                Some(items.iter().enumerate().map(item).collect())
            }
            _ => self.kind(expected),
        }
    }

    /// The value of a key, without looking at the others.
    pub fn peek(&self, field: &str) -> Option<Located<'a>> {
        let Value::Map(entries) = &self.node.value else { return None };
        entries.iter().find(|(key, _)| same_key(field, &key.name)).map(|(key, node)| self.child(&key.name, node))
    }

    /// True of a map with exactly this key.
    pub fn has(&self, key: &str) -> bool {
        matches!(&self.node.value, Value::Map(entries) if entries.iter().any(|(k, _)| k.name == key))
    }

    /// The entries of a map whose keys are data: each key and its value. A key that is there
    /// twice is a mistake; the first is kept.
    pub fn entries(&self, expected: &str) -> Option<Vec<(&'a str, Located<'a>)>> {
        let Value::Map(entries) = &self.node.value else { return self.kind(expected) };
        let mut seen = BTreeMap::new();
        let mut kept = Vec::with_capacity(entries.len());
        for (key, node) in entries {
            match seen.insert(key.name.as_str(), key) {
                None => kept.push((key.name.as_str(), self.child(&key.name, node))),
                Some(first) => {
                    self.refuse_duplicate(key, first);
                    seen.insert(&key.name, first);
                }
            }
        }
        Some(kept)
    }

    /// A map of which every key is known. An unknown key is a mistake, and so is one that is
    /// there twice.
    pub fn fields(&self, known: &'static [&'static str]) -> Option<Fields<'a>> {
        let Value::Map(entries) = &self.node.value else {
            return self.kind(&format!("a map with {}", all_of(known)));
        };
        let mut found: BTreeMap<&'static str, (&Key, &Node)> = BTreeMap::new();
        for (key, node) in entries {
            match known.iter().find(|k| same_key(k, &key.name)) {
                None => self.refuse_unknown(key, known),
                Some(field) => match found.get(field) {
                    Some((first, _)) => self.refuse_duplicate(key, first),
                    None => {
                        found.insert(field, (key, node));
                    }
                },
            }
        }
        let found = found.into_iter().map(|(field, (key, node))| (field, self.child(&key.name, node))).collect();
        Some(Fields { of: self.clone(), found })
    }

    fn child(&self, key: &str, node: &'a Node) -> Located<'a> {
        Located { node, pointer: self.pointer_to(key), report: self.report }
    }

    /// The pointer to a key here. One that is too long to be meant is cut, or a hostile
    /// document would be repeated in every pointer.
    fn pointer_to(&self, key: &str) -> String {
        format!("{}/{}", self.pointer, cut_key(key).replace('~', "~0").replace('/', "~1"))
    }

    fn refuse_unknown(&self, key: &Key, known: &[&str]) {
        let hint = match self.meant(&key.name, known.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("known here: {}", all_of(known)),
        };
        self.report.mistake(self.pointer_to(&key.name), key.at, format!("unknown key `{}`; {hint}", cut(&key.name)));
    }

    fn refuse_duplicate(&self, key: &Key, first: &Key) {
        let line = first.at.map(|at| format!(" in line {}", at.line)).unwrap_or_default();
        let detail = format!("`{}` is already there{line}", cut(&key.name));
        self.report.mistake(self.pointer_to(&key.name), key.at, detail);
    }

    fn kind<T>(&self, expected: &str) -> Option<T> {
        self.refuse_kind(expected);
        None
    }
}

/// The fields of a map whose keys are all known.
#[derive(Debug)]
pub struct Fields<'a> {
    of: Located<'a>,
    found: BTreeMap<&'static str, Located<'a>>,
}

impl<'a> Fields<'a> {
    /// A field that may be absent.
    pub fn optional(&self, field: &'static str) -> Option<&Located<'a>> {
        self.found.get(field)
    }

    /// A field that must be there; its absence is a mistake where the map begins.
    pub fn required(&self, field: &'static str) -> Option<&Located<'a>> {
        self.required_as(field, "")
    }

    /// The same; `hint` says what would be right.
    pub fn required_as(&self, field: &'static str, hint: &str) -> Option<&Located<'a>> {
        let found = self.found.get(field);
        if found.is_none() {
            let of = &self.of;
            of.report.mistake(of.pointer_to(field), of.node.at, format!("`{field}` is missing{hint}"));
        }
        found
    }

    /// The map itself.
    pub const fn whole(&self) -> &Located<'a> {
        &self.of
    }

    /// A field by `read`, or `default` where it is absent. `None` if it is there and wrong.
    pub fn or<T>(&self, field: &'static str, default: T, read: impl FnOnce(&Located<'a>) -> Option<T>) -> Option<T> {
        self.optional(field).map_or(Some(default), read)
    }
}

fn same_key(known: &str, written: &str) -> bool {
    let fold = |b: u8| if b == b'_' { b'-' } else { b };
    known.len() == written.len() && known.bytes().zip(written.bytes()).all(|(a, b)| fold(a) == fold(b))
}

fn cut_key(key: &str) -> &str {
    key.char_indices().nth(128).map_or(key, |(end, _)| &key[..end])
}

fn all_of(words: &[&str]) -> String {
    words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(", ")
}

fn one_of(words: &[&str]) -> String {
    match words {
        [] => "nothing".into(),
        [one] => format!("`{one}`"),
        [first @ .., last] => format!("{} or `{last}`", all_of(first)),
    }
}
