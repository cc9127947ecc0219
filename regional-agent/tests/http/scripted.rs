//! A decider that says what it is told to, and a client of the routes before it.

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::http::{HeaderMap, Request as HttpRequest, StatusCode};
use quorate_agent::decide::{DecideError, PolicyDecision, Request, Verdict};
use quorate_agent::http::{Decider, FrontDoor, router};
use quorate_agent::store::keep::Attempt;
use quorate_limiter::decision::LimitDecision;
use quorate_limiter::hold::{HoldId, Settled};
use quorate_limiter::matching::descriptors::MetBy;
use quorate_shared::api::{AgentStatus, DecisionMode, StoreStatus};
use quorate_shared::policy::Limit;
use quorate_shared::problem::{PROBLEM_JSON, Problem};
use quorate_shared::units::{Capacity, MicroTokens};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;
use tower::ServiceExt;

/// Says what it is told to, once it is let.
pub struct Scripted {
    /// What it says next.
    pub says: Mutex<Result<Verdict, DecideError>>,
    /// What it was asked.
    pub asked: Mutex<Vec<Request>>,
    /// One permit for each decision that it may finish.
    pub may_finish: Semaphore,
    /// One permit for each decision that it has begun.
    pub has_begun: Semaphore,
    /// What it says to settlements.
    pub settles: Mutex<Result<Option<Settled>, DecideError>>,
    /// What it was told to settle.
    pub settled: Mutex<Vec<(HoldId, MicroTokens)>>,
    /// Whether slots are held yet.
    pub holds: AtomicBool,
    /// What is missing.
    pub ready: Mutex<Result<(), String>>,
}

impl Scripted {
    /// One that says `says`, at once.
    pub fn saying(says: Result<Verdict, DecideError>) -> Arc<Self> {
        let open = Semaphore::new(Semaphore::MAX_PERMITS);
        Arc::new(Self {
            says: Mutex::new(says),
            asked: Mutex::default(),
            may_finish: open,
            has_begun: Semaphore::new(0),
            settles: Mutex::new(Ok(None)),
            settled: Mutex::default(),
            holds: AtomicBool::new(true),
            ready: Mutex::new(Ok(())),
        })
    }

    /// One that says `says` when [`Self::may_finish`] lets it.
    pub fn held(says: Result<Verdict, DecideError>) -> Arc<Self> {
        let mut scripted = Self::saying(says);
        Arc::get_mut(&mut scripted).unwrap().may_finish = Semaphore::new(0);
        scripted
    }

    /// One that allows everything, by one policy.
    pub fn allowing() -> Arc<Self> {
        Self::saying(Ok(allowed(vec![write_api(41)])))
    }

    /// How often it was asked.
    pub fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    /// Changes what it says.
    pub fn says(&self, says: Result<Verdict, DecideError>) {
        *self.says.lock().unwrap() = says;
    }
}

impl Decider for Scripted {
    async fn decide(&self, request: &Request) -> Result<Verdict, DecideError> {
        self.asked.lock().unwrap().push(request.clone());
        self.has_begun.add_permits(1);
        self.may_finish.acquire().await.unwrap().forget();
        assert!(!request.attributes.contains_key("panic"), "as told");
        self.says.lock().unwrap().clone()
    }

    async fn settle(&self, reservation: HoldId, cost: MicroTokens) -> Result<Option<Settled>, DecideError> {
        self.settled.lock().unwrap().push((reservation, cost));
        self.settles.lock().unwrap().clone()
    }

    async fn release(&self, slot: HoldId) -> Result<bool, DecideError> {
        Ok(slot == HoldId::from_bits(10))
    }

    async fn holds(&self, _: HoldId, _: &Attempt) -> bool {
        self.holds.load(Ordering::SeqCst)
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

/// A verdict that lets the request go on.
pub fn allowed(limits: Vec<PolicyDecision>) -> Verdict {
    Verdict { allowed: true, limits, reservation: None, slot: None }
}

/// A verdict that does not.
pub fn refused(limits: Vec<PolicyDecision>) -> Verdict {
    Verdict { allowed: false, limits, reservation: None, slot: None }
}

/// Whole tokens.
pub fn tokens(tokens: u64) -> MicroTokens {
    MicroTokens::from_tokens(tokens).unwrap()
}

/// The example of the interface: 100/s, burst 200, all of it in this region, `remaining` left.
pub fn write_api(remaining: u64) -> PolicyDecision {
    policy("write-api", tokens(remaining), None)
}

/// A policy of 100/s, burst 200, that the request costs 1 token; with a wait it does not fit.
pub fn policy(name: &str, remaining: MicroTokens, retry_after: Option<Duration>) -> PolicyDecision {
    let decision = LimitDecision {
        fits: retry_after.is_none(),
        capacity: Capacity::new(tokens(100), tokens(200)),
        remaining,
        retry_after,
        reset_after: Some(Duration::from_micros((200_000_000 - remaining.0.min(200_000_000)) / 100)),
        used_lease: true,
    };
    PolicyDecision {
        policy: name.parse().unwrap(),
        limit: Limit::TokenBucket { rate: tokens(100), period: Duration::from_secs(1), burst: tokens(200) },
        cost: tokens(1),
        reach: tokens(200),
        enforced: true,
        mode: DecisionMode::Leased,
        decision: Some(decision),
        met_by: MetBy::FIRST,
    }
}

/// A policy that the request has to wait for.
pub fn over(name: &str, wait: Duration) -> PolicyDecision {
    policy(name, MicroTokens::ZERO, Some(wait))
}

/// What the routes answered.
#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        assert!(self.headers.get_all(name).iter().count() <= 1, "{name} more than once");
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The body as a problem, which it must be, of the status that the response has.
    pub fn problem(&self) -> Problem {
        assert_eq!(self.header("content-type"), Some(PROBLEM_JSON));
        assert_eq!(self.header("cache-control"), Some("no-store"));
        let problem: Problem = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(problem.status, self.status.as_u16());
        assert!(!problem.title.is_empty());
        problem
    }

    /// The last part of the problem's type.
    pub fn kind(&self) -> String {
        let kind = self.problem().kind;
        kind.rsplit(['/', '#']).next().unwrap().to_owned()
    }
}

/// The routes before `decider`, as they are by default.
pub fn before(decider: &Arc<Scripted>) -> Router {
    router(decider.clone(), FrontDoor::default())
}

/// Sends any request.
pub async fn send(routes: Router, request: HttpRequest<Body>) -> Reply {
    let (parts, body) = routes.oneshot(request).await.unwrap().into_parts();
    Reply { status: parts.status, headers: parts.headers, body: to_bytes(body, usize::MAX).await.unwrap() }
}

/// Posts JSON.
pub async fn post(routes: Router, path: &str, body: impl Into<Body>) -> Reply {
    let request = HttpRequest::post(path).header("content-type", "application/json").body(body.into()).unwrap();
    send(routes, request).await
}

/// Posts a check.
pub async fn check(decider: &Arc<Scripted>, body: impl Into<Body>) -> Reply {
    post(before(decider), "/v1/check", body).await
}

/// Gets a page.
pub async fn get(routes: Router, path: &str) -> Reply {
    send(routes, HttpRequest::get(path).body(Body::empty()).unwrap()).await
}
