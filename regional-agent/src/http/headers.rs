//! `RateLimit-Policy` and `RateLimit`, by draft-ietf-httpapi-ratelimit-headers-10.
//!
//! Both are Lists (RFC 9651) with one String item for each policy that matched: its name, with
//! `q` (what the region may save up, in whole tokens), `w` (seconds in which an empty bucket
//! fills), `r` (whole tokens left) and `t` (seconds until the bucket is full).
//!
//! A policy without a bucket to speak of, because the store cannot be asked, is left out. In a
//! refusal `t` is at most the true wait, so at most `Retry-After`, which the draft wants not to be
//! earlier: some quota is back by then.

use super::answer::seconds_up;
use crate::decide::PolicyDecision;
use axum::http::{HeaderName, HeaderValue};
use quorate_limiter::decision::LimitDecision;
use sfv::{Integer, KeyRef, ListSerializer, StringRef};

/// `RateLimit-Policy`.
pub const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// `RateLimit`.
pub const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
/// `Quorate-Problem`: the body of a refusal, where a gateway hands on header fields only.
pub const PROBLEM: HeaderName = HeaderName::from_static("quorate-problem");
const X_RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RATELIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Both fields, where there is something to say.
#[derive(Clone, Debug, Default)]
pub struct RateLimitFields {
    /// `RateLimit-Policy`.
    pub policy: Option<HeaderValue>,
    /// `RateLimit`.
    pub limit: Option<HeaderValue>,
}

impl RateLimitFields {
    /// The fields of a response; of a refusal with the true wait, in whole seconds.
    pub fn of(limits: &[PolicyDecision], retry_after: Option<u64>) -> Self {
        // what is written here is short ASCII, so none of this fails
        Self::written(limits, retry_after).unwrap_or_default()
    }

    fn written(limits: &[PolicyDecision], retry_after: Option<u64>) -> Result<Self, sfv::Error> {
        let (q, w, r, t) = (KeyRef::from_str("q")?, KeyRef::from_str("w")?, KeyRef::from_str("r")?, KeyRef::from_str("t")?);
        let (mut policies, mut states) = (ListSerializer::new(), ListSerializer::new());
        for (limit, decision) in limits.iter().filter_map(|limit| Some((limit, limit.decision?))) {
            let name = StringRef::from_str(limit.policy.as_str())?;
            let quota = integer(decision.capacity.burst.tokens_floor());
            _ = policies.bare_item(name).parameter(q, quota).parameter(w, integer(limit.limit.window_seconds()));
            let state = states.bare_item(name).parameter(r, integer(decision.remaining.tokens_floor()));
            if let Some(seconds) = reset_seconds(&decision, retry_after) {
                _ = state.parameter(t, integer(seconds));
            }
        }
        let value = |field: Option<String>| field.and_then(|text| HeaderValue::try_from(text).ok());
        Ok(Self { policy: value(policies.finish()), limit: value(states.finish()) })
    }
}

fn reset_seconds(decision: &LimitDecision, retry_after: Option<u64>) -> Option<u64> {
    let seconds = seconds_up(decision.reset_after?);
    Some(retry_after.map_or(seconds, |most| seconds.min(most)))
}

/// `X-RateLimit-Limit`, `-Remaining` and `-Reset` (seconds from now), for clients that know no others. Nobody ever
/// specified them; they speak of one limit, so of the one that is enforced of which the least is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegacyFields {
    limit: u64,
    remaining: u64,
    reset: Option<u64>,
}

impl LegacyFields {
    /// The fields of a response; of a refusal with the wait that is told, in whole seconds. None where no limit is known.
    pub fn of(limits: &[PolicyDecision], retry_after: Option<u64>) -> Option<Self> {
        let known = limits.iter().filter(|limit| limit.enforced).filter_map(|limit| limit.decision);
        let least = known.min_by_key(|decision| decision.remaining)?;
        let (limit, remaining) = (least.capacity.burst.tokens_floor(), least.remaining.tokens_floor());
        Some(Self { limit, remaining, reset: retry_after.or_else(|| reset_seconds(&least, None)) })
    }

    /// As names and values.
    pub fn fields(self) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
        let reset = self.reset.map(|seconds| (X_RATELIMIT_RESET, seconds.into()));
        [(X_RATELIMIT_LIMIT, self.limit.into()), (X_RATELIMIT_REMAINING, self.remaining.into())].into_iter().chain(reset)
    }
}

/// Structured fields hold 15 digits.
fn integer(number: u64) -> Integer {
    Integer::try_from(number).unwrap_or(Integer::MAX)
}
