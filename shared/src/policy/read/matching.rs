//! `match` and `per`, and the names of attributes wherever they stand.

use crate::located::{Located, Value};
use crate::policy::{Matcher, Pattern};
use std::collections::{BTreeMap, BTreeSet};

/// The name of an attribute at most, in bytes.
const MAX_ATTRIBUTE: usize = 128;

/// `match`: what each attribute must look like.
pub(super) fn matchers(at: &Located<'_>) -> Option<BTreeMap<String, Matcher>> {
    let entries = at.entries("a map of attributes, such as `{route: write}`")?;
    let mut matchers = BTreeMap::new();
    let mut all = true;
    for (name, value) in entries {
        let (name, matcher) = (attribute(&value, name), matcher(&value));
        match (name, matcher) {
            (Some(name), Some(matcher)) => drop(matchers.insert(name, matcher)),
            _ => all = false,
        }
    }
    all.then_some(matchers)
}

/// `per`: the attributes that make the subject.
pub(super) fn per(at: &Located<'_>) -> Option<Vec<String>> {
    let items = at.list("a list of attributes, such as `[tenant]`")?;
    let mut per: Vec<String> = Vec::with_capacity(items.len());
    let mut seen = BTreeSet::new();
    for item in &items {
        let Some(name) = item.scalar("the name of an attribute").and_then(|name| attribute(item, name)) else { continue };
        if seen.insert(name.clone()) {
            per.push(name);
        } else {
            item.refuse(format!("`{name}` is already there"));
        }
    }
    (per.len() == items.len()).then_some(per)
}

/// The name of an attribute, if it is one; `at` is where it is reported if not.
pub(super) fn attribute(at: &Located<'_>, name: &str) -> Option<String> {
    let problem = if name.is_empty() {
        "an attribute's name is empty".into()
    } else if name.len() > MAX_ATTRIBUTE {
        format!("an attribute's name has {} bytes; at most {MAX_ATTRIBUTE}", name.len())
    } else if name.chars().any(char::is_control) {
        "an attribute's name has a control character in it".into()
    } else {
        return Some(name.to_owned());
    };
    at.refuse(problem);
    None
}

fn matcher(at: &Located<'_>) -> Option<Matcher> {
    const EXPECTED: &str = "a value, a list of values, `prefix*`, `*` or a map with `like` and `not`";
    match at.value() {
        Value::List(_) => return values(at),
        Value::Map(_) => return like(at),
        _ => {}
    }
    let text = at.scalar(EXPECTED)?;
    match text.split_once('*') {
        None => Some(Matcher::OneOf(vec![text.to_owned()])),
        Some(("", "")) => Some(Matcher::Present),
        Some((prefix, "")) => Some(Matcher::Prefix(prefix.to_owned())),
        Some(_) => {
            at.refuse("a `*` stands only at the end; a value that has one in it is written in a list, where all is exact, and a pattern in a map: `{like: a*b}`");
            None
        }
    }
}

/// `{like: a*b, not: [abb, ac*]}`: patterns, in which each `*` stands for any text.
fn like(at: &Located<'_>) -> Option<Matcher> {
    let fields = at.fields(&["like", "not"])?;
    let like = fields.optional("like").map(pattern);
    let not = fields.optional("not").map(patterns);
    if like.is_none() && not.is_none() {
        at.refuse("expected `like`, `not` or both, found none of them");
        return None;
    }
    Some(Matcher::Like { like: like.unwrap_or_else(|| Some(Pattern::new("*")))?, not: not.unwrap_or_else(|| Some(Vec::new()))? })
}

fn pattern(at: &Located<'_>) -> Option<Pattern> {
    at.scalar("a pattern such as `a*b`").map(Pattern::new)
}

/// One pattern or a list of them.
fn patterns(at: &Located<'_>) -> Option<Vec<Pattern>> {
    if !matches!(at.value(), Value::List(_)) {
        return pattern(at).map(|one| vec![one]);
    }
    let items = at.list("a list of patterns")?;
    if items.is_empty() {
        at.refuse("the list is empty; leave `not` out to except nothing");
        return None;
    }
    let mut seen = BTreeSet::new();
    let mut read = Vec::with_capacity(items.len());
    for item in &items {
        let Some(pattern) = pattern(item) else { continue };
        if seen.insert(pattern.clone()) {
            read.push(pattern);
        } else {
            item.refuse(format!("`{}` is already there", crate::text::cut(pattern.as_str())));
        }
    }
    (read.len() == items.len()).then_some(read)
}

/// A list of exact values.
fn values(at: &Located<'_>) -> Option<Matcher> {
    let mut values: Vec<String> = Vec::new();
    let mut seen = BTreeSet::new();
    let items = at.list("a list of values")?;
    if items.is_empty() {
        at.refuse("the list is empty, and nothing would match; leave the attribute out to match any request");
        return None;
    }
    let mut all = true;
    for item in items {
        let Some(value) = item.scalar("a value") else {
            all = false;
            continue;
        };
        warn_of_star(&item, value);
        if seen.insert(value) {
            values.push(value.to_owned());
        } else {
            item.refuse(format!("`{}` is already there", crate::text::cut(value)));
        }
    }
    all.then_some(Matcher::OneOf(values))
}

/// Warns where a value is exact and looks like a prefix.
pub(super) fn warn_of_star(at: &Located<'_>, value: &str) {
    if value.ends_with('*') {
        at.warn("this is taken literally: here a `*` is a character like any other");
    }
}
