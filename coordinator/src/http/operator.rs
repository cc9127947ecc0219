//! Who gives a command, and why: what is kept with every change that an operator makes.

use super::refusal::Refusal;
use super::roles::Caller;
use crate::author;
use crate::forward::WHY;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use quorate_ledger::Author;
use serde::Deserialize;

/// Of the reason for a change, in bytes.
const MAX_WHY: usize = 1_000;

/// The query of a command that has nothing else to say.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WhyQuery {
    /// See [`author`].
    pub why: Option<String>,
}

/// Who sends this request, at this moment, and why in their words: `why` of the query, else of the header.
///
/// # Errors
/// If the reason is too long.
pub fn author(parts: &Parts, why: Option<String>) -> Result<Author, Refusal> {
    let why = reason(why, &parts.headers)?;
    let who = parts.extensions.get::<Caller>().map_or("anonymous", |caller| &caller.name);
    Ok(author::now(who, why))
}

fn reason(query: Option<String>, headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let header = || headers.get(WHY).map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned());
    let why = query.or_else(header).filter(|why| !why.is_empty());
    match why {
        Some(why) if why.len() > MAX_WHY => {
            Err(Refusal::invalid_request("", format!("query: `why` has {} bytes; at most {MAX_WHY}", why.len())))
        }
        why => Ok(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;

    fn kept(query: Option<&str>, header: &str) -> Result<Option<String>, u16> {
        let (parts, ()) = Request::builder().header(WHY, header).body(()).expect("a request").into_parts();
        author(&parts, query.map(str::to_owned)).map(|by| by.why).map_err(|refusal| refusal.status().as_u16())
    }

    #[test]
    fn the_reason_is_that_of_the_query_or_else_of_the_header() {
        assert_eq!(kept(Some("more sales"), "a form"), Ok(Some("more sales".into())));
        assert_eq!(kept(None, "a form"), Ok(Some("a form".into())));
        assert_eq!(kept(None, ""), Ok(None));
        assert_eq!(kept(Some(&"x".repeat(MAX_WHY)), ""), Ok(Some("x".repeat(MAX_WHY))));
        assert_eq!(kept(Some(&"x".repeat(MAX_WHY + 1)), ""), Err(400));
    }
}
