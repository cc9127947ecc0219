//! Every answer that is not a success, as problem+json.

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use quorate_ledger::NotRestored;
use quorate_shared::problem::{InputError, PROBLEM_JSON, Problem};
use serde::Serialize;
use serde_json::{Map, Value};
use std::any::Any;

/// Why there is no success. Each constructor is one problem type.
#[derive(Debug)]
pub struct Refusal(Box<Parts>);

#[derive(Debug)]
struct Parts {
    status: StatusCode,
    problem: Problem,
    /// Members of this problem type alone (RFC 9457, section 3.2).
    members: Map<String, Value>,
    headers: HeaderMap,
}

#[derive(Serialize)]
struct Body<'a> {
    #[serde(flatten)]
    problem: &'a Problem,
    #[serde(flatten)]
    members: &'a Map<String, Value>,
}

impl Refusal {
    fn new(status: StatusCode, kind: &str, title: &str) -> Self {
        let problem = Problem::new(status.as_u16(), kind, title);
        Self(Box::new(Parts { status, problem, members: Map::new(), headers: HeaderMap::new() }))
    }

    /// Its status.
    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    fn detail(mut self, detail: impl Into<String>) -> Self {
        self.0.problem.detail = Some(detail.into());
        self
    }

    fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers.insert(name, value);
        self
    }

    fn member(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.members.insert(name.to_owned(), value.into());
        self
    }

    fn errors(mut self, errors: Vec<InputError>) -> Self {
        self.0.problem.errors = errors;
        self
    }

    /// Worth another try after a second.
    fn again(self) -> Self {
        self.header(RETRY_AFTER, HeaderValue::from_static("1"))
    }

    /// 400: one thing is wrong with the request, at a JSON pointer of its body; empty: elsewhere.
    pub fn invalid_request(pointer: &str, detail: impl Into<String>) -> Self {
        let error = InputError { pointer: pointer.to_owned(), detail: detail.into(), line: None };
        Self::new(StatusCode::BAD_REQUEST, "invalid-request", "The request is malformed").errors(vec![error])
    }

    /// 400: the policy set has these mistakes.
    pub fn invalid_policies(errors: Vec<InputError>) -> Self {
        let detail = match errors.len() {
            1 => "1 mistake; nothing was changed".to_owned(),
            n => format!("{n} mistakes; nothing was changed"),
        };
        Self::new(StatusCode::BAD_REQUEST, "invalid-policies", "The policy set is not valid").detail(detail).errors(errors)
    }

    /// 400: an agent of another version.
    pub fn protocol_mismatch(theirs: u16, ours: u16) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "protocol-mismatch", "Agent and coordinator speak different protocols")
            .detail(format!("the agent speaks protocol {theirs}, this coordinator {ours}; run one version on both sides"))
            .member("protocol", ours)
    }

    /// 401: no credential, or an unknown one.
    pub fn unauthorized(detail: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", "A credential is needed")
            .detail(detail)
            .header(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
    }

    /// 403: the credential does not allow this.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", "Not allowed").detail(detail)
    }

    /// 404.
    pub fn not_found(path: &str) -> Self {
        let path: String = path.chars().take(200).collect();
        Self::new(StatusCode::NOT_FOUND, "not-found", "Nothing is here").detail(format!("no resource {path}"))
    }

    /// 404: a version of the policy set that was forgotten, or that there never was.
    pub fn version_not_kept(asked: u64, kept: Option<(u64, u64)>) -> Self {
        let detail = match kept {
            Some((oldest, newest)) => format!("version {asked} is not kept; versions {oldest} to {newest} are"),
            None => format!("version {asked} is not kept; there is none yet"),
        };
        let refusal = Self::new(StatusCode::NOT_FOUND, "version-not-kept", "The version is not kept").detail(detail);
        match kept {
            Some((oldest, newest)) => refusal.member("oldest", oldest).member("version", newest),
            None => refusal,
        }
    }

    /// 409: a region cannot be fenced while its lease runs.
    pub fn region_live(region: &str) -> Self {
        Self::new(StatusCode::CONFLICT, "region-live", "The region is live")
            .detail(format!("{region} was heard within its lease; stop its agents, then try again once the lease has ended"))
    }

    /// 409: another agent, with another credential and another session, has renewed the region's lease.
    pub fn region_claimed(region: &str) -> Self {
        Self::new(StatusCode::CONFLICT, "region-claimed", "Another agent claims the region").detail(format!(
            "{region} is renewed under another credential, in another session: two agents of one region share its store; if this one is to \
             take its place, stop the other and wait for a lease"
        ))
    }

    /// 405; axum adds `Allow`.
    pub fn method_not_allowed(method: &str, path: &str) -> Self {
        let path: String = path.chars().take(200).collect();
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", "Another method is needed")
            .detail(format!("{path} does not take {method}"))
    }

    /// 408: the request did not arrive in time.
    pub fn request_timeout() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "request-timeout", "The request took too long")
    }

    /// 409: the set of a backup is not active yet.
    pub fn restoring(version: u64, waits_for: Vec<String>) -> Self {
        let detail = format!(
            "version {version}, from the backup, is not in force yet: it waits until {} confirm it, or are fenced; then policies can be changed",
            waits_for.join(", ")
        );
        Self::new(StatusCode::CONFLICT, "restore-pending", "The coordinators were restored, and regions have not confirmed it yet")
            .detail(detail)
            .member("version", version)
            .member("waits_for", waits_for)
            .again()
    }

    /// A backup that was not taken: 409 if the cluster has policies of its own, else 400.
    pub fn not_restored(why: &NotRestored) -> Self {
        let detail = why.to_string();
        match why {
            NotRestored::InUse { .. } => {
                Self::new(StatusCode::CONFLICT, "cluster-in-use", "The cluster has policies of its own").detail(detail)
            }
            NotRestored::Format { .. } | NotRestored::Version { .. } | NotRestored::Empty => Self::invalid_request("", detail),
        }
    }

    /// 409: the members of the cluster stay as they are.
    pub fn members_stay(why: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "members-unchanged", "The members are as they were").detail(why)
    }

    /// 412: the policy set that was to be replaced is not the newest.
    pub fn version_conflict(asked: &str, newest: u64) -> Self {
        let asked: String = asked.chars().take(64).collect();
        Self::new(StatusCode::PRECONDITION_FAILED, "precondition-failed", "The policy set has changed meanwhile")
            .detail(format!("If-Match says {asked}, the newest version is {newest}: read it, merge, and send again"))
            .member("version", newest)
    }

    /// 413.
    pub fn too_large(limit: usize) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body-too-large", "The body is too large").detail(format!("at most {limit} bytes"))
    }

    /// 415.
    pub fn unsupported_type(got: Option<&str>, wanted: &str) -> Self {
        let got: String = got.unwrap_or("none").chars().take(100).collect();
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported-content-type", "Another content type is needed")
            .detail(format!("the content type is {got}; send {wanted}"))
    }

    /// 428: a write without the version that it is to replace.
    pub fn precondition_required(newest: u64) -> Self {
        Self::new(StatusCode::PRECONDITION_REQUIRED, "precondition-required", "If-Match is needed")
            .detail(format!("name the version that is to be replaced, so that no change is lost: If-Match: \"{newest}\" is the newest"))
            .member("version", newest)
    }

    /// 500: a bug of ours.
    pub fn internal(detail: &str) -> Self {
        tracing::error!(detail, "internal error");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal-error", "This is our mistake").detail(detail)
    }

    /// 503: nobody leads, so nothing can be decided.
    pub fn no_leader(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "no-leader", "No leader").detail(detail).again()
    }

    /// 503: it may be done, or not.
    pub fn outcome_unknown(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "outcome-unknown", "It is not known whether it was done").detail(detail).again()
    }

    /// 503: this process is about to end.
    pub fn stopped(detail: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "node-stopped", "This node has stopped").detail(detail).again()
    }

    /// 503 of `/readyz`, and of what needs a cluster that is not there yet.
    pub fn not_ready(detail: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "not-ready", "Not ready").detail(detail).again()
    }

    /// 503: there is more to do than this node does at once. Nothing was done.
    pub fn overloaded(detail: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", "Too much at once").detail(detail).again()
    }

    /// 503: as many event streams as there may be.
    pub fn too_many_streams(limit: usize) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "too-many-streams", "Too many event streams")
            .detail(format!("{limit} are open; close one, or ask another coordinator"))
            .again()
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Parts { status, problem, members, headers } = *self.0;
        let body = serde_json::to_vec(&Body { problem: &problem, members: &members }).unwrap_or_default();
        (status, headers, [(CONTENT_TYPE, PROBLEM_JSON)], body).into_response()
    }
}

/// The answer where a handler panicked. What it said is for the log.
pub fn of_panic(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    tracing::error!(panic = text.unwrap_or("?"), "a request handler panicked");
    Refusal::internal("the request could not be answered; the log says more").into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Refusal {
        /// The last segment of its type.
        pub(in crate::http) fn kind(&self) -> &str {
            self.0.problem.kind.rsplit('/').next().unwrap_or_default()
        }
    }

    #[tokio::test]
    async fn a_panic_is_a_problem_that_tells_nothing_of_it() {
        let response = of_panic(Box::new("the secret was 7"));
        assert_eq!(
            (response.status(), &response.headers()[CONTENT_TYPE]),
            (StatusCode::INTERNAL_SERVER_ERROR, &HeaderValue::from_static(PROBLEM_JSON))
        );
        let body = axum::body::to_bytes(response.into_body(), 10_000).await.expect("a body");
        let problem: Problem = serde_json::from_slice(&body).expect("a problem");
        assert!(problem.kind.ends_with("/internal-error") && !problem.to_string().contains("secret"), "{problem}");
    }

    #[test]
    fn members_of_a_type_stand_beside_the_standard_ones() {
        let Refusal(parts) = Refusal::version_conflict("\"2\"", 3);
        let body = serde_json::to_value(Body { problem: &parts.problem, members: &parts.members }).expect("JSON");
        assert_eq!(body["type"], "https://quorate.dev/problems/precondition-failed");
        assert_eq!((&body["status"], &body["version"]), (&412.into(), &3.into()));
    }
}
