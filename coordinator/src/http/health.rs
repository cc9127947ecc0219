//! `/healthz`, `/readyz` and `/metrics`.

use super::refusal::Refusal;
use super::{App, views};
use crate::metrics::Readings;
use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::prometheus_text;
use quorate_ledger::Ledger;
use quorate_shared::problem::Problem;
use serde_json::{Value, json};
use std::sync::Arc;

/// 200 unless the node has stopped for good.
#[utoipa::path(get, path = "/healthz", tag = "health", security(()), responses((status = 200, body = Object), (status = "default", body = Problem, content_type = "application/problem+json", description = "Why not.")))]
pub async fn alive(State(app): State<Arc<App>>) -> Result<Json<Value>, Refusal> {
    match app.node.status().state {
        "shutdown" => Err(Refusal::stopped("restart the process")),
        _ => Ok(Json(json!({"status": "alive"}))),
    }
}

/// 200 once there is a leader and this node has the cluster's first entry.
#[utoipa::path(get, path = "/readyz", tag = "health", security(()), responses((status = 200, body = Object), (status = "default", body = Problem, content_type = "application/problem+json", description = "Why not.")))]
pub async fn ready(State(app): State<Arc<App>>) -> Result<Json<Value>, Refusal> {
    if app.node.leadership().borrow().leader.is_none() {
        return Err(Refusal::not_ready("no leader is known"));
    }
    if app.node.read(|ledger| ledger.founding().is_none()) {
        return Err(Refusal::not_ready("this node does not have the cluster's first entry yet"));
    }
    // a budget that is stopped is no reason to keep heartbeats of all others away
    let alarms = app.node.read(|ledger| ledger.alarms().count());
    Ok(Json(json!({"status": "ready", "alarms": alarms})))
}

/// For Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "health", responses((status = 200, body = String, content_type = "text/plain", description = "Prometheus text."), (status = "default", body = Problem, content_type = "application/problem+json", description = "Why not.")))]
pub async fn metrics(State(app): State<Arc<App>>) -> Result<Response, Refusal> {
    let regions = views::regions_here(&app).regions;
    let now = app.node.office();
    let (bounds, policy_set, budgets) =
        app.node.read(|ledger: &Ledger| (ledger.bounds(now).policies, ledger.newest_policies().version, ledger.budgets(None).count()));
    let (alarms, level) = app.node.read(|ledger| (ledger.alarms().count(), ledger.level()));
    let readings =
        Readings { status: app.node.status(), regions, bounds, policy_set, budgets, alarms, level, streams: app.events.streams() };
    let text = app.metrics.exposition(&readings).map_err(|error| Refusal::internal(&format!("metrics: {error}")))?;
    Ok(([(CONTENT_TYPE, prometheus_text::CONTENT_TYPE)], text).into_response())
}
