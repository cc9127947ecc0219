//! The page at `/` and its files, embedded into the binary.

use super::refusal::Refusal;
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use rust_embed::{EmbeddedFile, RustEmbed};

#[derive(RustEmbed)]
#[folder = "dashboard"]
struct Files;

/// Nothing from elsewhere, nothing inline, no frame around it.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'";

/// A file of the page, or 404: the answer to every path that has no route.
pub async fn file_or_not_found(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let name = match uri.path().trim_start_matches('/') {
        "" => "index.html",
        name => name,
    };
    match Files::get(name) {
        None => Refusal::not_found(uri.path()).into_response(),
        Some(file) if matches!(method, Method::GET | Method::HEAD) => answer(file, &headers),
        Some(_) => ([(ALLOW, "GET, HEAD")], Refusal::method_not_allowed(method.as_str(), uri.path())).into_response(),
    }
}

fn answer(file: EmbeddedFile, headers: &HeaderMap) -> Response {
    let hash = file.metadata.sha256_hash();
    let tag = format!("\"{}\"", hash.iter().take(16).map(|b| format!("{b:02x}")).collect::<String>());
    let known = headers.get(IF_NONE_MATCH).is_some_and(|v| v.as_bytes() == tag.as_bytes());
    let about = [
        (CONTENT_TYPE, file.metadata.mimetype().to_owned()),
        (CONTENT_SECURITY_POLICY, POLICY.to_owned()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (REFERRER_POLICY, "no-referrer".to_owned()),
        (CACHE_CONTROL, "no-cache".to_owned()),
        (ETAG, tag),
    ];
    match known {
        true => (StatusCode::NOT_MODIFIED, about).into_response(),
        false => (about, file.data.into_owned()).into_response(),
    }
}
