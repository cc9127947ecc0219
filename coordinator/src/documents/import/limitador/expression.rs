//! Words of an expression in CEL.

/// One word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// A name.
    Name(String),
    /// A text, without its quotes.
    Text(String),
    /// A whole number.
    Number(String),
    /// Anything else, such as `==` or `[`.
    Sign(&'static str),
}

/// Longer ones before those that they begin with.
const SIGNS: [&str; 15] = ["==", "!=", "&&", "||", "<=", ">=", "[", "]", "(", ")", ".", ",", "!", "<", ">"];

/// The words of an expression; `None` if some part of it is none that is known here.
pub(super) fn words(expression: &str) -> Option<Vec<Word>> {
    let mut words = Vec::new();
    let mut rest = expression.trim_start();
    while let Some(first) = rest.chars().next() {
        let (word, after) = match first {
            '\'' | '"' => text(rest, first)?,
            'a'..='z' | 'A'..='Z' | '_' => {
                let (name, after) = split(rest, |c| c.is_ascii_alphanumeric() || c == '_');
                (Word::Name(name.to_owned()), after)
            }
            '0'..='9' => {
                let (digits, after) = split(rest, |c| c.is_ascii_digit());
                (Word::Number(digits.to_owned()), after)
            }
            _ => {
                let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign))?;
                (Word::Sign(sign), &rest[sign.len()..])
            }
        };
        words.push(word);
        rest = after.trim_start();
    }
    Some(words)
}

fn split(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

/// A text in quotes, in which a backslash stands before a quote or a backslash.
fn text(from: &str, quote: char) -> Option<(Word, &str)> {
    let mut content = String::new();
    let mut chars = from.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            c if c == quote => return Some((Word::Text(content), &from[at + 1..])),
            '\\' => content.push(chars.next().map(|(_, c)| c).filter(|c| matches!(c, '\\' | '\'' | '"'))?),
            c => content.push(c),
        }
    }
    None
}
