//! Scalars as YAML 1.1 reads them, which files of other limiters are written in.
//!
//! The parser reads YAML 1.2. What a scalar without quotes stands for is decided here, by how it is
//! written: `yes` is a truth value, `0100` is 64, `1_000` is a thousand.

use quorate_shared::located::{Node, Place, Value};

/// What a scalar stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Nothing.
    Null,
    /// `true`, `yes`, `on` and their opposites.
    Bool(bool),
    /// A whole number; `None` is one that no 64 bits hold.
    Whole(Option<i128>),
    /// Any other number.
    Float,
    /// All else, and everything in quotes.
    Text,
}

/// A text, to see how something in it was written.
#[derive(Debug)]
pub(super) struct Origin<'a>(Vec<&'a str>);

impl<'a> Origin<'a> {
    /// Of this text.
    pub(super) fn new(text: &'a str) -> Self {
        Self(text.strip_prefix('\u{feff}').unwrap_or(text).split('\n').collect())
    }

    /// What stands at a place.
    fn char_at(&self, at: Place) -> Option<char> {
        let line = self.0.get(usize::try_from(at.line).ok()?.checked_sub(1)?)?;
        line.chars().nth(usize::try_from(at.column).ok()?.checked_sub(1)?)
    }

    /// True of what is written in quotes, as a block, or with a tag that says what it is.
    fn is_quoted(&self, at: Option<Place>) -> bool {
        at.and_then(|at| self.char_at(at)).is_some_and(|c| matches!(c, '"' | '\'' | '|' | '>' | '!'))
    }

    /// What a scalar stands for, and how it is written; `None` of a list or a map.
    pub(super) fn scalar<'n>(&self, node: &'n Node) -> Option<(Meaning, &'n str)> {
        let written = match &node.value {
            Value::Null => return Some((Meaning::Null, "")),
            Value::Bool(true) => "true",
            Value::Bool(false) => "false",
            Value::Number(text) | Value::Text(text) => text,
            Value::List(_) | Value::Map(_) => return None,
        };
        Some((self.meaning(node.at, written), written))
    }

    /// What is written so at this place stands for.
    pub(super) fn meaning(&self, at: Option<Place>, written: &str) -> Meaning {
        if self.is_quoted(at) { Meaning::Text } else { plain(written) }
    }
}

/// What a scalar without quotes stands for.
fn plain(written: &str) -> Meaning {
    match written {
        "" | "~" | "null" | "Null" | "NULL" => return Meaning::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => return Meaning::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => return Meaning::Bool(false),
        _ => {}
    }
    let digits = written.replace('_', "");
    if is_whole(&digits) {
        return Meaning::Whole(whole(&digits));
    }
    if is_float(&digits) { Meaning::Float } else { Meaning::Text }
}

/// A sign, and digits to the base that they begin with.
fn is_whole(digits: &str) -> bool {
    let (_, base, digits) = parts(digits);
    !digits.is_empty() && digits.chars().all(|c| c.is_digit(base))
}

fn whole(digits: &str) -> Option<i128> {
    let (negative, base, digits) = parts(digits);
    let size = i128::from_str_radix(digits, base).ok()?;
    let signed = if negative { -size } else { size };
    (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&signed).then_some(signed)
}

/// Whether it is negative, its base, its digits.
fn parts(text: &str) -> (bool, u32, &str) {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let lower = |prefix: char| unsigned.strip_prefix('0').and_then(|rest| rest.strip_prefix([prefix, prefix.to_ascii_uppercase()]));
    let (base, digits) = match (lower('x'), lower('b'), lower('o')) {
        (Some(digits), _, _) => (16, digits),
        (_, Some(digits), _) => (2, digits),
        (_, _, Some(digits)) => (8, digits),
        _ if unsigned.len() > 1 && unsigned.starts_with('0') => (8, unsigned),
        _ => (10, unsigned),
    };
    (text.starts_with('-'), base, digits)
}

/// A decimal number with a point, an exponent or both, digits alone that are no whole number
/// (`089`), or one of the words for what is no number.
fn is_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let (number, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let (before, after) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let some = !before.is_empty() || !after.is_empty();
    some && digits(before) && digits(after) && exponent.is_none_or(|e| !e.is_empty() && digits(e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scalar_means_what_yaml_1_1_says() {
        let whole = |n| Meaning::Whole(Some(n));
        for (written, meaning) in [
            ("", Meaning::Null),
            ("~", Meaning::Null),
            ("yes", Meaning::Bool(true)),
            ("OFF", Meaning::Bool(false)),
            ("tRUE", Meaning::Text),
            ("10", whole(10)),
            ("-1", whole(-1)),
            ("+5", whole(5)),
            ("0100", whole(64)),
            ("0o17", whole(15)),
            ("0x1F", whole(31)),
            ("0b101", whole(5)),
            ("1_000", whole(1000)),
            ("18446744073709551615", whole(i128::from(u64::MAX))),
            ("99999999999999999999", Meaning::Whole(None)),
            ("089", Meaning::Float),
            ("1e3", Meaning::Float),
            ("0.25", Meaning::Float),
            (".5", Meaning::Float),
            ("5.", Meaning::Float),
            ("-.inf", Meaning::Float),
            (".nan", Meaning::Float),
            (".", Meaning::Text),
            ("e3", Meaning::Text),
            ("1e", Meaning::Text),
            ("50.0.0.5", Meaning::Text),
            ("2001-01-01", Meaning::Text),
            ("0x", Meaning::Text),
            ("3/m", Meaning::Text),
        ] {
            assert_eq!(plain(written), meaning, "{written:?}");
        }
    }

    #[test]
    fn quotes_make_a_text() {
        let origin = Origin::new("\u{feff}a: \"10\"\nb: é 'x'\nc: 10\n");
        let at = |line, column| Some(Place { line, column });
        assert_eq!(origin.meaning(at(1, 4), "10"), Meaning::Text);
        assert_eq!(origin.meaning(at(2, 6), "5"), Meaning::Text, "columns are counted in characters");
        assert_eq!(origin.meaning(at(3, 4), "10"), Meaning::Whole(Some(10)));
        assert_eq!(origin.meaning(at(9, 9), "10"), Meaning::Whole(Some(10)));
    }
}
