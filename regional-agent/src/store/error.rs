//! Why a store did not answer, or will not.

use quorate_limiter::record::Refusal;

/// Why a store did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// No answer in time. What was asked may have been done, or may yet be.
    #[error("the store did not answer in time")]
    Timeout,
    /// No connection, or it broke. What was asked may have been done if it broke in between.
    #[error("the store cannot be reached: {0}")]
    Unreachable(String),
    /// As many questions wait for the store as may; nothing was asked.
    #[error("too many questions wait for the store already")]
    Overloaded,
    /// The store failed time and again, and has not answered a probe since; nothing was asked.
    #[error("the store has failed, and is not asked before it answers a probe")]
    Suspended,
    /// The store answers, but can serve nobody as it is; nothing was charged.
    #[error("the store cannot be used: {why}: {said}")]
    Unusable {
        /// What is the matter.
        why: Unusable,
        /// Its own words.
        said: String,
    },
    /// The store answered that it will not, or with what nobody can read; nothing was charged.
    #[error("the store refused: {0}")]
    Refused(String),
}

/// What keeps a store that answers from serving.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// `READONLY`: it is a replica, or was made one.
    #[error("it is a replica and takes no writes")]
    ReadOnly,
    /// `LOADING`: it has just started.
    #[error("it is still loading its data")]
    Loading,
    /// `OOM`: it is full, and evicts nothing.
    #[error("its memory is full")]
    OutOfMemory,
    /// `NOREPLICAS`: fewer replicas follow it than it was told to need.
    #[error("too few replicas follow it")]
    TooFewReplicas,
    /// `MISCONF`: it cannot write its snapshot, and was told to stop then.
    #[error("it cannot save its data")]
    NotSaved,
    /// `MASTERDOWN`: a replica without a primary that serves no stale data.
    #[error("it is a replica whose primary is down")]
    PrimaryDown,
    /// `BUSY`: a script of somebody runs for too long.
    #[error("it is busy with a script")]
    Busy,
    /// `MOVED`: the region's slot is on another node, which is asked from now on.
    #[error("the region's slot is on another node")]
    Moved,
    /// `ASK` and `TRYAGAIN`: the region's slot is on its way to another node.
    #[error("the region's slot is being migrated")]
    Migrating,
    /// `CLUSTERDOWN`: the cluster does not serve the region's slot.
    #[error("the cluster does not serve the region's slot")]
    ClusterDown,
    /// `CROSSSLOT`: keys of several slots in one script. A bug of ours, see ADR 0012.
    #[error("keys of one question lie in several slots")]
    CrossSlot,
    /// It does not take the credentials, or they do not allow what is needed.
    #[error("it denies access")]
    Denied,
    /// Older than what the scripts need.
    #[error("it is too old")]
    TooOld,
}

impl Unusable {
    /// By the code that an error begins with.
    pub fn of_code(code: &str) -> Option<Self> {
        Some(match code {
            "READONLY" => Self::ReadOnly,
            "LOADING" => Self::Loading,
            "OOM" => Self::OutOfMemory,
            "NOREPLICAS" => Self::TooFewReplicas,
            "MISCONF" => Self::NotSaved,
            "MASTERDOWN" => Self::PrimaryDown,
            "BUSY" => Self::Busy,
            "MOVED" => Self::Moved,
            "ASK" | "TRYAGAIN" => Self::Migrating,
            "CLUSTERDOWN" => Self::ClusterDown,
            "CROSSSLOT" => Self::CrossSlot,
            "NOAUTH" | "WRONGPASS" | "NOPERM" => Self::Denied,
            _ => return None,
        })
    }

    /// As metrics name it.
    const fn kind(self) -> &'static str {
        match self {
            Self::ReadOnly => "read_only",
            Self::Loading => "loading",
            Self::OutOfMemory => "out_of_memory",
            Self::TooFewReplicas => "too_few_replicas",
            Self::NotSaved => "not_saved",
            Self::PrimaryDown => "primary_down",
            Self::Busy => "busy",
            Self::Moved => "moved",
            Self::Migrating => "migrating",
            Self::ClusterDown => "cluster_down",
            Self::CrossSlot => "cross_slot",
            Self::Denied => "denied",
            Self::TooOld => "too_old",
        }
    }
}

impl StoreError {
    /// As metrics name it.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Unreachable(_) => "unreachable",
            Self::Overloaded => "overloaded",
            Self::Suspended => "suspended",
            Self::Unusable { why, .. } => why.kind(),
            Self::Refused(_) => "refused",
        }
    }

    /// True if the store itself failed, and would fail whatever it were asked.
    pub const fn is_outage(&self) -> bool {
        matches!(self, Self::Timeout | Self::Unreachable(_) | Self::Unusable { .. })
    }
}

/// Why a lease operation was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError {
    /// By the rules; to be expected.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Another agent of the region renews.
    #[error("another agent of the region renews its lease")]
    NotElected,
    /// By a fault.
    #[error(transparent)]
    Store(#[from] StoreError),
}
