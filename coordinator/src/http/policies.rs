//! `GET` and `PUT /v1/policies`: the policy set, whole, as JSON or YAML.

use super::operator::author;
use super::refusal::Refusal;
use super::{App, body};
use crate::documents;
use crate::forward::Forwardable;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE, ETAG, IF_MATCH, VARY};
use axum::http::{HeaderMap, Uri};
use axum::response::{IntoResponse, Response};
use quorate_ledger::{Author, Command, Ledger, Outcome};
use quorate_shared::located::{Mistake, Value, Warning};
use quorate_shared::names::RegionName;
use quorate_shared::policy::render::{Change, diff};
use quorate_shared::policy::{PolicySet, read};
use quorate_shared::problem::InputError;
use quorate_shared::problem::Problem;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Content types of a policy set. JSON is read as YAML, so that its mistakes have lines too.
const TYPES: [&str; 5] = ["application/json", "application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"];

/// What `GET` adds to the set as JSON, and `PUT` passes over, so that an answer can be sent back.
const ADDED: [&str; 3] = ["version", "active", "pending"];

/// A set that is not in force yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pending {
    version: u64,
    /// Regions that have not confirmed it.
    waits_for: Vec<RegionName>,
}

/// Which sets there are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Versions {
    /// The newest.
    pub version: u64,
    /// The one in force.
    pub active: u64,
    /// The newest, if it is not in force yet.
    pub pending: Option<Pending>,
}

impl Versions {
    /// Those of a ledger.
    pub fn of(ledger: &Ledger) -> Self {
        let pending = ledger.pending_policies().map(|(version, waits_for)| Pending { version, waits_for });
        Self { version: ledger.newest_policies().version, active: ledger.active_policies().version, pending }
    }
}

/// How a set is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// With keys in `snake_case`.
    Json,
    /// With keys in `kebab-case`, as people write it.
    Yaml,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShowQuery {
    format: Option<Format>,
}

/// The newest set: JSON with its versions, or YAML.
#[utoipa::path(get, path = "/v1/policies", tag = "policies", params(("format" = Option<String>, Query, pattern = "^(json|yaml)$", description = "`json` or `yaml`.")), responses((status = 200, content((Object = "application/json"), (Object = "application/yaml")), description = "The set with its versions; YAML if that is asked for."), (status = "default", body = Problem, content_type = "application/problem+json", description = "Why not.")))]
pub async fn show(State(app): State<Arc<App>>, headers: HeaderMap, uri: Uri) -> Result<Response, Refusal> {
    let query: ShowQuery = body::query(&uri)?;
    let (set, versions) = app.node.read(|ledger| (ledger.newest_policies().clone(), Versions::of(ledger)));
    written(&set, query.format.unwrap_or_else(|| accepted(&headers)), versions)
}

#[derive(Serialize)]
struct Shown<V> {
    #[serde(flatten)]
    versions: V,
    #[serde(flatten)]
    document: serde_json::Value,
}

/// A set as a response. As JSON it comes with `versions`; its own is its entity tag.
///
/// # Errors
/// If it cannot be written; no reason is known.
pub fn written(set: &PolicySet, format: Format, versions: impl Serialize) -> Result<Response, Refusal> {
    let tag = [(ETAG, format!("\"{}\"", set.version)), (VARY, "accept".to_owned())];
    let unwritable = |error: &dyn std::fmt::Display| Refusal::internal(&format!("the policy set cannot be written: {error}"));
    Ok(match format {
        Format::Yaml => {
            let text = documents::to_yaml(set).map_err(|e| unwritable(&e))?;
            (tag, [(CONTENT_TYPE, "application/yaml")], text).into_response()
        }
        Format::Json => {
            let document = documents::to_json(set).map_err(|e| unwritable(&e))?;
            (tag, Json(Shown { versions, document })).into_response()
        }
    })
}

/// YAML if it is named and JSON is not.
pub fn accepted(headers: &HeaderMap) -> Format {
    let accept = headers.get(ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or_default().to_ascii_lowercase();
    if accept.contains("yaml") && !accept.contains("json") { Format::Yaml } else { Format::Json }
}

/// `?dry_run=&why=`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplaceQuery {
    /// Only say what would change.
    #[serde(default)]
    pub dry_run: bool,
    /// See [`author`].
    pub why: Option<String>,
}

/// What became of a new set, or would.
#[derive(Debug, Serialize)]
struct Replaced {
    /// Its version; of a dry run: the version that it was compared with.
    version: u64,
    dry_run: bool,
    /// Regions that must confirm it before it is in force.
    waits_for: Vec<RegionName>,
    warnings: Vec<InputError>,
    diff: Vec<Change>,
}

/// Replaces the set, or only says what would change.
#[utoipa::path(put, path = "/v1/policies", tag = "policies", params(("If-Match" = String, Header, description = "The version that is replaced, in quotes."), ("dry_run" = Option<bool>, Query, description = "Only say what would change."), ("why" = Option<String>, Query, description = "Kept with the change.")), request_body(content = Object, content_type = "application/json", description = "A policy set; `application/yaml` too."), responses((status = 200, body = Object, description = "What has changed, or would."), (status = 202, body = Object, description = "Accepted; it waits for regions."), (status = "default", body = Problem, content_type = "application/problem+json", description = "Why not.")))]
pub async fn replace(State(app): State<Arc<App>>, forwardable: Forwardable, request: Request) -> Result<Response, Refusal> {
    let (parts, content) = request.into_parts();
    check_type(&parts.headers)?;
    let query: ReplaceQuery = body::query(&parts.uri)?;
    let by = author(&parts, query.why)?;
    let content = body::read(&parts.headers, content, documents::MAX_BYTES).await?;
    if !app.node.leadership().borrow().here {
        return app.forward(app.leader_elsewhere(), forwardable, content).await;
    }
    let text = content.clone();
    let read = read_in_background(move || read_set(&text)).await?;
    let proposal = Proposal { read, replaces: Tag::of(&parts.headers), replaces_any: false, dry_run: query.dry_run, by };
    propose(&app, proposal, forwardable, content).await
}

/// A set that is to replace the newest.
pub struct Proposal {
    /// The set, and what is probably not as meant in it.
    pub read: Read,
    /// What `If-Match` says.
    pub replaces: Option<Tag>,
    /// True if the newest may be meant where nothing is said.
    pub replaces_any: bool,
    /// Only say what would change.
    pub dry_run: bool,
    /// Who wants it, and why.
    pub by: Author,
}

/// Has the leader, which this node was a moment ago, take a set in place of the version that the request
/// names, or only says what would change. `content` is the body of the request.
///
/// # Errors
/// If that is not the newest, or none is named and must be.
pub async fn propose(app: &App, proposal: Proposal, forwardable: Forwardable, content: Bytes) -> Result<Response, Refusal> {
    let Proposal { read: (set, warnings), replaces, replaces_any, dry_run, by } = proposal;
    let newest = app.node.read(|ledger| ledger.newest_policies().clone());
    let replaces = match replaces {
        Some(tag) => tag.names(newest.version)?,
        None if dry_run || replaces_any => newest.version,
        None => return Err(Refusal::precondition_required(newest.version)),
    };
    let diff = diff(&newest, &set);
    let warnings = warnings.into_iter().map(InputError::from).collect();
    if dry_run {
        let answer = Replaced { version: newest.version, dry_run: true, waits_for: Vec::new(), warnings, diff };
        return Ok(Json(answer).into_response());
    }
    let command = Command::Policies { replaces, set: Box::new(set), by };
    app.carry_out(command, forwardable, content, |outcome| {
        let (version, waits_for) = taken(outcome, replaces)?;
        let answer = Replaced { version, dry_run: false, waits_for, warnings, diff };
        Ok(([(ETAG, format!("\"{version}\""))], Json(answer)).into_response())
    })
    .await
}

fn taken(outcome: Outcome, replaces: u64) -> Result<(u64, Vec<RegionName>), Refusal> {
    match outcome {
        Outcome::Policies { version, waits_for } => Ok((version, waits_for)),
        Outcome::VersionConflict { newest } => Err(Refusal::version_conflict(&format!("\"{replaces}\""), newest)),
        Outcome::Restoring { version, waits_for } => Err(Refusal::restoring(version, waits_for.iter().map(ToString::to_string).collect())),
        Outcome::Done => Err(Refusal::not_ready("the cluster is not founded yet")),
        other => Err(Refusal::internal(&format!("a policy set came to {other:?}"))),
    }
}

fn check_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let media_type = body::media_type(headers);
    match media_type.as_deref() {
        Some(known) if TYPES.contains(&known) || known.starts_with("text/") => Ok(()),
        other => Err(Refusal::unsupported_type(other, "application/yaml or application/json")),
    }
}

/// What `If-Match` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag(String);

impl Tag {
    /// Of a request.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let header = headers.get(IF_MATCH)?;
        Some(Self(header.to_str().unwrap_or_default().trim().to_owned()))
    }

    /// The newest version, if the tag names it; an entity tag that is not of ours matches nothing.
    fn names(&self, newest: u64) -> Result<u64, Refusal> {
        let text = self.0.as_str();
        if text == "*" {
            return Err(Refusal::precondition_required(newest));
        }
        let digits = text.strip_prefix('"').and_then(|t| t.strip_suffix('"'));
        let version: Option<u64> = digits.filter(|d| d.bytes().all(|b| b.is_ascii_digit())).and_then(|d| d.parse().ok());
        version.filter(|version| *version == newest).ok_or_else(|| Refusal::version_conflict(text, newest))
    }
}

/// A policy set, and what is probably not as meant in it.
pub type Read = (PolicySet, Vec<Warning>);

/// Reads a set where it holds up nobody: a large one takes a while.
///
/// # Errors
/// All its mistakes.
pub async fn read_in_background(read: impl FnOnce() -> Result<Read, Vec<Mistake>> + Send + 'static) -> Result<Read, Refusal> {
    let read = tokio::task::spawn_blocking(read).await;
    let read = read.map_err(|error| Refusal::internal(&format!("reading the policy set failed: {error}")))?;
    read.map_err(|mistakes| Refusal::invalid_policies(mistakes.into_iter().map(InputError::from).collect()))
}

fn read_set(text: &[u8]) -> Result<Read, Vec<Mistake>> {
    let mut document = documents::parse(text)?;
    if let Value::Map(entries) = &mut document.value {
        entries.retain(|(key, _)| !ADDED.contains(&key.name.as_str()));
    }
    read::policy_set(&document)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn if_match(text: &'static str) -> Result<u64, u16> {
        let headers = HeaderMap::from_iter([(IF_MATCH, HeaderValue::from_static(text))]);
        Tag::of(&headers).expect("a tag").names(7).map_err(|refusal| refusal.status().as_u16())
    }

    #[test]
    fn one_strong_tag_of_ours_is_a_version() {
        assert_eq!(if_match("\"7\""), Ok(7));
        assert_eq!(if_match("*"), Err(428));
        for bad in ["\"6\"", "7", "W/\"7\"", "\"7\", \"8\"", "\"+7\"", "\"\"", "\"99999999999999999999\""] {
            assert_eq!(if_match(bad), Err(412), "{bad}");
        }
        assert_eq!(Tag::of(&HeaderMap::new()), None);
    }

    #[test]
    fn yaml_is_sent_to_those_who_ask_for_it_alone() {
        let accept = |text: &'static str| accepted(&HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(text))]));
        assert_eq!(accept("application/yaml"), Format::Yaml);
        assert_eq!(accept("text/x-yaml, */*;q=0.1"), Format::Yaml);
        assert_eq!(accept("application/json, application/yaml"), Format::Json);
        assert_eq!(accept("*/*"), Format::Json);
        assert_eq!(accepted(&HeaderMap::new()), Format::Json);
    }
}
