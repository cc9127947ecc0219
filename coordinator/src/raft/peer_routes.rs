//! Answering the other nodes.

use super::format::{self, FormatError};
use super::log_store::LogStore;
use super::types::{Raft, Snapshot};
use super::wire::{self, FormationState};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use openraft::async_runtime::watch::WatchReceiver;
use quorate_ledger::level::LEVEL;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::future::Future;
use tokio::sync::watch;

/// What the routes answer from.
#[derive(Clone)]
pub struct Answerer {
    /// This node.
    pub node: u64,
    /// The identity of its data directory.
    pub identity: u64,
    /// The first members, as it was told.
    pub members: BTreeMap<u64, String>,
    /// Its consensus module.
    pub raft: Raft,
    /// Its log.
    pub log: LogStore,
    /// Told of entries that this program cannot read.
    pub unreadable: watch::Sender<Option<String>>,
}

/// The routes under `/raft/`. Whoever mounts them sees to it that only peers get here.
pub fn routes(answerer: Answerer) -> Router {
    let messages = Router::new()
        .route(wire::APPEND, post(append))
        .route(wire::VOTE, post(vote))
        .route(wire::PRE_VOTE, post(pre_vote))
        .route(wire::TRANSFER_LEADER, post(transfer_leader))
        .layer(DefaultBodyLimit::max(wire::MESSAGE_BYTES));
    let snapshots = Router::new().route(wire::SNAPSHOT, post(snapshot)).layer(DefaultBodyLimit::max(wire::SNAPSHOT_BYTES));
    let to_member = messages.merge(snapshots).layer(middleware::from_fn_with_state(answerer.clone(), only_for_this_disk));
    let to_node = to_member.route(wire::FORMATION, get(formation));
    to_node.layer(middleware::from_fn_with_state(answerer.clone(), only_for_this_node)).with_state(answerer)
}

/// A message for another node must not be answered, or one node votes with two voices.
async fn only_for_this_node(State(answerer): State<Answerer>, request: Request, next: Next) -> Response {
    if number(&request, wire::TO) == Some(answerer.node) {
        return next.run(request).await;
    }
    (StatusCode::MISDIRECTED_REQUEST, format!("this is node {}", answerer.node)).into_response()
}

/// What a node promised before it lost its disk, it does not know: it must not promise again.
async fn only_for_this_disk(State(answerer): State<Answerer>, request: Request, next: Next) -> Response {
    if number(&request, wire::IDENTITY) == Some(answerer.identity) {
        return next.run(request).await;
    }
    (StatusCode::MISDIRECTED_REQUEST, format!("node {} has another data directory now", answerer.node)).into_response()
}

fn number(request: &Request, header: &str) -> Option<u64> {
    request.headers().get(header)?.to_str().ok()?.parse().ok()
}

async fn append(State(answerer): State<Answerer>, body: Bytes) -> Response {
    match format::decode(&body) {
        Ok(entries) => reply(answerer.raft.append_entries(entries).await),
        Err(error) => {
            if let FormatError::Unknown(_) = error {
                // the log stays as it is, for a program that can read what comes next
                answerer.unreadable.send_replace(Some(format!("the leader sends entries that this node cannot read: {error}")));
            }
            refused(&error)
        }
    }
}

async fn vote(State(answerer): State<Answerer>, body: Bytes) -> Response {
    answer(&body, |question| answerer.raft.vote(question)).await
}

async fn pre_vote(State(answerer): State<Answerer>, body: Bytes) -> Response {
    answer(&body, |question| answerer.raft.pre_vote(question)).await
}

async fn transfer_leader(State(answerer): State<Answerer>, body: Bytes) -> Response {
    answer(&body, |question| answerer.raft.handle_transfer_leader(question)).await
}

async fn snapshot(State(answerer): State<Answerer>, body: Bytes) -> Response {
    match wire::split(&body) {
        // Past this point, data that cannot be read would stop the node.
        Ok((_, data)) if let Err(error) = format::check_version(&data) => refused(&error),
        Ok((head, data)) => {
            let snapshot = Snapshot { meta: head.meta, snapshot: data };
            reply(answerer.raft.install_full_snapshot(head.vote, snapshot).await)
        }
        Err(error) => refused(&error),
    }
}

async fn formation(State(answerer): State<Answerer>) -> Response {
    let membership = answerer.raft.metrics().borrow_watched().membership_config.clone();
    let known = membership.nodes().map(|(id, member)| (*id, member.identity)).collect();
    let pristine = answerer.log.is_pristine();
    encoded(&FormationState { pristine, members: answerer.members, identity: answerer.identity, known, level: LEVEL })
}

async fn answer<Q, A, E, F>(body: &[u8], ask: impl FnOnce(Q) -> F) -> Response
where
    Q: DeserializeOwned,
    A: Serialize,
    E: Display,
    F: Future<Output = Result<A, E>>,
{
    match format::decode(body) {
        Ok(question) => reply(ask(question).await),
        Err(error) => refused(&error),
    }
}

fn reply<A: Serialize, E: Display>(answer: Result<A, E>) -> Response {
    match answer {
        Ok(answer) => encoded(&answer),
        Err(fatal) => (StatusCode::SERVICE_UNAVAILABLE, fatal.to_string()).into_response(),
    }
}

fn encoded<A: Serialize>(answer: &A) -> Response {
    match format::encode(answer) {
        Ok(bytes) => bytes.into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

fn refused(error: &FormatError) -> Response {
    (StatusCode::BAD_REQUEST, error.to_string()).into_response()
}
