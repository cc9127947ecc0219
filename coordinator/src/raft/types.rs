//! What openraft is told about our types.

use super::state_machine::StateMachine;
use openraft::type_config::alias;
use quorate_ledger::{Command, Outcome};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

openraft::declare_raft_types!(
    /// Ours.
    pub TypeConfig:
        D = Proposal,
        R = Outcome,
        NodeId = u64,
        Node = Member,
);

/// The running consensus module.
pub type Raft = openraft::Raft<TypeConfig, StateMachine>;
/// One entry of the log.
pub type Entry = alias::EntryOf<TypeConfig>;
/// Place of an entry: who led when it was appended, and its index.
pub type LogId = alias::LogIdOf<TypeConfig>;
/// Term and node of a candidate, and whether a quorum granted it.
pub type Vote = alias::VoteOf<TypeConfig>;
/// Members of the cluster, with the place of the entry that made them so.
pub type Membership = alias::StoredMembershipOf<TypeConfig>;
/// What a snapshot covers.
pub type SnapshotMeta = alias::SnapshotMetaOf<TypeConfig>;
/// A snapshot; its data is what `snapshot` encodes.
pub type Snapshot = alias::SnapshotOf<TypeConfig, bytes::Bytes>;
/// What openraft says of itself.
pub type Metrics = openraft::RaftMetrics<TypeConfig>;

/// What the cluster's own record says of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Host and port.
    pub address: String,
    /// See [`super::disk::Disk::identity`]: a message to a member says which data directory it
    /// is for, so one that lost its own neither votes nor acknowledges under its old number.
    pub identity: u64,
}

/// A command on its way through the log. Shared, since the log's tail, each follower's
/// replication and the state machine all hold it for a while.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Proposal(pub Arc<Command>);

impl fmt::Display for Proposal {
    /// The command's kind alone: openraft writes entries to its own trace.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self.0 {
            Command::Found { .. } => "found",
            Command::Heartbeat(_) => "heartbeat",
            Command::Policies { .. } => "policies",
            Command::Fence { .. } => "fence",
            Command::Lease { .. } => "lease",
            Command::Level { .. } => "level",
            Command::ClearAlarm { .. } => "clear alarm",
            Command::Members { .. } => "members",
            Command::Restore { .. } => "restore",
        })
    }
}
