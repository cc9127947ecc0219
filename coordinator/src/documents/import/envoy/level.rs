//! Which values of which attribute meet each rule of one level.
//!
//! A value meets one rule of a level: the one for exactly this value, else the first pattern of the
//! file that it is like, else the one for the bare key. So a rule has all values but those that
//! meet another one before it.

use super::rules::Rule;
use crate::documents::import::draft::Test;
use crate::documents::import::findings::Findings;
use quorate_shared::policy::Pattern;
use quorate_shared::text::cut;

/// One attribute whose values meet a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Way {
    /// The attribute.
    pub key: String,
    /// Its values.
    pub test: Test,
    /// True if each value is counted apart.
    pub apart: bool,
}

/// For each rule of a level how it is met; a rule that cannot be met, or not be said, has no way.
pub(super) fn ways(level: &[Rule], findings: &mut Findings) -> Vec<Vec<Way>> {
    level.iter().enumerate().map(|(i, rule)| ways_to(level, i, rule, findings)).collect()
}

fn ways_to(level: &[Rule], i: usize, rule: &Rule, findings: &mut Findings) -> Vec<Way> {
    findings.file.clone_from(&rule.file);
    if rule.key.contains('*') {
        findings.note(
            rule.at,
            "a `*` in a key does not carry over, since a policy names its attributes: this descriptor and those in it are left out, and what met it meets those beside it",
        );
        return Vec::new();
    }
    tell_of_joined(level, rule, findings);
    let key = rule.key.clone();
    if rule.value.is_empty() {
        return bare(level, rule, findings);
    }
    if !rule.value.contains('*') {
        return vec![Way { key, test: Test::Exact(rule.value.clone()), apart: false }];
    }
    let earlier: Vec<&Rule> = level[..i].iter().filter(|other| other.key == rule.key && other.value.contains('*')).collect();
    if let Some(first) = earlier.iter().find(|other| Pattern::new(other.value.as_str()).matches(&rule.value)) {
        tell_unreachable(rule, first, findings);
        return Vec::new();
    }
    let pattern = Pattern::new(rule.value.as_str());
    let exact = exact(level, &rule.key).filter(|value| pattern.matches(value)).map(str::to_owned);
    let patterns = earlier.iter().filter(|other| !are_apart(&other.value, &rule.value)).map(|other| other.value.clone());
    vec![Way { key, test: Test::Like(rule.value.clone(), exact.chain(patterns).collect()), apart: !rule.shared }]
}

/// The ways to a rule for any value of a key: its own, and the empty value of a key that it is
/// called after, since that one is looked for with the `_` that joins a key and its value.
fn bare(level: &[Rule], rule: &Rule, findings: &mut Findings) -> Vec<Way> {
    let patterns = || level.iter().filter(|other| other.key == rule.key && other.value.contains('*'));
    let empty = rule.key.strip_suffix('_').filter(|key| level.iter().any(|other| other.key == *key));
    let empty = empty.map(|key| Way { key: key.to_owned(), test: Test::Exact(String::new()), apart: false });
    let own = match patterns().find(|other| other.value.bytes().all(|b| b == b'*')) {
        Some(all) => {
            tell_unreachable(rule, all, findings);
            None
        }
        None => {
            let not = exact(level, &rule.key).map(str::to_owned).chain(patterns().map(|other| other.value.clone())).collect();
            Some(Way { key: rule.key.clone(), test: Test::Like("*".to_owned(), not), apart: true })
        }
    };
    own.into_iter().chain(empty).collect()
}

/// The values of a key that a rule of the level is for.
fn exact<'l>(level: &'l [Rule], key: &'l str) -> impl Iterator<Item = &'l str> {
    let values = level.iter().filter(move |rule| rule.key == key && !rule.value.is_empty() && !rule.value.contains('*'));
    let empty = level.iter().any(|rule| rule.value.is_empty() && rule.key.strip_suffix('_') == Some(key)).then_some("");
    values.map(|rule| rule.value.as_str()).chain(empty)
}

/// True if it is seen at once that no value is like both patterns.
fn are_apart(a: &str, b: &str) -> bool {
    let ends = |pattern: &str| {
        let (head, rest) = pattern.split_once('*').unwrap_or((pattern, ""));
        (head.to_owned(), rest.rsplit('*').next().unwrap_or_default().to_owned())
    };
    let ((head_a, tail_a), (head_b, tail_b)) = (ends(a), ends(b));
    let heads = head_a.starts_with(&head_b) || head_b.starts_with(&head_a);
    let tails = tail_a.ends_with(&tail_b) || tail_b.ends_with(&tail_a);
    !heads || !tails
}

fn tell_unreachable(rule: &Rule, first: &Rule, findings: &mut Findings) {
    let line = first.at.map(|at| format!(" in line {}", at.line)).unwrap_or_default();
    let all = cut(&first.value);
    findings.note(rule.at, format!("no request ever met this: each value meets `{all}`{line} before; it is left out, with those in it"));
}

/// Keys and values are joined by `_` there, so that a value of another key may meet a rule.
fn tell_of_joined(level: &[Rule], rule: &Rule, findings: &mut Findings) {
    let joined = rule.joined();
    let other = |key: &str| joined.strip_prefix(key).and_then(|rest| rest.strip_prefix('_')).filter(|value| !value.is_empty());
    let mut told: Vec<&str> = Vec::new();
    for key in level.iter().map(|other| other.key.as_str()).filter(|key| *key != rule.key) {
        if let (Some(value), false) = (other(key), told.contains(&key)) {
            told.push(key);
            let (key, value) = (cut(key), cut(value));
            findings.note(
                rule.at,
                format!("key and value were joined by `_`, so that `{key}` with the value `{value}` met this too; here it does not"),
            );
        }
    }
}
