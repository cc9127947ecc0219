//! The HTTP front door: requests in, decisions out, in HTTP's own words.
//!
//! | endpoint | answer |
//! |---|---|
//! | `POST /v1/check` | one decision over every policy that matches ([`answer`]) |
//! | `POST /v1/checks` | an array of the above, decided and answered in order: `[{"status": 200, "body": {…}}, …]` |
//! | `POST /v1/reserve` | the same with an estimated cost, and a `reservation` |
//! | `POST /v1/settle` | the true cost takes the place of the estimate |
//! | `POST /v1/release` | a concurrency slot is given back |
//! | any method, `/v1/authz` | one decision over what a gateway says of a request in header fields ([`authz`]) |
//! | `GET /v1/status` | the region as this agent sees it |
//! | `GET /healthz` | 200 while this is served |
//! | `GET /readyz` | 200, or a problem that says what is missing |
//! | `GET /metrics` | Prometheus text |
//! | `GET /openapi.json` | all of this for programs ([`openapi`]) |
//!
//! Bodies are read strictly ([`read`]); every error is `application/problem+json` ([`problems`]).
//! A `request_id` makes a retry get the first answer ([`replays`]). Callers may have to show a
//! token ([`callers`]).

pub mod answer;
pub mod authz;
mod body;
pub mod callers;
pub(crate) mod headers;
pub mod openapi;
pub mod problems;
pub mod read;
pub mod replays;
mod typed;
pub mod waiting;

use crate::decide::{DecideError, PolicyDecision, Request, Verdict};
use crate::metrics::{self, Metrics};
use crate::store::keep::Attempt;
use answer::Answer;
use authz::Forwarding;
use axum::Json;
use axum::Router;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use body::JsonBody;
use callers::{Caller, Callers};
use openapi::{Decided, Ended, Unread};
use quorate_limiter::hold::{HoldId, Settled};
use quorate_shared::api::{
    AgentStatus, AnswerOfMany, CheckAnswer, CheckRequest, ReleaseAnswer, ReleaseRequest, ReserveRequest, SettleAnswer, SettleRequest,
};
use quorate_shared::problem::Problem;
use quorate_shared::units::{MicroTokens, PartsPerMillion};
use quorate_traces::TracedLayer;
use read::Check;
use replays::{Outcome, Replays};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};
use tower_http::catch_panic::CatchPanicLayer;
use waiting::Waiting;

/// What decides, for any front door.
pub trait Decider: Send + Sync + 'static {
    /// Decides one request.
    fn decide(&self, request: &Request) -> impl Future<Output = Result<Verdict, DecideError>> + Send;

    /// Puts the true cost in the place of an estimate; `None` if there is no such reservation any more.
    fn settle(&self, reservation: HoldId, cost: MicroTokens) -> impl Future<Output = Result<Option<Settled>, DecideError>> + Send;

    /// Gives slots back. False if they have ended, or were given back before.
    fn release(&self, slot: HoldId) -> impl Future<Output = Result<bool, DecideError>> + Send;

    /// True if slots are held yet, so that the answer to an attempt that told of them may be repeated.
    fn holds(&self, _slot: HoldId, _attempt: &Attempt) -> impl Future<Output = bool> + Send {
        std::future::ready(true)
    }

    /// True once the coordinators know that gateways spend parts of these limits by themselves; until then they are told.
    fn may_assign(&self, limits: &[PolicyDecision]) -> bool;

    /// The region as this agent sees it.
    fn status(&self) -> AgentStatus;

    /// What is missing before requests are decided as they should be, if anything is.
    ///
    /// # Errors
    /// What is missing, for the operator.
    fn ready(&self) -> Result<(), String>;
}

/// How the front door behaves.
#[derive(Clone, Debug)]
pub struct FrontDoor {
    /// Bytes of a body at most. Default 64 KiB.
    pub max_body: usize,
    /// Who may ask `/v1/…`. Default: anybody.
    pub callers: Callers,
    /// The period of heartbeats: how long to wait if nobody knows how long, since capacity may
    /// have moved by then. Default 1 s.
    pub heartbeat: Duration,
    /// What `GET /metrics` shows.
    pub metrics: Metrics,
    /// Whether answers have `X-RateLimit-…` fields too, for old clients. Default: they do not.
    pub legacy_headers: bool,
    /// How `/v1/authz` reads header fields.
    pub forwarding: Forwarding,
    /// Draws how much longer than it must a client is told to wait ([`waiting`]). Default: no longer.
    pub spread: fn() -> PartsPerMillion,
}

impl Default for FrontDoor {
    fn default() -> Self {
        Self {
            max_body: 64 * 1024,
            callers: Callers::anybody(),
            heartbeat: Duration::from_secs(1),
            metrics: Metrics::new(),
            legacy_headers: false,
            forwarding: Forwarding::default(),
            spread: waiting::exactly,
        }
    }
}

/// What every handler works on.
struct Door<D> {
    decider: Arc<D>,
    settings: FrontDoor,
    replays: Replays,
    /// Says once that somebody asks who is not trusted.
    stranger: Once,
}

/// The front door, as routes. Panics in handlers become problems.
pub fn router<D: Decider>(decider: Arc<D>, settings: FrontDoor) -> Router {
    let door = Arc::new(Door { decider, settings, replays: Replays::default(), stranger: Once::new() });
    Router::new()
        .route("/v1/check", post(check::<D>))
        .route("/v1/checks", post(checks::<D>))
        .route("/v1/reserve", post(reserve::<D>))
        .route("/v1/settle", post(settle::<D>))
        .route("/v1/release", post(release::<D>))
        .route("/v1/authz", any(authz::ask::<D>).trace(problems::not_traced))
        .route("/v1/status", get(status::<D>))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz::<D>))
        .route("/metrics", get(exposition::<D>))
        .route("/openapi.json", get(openapi::document))
        .fallback(problems::not_found)
        .method_not_allowed_fallback(problems::method_not_allowed)
        .layer(CatchPanicLayer::custom(problems::panicked))
        .layer(TracedLayer)
        .with_state(door)
}

/// One decision over every policy that matches, all or nothing.
#[utoipa::path(post, path = "/v1/check", tag = "limits", request_body = CheckRequest,
    responses((status = 200, body = CheckAnswer, headers(("RateLimit" = String), ("RateLimit-Policy" = String))), Decided, Unread))]
async fn check<D: Decider>(State(door): State<Arc<Door<D>>>, caller: Caller, JsonBody(body): JsonBody) -> Answer {
    match read::check(&body) {
        Ok(check) => door.answer(caller, check, "").await,
        Err(mistakes) => Answer::problem(problems::invalid_request(mistakes)),
    }
}

/// The whole array is read before anything of it is decided: a mistake anywhere refuses all.
#[utoipa::path(post, path = "/v1/checks", tag = "limits", request_body = Vec<CheckRequest>, responses((status = 200, body = Vec<AnswerOfMany>), Unread))]
async fn checks<D: Decider>(State(door): State<Arc<Door<D>>>, caller: Caller, JsonBody(body): JsonBody) -> Answer {
    let checks = match read::checks(&body) {
        Ok(checks) => checks,
        Err(mistakes) => return Answer::problem(problems::invalid_request(mistakes)),
    };
    let mut answers = Vec::with_capacity(checks.len());
    for (index, check) in checks.into_iter().enumerate() {
        answers.push(door.answer(caller, check, &format!("/{index}")).await);
    }
    Answer::of_many(&answers)
}

/// The same with an estimated cost, to be settled later.
#[utoipa::path(post, path = "/v1/reserve", tag = "limits", request_body = ReserveRequest,
    responses((status = 200, body = CheckAnswer, headers(("RateLimit" = String), ("RateLimit-Policy" = String))), Decided, Unread))]
async fn reserve<D: Decider>(State(door): State<Arc<Door<D>>>, caller: Caller, JsonBody(body): JsonBody) -> Answer {
    match read::reserve(&body) {
        Ok(check) => door.answer(caller, check, "").await,
        Err(mistakes) => Answer::problem(problems::invalid_request(mistakes)),
    }
}

/// The true cost takes the place of the estimate.
#[utoipa::path(post, path = "/v1/settle", tag = "limits", request_body = SettleRequest,
    responses((status = 200, body = SettleAnswer), Ended, Decided, Unread))]
async fn settle<D: Decider>(State(door): State<Arc<Door<D>>>, _: Caller, JsonBody(body): JsonBody) -> Answer {
    let settlement = match read::settlement(&body) {
        Ok(settlement) => settlement,
        Err(mistakes) => return Answer::problem(problems::invalid_request(mistakes)),
    };
    match door.decider.settle(settlement.reservation, settlement.cost).await {
        Ok(settled) => Answer::of_settlement(settled),
        Err(error) => undecided(&error, &door.waiting(), ""),
    }
}

/// Gives slots of concurrency limits back.
#[utoipa::path(post, path = "/v1/release", tag = "limits", request_body = ReleaseRequest,
    responses((status = 200, body = ReleaseAnswer), Decided, Unread))]
async fn release<D: Decider>(State(door): State<Arc<Door<D>>>, _: Caller, JsonBody(body): JsonBody) -> Answer {
    let slot = match read::release(&body) {
        Ok(slot) => slot,
        Err(mistakes) => return Answer::problem(problems::invalid_request(mistakes)),
    };
    match door.decider.release(slot).await {
        Ok(released) => Answer::of_release(released),
        Err(error) => undecided(&error, &door.waiting(), ""),
    }
}

/// The region as this agent sees it.
#[utoipa::path(get, path = "/v1/status", tag = "agent", responses((status = 200, body = AgentStatus), Unread))]
async fn status<D: Decider>(State(door): State<Arc<Door<D>>>, _: Caller) -> Response {
    ([(CACHE_CONTROL, "no-store")], Json(door.decider.status())).into_response()
}

/// Whether it is there.
#[utoipa::path(get, path = "/healthz", tag = "agent", responses((status = 200, body = String, description = "It answers.")), security(()))]
async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether it can do its work.
#[utoipa::path(get, path = "/readyz", tag = "agent", security(()), responses(
    (status = 200, body = String, description = "It can do its work."),
    (status = 503, body = Problem, content_type = "application/problem+json", description = "What is missing.")))]
async fn readyz<D: Decider>(State(door): State<Arc<Door<D>>>) -> Response {
    match door.decider.ready() {
        Ok(()) => "ready\n".into_response(),
        Err(missing) => Answer::problem(problems::not_ready(missing)).into_response(),
    }
}

/// What is counted.
#[utoipa::path(get, path = "/metrics", tag = "agent", responses((status = 200, body = String, description = "Prometheus text.")), security(()))]
async fn exposition<D: Decider>(State(door): State<Arc<Door<D>>>) -> Response {
    match door.settings.metrics.render(&door.decider.status()) {
        Ok(text) => ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(_) => Answer::problem(problems::internal()).into_response(),
    }
}

impl<D: Decider> Door<D> {
    /// Decides a check, or repeats the answer to it. `place` points to it in the body.
    async fn answer(&self, caller: Caller, check: Check, place: &str) -> Answer {
        let Check { mut request, request_id } = check;
        let wording = self.wording();
        let Some(id) = request_id else {
            return decide(&*self.decider, &request, &wording, place).await.answer();
        };
        let (key, content) = (replays::Key::of(caller, &id), replays::Content::of(&request));
        let attempt = key.attempt(content);
        request.attempt = Some(attempt);
        let (decider, at) = (self.decider.clone(), place.to_owned());
        let deciding = async move { decide(&*decider, &request, &wording, &at).await };
        if let Some((slot, serial)) = self.replays.slots_told(key)
            && !self.decider.holds(slot, &attempt).await
        {
            self.replays.forget(key, serial);
        }
        match self.replays.answer(key, content, Instant::now(), deciding).await {
            Ok(answer) => answer,
            Err(replays::NoAnswer::OtherContent) => Answer::problem(problems::reused_request_id(place)),
            Err(replays::NoAnswer::Failed) => Answer::problem(problems::internal()),
        }
    }

    fn waiting(&self) -> Waiting {
        Waiting { unknown: self.settings.heartbeat, spread: self.settings.spread }
    }

    fn wording(&self) -> Wording {
        Wording { waiting: self.waiting(), legacy: self.settings.legacy_headers }
    }
}

/// How a verdict is put into words.
struct Wording {
    waiting: Waiting,
    legacy: bool,
}

async fn decide<D: Decider>(decider: &D, request: &Request, wording: &Wording, place: &str) -> Outcome {
    match decider.decide(request).await {
        Ok(verdict) if wording.legacy => Outcome::Decided(Answer::of_verdict(&verdict, &wording.waiting).with_legacy_fields(&verdict)),
        Ok(verdict) => Outcome::Decided(Answer::of_verdict(&verdict, &wording.waiting)),
        Err(error) => Outcome::Undecided(undecided(&error, &wording.waiting, place)),
    }
}

fn undecided(error: &DecideError, waiting: &Waiting, place: &str) -> Answer {
    // one line for each change of the store's state is logged elsewhere: not one for each request
    tracing::debug!(%error, "a request was not decided");
    Answer::of_error(error, waiting, place)
}
