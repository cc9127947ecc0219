//! `GET /v1/audit`: what happened, newest first; `format=jsonl` is the same as JSON lines.

use super::budgets::parsed;
use super::refusal::Refusal;
use super::{App, body};
use crate::raft::{Place, Wanted};
use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};
use axum::response::{IntoResponse, Response};
use quorate_shared::audit::{AuditEvent, AuditKind, AuditPage};
use quorate_shared::names::{PolicyName, RegionName, SubjectHash};
use quorate_shared::problem::Problem;
use serde::Deserialize;
use std::sync::Arc;

const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 10_000;

/// Where the next page of JSON lines begins.
const NEXT: HeaderName = HeaderName::from_static("quorate-next-cursor");

/// `?since_ms=&until_ms=&policy=&subject=&region=&kind=&limit=&cursor=&format=`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AuditQuery {
    since_ms: Option<u64>,
    until_ms: Option<u64>,
    policy: Option<String>,
    subject: Option<String>,
    region: Option<String>,
    kind: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
    format: Option<String>,
}

/// A page of the account.
#[utoipa::path(get, path = "/v1/audit", tag = "views", params(("since_ms" = Option<u64>, Query, description = "From this Unix millisecond."), ("until_ms" = Option<u64>, Query, description = "Before this one."), ("policy" = Option<String>, Query, pattern = "^[a-z0-9-]{1,63}$", description = "Of this policy."), ("subject" = Option<String>, Query, pattern = "^[0-9a-fA-F]{32}$", description = "Of this subject, as a hash."), ("region" = Option<String>, Query, pattern = "^[a-z0-9-]{1,63}$", description = "Of this region."), ("kind" = Option<AuditKind>, Query, description = "Of this kind."), ("limit" = Option<u64>, Query, minimum = 1, maximum = 10000, description = "Events of a page."), ("cursor" = Option<String>, Query, pattern = "^[0-9]{1,19}[.][0-9]{1,9}$", description = "Of the page before."), ("format" = Option<String>, Query, pattern = "^(json|jsonl)$", description = "`json` or `jsonl`.")), responses((status = 200, content((Object = "application/json"), (String = "application/jsonl")), description = "A page of the account; JSON lines if that is asked for."), (status = "default", body = Problem, content_type = "application/problem+json", description = "Why not.")))]
pub async fn audit(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Refusal> {
    let query: AuditQuery = body::query(&uri)?;
    let lines = match query.format.as_deref() {
        None | Some("json") => false,
        Some("jsonl") => true,
        Some(_) => return Err(Refusal::invalid_request("", "query: `format`: one of json, jsonl")),
    };
    let wanted = wanted(query)?;
    let page = app.node.audit(wanted).await;
    let (events, next) = page.map_err(|error| Refusal::internal(&format!("the account cannot be read: {error}")))?;
    match lines {
        false => Ok(Json(AuditPage { events, next: next.map(|place| place.to_string()) }).into_response()),
        true => json_lines(&events, next),
    }
}

fn json_lines(events: &[AuditEvent], next: Option<Place>) -> Result<Response, Refusal> {
    let mut text = String::new();
    for event in events {
        let line = serde_json::to_string(event).map_err(|error| Refusal::internal(&error.to_string()))?;
        text.push_str(&line);
        text.push('\n');
    }
    let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/jsonl"))]);
    if let Some(next) = next.and_then(|place| HeaderValue::from_str(&place.to_string()).ok()) {
        headers.insert(NEXT, next);
    }
    Ok((headers, text).into_response())
}

fn wanted(query: AuditQuery) -> Result<Wanted, Refusal> {
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(Refusal::invalid_request("", format!("query: `limit` is {limit}; from 1 to {MAX_LIMIT}")));
    }
    let policy: Option<PolicyName> = parsed("policy", query.policy)?;
    let subject: Option<SubjectHash> = parsed("subject", query.subject)?;
    let region: Option<RegionName> = parsed("region", query.region)?;
    let kind: Option<AuditKind> = parsed("kind", query.kind)?;
    Ok(Wanted {
        since_ms: query.since_ms,
        until_ms: query.until_ms,
        policy: policy.map(|name| name.to_string()),
        subject: subject.map(|hash| hash.to_string()),
        region: region.map(|name| name.to_string()),
        kind,
        before: parsed("cursor", query.cursor)?,
        limit,
    })
}
