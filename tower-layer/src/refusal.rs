//! Answers in the place of the service's.

use crate::body::LimitedBody;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use quorate_shared::problem::{PROBLEM_JSON, Problem};

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

/// gRPC's numbers.
const RESOURCE_EXHAUSTED: HeaderValue = HeaderValue::from_static("8");
const UNAVAILABLE: HeaderValue = HeaderValue::from_static("14");

/// A refusal.
#[derive(Debug)]
pub struct Refusal {
    /// 429, 422 or 503.
    pub status: StatusCode,
    /// All that the client is to know.
    pub fields: HeaderMap,
    /// A problem.
    pub body: Bytes,
}

impl Refusal {
    /// 503: no agent decides, and nothing may pass then.
    pub fn without_agent() -> Self {
        let problem = Problem::new(503, "limiter-unavailable", "The limiter cannot decide at present");
        let fields = [
            (CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON)),
            (CACHE_CONTROL, HeaderValue::from_static("no-store")),
            (RETRY_AFTER, HeaderValue::from_static("1")),
        ];
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        Self { status: StatusCode::SERVICE_UNAVAILABLE, fields: fields.into_iter().collect(), body: body.into() }
    }

    /// As an answer of HTTP.
    pub fn http<B>(self) -> Response<LimitedBody<B>> {
        let mut response = Response::new(LimitedBody::of_refusal(self.body));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.fields;
        response
    }

    /// As an answer of gRPC, which is always 200 and says the rest in its own fields.
    pub fn grpc<B>(mut self) -> Response<LimitedBody<B>> {
        let unavailable = self.status == StatusCode::SERVICE_UNAVAILABLE;
        let (status, message) = if unavailable { (UNAVAILABLE, "the limiter cannot decide") } else { (RESOURCE_EXHAUSTED, "over a limit") };
        self.fields.insert(CONTENT_TYPE, GRPC);
        self.fields.insert(GRPC_STATUS, status);
        self.fields.insert(GRPC_MESSAGE, HeaderValue::from_static(message));
        let mut response = Response::new(LimitedBody::of_refusal(Bytes::new()));
        *response.headers_mut() = self.fields;
        response
    }
}
