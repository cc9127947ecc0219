//! `POST /v1/regions/{region}/fence`: the operator's word that a region serves nothing any more.
//!
//! Floors need no lease, so a policy change that makes one smaller waits for its region (R9). One
//! that will not come back is fenced by name; should it come back after all, it starts anew.

use super::operator::{WhyQuery, author};
use super::refusal::Refusal;
use super::{App, body};
use crate::forward::Forwardable;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use quorate_ledger::{Command, Outcome};
use quorate_shared::names::RegionName;
use quorate_shared::problem::Problem;
use serde_json::json;
use std::sync::Arc;

/// Fences a region; `?why=` is kept with it.
#[utoipa::path(post, path = "/v1/regions/{region}/fence", tag = "regions", params(("region" = String, Path, pattern = "^[a-z0-9-]{1,63}$"), ("why" = Option<String>, Query, description = "Kept with the change.")), responses((status = 200, body = Object), (status = "default", body = Problem, content_type = "application/problem+json", description = "Why not.")))]
pub async fn fence(
    State(app): State<Arc<App>>,
    Path(region): Path<String>,
    forwardable: Forwardable,
    request: Request,
) -> Result<Response, Refusal> {
    let (parts, _) = request.into_parts();
    let query: WhyQuery = body::query(&parts.uri)?;
    let by = author(&parts, query.why)?;
    let not_found = || Refusal::not_found(parts.uri.path());
    let region: RegionName = region.parse().map_err(|_| not_found())?;
    let command = Command::Fence { region: region.clone(), by };
    app.carry_out(command, forwardable, Bytes::new(), |outcome| match outcome {
        Outcome::Done => Ok(Json(json!({"fenced": region})).into_response()),
        Outcome::StillLive => Err(Refusal::region_live(region.as_str())),
        Outcome::UnknownRegion => Err(not_found()),
        other => Err(Refusal::internal(&format!("a fence came to {other:?}"))),
    })
    .await
}
