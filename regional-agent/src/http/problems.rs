//! Every way to say no: the kinds of problem (RFC 9457) that this front door answers with.

use super::answer::Answer;
use axum::http::Uri;
use axum::http::header::ALLOW;
use axum::response::{IntoResponse, Response};
use quorate_limiter::matching::descriptors::OtherUnit;
use quorate_shared::problem::{InputError, Problem};
use quorate_shared::units::MicroTokens;
use std::any::Any;

/// The draft's own type (draft-ietf-httpapi-ratelimit-headers-10, section 5.1).
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

/// 429: a limit refuses; later it may not.
pub fn quota_exceeded() -> Problem {
    let problem = Problem::new(429, "quota-exceeded", "Request cannot be satisfied as assigned quota has been exceeded");
    Problem { kind: QUOTA_EXCEEDED.to_owned(), ..problem }
}

/// 422: this region will never hold so much at once, whatever others lend.
pub fn cost_exceeds_limit() -> Problem {
    Problem::new(422, "cost-exceeds-limit", "The request costs more than can ever be held here")
}

/// 422: one of the limits never holds so much; at most this can be settled.
pub fn settlement_exceeds_limit(most: MicroTokens) -> Problem {
    let detail = format!("At most {} can be settled: one of the limits never holds more. The reservation stands.", most.tokens_floor());
    cost_exceeds_limit().detail(detail)
}

/// 503: nobody can decide, and a policy wants a refusal then.
pub fn limiter_unavailable() -> Problem {
    Problem::new(503, "limiter-unavailable", "The limiter cannot decide at present")
}

/// 400: the body has these mistakes.
pub fn invalid_request(mistakes: Vec<InputError>) -> Problem {
    Problem::new(400, "invalid-request", "The request has mistakes").errors(mistakes)
}

/// 400: the request id of the check at `place` named another request before.
pub fn reused_request_id(place: &str) -> Problem {
    let detail = "was used for other attributes or another cost; each request needs an id of its own".to_owned();
    invalid_request(vec![InputError { pointer: format!("{place}/request_id"), detail, line: None }])
}

/// 400: the request at `place` brings a limit along that no policy can have.
pub fn invalid_limit(place: &str, why: &OtherUnit) -> Problem {
    invalid_request(vec![InputError { pointer: place.to_owned(), detail: why.to_string(), line: None }])
}

/// 410: what was reserved stays taken as it was estimated.
pub fn reservation_ended() -> Problem {
    Problem::new(410, "reservation-ended", "There is no such reservation any more")
        .detail("After its ttl a reservation is kept at its estimate; it cannot be settled.")
}

/// 400: the body could not be read to its end.
pub fn broken_body() -> Problem {
    Problem::new(400, "invalid-request", "The body ended too early")
}

/// 408: the body did not arrive in time.
pub fn slow_body() -> Problem {
    Problem::new(408, "request-timeout", "The body did not arrive in time")
}

/// 413.
pub fn body_too_large(most: usize) -> Problem {
    Problem::new(413, "body-too-large", "The body is too large").detail(format!("At most {most} bytes are read."))
}

/// 415.
pub fn unsupported_media_type() -> Problem {
    Problem::new(415, "unsupported-media-type", "The content type is not supported")
        .detail("Send `content-type: application/json`, in UTF-8.")
}

/// 401.
pub fn unauthorized() -> Problem {
    Problem::new(401, "unauthorized", "A token is needed").detail("Send `authorization: Bearer TOKEN` with a token that this agent knows.")
}

/// 503 of `GET /readyz`: this is missing.
pub fn not_ready(missing: String) -> Problem {
    Problem::new(503, "not-ready", "Not ready").detail(missing)
}

/// 500: a fault of ours.
pub fn internal() -> Problem {
    Problem::new(500, "internal-error", "A fault inside the limiter")
}

/// 404.
pub async fn not_found(uri: Uri) -> Answer {
    let path = quorate_shared::text::cut(uri.path());
    Answer::problem(Problem::new(404, "not-found", "There is nothing here").detail(format!("No endpoint `{path}`.")))
}

/// 405. The router names the methods that are allowed.
pub async fn method_not_allowed() -> Answer {
    Answer::problem(Problem::new(405, "method-not-allowed", "This endpoint does not take that method"))
}

/// The same of a trace, which only shows a client its own request: every other method is asked about.
pub async fn not_traced() -> Response {
    ([(ALLOW, "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, CONNECT")], method_not_allowed().await).into_response()
}

/// 500 after a panic, whose words stay in the log.
pub fn panicked(_: Box<dyn Any + Send>) -> Response {
    tracing::error!("a handler panicked");
    Answer::problem(internal()).into_response()
}
