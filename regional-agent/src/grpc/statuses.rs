//! A verdict in the words of a `RateLimitResponse`.
//!
//! A descriptor's status is that of one limit of those that it met: of the one that it has to wait for longest, or else of
//! the one with the fewest tokens left. One that met none is [`UNLIMITED`]. Requests that are left are rounded down, and
//! spans up to whole seconds, of which there is at least one.

use crate::decide::{PolicyDecision, Verdict, longest_wait};
use crate::http::answer::seconds_up;
use crate::http::headers::{RATELIMIT, RATELIMIT_POLICY, RateLimitFields};
use crate::http::waiting::Waiting;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderName, HeaderValue};
use envoy_types::pb::envoy::config::core::v3::HeaderValue as NewHeader;
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitResponse;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{Code, DescriptorStatus, RateLimit};
use envoy_types::pb::google::protobuf;
use quorate_limiter::matching::descriptors::{Descriptor, OwnLimit};
use quorate_shared::policy::RateUnit;
use std::time::Duration;

/// `limit_remaining` where nothing limits.
pub const UNLIMITED: u32 = u32::MAX;

/// The response that a verdict on these descriptors means.
pub fn of_verdict(verdict: &Verdict, descriptors: &[Descriptor], waiting: &Waiting) -> RateLimitResponse {
    let statuses = descriptors.iter().enumerate().map(|(place, descriptor)| {
        let met = verdict.limits.iter().filter(|limit| limit.met_by.contains(place));
        status(met, descriptor.limit, waiting)
    });
    RateLimitResponse {
        overall_code: code(verdict.allowed).into(),
        statuses: statuses.collect(),
        response_headers_to_add: headers(verdict, waiting),
        ..RateLimitResponse::default()
    }
}

/// The response where the region's store cannot be asked, and a policy refuses then.
pub fn closed(descriptors: usize, wait: Duration, waiting: &Waiting) -> RateLimitResponse {
    let refused = DescriptorStatus { code: Code::OverLimit.into(), ..DescriptorStatus::default() };
    RateLimitResponse {
        overall_code: Code::OverLimit.into(),
        statuses: vec![refused; descriptors],
        response_headers_to_add: vec![retry_after(wait, waiting)],
        ..RateLimitResponse::default()
    }
}

const fn code(allowed: bool) -> Code {
    if allowed { Code::Ok } else { Code::OverLimit }
}

fn status<'a>(met: impl Iterator<Item = &'a PolicyDecision>, own: Option<OwnLimit>, waiting: &Waiting) -> DescriptorStatus {
    let met: Vec<&PolicyDecision> = met.collect();
    let allowed = !met.iter().any(|limit| limit.refuses());
    let wait = |limit: &PolicyDecision| if limit.refuses() { limit.wait(waiting.unknown) } else { Duration::ZERO };
    let remaining = |limit: &PolicyDecision| limit.decision.map(|decision| decision.remaining);
    let known = met.iter().filter(|limit| limit.decision.is_some());
    let Some(tightest) = known.min_by_key(|limit| (std::cmp::Reverse(wait(limit)), remaining(limit))) else {
        // of a policy that is open without its store nothing is known, but that it is there
        let limit_remaining = if met.is_empty() { UNLIMITED } else { 0 };
        return DescriptorStatus { code: code(allowed).into(), limit_remaining, ..DescriptorStatus::default() };
    };
    DescriptorStatus {
        code: code(allowed).into(),
        current_limit: Some(current_limit(tightest, own)),
        limit_remaining: saturating(requests_left(tightest, own)),
        duration_until_reset: until_reset(tightest, waiting),
        quota: None,
    }
}

fn current_limit(limit: &PolicyDecision, own: Option<OwnLimit>) -> RateLimit {
    let whole = limit.limit.amount(limit.limit.capacity()).tokens_floor();
    RateLimit {
        name: limit.policy.to_string(),
        requests_per_unit: own.map_or_else(|| saturating(whole), |own| own.requests),
        unit: limit.limit.unit().map_or(Unit::Unknown, unit).into(),
    }
}

fn requests_left(limit: &PolicyDecision, own: Option<OwnLimit>) -> u64 {
    let left = limit.decision.filter(|decision| decision.fits).map(|decision| decision.remaining).unwrap_or_default();
    own.map_or_else(|| left.tokens_floor(), |own| own.requests_in(left, limit.limit))
}

/// Until the same request would fit, of a limit that refuses it; else until nothing of the limit is used.
fn until_reset(limit: &PolicyDecision, waiting: &Waiting) -> Option<protobuf::Duration> {
    let span = match limit.refuses() && !limit.never_fits() {
        true => Some(limit.wait(waiting.unknown)),
        false => limit.decision.and_then(|decision| decision.reset_after),
    };
    let seconds = i64::try_from(seconds_up(span?).max(1)).unwrap_or(i64::MAX);
    Some(protobuf::Duration { seconds, nanos: 0 })
}

const fn unit(unit: RateUnit) -> Unit {
    match unit {
        RateUnit::Second => Unit::Second,
        RateUnit::Minute => Unit::Minute,
        RateUnit::Hour => Unit::Hour,
        RateUnit::Day => Unit::Day,
        RateUnit::Week => Unit::Week,
        RateUnit::Month => Unit::Month,
        RateUnit::Year => Unit::Year,
    }
}

fn saturating(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The header fields that the HTTP front door sends too.
fn headers(verdict: &Verdict, waiting: &Waiting) -> Vec<NewHeader> {
    let limits = one_of_each_policy(&verdict.limits);
    let never = limits.iter().any(|limit| limit.refuses() && limit.never_fits());
    let wait = longest_wait(&limits, waiting.unknown).filter(|_| !never).map(|(_, wait)| wait);
    let fields = RateLimitFields::of(&limits, wait.map(|wait| seconds_up(wait).max(1)));
    let fields = [(RATELIMIT_POLICY, fields.policy), (RATELIMIT, fields.limit)];
    let told = fields.into_iter().filter_map(|(name, value)| header(&name, &value?));
    told.chain(wait.map(|wait| retry_after(wait, waiting))).collect()
}

/// A policy has one item in each field, though several of its budgets may have been met: the one that is left the least.
fn one_of_each_policy(limits: &[PolicyDecision]) -> Vec<PolicyDecision> {
    let mut of_each: Vec<PolicyDecision> = Vec::with_capacity(limits.len());
    let left = |limit: &PolicyDecision| (!limit.refuses(), limit.decision.map(|decision| decision.remaining));
    for limit in limits {
        match of_each.iter_mut().find(|known| known.policy == limit.policy) {
            Some(known) if left(limit) < left(known) => *known = limit.clone(),
            Some(_) => {}
            None => of_each.push(limit.clone()),
        }
    }
    of_each
}

fn retry_after(wait: Duration, waiting: &Waiting) -> NewHeader {
    let seconds = seconds_up(waiting.said(wait)).max(1);
    NewHeader { key: RETRY_AFTER.as_str().to_owned(), value: seconds.to_string(), raw_value: Vec::new() }
}

fn header(name: &HeaderName, value: &HeaderValue) -> Option<NewHeader> {
    Some(NewHeader { key: name.as_str().to_owned(), value: value.to_str().ok()?.to_owned(), raw_value: Vec::new() })
}
