//! What the replicated log carries, and what applying it answers.

use crate::restore::{Backup, NotRestored};
use quorate_shared::heartbeat::{Answer, Heartbeat, Holding, Office};
use quorate_shared::names::{BudgetId, PolicyName, RegionName, SubjectHash, SubjectKey};
use quorate_shared::policy::PolicySet;
use quorate_shared::time::{Drift, LeaderTime, WindowLabel};
use quorate_shared::units::MicroTokens;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// The first entry of a cluster: what all replicas must share. Later ones change nothing.
    Found {
        /// For hashing subjects.
        subject_key: SubjectKey,
        /// `L`.
        lease: Duration,
        /// ρ.
        drift: Drift,
    },
    /// One region's heartbeat, dated by the leader.
    Heartbeat(Box<StampedHeartbeat>),
    /// A new policy set.
    Policies {
        /// The version that it succeeds; refused if it is not the newest.
        replaces: u64,
        /// The set; its own version and generations are assigned when it is applied.
        set: Box<PolicySet>,
        /// Who asked for it.
        by: Author,
    },
    /// The operator's word that a region serves nothing any more, so a change need not wait for it (R9).
    Fence {
        /// Which region.
        region: RegionName,
        /// Who says so.
        by: Author,
    },
    /// `L` is another from now on.
    Lease {
        /// At most [`quorate_shared::heartbeat::LONGEST_LEASE`].
        lease: Duration,
        /// Who says so.
        by: Author,
    },
    /// The cluster goes on from a backup: see [`crate::restore`].
    Restore {
        /// What was kept.
        backup: Box<Backup>,
        /// The longest that `L` can have been since it was made.
        longest_lease: Duration,
        /// Greater than that of any set since: which regions know of sets that the backup does not is told by this.
        version: u64,
        /// Who says so.
        by: Author,
    },
    /// From here on entries are applied by the rules of this level: see [`crate::level`].
    Level {
        /// Which; every member's program knows it.
        to: u32,
    },
    /// The operator's word that grants may go on of budgets of which an internal check failed.
    ClearAlarm {
        /// Of this policy alone.
        policy: Option<PolicyName>,
        /// Of this subject alone.
        subject: Option<SubjectHash>,
        /// Who says so.
        by: Author,
    },
    /// The operator's word that the coordinators are to be others. It changes nothing here, and is for the account: Raft's
    /// own entries do not say who.
    Members {
        /// What.
        order: MemberOrder,
        /// Who says so.
        by: Author,
    },
}

/// What an operator does to the cluster of coordinators.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum MemberOrder {
    /// A node is to be a member.
    Add {
        /// Its number.
        node: u64,
        /// Where the others reach it.
        address: String,
    },
    /// A member is to be none any more.
    Remove {
        /// Its number.
        node: u64,
    },
    /// Another is to lead.
    Lead {
        /// Its number; absent: whichever is best fit.
        node: Option<u64>,
    },
}

impl fmt::Display for MemberOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add { node, address } => write!(f, "add node {node} at {address}"),
            Self::Remove { node } => write!(f, "remove node {node}"),
            Self::Lead { node: Some(node) } => write!(f, "let node {node} lead"),
            Self::Lead { node: None } => f.write_str("let another node lead"),
        }
    }
}

/// A heartbeat with the date of its stamp.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StampedHeartbeat {
    /// As the agent sent it.
    pub heartbeat: Heartbeat,
    /// Whose clock.
    pub office: Office,
    /// The leader's clock when it took the heartbeat up.
    pub at: LeaderTime,
    /// What the allocator would like of the budgets reported. A wish: the ledger offers of it what R4 allows.
    pub plans: Vec<Plan>,
    /// The same of windows of allowances.
    #[serde(default)]
    pub unit_plans: Vec<UnitPlan>,
}

/// Who should have how much of one budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Which budget.
    pub budget: BudgetId,
    /// By region; a region that is not named should have its floor and nothing else.
    pub targets: BTreeMap<RegionName, Holding>,
}

/// Who should have how many units of one window of an allowance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitPlan {
    /// Which budget.
    pub budget: BudgetId,
    /// Which window.
    pub label: WindowLabel,
    /// By region, floors and what is spent included; a region that is not named should have its floor.
    pub targets: BTreeMap<RegionName, MicroTokens>,
}

/// Who did something, when and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Author {
    /// Name of the credential, or `anonymous`.
    pub who: String,
    /// Unix time in milliseconds, by the leader's wall clock. For display only.
    pub when_ms: u64,
    /// In their words.
    pub why: Option<String>,
}

/// What applying a [`Command`] answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Nothing to say.
    Done,
    /// To a heartbeat.
    Heartbeat(Answer),
    /// The entry's date is of another term than its place in the log, or of an office that is
    /// over: it changed nothing. The sender may try again.
    WrongOffice,
    /// The set is taken.
    Policies {
        /// Its version.
        version: u64,
        /// Regions that must confirm it before it is active; empty: it is active.
        waits_for: Vec<RegionName>,
    },
    /// The set that was to be replaced is not the newest.
    VersionConflict {
        /// The newest version.
        newest: u64,
    },
    /// The set of a backup is not active yet; policies can be changed once it is.
    Restoring {
        /// Its version.
        version: u64,
        /// Regions that have not confirmed it.
        waits_for: Vec<RegionName>,
    },
    /// A lease of nothing, or longer than there may be.
    NoSuchLease,
    /// The backup was not taken; nothing was changed.
    NotRestored(NotRestored),
    /// No region of this name.
    UnknownRegion,
    /// The region's lease has not ended, so it cannot be fenced yet.
    StillLive,
    /// This program does not know the rules by which to apply the entry: it changed nothing, and
    /// the node must not go on.
    UnknownLevel {
        /// The level.
        found: u32,
    },
    /// To [`Command::ClearAlarm`].
    AlarmsCleared {
        /// Budgets of which grants go on.
        cleared: Vec<BudgetId>,
        /// Budgets that fail the check still, each with what fails.
        standing: Vec<(BudgetId, String)>,
    },
}
