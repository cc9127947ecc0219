//! `StreamRateLimitQuotas`: gateways that spend parts of a purse by themselves.

use crate::told::{Told, policy, tokens};
use axum::Router;
use envoy_types::pb::envoy::service::rate_limit_quota::v3::rate_limit_quota_response::bucket_action::BucketAction as Action;
use envoy_types::pb::envoy::service::rate_limit_quota::v3::rate_limit_quota_service_client::RateLimitQuotaServiceClient;
use envoy_types::pb::envoy::service::rate_limit_quota::v3::rate_limit_quota_usage_reports::BucketQuotaUsage;
use envoy_types::pb::envoy::service::rate_limit_quota::v3::{BucketId, RateLimitQuotaResponse, RateLimitQuotaUsageReports};
use envoy_types::pb::envoy::r#type::v3::rate_limit_strategy::{BlanketRule, Strategy};
use futures_util::stream;
use quorate_agent::decide::{DecideError, PolicyDecision, Request, Verdict};
use quorate_agent::grpc::router;
use quorate_agent::http::{Decider, FrontDoor};
use quorate_limiter::decision::LimitDecision;
use quorate_limiter::hold::{HoldId, Settled};
use quorate_shared::api::AgentStatus;
use quorate_shared::policy::Limit;
use quorate_shared::units::MicroTokens;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status, Streaming};

/// Decides by a purse of tokens, and remembers what was drawn of it and not settled.
struct Purse {
    inside: Mutex<u64>,
    out: Mutex<BTreeMap<u128, u64>>,
    limit: Limit,
    /// What one request costs.
    each: u64,
    /// The bound has no term for its gateways yet; a permit for each time that was asked.
    unknown: AtomicBool,
    has_asked: Semaphore,
}

impl Purse {
    fn of(inside: u64) -> Arc<Self> {
        let rate = tokens(100);
        let limit = Limit::TokenBucket { rate, period: Duration::from_secs(1), burst: rate };
        Arc::new(Self {
            inside: Mutex::new(inside),
            out: Mutex::default(),
            limit,
            each: 1,
            unknown: AtomicBool::new(false),
            has_asked: Semaphore::new(0),
        })
    }

    fn has(&self) -> (u64, u64) {
        (*self.inside.lock().unwrap(), self.out.lock().unwrap().values().sum())
    }

    fn routes(self: &Arc<Self>) -> Router {
        router(self.clone(), &FrontDoor::default(), CancellationToken::new())
    }
}

impl Decider for Purse {
    async fn decide(&self, request: &Request) -> Result<Verdict, DecideError> {
        let descriptor = &request.descriptors[0];
        assert_eq!(descriptor.attributes["domain"], "edge");
        if descriptor.attributes.contains_key("free") {
            return Ok(Verdict { allowed: true, limits: vec![], reservation: None, slot: None });
        }
        let cost = descriptor.cost.map_or(self.each * descriptor.times.unwrap_or(1), MicroTokens::tokens_floor);
        let mut inside = self.inside.lock().unwrap();
        let fits = cost <= *inside;
        let mut hold = None;
        if fits && request.reserve.is_some() {
            *inside -= cost;
            let mut out = self.out.lock().unwrap();
            let id = out.len() as u128 + 1;
            out.insert(id, cost);
            hold = Some(HoldId::from_bits(id));
        }
        let told = policy("p", *inside, (!fits).then_some(Duration::from_secs(1)));
        let decision = told.decision.map(|d| LimitDecision { reset_after: Some(Duration::from_secs(60)), ..d });
        let limits = vec![PolicyDecision { limit: self.limit, cost: tokens(cost), decision, ..told }];
        Ok(Verdict { allowed: fits, limits, reservation: hold, slot: None })
    }

    async fn settle(&self, hold: HoldId, cost: MicroTokens) -> Result<Option<Settled>, DecideError> {
        let id = (1..1_000).find(|id| HoldId::from_bits(*id) == hold).expect("a hold of this purse");
        let drawn = std::mem::take(self.out.lock().unwrap().get_mut(&id).expect("drawn"));
        *self.inside.lock().unwrap() += drawn.checked_sub(cost.tokens_floor()).expect("no more than was drawn");
        Ok(Some(Settled::default()))
    }

    async fn release(&self, _: HoldId) -> Result<bool, DecideError> {
        Ok(false)
    }

    fn may_assign(&self, limits: &[PolicyDecision]) -> bool {
        assert_eq!(limits.len(), 1);
        self.has_asked.add_permits(1);
        !self.unknown.load(Ordering::SeqCst)
    }

    fn status(&self) -> AgentStatus {
        Told::of(true, vec![]).status()
    }

    fn ready(&self) -> Result<(), String> {
        Ok(())
    }
}

/// A gateway with an open stream.
struct Gateway {
    reports: mpsc::Sender<RateLimitQuotaUsageReports>,
    actions: Streaming<RateLimitQuotaResponse>,
}

/// What it was told.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Part(u32),
    All,
    None,
}

fn usage(id: &[(&str, &str)], passed: u64, refused: u64) -> BucketQuotaUsage {
    let bucket = id.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    BucketQuotaUsage {
        bucket_id: Some(BucketId { bucket }),
        time_elapsed: None,
        num_requests_allowed: passed,
        num_requests_denied: refused,
    }
}

impl Gateway {
    async fn connect(routes: Router) -> Self {
        let (reports, received) = mpsc::channel(4);
        let sent = stream::unfold(received, |mut received| async move { Some((received.recv().await?, received)) });
        let actions = RateLimitQuotaServiceClient::new(routes).stream_rate_limit_quotas(sent).await.unwrap().into_inner();
        Self { reports, actions }
    }

    async fn send(&mut self, domain: &str, usage: BucketQuotaUsage) -> Result<RateLimitQuotaResponse, Status> {
        let report = RateLimitQuotaUsageReports { domain: domain.into(), bucket_quota_usages: vec![usage] };
        self.reports.send(report).await.unwrap();
        Ok(self.actions.message().await?.expect("an answer"))
    }

    /// Reports, and what it hears then, with what tells one part from the next.
    async fn report(&mut self, id: &[(&str, &str)], passed: u64, refused: u64) -> (Heard, i32) {
        let response = self.send("edge", usage(id, passed, refused)).await.unwrap();
        let action = response.bucket_action.into_iter().next().unwrap();
        assert_eq!(action.bucket_id, usage(id, 0, 0).bucket_id);
        let Some(Action::QuotaAssignmentAction(assignment)) = action.bucket_action else { panic!("no assignment") };
        assert_eq!(assignment.assignment_time_to_live.unwrap().seconds, 3);
        match assignment.rate_limit_strategy.unwrap().strategy.unwrap() {
            Strategy::TokenBucket(bucket) => {
                let fill = bucket.fill_interval.unwrap();
                assert!(fill.seconds > 1_000_000, "it does not refill");
                (Heard::Part(bucket.max_tokens), fill.nanos)
            }
            Strategy::BlanketRule(rule) if rule == i32::from(BlanketRule::AllowAll) => (Heard::All, 0),
            Strategy::BlanketRule(_) => (Heard::None, 0),
            Strategy::RequestsPerTimeUnit(_) => panic!("Envoy does not know it"),
        }
    }
}

const TENANT: [(&str, &str); 1] = [("tenant", "acme")];

#[tokio::test]
async fn a_gateway_gets_parts_until_nothing_is_left() {
    let purse = Purse::of(25);
    let mut gateway = Gateway::connect(purse.routes()).await;
    assert_eq!(gateway.report(&TENANT, 0, 1).await, (Heard::Part(10), 1));
    assert_eq!(purse.has(), (15, 10));
    assert_eq!(gateway.report(&TENANT, 2, 0).await, (Heard::Part(10), 1), "the same, once more");
    assert_eq!(gateway.report(&TENANT, 8, 20).await, (Heard::Part(15), 2), "all that is left");
    assert_eq!(purse.has(), (0, 15), "what was used up is settled");
    assert_eq!(gateway.report(&TENANT, 15, 5).await.0, Heard::None);
    assert_eq!(purse.has(), (0, 0));
}

#[tokio::test]
async fn nothing_is_drawn_and_nothing_said_before_the_bound_has_a_term_for_it() {
    let purse = Purse::of(25);
    purse.unknown.store(true, Ordering::SeqCst);
    let mut gateway = Gateway::connect(purse.routes()).await;
    let reports = gateway.reports.clone();
    let later = async {
        purse.has_asked.acquire().await.unwrap().forget();
        assert_eq!(purse.has(), (25, 0));
        purse.unknown.store(false, Ordering::SeqCst);
        let again = RateLimitQuotaUsageReports { domain: "edge".into(), bucket_quota_usages: vec![usage(&TENANT, 0, 4)] };
        reports.send(again).await.unwrap();
    };
    let (heard, ()) = tokio::join!(gateway.report(&TENANT, 0, 1), later);
    assert_eq!(heard, (Heard::Part(10), 1), "the first that it hears is the answer to its second report");
    assert_eq!(purse.has(), (15, 10));
}

#[tokio::test]
async fn gateways_that_want_more_than_there_is_get_the_same() {
    let purse = Purse::of(60);
    let mut all = vec![Gateway::connect(purse.routes()).await];
    for gateway in &mut all {
        gateway.report(&TENANT, 0, 1).await;
    }
    // of one front door, whose gateways share
    let routes = Purse::of(90).routes();
    let (mut one, mut two) = (Gateway::connect(routes.clone()).await, Gateway::connect(routes).await);
    assert_eq!(one.report(&TENANT, 0, 1).await.0, Heard::Part(10));
    assert_eq!(two.report(&TENANT, 0, 1).await.0, Heard::Part(10));
    // one has asked for 1000 and has none left, two for a little
    let (first, second) = (one.report(&TENANT, 10, 990).await.0, two.report(&TENANT, 10, 990).await.0);
    let part = |heard: &Heard| if let Heard::Part(part) = heard { *part } else { 0 };
    assert!(part(&first) >= 60 && part(&first) + part(&second) <= 70, "{first:?} {second:?}");
    // now both are known to want everything
    assert_eq!(part(&second), 0, "nothing is left for it yet");
}

#[tokio::test]
async fn what_costs_more_is_drawn_for_as_many_as_fit() {
    let purse = Arc::new(Purse { each: 5, ..Arc::into_inner(Purse::of(22)).unwrap() });
    let mut gateway = Gateway::connect(purse.routes()).await;
    assert_eq!(gateway.report(&TENANT, 0, 1).await.0, Heard::Part(4));
    assert_eq!(purse.has(), (2, 20));
    gateway.report(&TENANT, 4, 0).await;
    assert_eq!(purse.has(), (2, 0), "all four were used");
}

#[tokio::test]
async fn what_nothing_limits_passes_and_what_cannot_be_spent_later_does_not() {
    let purse = Purse::of(100);
    let mut gateway = Gateway::connect(purse.routes()).await;
    assert_eq!(gateway.report(&[("free", "")], 1, 0).await.0, Heard::All);
    let limit = Limit::SlidingLog { units: tokens(100), window: Duration::from_secs(60) };
    let log = Arc::new(Purse { limit, ..Arc::into_inner(Purse::of(100)).unwrap() });
    let mut gateway = Gateway::connect(log.routes()).await;
    assert_eq!(gateway.report(&TENANT, 0, 1).await.0, Heard::None);
    assert_eq!(log.has(), (100, 0));
}

#[tokio::test]
async fn a_gateway_that_goes_away_frees_its_part_when_that_has_ended() {
    let purse = Purse::of(25);
    let mut gateway = Gateway::connect(purse.routes()).await;
    gateway.report(&TENANT, 0, 1).await;
    drop(gateway);
    assert_eq!(purse.has(), (15, 10), "it may be spending it");
    let begun = std::time::Instant::now();
    while purse.has().1 > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(begun.elapsed() >= Duration::from_secs(4), "{:?}", begun.elapsed());
    assert_eq!(purse.has(), (15, 0), "nobody said what it used, so it used all");
}

#[tokio::test]
async fn what_gateways_do_is_counted_without_saying_who_they_are() {
    let door = FrontDoor::default();
    let routes = router(Purse::of(12), &door, CancellationToken::new());
    let mut gateway = Gateway::connect(routes.clone()).await;
    gateway.report(&TENANT, 0, 1).await;
    gateway.report(&TENANT, 3, 0).await;
    gateway.report(&[("free", "")], 5, 0).await;
    let metrics = door.metrics.render(&Told::of(true, vec![]).status()).unwrap();
    for line in [
        "quorate_gateways 1",
        "quorate_gateway_buckets 2",
        "quorate_gateway_requests_total{result=\"passed\"} 8",
        "quorate_gateway_requests_total{result=\"refused\"} 1",
        "quorate_gateway_answers_total{answer=\"part\"} 1",
        "quorate_gateway_answers_total{answer=\"again\"} 1",
        "quorate_gateway_answers_total{answer=\"everything\"} 1",
    ] {
        assert!(metrics.lines().any(|there| there == line), "{line} in\n{metrics}");
    }
    assert!(!metrics.contains("acme"));
}

#[tokio::test]
async fn a_report_without_a_domain_ends_the_stream() {
    let mut gateway = Gateway::connect(Purse::of(1).routes()).await;
    let error = gateway.send("", usage(&TENANT, 0, 1)).await.expect_err("a mistake");
    assert_eq!(error.code(), Code::InvalidArgument, "{error}");
}

#[tokio::test]
async fn an_id_that_is_too_long_is_forgotten_and_the_stream_goes_on() {
    let mut gateway = Gateway::connect(Purse::of(100).routes()).await;
    for long in ["v".repeat(1_100), "v".repeat(100_000)] {
        let response = gateway.send("edge", usage(&[("tenant", &long)], 0, 1)).await.expect("an answer");
        assert!(matches!(response.bucket_action[0].bucket_action, Some(Action::AbandonAction(_))));
    }
    assert_eq!(gateway.report(&TENANT, 0, 1).await.0, Heard::Part(10));
}

#[tokio::test]
async fn what_nothing_limits_passes_after_a_pause_too() {
    let mut gateway = Gateway::connect(Purse::of(1).routes()).await;
    for (passed, refused) in [(0, 1), (5, 0), (0, 0), (0, 0)] {
        assert_eq!(gateway.report(&[("free", "")], passed, refused).await.0, Heard::All);
    }
}
