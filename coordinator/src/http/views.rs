//! `GET /v1/regions`, `/v1/bound` and `/v1/cluster`.

use super::App;
use crate::forward::Forwardable;
use crate::raft::MemberStatus;
use axum::Json;
use axum::extract::State;
use quorate_ledger::Ledger;
use quorate_shared::api::{Bounds, Cluster, Member, Regions};
use quorate_shared::problem::Problem;
use std::sync::Arc;
use std::time::Instant;

/// Each region's session; `unknown` without the leader's clock.
#[utoipa::path(get, path = "/v1/regions", tag = "views", responses((status = 200, body = Regions), (status = "default", body = Problem, content_type = "application/problem+json", description = "Why not.")))]
pub async fn regions(State(app): State<Arc<App>>) -> Json<Regions> {
    Json(regions_here(&app))
}

/// Promise and measurement of each policy.
#[utoipa::path(get, path = "/v1/bound", tag = "views", responses((status = 200, body = Bounds), (status = "default", body = Problem, content_type = "application/problem+json", description = "Why not.")))]
pub async fn bound(State(app): State<Arc<App>>) -> Json<Bounds> {
    Json(bounds_here(&app))
}

/// The cluster as this node sees it.
#[utoipa::path(get, path = "/v1/cluster", tag = "cluster", responses((status = 200, body = Cluster), (status = "default", body = Problem, content_type = "application/problem+json", description = "Why not.")))]
pub async fn cluster(State(app): State<Arc<App>>, forwardable: Forwardable) -> Json<Cluster> {
    let mut here = cluster_here(&app);
    if !forwardable.forwarded
        && let Some(answer) = app.ask_leader("/v1/cluster").await
        && let Ok(leader) = serde_json::from_slice::<Cluster>(&answer)
    {
        // how far each node is behind only the leader knows
        for member in &mut here.members {
            member.lag = leader.members.iter().find(|m| m.id == member.id).and_then(|m| m.lag);
        }
    }
    Json(here)
}

/// The regions by this node's own state.
pub fn regions_here(app: &App) -> Regions {
    let now = app.node.office();
    let mut regions = app.node.read(|ledger| ledger.regions(now));
    if now.is_some() {
        app.ailing.show(&mut regions);
        app.claims.show(&mut regions, Instant::now());
    }
    regions
}

/// Promise and measurement by this node's own state.
pub fn bounds_here(app: &App) -> Bounds {
    let now = app.node.office();
    app.node.read(|ledger| ledger.bounds(now))
}

/// The cluster by this node's own state.
pub fn cluster_here(app: &App) -> Cluster {
    let status = app.node.status();
    let room = app.node.disk_room();
    let member = |MemberStatus { id, address, voter, lag }| Member { id, address, voter, lag };
    Cluster {
        node: status.node,
        leader: status.leader.map(|(id, _)| id),
        term: status.term,
        state: status.state.to_owned(),
        applied: status.applied,
        last_log: status.last_log,
        snapshot: status.snapshot,
        level: app.node.read(Ledger::level),
        disk_bytes: room.map(|room| room.taken),
        disk_free_bytes: room.map(|room| room.free),
        members: status.members.into_iter().map(member).collect(),
    }
}
