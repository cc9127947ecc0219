//! Patterns of values.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A text in which each `*` stands for any text, or none; all else is exact.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pattern(String);

impl Pattern {
    /// The pattern that is written so.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True of a value that is like it. What stands before the first `*` and after the last one
    /// does not overlap in the value.
    pub fn matches(&self, value: &str) -> bool {
        let Some((head, rest)) = self.0.split_once('*') else { return self.0 == value };
        let Some(value) = value.strip_prefix(head) else { return false };
        let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
        let Some(value) = value.strip_suffix(tail) else { return false };
        // the first place of each part leaves the most to those after it
        let mut left = value;
        middle.split('*').all(|part| {
            let found = left.find(part);
            left = found.map_or("", |at| &left[at + part.len()..]);
            found.is_some()
        })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;
    use proptest::prelude::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, like, unlike) in [
            ("a", &["a"][..], &["", "A", "a ", "aa"][..]),
            ("", &[""], &["a"]),
            ("*", &["", "a", "*"], &[]),
            ("a*", &["a", "ab", "a*"], &["", "ba"]),
            ("*a", &["a", "ba"], &["", "ab"]),
            ("a*a", &["aa", "aba"], &["a", "ab"]),
            ("foo*bar*baz", &["foobarbaz", "fooAbarBbaz", "foobarbarbaz"], &["foobaz", "foobarba", "fobarbaz"]),
            ("*b*b*", &["bb", "abcbd"], &["b", "abc"]),
            ("é*", &["é", "école"], &["ecole"]),
        ] {
            let pattern = Pattern::new(pattern);
            assert!(like.iter().all(|value| pattern.matches(value)), "{pattern}: {like:?}");
            assert!(!unlike.iter().any(|value| pattern.matches(value)), "{pattern}: {unlike:?}");
        }
    }

    /// What the pattern means, tried out in every way.
    fn by_trial(pattern: &[u8], value: &[u8]) -> bool {
        match (pattern.split_first(), value.split_first()) {
            (None, None) => true,
            (None, Some(_)) => false,
            (Some((b'*', rest)), _) => (0..=value.len()).any(|n| by_trial(rest, &value[n..])),
            (Some((p, pattern)), Some((v, value))) => p == v && by_trial(pattern, value),
            (Some(_), None) => false,
        }
    }

    proptest! {
        #[test]
        fn matching_is_as_by_trial(pattern in "[ab*]{0,8}", value in "[ab]{0,8}") {
            prop_assert_eq!(Pattern::new(pattern.as_str()).matches(&value), by_trial(pattern.as_bytes(), value.as_bytes()));
        }
    }
}
