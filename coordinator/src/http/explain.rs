//! `POST /v1/explain`: which budgets a request meets, and who holds how much of each. It charges nothing.

use super::refusal::Refusal;
use super::{App, body};
use axum::Json;
use axum::extract::{Request, State};
use quorate_shared::api::Budgets;
use quorate_shared::problem::Problem;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa::ToSchema;

/// As much as an agent reads of a check by default.
const MAX_BYTES: usize = 65_536;

/// Body of `POST /v1/explain`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Explain {
    /// What is known of a request.
    attributes: BTreeMap<String, String>,
}

/// The budget of each policy in force that matches, by this node's own state. One that no region has outgrown
/// is all in floors.
#[utoipa::path(post, path = "/v1/explain", tag = "views", request_body = Explain, responses((status = 200, body = Budgets), (status = "default", body = Problem, content_type = "application/problem+json", description = "Why not.")))]
pub async fn explain(State(app): State<Arc<App>>, request: Request) -> Result<Json<Budgets>, Refusal> {
    let (parts, content) = request.into_parts();
    body::is_json(&parts.headers)?;
    let Explain { attributes } = body::json(&body::read(&parts.headers, content, MAX_BYTES).await?)?;
    let budgets = app.node.read(|ledger| ledger.budgets_of(&attributes));
    Ok(Json(Budgets { total: budgets.len(), budgets, cursor: None }))
}
