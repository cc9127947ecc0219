//! Reading bodies and queries, with refusals that say where the mistake is.

use super::refusal::Refusal;
use axum::body::{Body, Bytes};
use axum::extract::Query;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, Uri};
use bytes::BytesMut;
use futures_util::StreamExt;
use serde::de::DeserializeOwned;
use serde_path_to_error::Segment;
use std::fmt::Write;

/// The whole body.
///
/// # Errors
/// 413 above `limit` bytes, 400 if the connection breaks.
pub async fn read(headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, Refusal> {
    let announced = headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse::<u64>().ok());
    if announced.is_some_and(|length| usize::try_from(length).map_or(true, |length| length > limit)) {
        return Err(Refusal::too_large(limit));
    }
    let mut parts = body.into_data_stream();
    let mut whole = BytesMut::new();
    while let Some(part) = parts.next().await {
        let part = part.map_err(|error| Refusal::invalid_request("", format!("the body broke off: {error}")))?;
        if whole.len() + part.len() > limit {
            return Err(Refusal::too_large(limit));
        }
        whole.extend_from_slice(&part);
    }
    Ok(whole.freeze())
}

/// The media type without parameters, in lower case.
pub fn media_type(headers: &HeaderMap) -> Option<String> {
    let whole = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    Some(whole.split(';').next()?.trim().to_ascii_lowercase())
}

/// Refuses what is not said to be JSON.
///
/// # Errors
/// 415.
pub fn is_json(headers: &HeaderMap) -> Result<(), Refusal> {
    match media_type(headers).as_deref() {
        Some("application/json") => Ok(()),
        other => Err(Refusal::unsupported_type(other, "application/json")),
    }
}

/// A JSON body.
///
/// # Errors
/// 400 with the place of the first mistake.
pub fn json<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut reader)
        .map_err(|error| Refusal::invalid_request(&pointer(error.path()), error.inner().to_string()))?;
    reader.end().map_err(|error| Refusal::invalid_request("", error.to_string()))?;
    Ok(value)
}

/// RFC 6901. What is not known of the path is left out at its end.
fn pointer(path: &serde_path_to_error::Path) -> String {
    let mut pointer = String::new();
    for segment in path {
        // writing to a String does not fail
        let _ = match segment {
            Segment::Seq { index } => write!(pointer, "/{index}"),
            Segment::Map { key } => write!(pointer, "/{}", key.replace('~', "~0").replace('/', "~1")),
            Segment::Enum { .. } | Segment::Unknown => break,
        };
    }
    pointer
}

/// The query of a request.
///
/// # Errors
/// 400 that names the parameter where the parser does.
pub fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, Refusal> {
    let read = Query::<T>::try_from_uri(uri).map_err(|error| Refusal::invalid_request("", query_detail(&error)))?;
    Ok(read.0)
}

fn query_detail(error: &dyn std::error::Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    format!("query: {deepest}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_shared::heartbeat::Heartbeat;

    #[test]
    fn a_mistake_is_shown_in_its_place() {
        let text = br#"{"protocol": 1, "region": "eu", "agent": "a", "number": {"session": 1, "seq": "x"}}"#;
        let error = serde_path_to_error::deserialize::<_, Heartbeat>(&mut serde_json::Deserializer::from_slice(text));
        assert_eq!(pointer(error.expect_err("seq is text").path()), "/number/seq");
    }

    #[test]
    fn what_follows_the_value_is_refused() {
        assert_eq!(json::<u64>(b" 1 ").ok(), Some(1));
        assert!(json::<u64>(b"1 2").is_err());
    }
}
