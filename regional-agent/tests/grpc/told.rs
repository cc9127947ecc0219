//! A decider that says what it is told to, and clients of the routes before it.

use axum::Router;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use quorate_agent::decide::{DecideError, PolicyDecision, Request, Verdict};
use quorate_agent::grpc::router;
use quorate_agent::http::{Decider, FrontDoor};
use quorate_limiter::decision::LimitDecision;
use quorate_limiter::hold::{HoldId, Settled};
use quorate_limiter::matching::descriptors::MetBy;
use quorate_shared::api::{AgentStatus, DecisionMode, StoreStatus};
use quorate_shared::policy::{Limit, Window};
use quorate_shared::units::{Capacity, MicroTokens};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tonic::Status;

/// Says what it is told to.
pub struct Told {
    pub says: Mutex<Result<Verdict, DecideError>>,
    pub asked: Mutex<Vec<Request>>,
    pub ready: Mutex<Result<(), String>>,
}

impl Told {
    /// One that says this, and is ready.
    pub fn to_say(says: Result<Verdict, DecideError>) -> Arc<Self> {
        Arc::new(Self { says: Mutex::new(says), asked: Mutex::default(), ready: Mutex::new(Ok(())) })
    }

    /// One that allows or refuses by these limits.
    pub fn of(allowed: bool, limits: Vec<PolicyDecision>) -> Arc<Self> {
        Self::to_say(Ok(Verdict { allowed, limits, reservation: None, slot: None }))
    }

    /// The routes before it.
    pub fn routes(self: &Arc<Self>) -> Router {
        router(self.clone(), &FrontDoor::default(), CancellationToken::new())
    }

    /// What it answers to this.
    pub async fn should_rate_limit(self: &Arc<Self>, request: RateLimitRequest) -> Result<RateLimitResponse, Status> {
        let answer = RateLimitServiceClient::new(self.routes()).should_rate_limit(request).await;
        answer.map(tonic::Response::into_inner)
    }
}

impl Decider for Told {
    async fn decide(&self, request: &Request) -> Result<Verdict, DecideError> {
        assert!(request.descriptors.iter().all(|d| !d.attributes.contains_key("panic")), "as told");
        self.asked.lock().unwrap().push(request.clone());
        self.says.lock().unwrap().clone()
    }

    async fn settle(&self, _: HoldId, _: MicroTokens) -> Result<Option<Settled>, DecideError> {
        Ok(None)
    }

    async fn release(&self, _: HoldId) -> Result<bool, DecideError> {
        Ok(false)
    }

    fn may_assign(&self, _: &[PolicyDecision]) -> bool {
        true
    }

    fn status(&self) -> AgentStatus {
        AgentStatus {
            region: "eu".into(),
            agent: "a1".into(),
            agents: vec![],
            hot_subjects: vec![],
            floors: vec![],
            mode: "leased".into(),
            session: 7,
            seq: 42,
            horizon_ms: 2500,
            floor_horizon_ms: 0,
            last_renewal_ms: Some(10),
            last_error: None,
            coordinator: None,
            store: StoreStatus { kind: "embedded".into(), healthy: true, ..StoreStatus::default() },
            fallbacks: vec![],
            policies: 3,
            seat: None,
            budgets: Vec::new(),
        }
    }

    fn ready(&self) -> Result<(), String> {
        self.ready.lock().unwrap().clone()
    }
}

/// Whole tokens.
pub fn tokens(tokens: u64) -> MicroTokens {
    MicroTokens::from_tokens(tokens).unwrap()
}

/// A policy of 100 a minute, of which so many are left, met by the first descriptor; with a wait it does not fit.
pub fn policy(name: &str, left: u64, wait: Option<Duration>) -> PolicyDecision {
    let decision = LimitDecision {
        fits: wait.is_none(),
        capacity: Capacity::new(MicroTokens::ZERO, tokens(100)),
        remaining: tokens(left),
        retry_after: wait,
        reset_after: Some(Duration::from_millis(20_100)),
        used_lease: true,
    };
    PolicyDecision {
        policy: name.parse().unwrap(),
        limit: Limit::FixedWindow { units: tokens(100), window: Window::Every(Duration::from_secs(60)) },
        cost: tokens(1),
        reach: tokens(100),
        enforced: true,
        mode: DecisionMode::Leased,
        decision: Some(decision),
        met_by: MetBy::FIRST,
    }
}

/// A request of these descriptors in the domain `edge`.
pub fn request(descriptors: &[&[(&str, &str)]]) -> RateLimitRequest {
    let entry = |(key, value): &(&str, &str)| Entry { key: (*key).to_owned(), value: (*value).to_owned() };
    let one = |pairs: &&[(&str, &str)]| RateLimitDescriptor { entries: pairs.iter().map(entry).collect(), ..Default::default() };
    RateLimitRequest { domain: "edge".into(), descriptors: descriptors.iter().map(one).collect(), hits_addend: 0 }
}
