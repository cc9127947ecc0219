//! `POST /v1/cluster/init`, `add`, `remove` and `transfer-leader`: who is a member, and who leads.
//!
//! Who ordered a change, and why, goes into the log before the change itself.

use super::operator::{WhyQuery, author};
use super::refusal::Refusal;
use super::{App, body, views};
use crate::forward::Forwardable;
use crate::raft::{Added, FormationError, MemberError, ProposeError};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use quorate_ledger::{Author, Command, MemberOrder};
use quorate_shared::api::Cluster;
use quorate_shared::problem::Problem;
use quorate_shared::text;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// How long one call waits for the cluster to be formed.
const FORMING: Duration = Duration::from_secs(3);

/// `?node=&address=&why=`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct MemberQuery {
    node: Option<u64>,
    address: Option<String>,
    why: Option<String>,
}

/// The operator's order, once it is read.
struct Ordered {
    order: MemberOrder,
    by: Author,
}

/// Waits until the cluster is formed. Nodes form it by themselves once all are there; this says what they wait for.
#[utoipa::path(post, path = "/v1/cluster/init", tag = "cluster", params(("why" = Option<String>, Query, description = "Not kept: nothing is changed.")), responses((status = 200, body = Cluster), (status = "default", body = Problem, content_type = "application/problem+json", description = "Why not.")))]
pub async fn init(State(app): State<Arc<App>>, request: Request) -> Result<Json<Cluster>, Refusal> {
    let _: WhyQuery = body::query(request.uri())?;
    let formed = async {
        app.node.initialize().await?;
        app.node.wait_for_leader().await.ok_or_else(|| FormationError::Fatal("it has ended".to_owned()))
    };
    match tokio::time::timeout(FORMING, formed).await {
        Ok(Ok(_)) => Ok(Json(views::cluster_here(&app))),
        Ok(Err(FormationError::Fatal(why))) => Err(Refusal::stopped(&why)),
        Ok(Err(error)) => Err(Refusal::members_stay(error.to_string())),
        Err(_) => Err(Refusal::not_ready(&awaited(&app.node.silent_members().await))),
    }
}

/// Adds a node that runs with `join = true`, as one that learns, then as one that votes.
#[utoipa::path(post, path = "/v1/cluster/add", tag = "cluster", params(("node" = u64, Query, description = "Its number."), ("address" = String, Query, description = "Where the others reach it."), ("why" = Option<String>, Query, description = "Kept with the change.")), responses((status = 200, body = Object, description = "`voter` is false while it learns: ask again."), (status = "default", body = Problem, content_type = "application/problem+json", description = "Why not.")))]
pub async fn add(State(app): State<Arc<App>>, forwardable: Forwardable, request: Request) -> Result<Response, Refusal> {
    let order = |query: &MemberQuery| {
        let address =
            query.address.as_deref().ok_or_else(|| invalid("address", "expected where the other nodes reach it, such as 10.0.0.4:7101"))?;
        let address = text::host_and_port(address).map_err(|why| invalid("address", &why.to_string()))?;
        Ok(MemberOrder::Add { node: number(query)?, address })
    };
    carry_out(&app, forwardable, request, order).await
}

/// Removes a member that does not lead.
#[utoipa::path(post, path = "/v1/cluster/remove", tag = "cluster", params(("node" = u64, Query, description = "Its number."), ("why" = Option<String>, Query, description = "Kept with the change.")), responses((status = 200, body = Object), (status = "default", body = Problem, content_type = "application/problem+json", description = "Why not.")))]
pub async fn remove(State(app): State<Arc<App>>, forwardable: Forwardable, request: Request) -> Result<Response, Refusal> {
    let order = |query: &MemberQuery| without_address(query).and_then(|()| Ok(MemberOrder::Remove { node: number(query)? }));
    carry_out(&app, forwardable, request, order).await
}

/// Lets another node lead: `node`, or whichever is best fit.
#[utoipa::path(post, path = "/v1/cluster/transfer-leader", tag = "cluster", params(("node" = Option<u64>, Query, description = "Its number."), ("why" = Option<String>, Query, description = "Kept with the change.")), responses((status = 200, body = Object), (status = "default", body = Problem, content_type = "application/problem+json", description = "Why not.")))]
pub async fn transfer_leader(State(app): State<Arc<App>>, forwardable: Forwardable, request: Request) -> Result<Response, Refusal> {
    let order = |query: &MemberQuery| without_address(query).map(|()| MemberOrder::Lead { node: query.node });
    carry_out(&app, forwardable, request, order).await
}

async fn carry_out(
    app: &App,
    forwardable: Forwardable,
    request: Request,
    order: impl FnOnce(&MemberQuery) -> Result<MemberOrder, Refusal>,
) -> Result<Response, Refusal> {
    let (parts, _) = request.into_parts();
    let query: MemberQuery = body::query(&parts.uri)?;
    let ordered = Ordered { order: order(&query)?, by: author(&parts, query.why)? };
    if !app.node.leadership().borrow().here {
        return app.forward(app.leader_elsewhere(), forwardable, Bytes::new()).await;
    }
    match ordered.carry_out(app).await {
        Err(MemberError::NotLeader) => app.forward(app.leader_elsewhere(), forwardable, Bytes::new()).await,
        Err(error) => Err(refused(&error)),
        Ok(answer) => {
            app.events.wake();
            Ok(answer)
        }
    }
}

impl Ordered {
    async fn carry_out(self, app: &App) -> Result<Response, MemberError> {
        let (node, Self { order, by }) = (&app.node, self);
        if !is_under_way(app, &order) {
            tell(app, &order, by).await?;
        }
        Ok(match order {
            MemberOrder::Add { node: id, address } => {
                let Added { voter, lag } = node.add_member(id, &address).await?;
                Json(json!({"node": id, "address": address, "voter": voter, "lag": lag})).into_response()
            }
            MemberOrder::Remove { node: id } => {
                node.remove_member(id).await?;
                Json(json!({"removed": id})).into_response()
            }
            MemberOrder::Lead { node: to } => Json(json!({"leader": node.let_lead(to).await?})).into_response(),
        })
    }
}

/// True of a node that learns: it was ordered, and is asked for again until it votes.
fn is_under_way(app: &App, order: &MemberOrder) -> bool {
    let MemberOrder::Add { node, .. } = order else { return false };
    app.node.status().members.iter().any(|member| member.id == *node)
}

/// Writes down who ordered it, once every member knows that entry.
async fn tell(app: &App, order: &MemberOrder, by: Author) -> Result<(), MemberError> {
    tracing::info!(%order, who = by.who, why = by.why, "an operator changes the members");
    match app.node.propose(Command::Members { order: order.clone(), by }).await {
        // a member that is down and is to be replaced must not hold that up
        Ok(_) | Err(ProposeError::Level { .. }) => Ok(()),
        Err(ProposeError::NotLeader { .. }) => Err(MemberError::NotLeader),
        Err(ProposeError::Unavailable { waited }) => Err(MemberError::Unavailable { waited }),
        Err(error) => Err(MemberError::Fatal(error.to_string())),
    }
}

fn number(query: &MemberQuery) -> Result<u64, Refusal> {
    query.node.filter(|node| *node > 0).ok_or_else(|| invalid("node", "expected the number of a node, from 1"))
}

fn without_address(query: &MemberQuery) -> Result<(), Refusal> {
    if query.address.is_some() { Err(invalid("address", "it belongs to `add`")) } else { Ok(()) }
}

fn invalid(field: &str, why: &str) -> Refusal {
    Refusal::invalid_request("", format!("query: `{field}`: {why}"))
}

fn awaited(silent: &[u64]) -> String {
    let nodes: Vec<String> = silent.iter().map(ToString::to_string).collect();
    match nodes.is_empty() {
        true => "the cluster is being formed".to_owned(),
        false => format!("the cluster is formed once every member has answered; no answer from node {}", nodes.join(", ")),
    }
}

fn refused(error: &MemberError) -> Refusal {
    match error {
        MemberError::NotLeader => Refusal::no_leader(error.to_string()),
        MemberError::Unavailable { .. } => Refusal::outcome_unknown(error.to_string()),
        MemberError::Fatal(why) => Refusal::stopped(why),
        _ => Refusal::members_stay(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_been_done_is_not_called_refused() {
        let kind = |error: MemberError| refused(&error).kind().to_owned();
        assert_eq!(kind(MemberError::NotLeader), "no-leader");
        assert_eq!(kind(MemberError::Unavailable { waited: FORMING }), "outcome-unknown");
        assert_eq!(kind(MemberError::Unknown { node: 9 }), "members-unchanged");
        assert_eq!(kind(MemberError::Fatal("disk".into())), "node-stopped");
    }
}
