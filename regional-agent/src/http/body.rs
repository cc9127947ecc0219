//! A JSON body, read within its limits of size and time.

use super::answer::Answer;
use super::{Door, problems};
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, FailedToBufferBody};
use axum::extract::{DefaultBodyLimit, FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use std::sync::Arc;
use std::time::Duration;

/// A body has arrived by then, or is given up.
const BODY_TIME: Duration = Duration::from_secs(10);

/// The bytes of a body that says it is JSON.
pub struct JsonBody(pub Bytes);

impl<D: Send + Sync> FromRequest<Arc<Door<D>>> for JsonBody {
    type Rejection = Answer;

    async fn from_request(mut request: Request, door: &Arc<Door<D>>) -> Result<Self, Answer> {
        if !is_json(request.headers()) {
            return Err(Answer::problem(problems::unsupported_media_type()));
        }
        let most = door.settings.max_body;
        if announced(request.headers()).is_some_and(|bytes| bytes > most as u64) {
            return Err(Answer::problem(problems::body_too_large(most)));
        }
        DefaultBodyLimit::apply(DefaultBodyLimit::max(most), &mut request);
        let problem = match tokio::time::timeout(BODY_TIME, Bytes::from_request(request, &())).await {
            Ok(Ok(bytes)) => return Ok(Self(bytes)),
            Ok(Err(BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(_)))) => problems::body_too_large(most),
            Ok(Err(_)) => problems::broken_body(),
            Err(_) => problems::slow_body(),
        };
        Err(Answer::problem(problem))
    }
}

fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// `application/json`, whose only parameter, if any, is `charset=utf-8`.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(Ok(media_type)) = headers.get(CONTENT_TYPE).map(|value| value.to_str()) else { return false };
    let mut parts = media_type.split(';').map(str::trim);
    let json = parts.next().is_some_and(|essence| essence.eq_ignore_ascii_case("application/json"));
    json && parts.all(|parameter| parameter.is_empty() || is_utf8(parameter))
}

fn is_utf8(parameter: &str) -> bool {
    let Some((name, value)) = parameter.split_once('=') else { return false };
    name.eq_ignore_ascii_case("charset") && value.trim_matches('"').eq_ignore_ascii_case("utf-8")
}
