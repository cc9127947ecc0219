//! `GET /v1/policies/diff?from=3&to=5`: what differs between any two kept versions of the policy set.

use super::history::kept;
use super::refusal::Refusal;
use super::{App, body};
use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use quorate_shared::policy::render::{Change, diff};
use quorate_shared::problem::Problem;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// `?from=&to=`
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    from: u64,
    to: u64,
}

/// Two versions and what differs.
#[derive(Debug, Serialize)]
pub struct Compared {
    from: u64,
    to: u64,
    diff: Vec<Change>,
}

/// Compares two kept versions.
#[utoipa::path(get, path = "/v1/policies/diff", tag = "policies", params(("from" = u64, Query, description = "A kept version."), ("to" = u64, Query, description = "Another.")), responses((status = 200, body = Object, description = "What differs, field by field."), (status = "default", body = Problem, content_type = "application/problem+json", description = "Why not.")))]
pub async fn show(State(app): State<Arc<App>>, uri: Uri) -> Result<Json<Compared>, Refusal> {
    let Pair { from, to } = body::query(&uri)?;
    let (before, after) = app.node.read(|ledger| Ok::<_, Refusal>((kept(ledger, from)?, kept(ledger, to)?)))?;
    let diff = tokio::task::spawn_blocking(move || diff(&before, &after)).await;
    let diff = diff.map_err(|error| Refusal::internal(&format!("comparing policy sets failed: {error}")))?;
    Ok(Json(Compared { from, to, diff }))
}
