//! `POST /v1/regions/{region}/fence`: the operator's word that a region serves nothing any more.
//!
//! Floors need no lease, so a policy change that makes one smaller waits for its region (R9). One
//! that will not come back is fenced by name; should it come back after all, it starts anew.

use super::App;
use super::body;
use super::leader;
use super::policies::{WhyQuery, reason};
use super::refusal::Refusal;
use super::roles::Caller;
use crate::author;
use crate::forward::Forwardable;
use crate::raft::ProposeError;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use quorate_ledger::{Command, Outcome};
use quorate_shared::names::RegionName;
use serde_json::json;
use std::sync::Arc;

/// Fences a region; `?why=` is kept with it.
pub async fn fence(
    State(app): State<Arc<App>>,
    Path(region): Path<String>,
    forwardable: Forwardable,
    request: Request,
) -> Result<Response, Refusal> {
    let (parts, _) = request.into_parts();
    let query: WhyQuery = body::query(&parts.uri)?;
    let why = reason(query.why, &parts.headers)?;
    if !app.node.leadership().borrow().here {
        return app.forward(app.leader_elsewhere(), forwardable, Bytes::new()).await;
    }
    let region: RegionName = region.parse().map_err(|_| Refusal::not_found(parts.uri.path()))?;
    let who = parts.extensions.get::<Caller>().map_or_else(|| "anonymous".to_owned(), |caller| caller.name.clone());
    match app.node.propose(Command::Fence { region: region.clone(), by: author::now(who, why) }).await {
        Ok(Outcome::Done) => {
            app.events.wake();
            Ok(Json(json!({"fenced": region})).into_response())
        }
        Ok(Outcome::StillLive) => Err(Refusal::region_live(region.as_str())),
        Ok(Outcome::UnknownRegion) => Err(Refusal::not_found(parts.uri.path())),
        Ok(other) => Err(Refusal::internal(&format!("a fence came to {other:?}"))),
        Err(ProposeError::NotLeader { leader: Some(leader) }) => app.forward(Some(leader), forwardable, Bytes::new()).await,
        Err(error) => Err(leader::refused(&error)),
    }
}
