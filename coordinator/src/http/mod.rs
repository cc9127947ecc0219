//! The coordinator's HTTP interface.
//!
//! | file | what |
//! |---|---|
//! | `roles` | who may do what |
//! | `refusal` | every answer that is no success |
//! | `body` | reading bodies and queries |
//! | `leader` | which requests go to the leader |
//! | `heartbeat`, `ailing` | the agents' protocol; regions whose store fails |
//! | `claims` | two agents that claim one region: one is refused |
//! | `shed` | what is refused when there is too much to do: views before heartbeats |
//! | `policies`, `history`, `compare` | the policy set; its kept versions, and the way back to one; what differs between two |
//! | `trials` | what policies that only observe would refuse |
//! | `views`, `budgets`, `explain` | regions, bound, cluster; budgets; those of one request |
//! | `audit` | what happened |
//! | `fence`, `alarms`, `lease` | what an operator says of a region, of a budget that failed a check, of `L` |
//! | `members` | which nodes are of the cluster, and which leads |
//! | `operator` | who gives a command, and why |
//! | `what_if` | what each region could admit without some of them, or without coordinators |
//! | `events`, `lately` | the stream that feeds the page; what has changed of late |
//! | `health` | liveness, readiness, metrics |
//! | `openapi` | all of this for programs |
//! | `page` | the page and its files |

mod ailing;
mod alarms;
mod audit;
mod backup;
mod body;
mod budgets;
mod claims;
mod compare;
mod events;
mod explain;
mod fence;
mod health;
mod heartbeat;
mod history;
mod lately;
mod leader;
mod lease;
mod members;
pub mod openapi;
mod operator;
mod page;
mod policies;
mod refusal;
mod roles;
mod shed;
mod trials;
mod views;
mod what_if;

#[cfg(feature = "testing")]
pub(crate) use heartbeat::read as read_heartbeat;
pub use roles::Access;

use crate::forward::Forwarder;
use crate::metrics::Metrics;
use crate::raft::RaftNode;
use ailing::Ailing;
use axum::Router;
use axum::extract::Request;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderValue, Method, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use claims::Claims;
use events::Events;
use lately::Lately;
use quorate_traces::TracedLayer;
use refusal::Refusal;
use shed::Room;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;

/// A request must have arrived and been answered in this time; streams have begun by then.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// What the handlers answer from.
#[derive(Debug)]
pub struct App {
    /// The replicated ledger.
    pub node: RaftNode,
    /// Who may do what.
    pub access: Access,
    /// The way to the leader.
    pub forwarder: Forwarder,
    /// What is counted.
    pub metrics: Metrics,
    /// The stream that feeds the page.
    pub events: Events,
    /// How much may be under way.
    pub room: Room,
    /// Whose each live session is.
    pub claims: Claims,
    /// Regions whose store fails.
    pub ailing: Ailing,
    /// What has changed of late.
    pub lately: Lately,
}

impl App {
    /// What the handlers answer from; streams end with `closing`.
    pub fn new(node: RaftNode, access: Access, forwarder: Forwarder, closing: CancellationToken) -> Self {
        let (metrics, events) = (Metrics::default(), Events::new(closing));
        Self {
            node,
            access,
            forwarder,
            metrics,
            events,
            room: Room::default(),
            claims: Claims::default(),
            ailing: Ailing::default(),
            lately: Lately::default(),
        }
    }

    /// Keeps the event stream supplied; ends with the token that `new` was given.
    pub async fn feed_events(self: Arc<Self>) {
        events::feed(self).await;
    }
}

/// Every route of a coordinator, Raft's among them.
pub fn router(app: &Arc<App>) -> Router {
    let reads = Router::new()
        .route("/v1/regions", get(views::regions))
        .route("/v1/budgets", get(budgets::budgets))
        .route("/v1/bound", get(views::bound))
        .route("/v1/policies", get(policies::show))
        .route("/v1/policies/history", get(history::show))
        .route("/v1/policies/diff", get(compare::show))
        .route("/v1/policies/trials", get(trials::show))
        .route("/v1/what-if", get(what_if::show))
        .route("/v1/changes", get(lately::show))
        .route("/v1/cluster/snapshot", get(backup::snapshot))
        .route("/v1/audit", get(audit::audit))
        .route_layer(middleware::from_fn_with_state(app.clone(), shed::in_turn))
        .route_layer(middleware::from_fn_with_state(app.clone(), leader::ask_leader));
    let api = Router::new()
        .merge(reads)
        .route("/v1/policies", put(policies::replace))
        .route("/v1/policies/rollback", post(history::roll_back))
        .route("/v1/cluster", get(views::cluster))
        .route("/v1/events", get(events::stream))
        .route("/v1/regions/{region}/heartbeat", post(heartbeat::take))
        .route("/v1/regions/{region}/fence", post(fence::fence))
        .route("/v1/explain", post(explain::explain))
        .route("/v1/cluster/lease", post(lease::change))
        .route("/v1/cluster/init", post(members::init))
        .route("/v1/cluster/add", post(members::add))
        .route("/v1/cluster/remove", post(members::remove))
        .route("/v1/cluster/transfer-leader", post(members::transfer_leader))
        .route("/v1/cluster/restore", post(backup::restore))
        .route("/v1/budgets/alarm/clear", post(alarms::clear))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
        .route("/openapi.json", get(openapi::document))
        .layer(middleware::map_response(uncached))
        .layer(middleware::from_fn(in_time))
        .layer(TracedLayer)
        .with_state(app.clone());
    api.merge(app.node.peer_routes())
        .fallback(page::file_or_not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(middleware::from_fn_with_state(app.clone(), roles::guard))
        .layer(CatchPanicLayer::custom(refusal::of_panic))
}

async fn method_not_allowed(method: Method, uri: Uri) -> Refusal {
    Refusal::method_not_allowed(method.as_str(), uri.path())
}

/// Peers are not bound by this: a snapshot takes its time.
async fn in_time(request: Request, next: Next) -> Response {
    let answered = tokio::time::timeout(REQUEST_TIMEOUT, next.run(request)).await;
    answered.unwrap_or_else(|_| Refusal::request_timeout().into_response())
}

async fn uncached(mut response: Response) -> Response {
    response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
