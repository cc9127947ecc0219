//! `GET /v1/cluster/snapshot` and `POST /v1/cluster/restore`: what is kept of a cluster outside of it, and a cluster that
//! goes on from that.
//!
//! What is kept is what people decided: the policy sets, and the key by which subjects are hashed. What regions hold is not:
//! it would be wrong by the time it is read (docs/protocol.md).

use super::operator::author;
use super::refusal::Refusal;
use super::{App, body};
use crate::author::restore as restore_command;
use crate::forward::Forwardable;
use axum::Json;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use quorate_ledger::{Backup, Outcome};
use quorate_shared::problem::Problem;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

/// A backup is smaller than this.
const MAX_BYTES: usize = 32 << 20;

/// `?why=`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RestoreQuery {
    why: Option<String>,
}

/// The backup. It holds the subject key, so it needs the role operator.
#[utoipa::path(get, path = "/v1/cluster/snapshot", tag = "cluster", responses((status = 200, body = Object, description = "A backup. It holds the key of subjects."), (status = "default", body = Problem, content_type = "application/problem+json", description = "Why not.")))]
pub async fn snapshot(State(app): State<Arc<App>>) -> Result<Response, Refusal> {
    let backup = app.node.read(quorate_ledger::Ledger::backup);
    let backup = backup.filter(|backup| !backup.history.is_empty());
    let backup = backup.ok_or_else(|| Refusal::not_ready("the cluster has no policy set yet, so there is nothing to keep"))?;
    let text = serde_json::to_vec(&backup).map_err(|error| Refusal::internal(&format!("a backup cannot be written: {error}")))?;
    Ok(([(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")], text).into_response())
}

/// Puts a backup in the place of everything.
#[utoipa::path(post, path = "/v1/cluster/restore", tag = "cluster", params(("why" = Option<String>, Query, description = "Kept with the change.")), request_body = Object, responses((status = 200, body = Object, description = "For which regions it waits."), (status = "default", body = Problem, content_type = "application/problem+json", description = "Why not.")))]
pub async fn restore(State(app): State<Arc<App>>, forwardable: Forwardable, request: Request) -> Result<Response, Refusal> {
    let (parts, content) = request.into_parts();
    let query: RestoreQuery = body::query(&parts.uri)?;
    let by = author(&parts, query.why)?;
    body::is_json(&parts.headers)?;
    let content = body::read(&parts.headers, content, MAX_BYTES).await?;
    let backup: Backup = body::json(&content)?;
    let command = restore_command(backup, by);
    app.carry_out(command, forwardable, content, |outcome| match outcome {
        Outcome::Policies { version, waits_for } => Ok(Json(json!({"version": version, "waits_for": waits_for})).into_response()),
        Outcome::NotRestored(why) => Err(Refusal::not_restored(&why)),
        other => Err(Refusal::internal(&format!("a restore came to {other:?}"))),
    })
    .await
}
