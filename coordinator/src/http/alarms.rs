//! `POST /v1/budgets/alarm/clear`: the operator's word that grants may go on of budgets of which an
//! internal check of the ledger failed.
//!
//! A check that fails is a bug; what it met is in the log and in `/v1/bound`. Nothing is granted of
//! that budget from then on, so what regions hold of it runs out, and then its check passes again.

use super::operator::author;
use super::refusal::Refusal;
use super::{App, body, budgets};
use crate::forward::Forwardable;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use quorate_ledger::{Command, Outcome};
use quorate_shared::api::{BudgetAlarm, BudgetName, ClearedAlarms};
use quorate_shared::names::BudgetId;
use quorate_shared::problem::Problem;
use serde::Deserialize;
use std::sync::Arc;

/// `?policy=&subject=&why=`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClearQuery {
    policy: Option<String>,
    subject: Option<String>,
    why: Option<String>,
}

/// Clears the alarms of a policy, of one of its subjects, or all.
#[utoipa::path(post, path = "/v1/budgets/alarm/clear", tag = "views", params(("policy" = Option<String>, Query, pattern = "^[a-z0-9-]{1,63}$", description = "Of this policy only."), ("subject" = Option<String>, Query, pattern = "^[0-9a-fA-F]{32}$", description = "Of this subject only."), ("why" = Option<String>, Query, description = "Kept with the change.")), responses((status = 200, body = ClearedAlarms), (status = "default", body = Problem, content_type = "application/problem+json", description = "Why not.")))]
pub async fn clear(State(app): State<Arc<App>>, forwardable: Forwardable, request: Request) -> Result<Response, Refusal> {
    let (parts, _) = request.into_parts();
    let query: ClearQuery = body::query(&parts.uri)?;
    let by = author(&parts, query.why)?;
    let (policy, subject) = (budgets::parsed("policy", query.policy)?, budgets::parsed("subject", query.subject)?);
    let command = Command::ClearAlarm { policy, subject, by };
    app.carry_out(command, forwardable, Bytes::new(), |outcome| match outcome {
        Outcome::AlarmsCleared { cleared, standing } => Ok(Json(answer(&cleared, standing)).into_response()),
        other => Err(Refusal::internal(&format!("clearing alarms came to {other:?}"))),
    })
    .await
}

fn answer(cleared: &[BudgetId], standing: Vec<(BudgetId, String)>) -> ClearedAlarms {
    let alarm = |(id, what): (BudgetId, String)| BudgetAlarm { policy: id.policy.to_string(), subject: id.subject.to_string(), what };
    ClearedAlarms {
        cleared: cleared.iter().map(|id| BudgetName { policy: id.policy.to_string(), subject: id.subject.to_string() }).collect(),
        standing: standing.into_iter().map(alarm).collect(),
    }
}
