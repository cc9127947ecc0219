//! `POST /v1/regions/{region}/heartbeat`: the agents' protocol.

use super::claims::Sender;
use super::refusal::Refusal;
use super::{App, body, leader, roles};
use crate::forward::Forwardable;
use crate::metrics::HeartbeatResult;
use crate::raft::ProposeError;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use quorate_ledger::{Command, Outcome};
use quorate_shared::heartbeat::{Answer, Heartbeat, MOST_AGENTS, MOST_REPORTS, MOST_SPENT, Office, PROTOCOL};
use quorate_shared::policy::read::MAX_POLICIES;
use quorate_shared::problem::Problem;
use quorate_shared::time::{LeaderTime, WindowLabel};
use quorate_shared::units::MAX_EXACT;
use serde::Deserialize;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::{Instrument, info_span};

/// A heartbeat is smaller than this: some 40,000 reports.
const MAX_BYTES: usize = 8 << 20;

/// Of an agent's name, in bytes. It is replicated, and shown on terminals and pages.
const MAX_AGENT: usize = 128;
/// Of a kind of store, in bytes.
const MAX_KIND: usize = 32;

/// How often a heartbeat is put to the log: once more if this node lost its office in between.
const ATTEMPTS: usize = 2;

/// Takes a heartbeat up, or hands it on to the leader.
#[utoipa::path(post, path = "/v1/regions/{region}/heartbeat", tag = "agents", params(("region" = String, Path, pattern = "^[a-z0-9-]{1,63}$")), request_body(content = Object, description = "In the protocol of agents."), responses((status = 200, description = "In the protocol of agents, which is no interface for others."), (status = "default", body = Problem, content_type = "application/problem+json", description = "Why not.")))]
pub async fn take(State(app): State<Arc<App>>, forwardable: Forwardable, request: Request) -> Response {
    // before anything else: while the body is awaited the lease must not seem younger than it is
    let date = app.node.office();
    let answer = answer(&app, date, forwardable, request).await;
    app.metrics.heartbeat(answer.as_ref().map_or_else(HeartbeatResult::of_refusal, |(result, _)| *result));
    match answer {
        Ok((_, response)) => response,
        Err(refusal) => refusal.into_response(),
    }
}

type Answered = Result<(HeartbeatResult, Response), Refusal>;

async fn answer(app: &App, date: Option<(Office, LeaderTime)>, forwardable: Forwardable, request: Request) -> Answered {
    let _place = app.room.heartbeat()?;
    let (parts, content) = request.into_parts();
    body::is_json(&parts.headers)?;
    let content = body::read(&parts.headers, content, MAX_BYTES).await?;
    let Some(date) = date else {
        return hand_on(app, app.leader_elsewhere(), forwardable, content).await;
    };
    let heartbeat = read(&content, roles::heartbeat_region(parts.uri.path()).unwrap_or_default())?;
    let credential = parts.extensions.get::<roles::Caller>().map_or("anonymous", |caller| &caller.name);
    let lease = app.node.read(|ledger| ledger.founding().map_or(Duration::ZERO, |founding| founding.lease));
    app.claims.check(&heartbeat, credential, lease, Instant::now())?;
    let sender = Sender::of(&heartbeat);
    let _turn = app.room.proposal().await?;
    // R1 is held in the log; here it spares the log what a repeated heartbeat would cost
    if let Some(newest) = app.node.read(|ledger| ledger.overtaken(&heartbeat)) {
        if app.ailing.hear(&heartbeat) {
            tracing::warn!(region = %heartbeat.region, "the store of a region fails");
            app.events.wake();
        }
        let answer = Answer::Stale { newest };
        return Ok((HeartbeatResult::of(&answer), Json(answer).into_response()));
    }
    match propose(app, heartbeat, date).await {
        Ok(Outcome::Heartbeat(answer)) => {
            if let Some((budgets, first)) = app.node.read(|ledger| Some((ledger.alarms().count(), ledger.alarm()?.to_owned()))) {
                tracing::error!(budgets, first, "an internal check of the ledger failed: nothing is granted of these budgets");
            }
            if matches!(answer, Answer::Renewed(_)) {
                app.ailing.recovered(sender.region());
                app.claims.renewed(sender, credential, Instant::now());
            }
            app.events.wake();
            Ok((HeartbeatResult::of(&answer), Json(answer).into_response()))
        }
        Ok(Outcome::WrongOffice) => Err(Refusal::no_leader("the leader is changing")),
        Ok(other) => Err(Refusal::internal(&format!("a heartbeat came to {other:?}"))),
        Err(ProposeError::NotLeader { leader: Some(leader) }) => hand_on(app, Some(leader), forwardable, content).await,
        Err(error) => Err(leader::refused(&error)),
    }
}

async fn hand_on(app: &App, leader: Option<(u64, String)>, forwardable: Forwardable, content: Bytes) -> Answered {
    Ok((HeartbeatResult::Forwarded, app.forward(leader, forwardable, content).await?))
}

/// What can be read of a heartbeat of any version.
#[derive(Deserialize)]
struct Version {
    protocol: u16,
}

/// A heartbeat of this region, if it keeps within all that the log takes.
pub(crate) fn read(content: &[u8], region: &str) -> Result<Heartbeat, Refusal> {
    let version = |content| serde_json::from_slice(content).map_or(PROTOCOL, |v: Version| v.protocol);
    let heartbeat: Heartbeat = match body::json(content) {
        Ok(heartbeat) => heartbeat,
        Err(_) if version(content) != PROTOCOL => return Err(Refusal::protocol_mismatch(version(content), PROTOCOL)),
        Err(refusal) => return Err(refusal),
    };
    if heartbeat.protocol != PROTOCOL {
        return Err(Refusal::protocol_mismatch(heartbeat.protocol, PROTOCOL));
    }
    if heartbeat.region.as_str() != region {
        return Err(Refusal::invalid_request("/region", format!("the path names another region than the body: {}", heartbeat.region)));
    }
    if heartbeat.number.session > MAX_EXACT || heartbeat.number.seq > MAX_EXACT {
        // no later one could be greater, and stores count in doubles
        return Err(Refusal::invalid_request("/number", format!("session and seq are at most {MAX_EXACT}")));
    }
    check_lengths(&heartbeat)?;
    check_windows(&heartbeat)?;
    check_label("/agent", &heartbeat.agent, MAX_AGENT)?;
    heartbeat.others.iter().try_for_each(|agent| check_label("/others", agent, MAX_AGENT))?;
    check_label("/store/kind", &heartbeat.store.kind, MAX_KIND)?;
    Ok(heartbeat)
}

/// A region says as much of each in one heartbeat as [`Heartbeat`] allows it, and of the rest in the next ones.
fn check_lengths(heartbeat: &Heartbeat) -> Result<(), Refusal> {
    let lists = [
        ("/others", heartbeat.others.len(), MOST_AGENTS),
        ("/reports", heartbeat.reports.len(), MOST_REPORTS),
        ("/drained", heartbeat.drained.len(), MOST_REPORTS),
        ("/spent", heartbeat.spent.len(), MOST_SPENT),
        ("/windows", heartbeat.windows.len(), MAX_POLICIES),
        ("/parts", heartbeat.parts.len(), MAX_POLICIES),
    ];
    match lists.into_iter().find(|(_, length, most)| length > most) {
        Some((pointer, length, most)) => {
            Err(Refusal::invalid_request(pointer, format!("expected at most {most} in one heartbeat, not {length}")))
        }
        None => Ok(()),
    }
}

/// Windows begin at instants that scripts can count in, and that a calendar knows.
fn check_windows(heartbeat: &Heartbeat) -> Result<(), Refusal> {
    let beyond = |label: WindowLabel| label.start().as_micros() > MAX_EXACT;
    let open = heartbeat.windows.iter().position(|window| beyond(window.label) || beyond(window.last));
    let spent = heartbeat.spent.iter().position(|spent| beyond(spent.label));
    let pointer = open.map(|n| format!("/windows/{n}")).or(spent.map(|n| format!("/spent/{n}")));
    match pointer {
        Some(pointer) => {
            let detail = format!("a window begins at most {MAX_EXACT} microseconds after 1970");
            Err(Refusal::invalid_request(&pointer, detail))
        }
        None => Ok(()),
    }
}

fn check_label(pointer: &str, text: &str, longest: usize) -> Result<(), Refusal> {
    let printable = (1..=longest).contains(&text.len()) && text.bytes().all(|b| matches!(b, b' '..=b'~'));
    match printable {
        true => Ok(()),
        false => Err(Refusal::invalid_request(pointer, format!("expected 1 to {longest} printable ASCII characters"))),
    }
}

/// Puts the heartbeat into the log, a second time with a new date if the first was of a lost office.
async fn propose(app: &App, heartbeat: Heartbeat, date: (Office, LeaderTime)) -> Result<Outcome, ProposeError> {
    let mut date = Some(date);
    let mut outcome = Ok(Outcome::WrongOffice);
    for _ in 0..ATTEMPTS {
        let Some((office, at)) = date else { break };
        let stamped = app.node.read(|ledger| ledger.stamp(heartbeat.clone(), office, at));
        let span = info_span!(target: quorate_traces::TARGET, "propose", quorate.region = %heartbeat.region);
        outcome = app.node.propose(Command::Heartbeat(Box::new(stamped))).instrument(span).await;
        if !matches!(outcome, Ok(Outcome::WrongOffice) | Err(ProposeError::NotLeader { leader: None })) {
            break;
        }
        date = app.node.office();
    }
    outcome
}

impl HeartbeatResult {
    const fn of(answer: &Answer) -> Self {
        match answer {
            Answer::Renewed(_) => Self::Renewed,
            Answer::Stale { .. } => Self::Stale,
            Answer::UnknownRegion => Self::UnknownRegion,
            // nobody is answered for a while
            Answer::Restoring { .. } => Self::Unavailable,
        }
    }

    fn of_refusal(refusal: &Refusal) -> Self {
        if refusal.status().is_server_error() { Self::Unavailable } else { Self::Refused }
    }
}
