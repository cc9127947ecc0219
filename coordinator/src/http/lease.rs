//! `POST /v1/cluster/lease?lease=10s`: how long a region may go on without being heard.
//!
//! Each region has the new length from its next heartbeat on. A shorter lease takes capacity back
//! from a lost region sooner, and needs heartbeats to arrive more surely.

use super::operator::author;
use super::refusal::Refusal;
use super::{App, body};
use crate::forward::Forwardable;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use quorate_ledger::{Command, Outcome};
use quorate_shared::heartbeat::LONGEST_LEASE;
use quorate_shared::problem::Problem;
use quorate_shared::text::{self, DurationText};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// Shorter ones would end before a heartbeat that is late by an ordinary delay.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);

/// `?lease=&why=`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LeaseQuery {
    lease: Option<String>,
    why: Option<String>,
}

/// Changes `L`.
#[utoipa::path(post, path = "/v1/cluster/lease", tag = "cluster", params(("lease" = String, Query, pattern = "^([1-9]|[1-5][0-9]|60)s$", description = "Such as `10s`."), ("why" = Option<String>, Query, description = "Kept with the change.")), responses((status = 200, body = Object), (status = "default", body = Problem, content_type = "application/problem+json", description = "Why not.")))]
pub async fn change(State(app): State<Arc<App>>, forwardable: Forwardable, request: Request) -> Result<Response, Refusal> {
    let (parts, _) = request.into_parts();
    let query: LeaseQuery = body::query(&parts.uri)?;
    let by = author(&parts, query.why)?;
    let lease = length(query.lease.as_deref())?;
    app.carry_out(Command::Lease { lease, by }, forwardable, Bytes::new(), |outcome| match outcome {
        Outcome::Done => Ok(Json(json!({"lease": DurationText(lease).to_string()})).into_response()),
        other => Err(Refusal::internal(&format!("another lease came to {other:?}"))),
    })
    .await
}

fn length(given: Option<&str>) -> Result<Duration, Refusal> {
    let (least, most) = (DurationText(SHORTEST_LEASE), DurationText(LONGEST_LEASE));
    let expected = || Refusal::invalid_request("/lease", format!("expected a length from {least} to {most}, such as `?lease=10s`"));
    let lease = given.and_then(|given| text::duration(given).ok()).ok_or_else(expected)?;
    if (SHORTEST_LEASE..=LONGEST_LEASE).contains(&lease) { Ok(lease) } else { Err(expected()) }
}
