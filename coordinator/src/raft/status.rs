//! What a node knows of the cluster, in plain values.

use super::types::{LogId, Metrics};
use openraft::{Instant, ServerState};
use std::time::Duration;

/// Who leads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    /// The newest term that this node knows of.
    pub term: u64,
    /// Number and address of the leader, if this node knows both. It may have fallen meanwhile.
    pub leader: Option<(u64, String)>,
    /// True if this node believes to be the leader.
    pub here: bool,
}

/// The cluster as one node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaftStatus {
    /// The node that answers.
    pub node: u64,
    /// Number and address of the leader, if this node knows one.
    pub leader: Option<(u64, String)>,
    /// The newest term that this node knows of.
    pub term: u64,
    /// `leader`, `follower`, `candidate`, `learner` or `shutdown`.
    pub state: &'static str,
    /// Index of the last entry applied here; 0 before the first.
    pub applied: u64,
    /// Index of the last entry in the log here; 0 before the first.
    pub last_log: u64,
    /// Index of the last entry in the snapshot here.
    pub snapshot: Option<u64>,
    /// Index of the last entry that is in the snapshot alone, and in the log no more.
    pub purged: Option<u64>,
    /// Every node of the cluster.
    pub members: Vec<MemberStatus>,
    /// Changes written to disk since the start.
    pub disk_changes: u64,
    /// Flushes to disk since the start: several changes share one.
    pub disk_commits: u64,
}

/// One node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Its number.
    pub id: u64,
    /// Where the others reach it.
    pub address: String,
    /// True if it votes.
    pub voter: bool,
    /// Entries of the leader's log that it is not known to have; only the leader knows.
    pub lag: Option<u64>,
}

impl Leadership {
    pub(super) fn of(metrics: &Metrics) -> Self {
        let here = leads(metrics);
        // A leader that restarted is still named by its last vote, but leads no more.
        let known = metrics.current_leader.filter(|leader| here || *leader != metrics.id);
        // A new node hears of the leader before it hears where the leader is.
        let leader = known.and_then(|id| Some((id, metrics.membership_config.get_node(&id)?.address.clone())));
        Self { term: metrics.current_term, leader, here }
    }
}

/// True if the node believes to be the leader.
pub(super) fn leads(metrics: &Metrics) -> bool {
    metrics.running_state.is_ok() && metrics.state == ServerState::Leader
}

/// The voter that should lead if this leader ends: of those that answered within `fresh`, the
/// one that lags least.
pub(super) fn heir(metrics: &Metrics, fresh: Duration) -> Option<u64> {
    let answers = |id: u64| metrics.heartbeat.as_ref()?.get(&id)?.map(|answered| answered.elapsed() < fresh);
    let others = metrics.membership_config.voter_ids().filter(|id| *id != metrics.id && answers(*id) == Some(true));
    others.max_by_key(|id| metrics.replication.as_ref().and_then(|has| *has.get(id)?))
}

impl RaftStatus {
    pub(super) fn of(metrics: &Metrics, applied: Option<LogId>, (disk_changes, disk_commits): (u64, u64)) -> Self {
        let Leadership { term, leader, .. } = Leadership::of(metrics);
        Self {
            node: metrics.id,
            leader,
            term,
            state: state(metrics),
            applied: applied.map_or(0, |last| last.index),
            last_log: metrics.last_log_index.unwrap_or(0),
            snapshot: metrics.snapshot.map(|last| last.index),
            purged: metrics.purged.map(|last| last.index),
            members: members(metrics),
            disk_changes,
            disk_commits,
        }
    }
}

fn state(metrics: &Metrics) -> &'static str {
    if metrics.running_state.is_err() {
        return "shutdown";
    }
    match metrics.state {
        ServerState::Learner => "learner",
        ServerState::Follower => "follower",
        ServerState::Candidate => "candidate",
        ServerState::Leader => "leader",
        ServerState::Shutdown => "shutdown",
    }
}

/// Entries that a node is not known to have; only the leader knows.
pub(super) fn lag(metrics: &Metrics, node: u64) -> Option<u64> {
    let end = |index: Option<u64>| index.map_or(0, |index| index.saturating_add(1));
    let has = metrics.replication.as_ref()?.get(&node)?;
    Some(end(metrics.last_log_index).saturating_sub(end(has.map(|place| place.index))))
}

fn members(metrics: &Metrics) -> Vec<MemberStatus> {
    let voters: Vec<u64> = metrics.membership_config.voter_ids().collect();
    let nodes = metrics.membership_config.nodes();
    nodes
        .map(|(id, node)| MemberStatus { id: *id, address: node.address.clone(), voter: voters.contains(id), lag: lag(metrics, *id) })
        .collect()
}
