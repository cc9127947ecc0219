//! `GET /v1/what-if`: what each region could admit if some of them, or some coordinators, were out of reach.

use super::refusal::Refusal;
use super::{App, body, budgets};
use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use quorate_ledger::{Ledger, Now};
use quorate_shared::names::{PolicyName, RegionName};
use quorate_shared::policy::{Policy, PolicySet};
use quorate_shared::problem::Problem;
use quorate_shared::what_if::{Lost, WhatIf, what_if};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

/// Policies in an answer at most.
const MOST_POLICIES: usize = 100;

/// `?regions=eu,us&coordinators=1,2&policy=`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LostQuery {
    regions: Option<String>,
    coordinators: Option<String>,
    policy: Option<String>,
}

/// The first policies in force, or the one that is named, without these regions and coordinators.
#[utoipa::path(get, path = "/v1/what-if", tag = "views", params(("regions" = Option<String>, Query, pattern = "^([a-z0-9-]{1,63}(,[a-z0-9-]{1,63})*)?$", description = "Out of reach, separated by commas."), ("coordinators" = Option<String>, Query, pattern = "^([0-9]{1,6}(,[0-9]{1,6})*)?$", description = "Lost, separated by commas."), ("policy" = Option<String>, Query, pattern = "^[a-z0-9-]{1,63}$", description = "Of this policy only.")), responses((status = 200, body = WhatIf), (status = "default", body = Problem, content_type = "application/problem+json", description = "Why not.")))]
pub async fn show(State(app): State<Arc<App>>, uri: Uri) -> Result<Json<WhatIf>, Refusal> {
    let query: LostQuery = body::query(&uri)?;
    let policy: Option<PolicyName> = budgets::parsed("policy", query.policy)?;
    let regions: BTreeSet<RegionName> = listed("regions", query.regions)?;
    let coordinators: BTreeSet<u64> = listed("coordinators", query.coordinators)?;
    let members = app.node.status().members;
    let voters: BTreeSet<u64> = members.iter().filter(|member| member.voter).map(|member| member.id).collect();
    known("coordinators", coordinators.difference(&voters))?;
    let voters_left = voters.difference(&coordinators).count();
    let voters_needed = voters.len() / 2 + 1;
    let lost = Lost { regions, leader: voters_left < voters_needed };
    let now = app.node.office();
    let told = WhatIf { voters: voters.len(), voters_left, voters_needed, leader: !lost.leader, policies: Vec::new(), total: 0 };
    app.node.read(|ledger| of(ledger, now, told, policy.as_ref(), &lost)).map(Json)
}

fn of(ledger: &Ledger, now: Now, told: WhatIf, only: Option<&PolicyName>, lost: &Lost) -> Result<WhatIf, Refusal> {
    let set: &PolicySet = ledger.active_policies();
    known("regions", lost.regions.iter().filter(|name| !set.regions.contains_key(*name)))?;
    known("policy", only.into_iter().filter(|name| set.policy(name).is_none()))?;
    let bounds = ledger.bounds(now);
    let wanted = set.policies.iter().filter(|policy| only.is_none_or(|name| policy.name == *name));
    let one = |policy: &Policy| {
        let bound = bounds.policies.iter().find(|bound| bound.policy == policy.name.as_str())?;
        Some(what_if(set, policy, bound.bound.clone(), lost))
    };
    Ok(WhatIf { total: wanted.clone().count(), policies: wanted.filter_map(one).take(MOST_POLICIES).collect(), ..told })
}

/// Values that are separated by commas.
fn listed<T: FromStr<Err: Display> + Ord>(name: &str, text: Option<String>) -> Result<BTreeSet<T>, Refusal> {
    let text = text.unwrap_or_default();
    let items = text.split(',').filter(|item| !item.is_empty());
    let read = |item: &str| item.parse().map_err(|error| Refusal::invalid_request("", format!("query: `{name}`: {error}")));
    items.map(read).collect()
}

/// Refuses what names nothing.
fn known<T: Display>(name: &str, unknown: impl IntoIterator<Item = T>) -> Result<(), Refusal> {
    let unknown: Vec<String> = unknown.into_iter().map(|item| item.to_string()).collect();
    match unknown.as_slice() {
        [] => Ok(()),
        _ => Err(Refusal::invalid_request("", format!("query: `{name}`: there is no {}", unknown.join(", ")))),
    }
}
