//! `ShouldRateLimit`: requests in, verdicts out.

use crate::told::{Told, policy, request, tokens};
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride;
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitResponse;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{Code, DescriptorStatus};
use quorate_agent::decide::{DecideError, PolicyDecision};
use quorate_limiter::decision::LimitDecision;
use quorate_limiter::matching::descriptors::{MetBy, OtherUnit};
use quorate_shared::api::DecisionMode;
use quorate_shared::policy::{Limit, RateUnit};
use std::sync::Arc;
use std::time::Duration;
use tonic::Code as Grpc;

const SECOND: Duration = Duration::from_secs(1);

/// Code, name, requests, unit, left, seconds.
type Shown<'a> = (Code, &'a str, u32, Unit, u32, i64);

fn shown(status: &DescriptorStatus) -> Shown<'_> {
    let limit = status.current_limit.as_ref().expect("a limit");
    let seconds = status.duration_until_reset.map_or(-1, |span| span.seconds);
    (status.code(), &limit.name, limit.requests_per_unit, limit.unit(), status.limit_remaining, seconds)
}

fn headers(response: &RateLimitResponse) -> Vec<(&str, &str)> {
    response.response_headers_to_add.iter().map(|header| (header.key.as_str(), header.value.as_str())).collect()
}

async fn answered(told: &Arc<Told>, descriptors: &[&[(&str, &str)]]) -> RateLimitResponse {
    told.should_rate_limit(request(descriptors)).await.expect("an answer")
}

#[tokio::test]
async fn an_allowed_request_is_told_what_is_left_of_each_descriptor() {
    let second = PolicyDecision { met_by: MetBy::only(1), ..policy("by-path", 7, None) };
    let told = Told::of(true, vec![policy("by-tenant", 41, None), second]);
    let response = answered(&told, &[&[("tenant", "acme")], &[("path", "/")], &[("other", "x")]]).await;
    assert_eq!(response.overall_code(), Code::Ok);
    assert_eq!(shown(&response.statuses[0]), (Code::Ok, "by-tenant", 100, Unit::Minute, 41, 21));
    assert_eq!(shown(&response.statuses[1]), (Code::Ok, "by-path", 100, Unit::Minute, 7, 21));
    let unlimited = DescriptorStatus { code: Code::Ok.into(), limit_remaining: u32::MAX, ..DescriptorStatus::default() };
    assert_eq!(response.statuses[2..], [unlimited], "nothing limits it");
    let expected = [
        ("ratelimit-policy", "\"by-tenant\";q=100;w=60, \"by-path\";q=100;w=60"),
        ("ratelimit", "\"by-tenant\";r=41;t=21, \"by-path\";r=7;t=21"),
    ];
    assert_eq!(headers(&response), expected);
    let asked = told.asked.lock().unwrap();
    assert_eq!(asked[0].descriptors[1].attributes, [("domain", "edge"), ("path", "/")].map(|(n, v)| (n.into(), v.into())).into());
}

#[tokio::test]
async fn a_refused_request_is_told_by_whom_and_for_how_long() {
    let over = PolicyDecision { met_by: MetBy::only(1), ..policy("by-path", 0, Some(Duration::from_millis(1500))) };
    let told = Told::of(false, vec![policy("by-tenant", 41, None), over]);
    let response = answered(&told, &[&[("tenant", "acme")], &[("path", "/")]]).await;
    assert_eq!(response.overall_code(), Code::OverLimit);
    // what may be granted more in a window waits for a heartbeat at least
    assert_eq!(shown(&response.statuses[0]), (Code::Ok, "by-tenant", 100, Unit::Minute, 41, 21));
    assert_eq!(shown(&response.statuses[1]), (Code::OverLimit, "by-path", 100, Unit::Minute, 0, 2));
    let expected = [
        ("ratelimit-policy", "\"by-tenant\";q=100;w=60, \"by-path\";q=100;w=60"),
        ("ratelimit", "\"by-tenant\";r=41;t=2, \"by-path\";r=0;t=2"),
        ("retry-after", "2"),
    ];
    assert_eq!(headers(&response), expected);
}

#[tokio::test]
async fn of_several_limits_a_descriptor_shows_the_tightest() {
    let of = async |limits| answered(&Told::of(true, limits), &[&[("a", "b")]]).await.statuses;
    assert_eq!(shown(&of(vec![policy("wide", 41, None), policy("narrow", 3, None)]).await[0]).1, "narrow");
    let refused = of(vec![policy("soon", 0, Some(SECOND)), policy("late", 0, Some(9 * SECOND)), policy("left", 0, None)]).await;
    assert_eq!((shown(&refused[0]).0, shown(&refused[0]).1), (Code::OverLimit, "late"));
}

#[tokio::test]
async fn two_budgets_of_one_policy_are_one_item_in_each_field() {
    let second = PolicyDecision { met_by: MetBy::only(1), ..policy("by-tenant", 7, None) };
    let response = answered(&Told::of(true, vec![policy("by-tenant", 41, None), second]), &[&[("t", "a")], &[("t", "b")]]).await;
    assert_eq!(headers(&response)[1], ("ratelimit", "\"by-tenant\";r=7;t=21"));
    assert_eq!([response.statuses[0].limit_remaining, response.statuses[1].limit_remaining], [41, 7]);
}

#[tokio::test]
async fn what_only_observes_is_told_and_refuses_nothing() {
    let watched = PolicyDecision { enforced: false, ..policy("watched", 0, Some(SECOND)) };
    let response = answered(&Told::of(true, vec![watched]), &[&[("a", "b")]]).await;
    assert_eq!(response.overall_code(), Code::Ok);
    assert_eq!(shown(&response.statuses[0]), (Code::Ok, "watched", 100, Unit::Minute, 0, 21));
}

#[tokio::test]
async fn what_never_fits_is_refused_without_a_word_of_when() {
    let big = PolicyDecision { cost: tokens(101), ..policy("big", 50, Some(SECOND)) };
    let response = answered(&Told::of(false, vec![big]), &[&[("a", "b")]]).await;
    assert_eq!(response.statuses[0].code(), Code::OverLimit);
    assert!(headers(&response).iter().all(|(name, _)| *name != "retry-after"));
}

#[tokio::test]
async fn a_period_that_is_no_unit_is_not_made_one() {
    let ten_seconds = Limit::TokenBucket { rate: tokens(5), period: 10 * SECOND, burst: tokens(20) };
    let limits = vec![PolicyDecision { limit: ten_seconds, ..policy("bucket", 12, None) }];
    let response = answered(&Told::of(true, limits), &[&[("a", "b")]]).await;
    assert_eq!(shown(&response.statuses[0]), (Code::Ok, "bucket", 5, Unit::Unknown, 12, 21));
}

#[tokio::test]
async fn a_limit_of_its_own_is_shown_in_its_own_requests() {
    let told = Told::of(true, vec![policy("by-tenant", 50, None)]);
    let mut own = request(&[&[("tenant", "acme")]]);
    own.descriptors[0].limit = Some(RateLimitOverride { requests_per_unit: 20, unit: 2 });
    let response = told.should_rate_limit(own).await.expect("an answer");
    assert_eq!(shown(&response.statuses[0]), (Code::Ok, "by-tenant", 20, Unit::Minute, 10, 21));
}

#[tokio::test]
async fn a_closed_policy_refuses_without_its_store() {
    let reason = "connection refused to 10.0.0.7".to_owned();
    let closed = DecideError::StoreUnavailable { policies: vec!["a".parse().unwrap()], retry_after: SECOND, reason: reason.clone() };
    let response = answered(&Told::to_say(Err(closed)), &[&[("a", "b")], &[("c", "d")]]).await;
    assert_eq!((response.overall_code(), headers(&response)), (Code::OverLimit, vec![("retry-after", "1")]));
    assert!(response.statuses.len() == 2 && response.statuses.iter().all(|s| s.code() == Code::OverLimit && s.current_limit.is_none()));
    let unknown = DecideError::StoreUnavailable { policies: vec![], retry_after: SECOND, reason };
    let error = Told::to_say(Err(unknown)).should_rate_limit(request(&[&[("a", "b")]])).await.expect_err("no answer");
    assert_eq!((error.code(), error.message().contains("10.0.0.7")), (Grpc::Unavailable, false), "{error}");
}

#[tokio::test]
async fn an_open_policy_passes_and_says_nothing_of_its_limit() {
    let open = PolicyDecision { mode: DecisionMode::Open, decision: None::<LimitDecision>, ..policy("open", 0, None) };
    let response = answered(&Told::of(true, vec![open]), &[&[("a", "b")]]).await;
    assert_eq!((response.overall_code(), response.statuses[0].clone()), (Code::Ok, DescriptorStatus { code: 1, ..Default::default() }));
    assert!(headers(&response).is_empty());
}

#[tokio::test]
async fn errors_say_what_is_wrong() {
    let code = async |told: Arc<Told>, request| told.should_rate_limit(request).await.expect_err("an error").code();
    let allowing = || Told::of(true, vec![]);
    let good = || request(&[&[("a", "b")]]);
    assert_eq!(code(allowing(), request(&[])).await, Grpc::InvalidArgument);
    let mut bad_limit = good();
    bad_limit.descriptors[0].limit = Some(RateLimitOverride { requests_per_unit: 20, unit: 0 });
    assert_eq!(code(allowing(), bad_limit).await, Grpc::InvalidArgument);
    let mut negative = good();
    negative.descriptors[0].is_negative_hits = true;
    assert_eq!(code(allowing(), negative).await, Grpc::Unimplemented);
    let limit = policy("a", 0, None).limit;
    let other = DecideError::OtherUnit(OtherUnit { policy: "a".parse().unwrap(), limit, unit: RateUnit::Hour });
    assert_eq!(code(Told::to_say(Err(other)), good()).await, Grpc::InvalidArgument);
    assert_eq!(code(Told::to_say(Err(DecideError::NoPolicies)), good()).await, Grpc::Unavailable);
    assert_eq!(code(allowing(), request(&[&[("panic", "")]])).await, Grpc::Internal);
    let long = "v".repeat(64 * 1024);
    let pairs: Vec<(String, &str)> = (0..17).map(|n| (format!("k{n}"), long.as_str())).collect();
    let pairs: Vec<(&str, &str)> = pairs.iter().map(|(key, value)| (key.as_str(), *value)).collect();
    assert_eq!(code(allowing(), request(&[&pairs])).await, Grpc::OutOfRange, "larger than a request may be");
}
