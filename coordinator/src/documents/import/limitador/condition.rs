//! Conditions that a match can say.
//!
//! | condition | match |
//! |---|---|
//! | `descriptors[0]['k'] == 'v'` | `k: v` |
//! | `descriptors[0]['k'] != 'v'` | `k: {not: [v]}` |
//! | `descriptors[0]['k'] in ['v', 'w']` | `k: [v, w]` |
//! | `descriptors[0]['k'].startsWith('v')`, `endsWith`, `contains` | `k: v*`, `k: {like: "*v"}`, `k: {like: "*v*"}` |
//! | `'k' in descriptors[0]`, `has(descriptors[0].k)` | `k: "*"` |
//! | several of these with `&&` | all of them |
//!
//! A condition on a key that a request does not have is false there, `!=` too, as a match is here.

use super::expression::{Word, words};
use crate::documents::import::draft::Test;
use quorate_shared::policy::Pattern;
use quorate_shared::text::cut;

/// The keys of a condition and what each must look like.
///
/// # Errors
/// Why a match cannot say it.
pub(super) fn tests(condition: &str) -> Result<Vec<(String, Test)>, String> {
    let unsaid = || format!("the condition `{}` is none that a match can say", cut(condition));
    let words = words(condition).ok_or_else(unsaid)?;
    words.split(|word| *word == Word::Sign("&&")).map(|part| one(part).ok_or_else(unsaid)).collect()
}

/// The key of a variable.
///
/// # Errors
/// Why no attribute is meant.
pub(super) fn variable(expression: &str) -> Result<String, String> {
    let key = words(expression).and_then(|words| match key(&words) {
        Some((key, [])) => Some(key),
        _ => None,
    });
    key.ok_or_else(|| format!("the variable `{}` is no attribute of a request", cut(expression)))
}

/// One condition without `&&`.
fn one(words: &[Word]) -> Option<(String, Test)> {
    use Word::{Name, Sign, Text};
    if let [Sign("("), inner @ .., Sign(")")] = words
        && !inner.iter().any(|word| matches!(word, Sign("(" | ")" | "||")))
    {
        return one(inner);
    }
    match words {
        [Text(value), Sign(sign @ ("==" | "!=")), path @ ..] => compared(whole(path)?, sign, value),
        [Text(key), Name(word), Name(root), Sign("["), Word::Number(first), Sign("]")]
            if word == "in" && root == "descriptors" && first == "0" =>
        {
            Some((key.clone(), Test::any()))
        }
        [Name(has), Sign("("), path @ .., Sign(")")] if has == "has" => Some((whole(path)?, Test::any())),
        _ => about(words),
    }
}

fn whole(path: &[Word]) -> Option<String> {
    key(path).filter(|(_, rest)| rest.is_empty()).map(|(key, _)| key)
}

/// A condition that begins with the key that it is about.
fn about(words: &[Word]) -> Option<(String, Test)> {
    use Word::{Name, Sign, Text};
    let (key, rest) = key(words)?;
    match rest {
        [Sign(sign @ ("==" | "!=")), Text(value)] => compared(key, sign, value),
        [Name(word), Sign("["), values @ .., Sign("]")] if word == "in" => {
            let values: Option<Vec<String>> = values.split(|word| *word == Sign(",")).map(text).collect();
            values.filter(|values| !values.is_empty()).map(|values| (key, Test::OneOf(values)))
        }
        [Sign("."), Name(function), Sign("("), Text(part), Sign(")")] if !part.contains('*') => {
            let like = match function.as_str() {
                "startsWith" => format!("{part}*"),
                "endsWith" => format!("*{part}"),
                "contains" => format!("*{part}*"),
                _ => return None,
            };
            Some((key, Test::Like(like, Vec::new())))
        }
        _ => None,
    }
}

fn text(words: &[Word]) -> Option<String> {
    match words {
        [Word::Text(text)] => Some(text.clone()),
        _ => None,
    }
}

fn compared(key: String, sign: &str, value: &str) -> Option<(String, Test)> {
    match sign {
        "==" => Some((key, Test::Exact(value.to_owned()))),
        // a star would be a wildcard there
        _ if value.contains('*') => None,
        _ => Some((key, Test::Like("*".to_owned(), vec![value.to_owned()]))),
    }
}

/// The key that words begin with, and those after it: an entry of the first descriptor, or a name.
fn key(words: &[Word]) -> Option<(String, &[Word])> {
    use Word::{Name, Number, Sign, Text};
    match words {
        [Name(root), Sign("["), Number(first), Sign("]"), Sign("["), Text(key), Sign("]"), rest @ ..]
            if root == "descriptors" && first == "0" =>
        {
            Some((key.clone(), rest))
        }
        [Name(root), Sign("["), Number(first), Sign("]"), Sign("."), Name(key), rest @ ..] if root == "descriptors" && first == "0" => {
            Some((key.clone(), rest))
        }
        [Name(root), ..] if matches!(root.as_str(), "descriptors" | "limit" | "true" | "false" | "null") => None,
        [Name(name), rest @ ..] => Some(dotted(name, rest)),
        _ => None,
    }
}

/// A name with dots in it, as they were written before there was CEL: `req.method`. What is called
/// does not belong to it.
fn dotted<'w>(name: &str, mut rest: &'w [Word]) -> (String, &'w [Word]) {
    let mut key = name.to_owned();
    while let [Word::Sign("."), Word::Name(part), after @ ..] = rest
        && after.first() != Some(&Word::Sign("("))
    {
        key = format!("{key}.{part}");
        rest = after;
    }
    (key, rest)
}

/// Adds what a key must look like to what it must look like already.
///
/// # Errors
/// Why a match cannot say both.
pub(super) fn and(matches: &mut Vec<(String, Test)>, key: String, test: Test) -> Result<(), String> {
    let Some((_, known)) = matches.iter_mut().find(|(name, _)| *name == key) else {
        matches.push((key, test));
        return Ok(());
    };
    let both = match (known.clone(), test) {
        (Test::Like(like, mut not), Test::Like(other, more)) if like == "*" || other == "*" || like == other => {
            not.extend(more);
            Some(Test::Like(if like == "*" { other } else { like }, not))
        }
        (Test::Exact(value), other) | (other, Test::Exact(value)) => is_met(&other, &value).then_some(Test::Exact(value)),
        (Test::OneOf(values), other) | (other, Test::OneOf(values)) => {
            let left: Vec<String> = values.into_iter().filter(|value| is_met(&other, value)).collect();
            (!left.is_empty()).then_some(Test::OneOf(left))
        }
        _ => None,
    };
    *known = both.ok_or_else(|| format!("what `{}` must be cannot be said together with its other conditions", cut(&key)))?;
    Ok(())
}

fn is_met(test: &Test, value: &str) -> bool {
    let like = |pattern: &String| Pattern::new(pattern.as_str()).matches(value);
    match test {
        Test::Exact(exact) => exact == value,
        Test::OneOf(values) => values.iter().any(|one| one == value),
        Test::Like(pattern, not) => like(pattern) && !not.iter().any(like),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn like(like: &str, not: &[&str]) -> Test {
        Test::Like(like.to_owned(), not.iter().map(|n| (*n).to_owned()).collect())
    }

    #[test]
    fn a_condition_is_a_match_or_is_not_read() {
        let exact = |value: &str| Test::Exact(value.to_owned());
        for (condition, expected) in [
            ("descriptors[0]['req.method'] == 'GET'", Some(("req.method", exact("GET")))),
            ("descriptors[0].method==\"GET\"", Some(("method", exact("GET")))),
            ("'GET' == req.method", Some(("req.method", exact("GET")))),
            ("( x != 'it\\'s' )", Some(("x", like("*", &["it's"])))),
            ("x in ['a', 'b']", Some(("x", Test::OneOf(vec!["a".into(), "b".into()])))),
            ("descriptors[0]['p'].startsWith('/api')", Some(("p", like("/api*", &[])))),
            ("p.endsWith('.js')", Some(("p", like("*.js", &[])))),
            ("req.p.contains('x')", Some(("req.p", like("*x*", &[])))),
            ("'u' in descriptors[0]", Some(("u", Test::any()))),
            ("has(descriptors[0].u)", Some(("u", Test::any()))),
            ("descriptors[1]['x'] == 'y'", None),
            ("x == 'a' || x == 'b'", None),
            ("(x == 'a' || x == 'b')", None),
            ("(x == 'a') || (x == 'b')", None),
            ("x == 5", None),
            ("x == y", None),
            ("x > 'a'", None),
            ("x != 'a*'", None),
            ("p.startsWith('*')", None),
            ("x in []", None),
            ("limit.name == 'x'", None),
            ("x == 'a", None),
            ("x == '\\n'", None),
            ("true", None),
            ("", None),
        ] {
            let expected = expected.map(|(key, test)| vec![(key.to_owned(), test)]);
            assert_eq!(tests(condition).ok(), expected, "{condition}");
        }
        assert_eq!(tests("x == 'a' && y == 'b'").map(|all| all.len()), Ok(2));
    }

    #[test]
    fn conditions_on_one_key_hold_together() {
        for (conditions, expected) in [
            (&["x != 'a'", "x != 'b'"][..], Some(like("*", &["a", "b"]))),
            (&["x.startsWith('a')", "x != 'ab'"], Some(like("a*", &["ab"]))),
            (&["x != 'ab'", "x.startsWith('a')"], Some(like("a*", &["ab"]))),
            (&["x == 'a'", "x != 'b'"], Some(Test::Exact("a".into()))),
            (&["x in ['a', 'b']", "x != 'b'"], Some(Test::OneOf(vec!["a".into()]))),
            (&["x == 'a'", "x != 'a'"], None),
            (&["x.startsWith('a')", "x.endsWith('b')"], None),
        ] {
            let mut matches = Vec::new();
            let all = conditions.iter().flat_map(|condition| tests(condition).expect("a condition"));
            let fits = all.map(|(key, test)| and(&mut matches, key, test)).all(|added| added.is_ok());
            assert_eq!(fits.then(|| matches[0].1.clone()), expected, "{conditions:?}");
        }
    }

    #[test]
    fn a_variable_is_an_attribute() {
        for (written, key) in [
            ("descriptors[0]['user_id']", Some("user_id")),
            ("descriptors[0].user_id", Some("user_id")),
            ("user_id", Some("user_id")),
            ("req.user", Some("req.user")),
            ("descriptors[1].x", None),
            ("x + y", None),
            ("'x'", None),
        ] {
            assert_eq!(variable(written).ok().as_deref(), key, "{written}");
        }
    }
}
