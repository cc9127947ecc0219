//! Answers to checks: status, header fields and body.
//!
//! | verdict | answer |
//! |---|---|
//! | allowed, or nothing matched | 200 with [`CheckAnswer`] |
//! | refused, but the cost may fit later | 429 `quota-exceeded`, `Retry-After` |
//! | the cost exceeds what the region could ever hold | 422 `cost-exceeds-limit` |
//! | the store cannot be asked, and a policy is closed then | 503 `limiter-unavailable`, `Retry-After` |
//!
//! What a client may take is rounded down and how long it has to wait is rounded up, so that
//! waiting exactly that long is enough; what is told is a little longer ([`super::waiting`]). Where the region's present share cannot hold the cost, but
//! with what others may lend it could, the wait is until capacity has moved and refilled.

use super::headers::{LegacyFields, PROBLEM, RATELIMIT, RATELIMIT_POLICY, RateLimitFields};
use super::problems;
use super::waiting::Waiting;
use crate::decide::{DecideError, PolicyDecision, Verdict, longest_wait};
use axum::body::Bytes;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use quorate_limiter::hold::{HoldId, Settled};
use quorate_shared::api::{CheckAnswer, LimitState, ReleaseAnswer, SettleAnswer};
use quorate_shared::problem::{PROBLEM_JSON, Problem};
use quorate_shared::units::{MAX_EXACT, MicroTokens};
use serde::Serialize;
use std::time::Duration;

/// One answer. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Answer {
    status: StatusCode,
    media_type: &'static str,
    /// Whole seconds, at least 1.
    retry_after: Option<u64>,
    fields: RateLimitFields,
    legacy: Option<LegacyFields>,
    /// True if a problem is in a header field as well.
    repeats_problem: bool,
    body: Bytes,
    /// What it tells of, if it tells of slots.
    slot: Option<HoldId>,
}

impl Answer {
    /// The answer that `verdict` means.
    pub fn of_verdict(verdict: &Verdict, waiting: &Waiting) -> Self {
        if verdict.allowed {
            return Self::allowed(verdict);
        }
        match verdict.limits.iter().find(|limit| limit.refuses() && limit.never_fits()) {
            Some(limit) => Self::too_costly(limit, &verdict.limits),
            None => Self::refused(&verdict.limits, waiting),
        }
    }

    /// The answer where there is no verdict on the request at `place` of the body.
    pub fn of_error(error: &DecideError, waiting: &Waiting, place: &str) -> Self {
        let (policies, wait) = match error {
            DecideError::StoreUnavailable { policies, retry_after, .. } => (policies.as_slice(), *retry_after),
            DecideError::NoPolicies => (&[][..], waiting.unknown),
            DecideError::OtherContent => return Self::problem(problems::reused_request_id(place)),
            DecideError::OtherUnit(other) => return Self::problem(problems::invalid_limit(place, other)),
            DecideError::BeyondSettlement { most } => return Self::problem(problems::settlement_exceeds_limit(*most)),
        };
        let mut problem = problems::limiter_unavailable();
        problem.policy = policies.first().map(ToString::to_string);
        Self::to_wait(problem, wait, waiting)
    }

    /// The answer to a settlement; `None`: there is no such reservation any more.
    pub fn of_settlement(settled: Option<Settled>) -> Self {
        let Some(settled) = settled else { return Self::problem(problems::reservation_ended()) };
        let up = |owed: MicroTokens| owed.0.div_ceil(MicroTokens::TOKEN.0);
        let (cost, returned, owed) = (settled.cost.tokens_floor(), settled.returned.tokens_floor(), up(settled.owed));
        Self::ok(json(&SettleAnswer { settled: true, cost, returned, owed }), RateLimitFields::default())
    }

    /// The answer to a release.
    pub fn of_release(released: bool) -> Self {
        Self::ok(json(&ReleaseAnswer { released }), RateLimitFields::default())
    }

    /// The answer to an array of checks: `[{"status": …, "body": …}, …]`.
    pub fn of_many(answers: &[Self]) -> Self {
        let mut body = Vec::with_capacity(answers.iter().map(|a| a.body.len() + 32).sum());
        for answer in answers {
            body.extend_from_slice(if body.is_empty() { b"[{\"status\":" } else { b",{\"status\":" });
            body.extend_from_slice(answer.status.as_str().as_bytes());
            body.extend_from_slice(b",\"body\":");
            body.extend_from_slice(&answer.body);
            body.push(b'}');
        }
        body.extend_from_slice(if body.is_empty() { b"[]" } else { b"]" });
        Self::ok(body.into(), RateLimitFields::default())
    }

    /// By what the slots are given back that it tells of.
    pub(super) const fn slot(&self) -> Option<HoldId> {
        self.slot
    }

    /// A problem, without a word on when to try again.
    pub fn problem(problem: Problem) -> Self {
        Self {
            status: StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            media_type: PROBLEM_JSON,
            retry_after: None,
            fields: RateLimitFields::default(),
            legacy: None,
            repeats_problem: false,
            body: json(&problem),
            slot: None,
        }
    }

    fn ok(body: Bytes, fields: RateLimitFields) -> Self {
        let (media_type, repeats_problem) = ("application/json", false);
        Self { status: StatusCode::OK, media_type, retry_after: None, fields, legacy: None, repeats_problem, body, slot: None }
    }

    /// The same with `X-RateLimit-…` fields, for old clients.
    #[must_use]
    pub fn with_legacy_fields(mut self, verdict: &Verdict) -> Self {
        self.legacy = LegacyFields::of(&verdict.limits, self.retry_after);
        self
    }

    /// The same; a problem is in a header field as well, for a gateway that hands on no body.
    #[must_use]
    pub fn with_problem_in_a_field(mut self) -> Self {
        self.repeats_problem = self.media_type == PROBLEM_JSON;
        self
    }

    fn allowed(verdict: &Verdict) -> Self {
        let answer = CheckAnswer {
            decision: "allow".to_owned(),
            limits: verdict.limits.iter().map(limit_state).collect(),
            slot: verdict.slot.map(|id| id.to_string()),
            reservation: verdict.reservation.map(|id| id.to_string()),
        };
        Self { slot: verdict.slot, ..Self::ok(json(&answer), RateLimitFields::of(&verdict.limits, None)) }
    }

    fn too_costly(limit: &PolicyDecision, limits: &[PolicyDecision]) -> Self {
        let detail = format!("The cost is {}; policy {} never holds more than {}.", limit.cost, limit.policy, limit.reach);
        let mut problem = problems::cost_exceeds_limit().detail(detail);
        problem.policy = Some(limit.policy.to_string());
        Self { fields: RateLimitFields::of(limits, None), ..Self::problem(problem) }
    }

    fn refused(limits: &[PolicyDecision], waiting: &Waiting) -> Self {
        let longest = longest_wait(limits, waiting.unknown);
        let mut problem = problems::quota_exceeded();
        problem.policy = longest.map(|(limit, _)| limit.policy.to_string());
        problem.violated_policies = limits.iter().filter(|limit| limit.refuses()).map(|limit| limit.policy.to_string()).collect();
        let true_wait = longest.map_or(waiting.unknown, |(_, wait)| wait);
        let fields = RateLimitFields::of(limits, Some(seconds_up(true_wait).max(1)));
        Self { fields, ..Self::to_wait(problem, true_wait, waiting) }
    }

    fn to_wait(mut problem: Problem, wait: Duration, waiting: &Waiting) -> Self {
        let said = waiting.said(wait);
        problem.retry_after_ms = Some(millis_up(said).max(1));
        Self { retry_after: Some(seconds_up(said).max(1)), ..Self::problem(problem) }
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        // compact JSON has no control characters, so it fits into a field
        let problem = self.repeats_problem.then(|| HeaderValue::from_bytes(&self.body)).and_then(Result::ok);
        let mut response = (self.status, self.body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.media_type));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if let Some(policy) = self.fields.policy {
            headers.insert(RATELIMIT_POLICY, policy);
        }
        if let Some(limit) = self.fields.limit {
            headers.insert(RATELIMIT, limit);
        }
        headers.extend(self.legacy.into_iter().flat_map(LegacyFields::fields));
        if let Some(problem) = problem {
            headers.insert(PROBLEM, problem);
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// A policy whose store cannot be asked shows its whole limit and nothing left: its `mode` says why.
fn limit_state(limit: &PolicyDecision) -> LimitState {
    let (burst, remaining, reset_after) = match &limit.decision {
        Some(d) => (d.capacity.burst, d.remaining.tokens_floor(), d.reset_after),
        None => (limit.limit.capacity().burst, 0, Some(Duration::ZERO)),
    };
    LimitState {
        policy: limit.policy.to_string(),
        limit: burst.tokens_floor(),
        remaining,
        reset_after_ms: reset_after.map_or(MAX_EXACT, millis_up),
        mode: limit.mode,
        observed: !limit.enforced && limit.decision.is_some_and(|d| !d.fits),
    }
}

/// What is written here has no keys but strings and no writer but memory, so this does not fail.
fn json(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).map(Bytes::from).unwrap_or_default()
}

/// Whole seconds, rounded up.
pub(crate) fn seconds_up(span: Duration) -> u64 {
    span.as_secs().saturating_add(u64::from(span.subsec_nanos() > 0))
}

/// Whole milliseconds, rounded up; at most what every JSON reader holds exactly.
fn millis_up(span: Duration) -> u64 {
    let millis = span.as_nanos().div_ceil(1_000_000);
    u64::try_from(millis).unwrap_or(MAX_EXACT).min(MAX_EXACT)
}
