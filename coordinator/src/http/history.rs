//! `GET /v1/policies/history` and `POST /v1/policies/rollback`: the kept versions of the policy set.

use super::operator::author;
use super::policies::{Format, Proposal, Read, ReplaceQuery, Tag, Versions, accepted, propose, read_in_background, written};
use super::refusal::Refusal;
use super::{App, body};
use crate::forward::Forwardable;
use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Uri};
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, SecondsFormat};
use quorate_ledger::{Ledger, PolicyVersion};
use quorate_shared::api::{KeptVersion, VersionState};
use quorate_shared::located::Mistake;
use quorate_shared::policy::render::{Keys, diff, document};
use quorate_shared::policy::{PolicySet, read};
use quorate_shared::problem::Problem;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
use utoipa::ToSchema;

/// A rollback is smaller than this.
const MAX_BYTES: usize = 1_024;

/// `?version=&format=`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HistoryQuery {
    version: Option<u64>,
    format: Option<Format>,
}

#[derive(Serialize)]
struct History {
    #[serde(flatten)]
    versions: Versions,
    /// Newest first.
    history: Vec<KeptVersion>,
}

/// Every kept version: who wanted it, when, why, and what it changed. With `?version=` the whole set of that one.
#[utoipa::path(get, path = "/v1/policies/history", tag = "policies", params(("version" = Option<u64>, Query, description = "This one, whole."), ("format" = Option<String>, Query, pattern = "^(json|yaml)$", description = "`json` or `yaml`.")), responses((status = 200, content((Object = "application/json"), (Object = "application/yaml")), description = "Every kept version, or one of them whole."), (status = "default", body = Problem, content_type = "application/problem+json", description = "Why not.")))]
pub async fn show(State(app): State<Arc<App>>, headers: HeaderMap, uri: Uri) -> Result<Response, Refusal> {
    let query: HistoryQuery = body::query(&uri)?;
    if let Some(version) = query.version {
        let set = app.node.read(|ledger| kept(ledger, version))?;
        return written(&set, query.format.unwrap_or_else(|| accepted(&headers)), json!({"version": version}));
    }
    if query.format.is_some() {
        return Err(Refusal::invalid_request("", "query: `format` is that of one version: name it with `version`"));
    }
    let (versions, kept) = app.node.read(|ledger| (Versions::of(ledger), ledger.policy_history().to_vec()));
    let history = tokio::task::spawn_blocking(move || History { history: told(&kept, &versions), versions }).await;
    let history = history.map_err(|error| Refusal::internal(&format!("comparing policy sets failed: {error}")))?;
    Ok(Json(history).into_response())
}

fn told(kept: &[PolicyVersion], versions: &Versions) -> Vec<KeptVersion> {
    let nothing = PolicySet::default();
    let before = |at: usize| match at.checked_sub(1) {
        Some(at) => kept.get(at).map(|version| &*version.set),
        None => kept.first().filter(|first| first.set.version == 1).map(|_| &nothing),
    };
    let one = |(at, PolicyVersion { set, by, withdrawn }): (usize, &PolicyVersion)| KeptVersion {
        version: set.version,
        who: by.who.clone(),
        when: date(by.when_ms),
        why: by.why.clone(),
        state: if *withdrawn { VersionState::Withdrawn } else { state(set.version, versions) },
        diff: before(at).map(|before| diff(before, set)),
    };
    kept.iter().enumerate().rev().map(one).collect()
}

fn state(version: u64, versions: &Versions) -> VersionState {
    if version == versions.active {
        return VersionState::Active;
    }
    if version == versions.version { VersionState::Pending } else { VersionState::Former }
}

/// RFC 3339, UTC.
fn date(unix_ms: u64) -> String {
    let date = i64::try_from(unix_ms).ok().and_then(DateTime::from_timestamp_millis);
    date.unwrap_or(DateTime::UNIX_EPOCH).to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Body of `POST /v1/policies/rollback`.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Rollback {
    /// The version to be equal to.
    to: u64,
}

/// Makes a new version that is equal to a kept one. It is a change like any other: it waits for the
/// regions from which it takes something, and a policy that counts in another way begins anew. One that is equal to the
/// active set withdraws what is pending: it takes nothing from anybody, so it is in force at once.
#[utoipa::path(post, path = "/v1/policies/rollback", tag = "policies", params(("dry_run" = Option<bool>, Query, description = "Only say what would change."), ("why" = Option<String>, Query, description = "Kept with the change.")), request_body = Rollback, responses((status = 200, body = Object, description = "What has changed, or would."), (status = 202, body = Object, description = "Accepted; it waits for regions."), (status = "default", body = Problem, content_type = "application/problem+json", description = "Why not.")))]
pub async fn roll_back(State(app): State<Arc<App>>, forwardable: Forwardable, request: Request) -> Result<Response, Refusal> {
    let (parts, content) = request.into_parts();
    body::is_json(&parts.headers)?;
    let query: ReplaceQuery = body::query(&parts.uri)?;
    let content = body::read(&parts.headers, content, MAX_BYTES).await?;
    let Rollback { to } = body::json(&content)?;
    let mut by = author(&parts, query.why)?;
    by.why.get_or_insert_with(|| format!("rollback to version {to}"));
    if !app.node.leadership().borrow().here {
        return app.forward(app.leader_elsewhere(), forwardable, content).await;
    }
    let kept = app.node.read(|ledger| kept(ledger, to))?;
    let read = read_in_background(move || read_again(&kept)).await?;
    // one that names no version names what it wants all the same
    let proposal = Proposal { read, replaces: Tag::of(&parts.headers), replaces_any: true, dry_run: query.dry_run, by };
    propose(&app, proposal, forwardable, content).await
}

/// The set by the rules of this program, which may be another than the one that took it.
fn read_again(kept: &PolicySet) -> Result<Read, Vec<Mistake>> {
    read::policy_set(&document(kept, Keys::Kebab))
}

/// The set of a version that is kept or in force.
///
/// # Errors
/// 404 that says which are.
pub(super) fn kept(ledger: &Ledger, version: u64) -> Result<Arc<PolicySet>, Refusal> {
    let history = ledger.policy_history();
    let sets = history.iter().map(|kept| &kept.set).chain([ledger.active_policies()]);
    let found = sets.into_iter().find(|set| set.version == version && version > 0).cloned();
    let ends = || Some((history.first()?.set.version, history.last()?.set.version));
    found.ok_or_else(|| Refusal::version_not_kept(version, ends()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_ledger::Author;

    fn version(number: u64, when_ms: u64) -> PolicyVersion {
        let regions = ["eu", "us"].into_iter().take(usize::from(number > 3) + 1);
        let set = PolicySet {
            version: number,
            regions: regions.map(|r| (r.parse().expect("a name"), Default::default())).collect(),
            policies: vec![],
        };
        PolicyVersion { set: Arc::new(set), by: Author { who: "ops".into(), when_ms, why: None }, withdrawn: false }
    }

    fn versions(active: u64, version: u64) -> Versions {
        Versions { version, active, pending: None }
    }

    #[test]
    fn the_newest_comes_first_and_each_says_what_it_changed() {
        let mut kept: Vec<_> = (3..=5).map(|n| version(n, 1_000 * n)).collect();
        kept[2].withdrawn = true;
        kept.push(version(6, 6_000));
        let told = told(&kept, &versions(4, 6));
        let states: Vec<_> = told.iter().map(|v| (v.version, v.state)).collect();
        let (pending, withdrawn, active, former) =
            (VersionState::Pending, VersionState::Withdrawn, VersionState::Active, VersionState::Former);
        assert_eq!(states, [(6, pending), (5, withdrawn), (4, active), (3, former)]);
        let changes: Vec<_> = told.iter().map(|v| v.diff.as_ref().map(Vec::len)).collect();
        assert_eq!(changes, [Some(0), Some(0), Some(1), None], "what was before the oldest is not known");
        assert_eq!(told[3].when, "1970-01-01T00:00:03.000Z");
    }

    #[test]
    fn the_first_of_all_is_compared_with_nothing() {
        let told = told(&[version(1, u64::MAX)], &versions(1, 1));
        assert_eq!(told[0].diff.as_ref().map(|changes| changes[0].field.as_str()), Some("regions.eu"));
    }
}
