//! What an agent says of itself at a look at its region's store, and what it sees there.

use quorate_limiter::election::{AgentId, Lock};
use quorate_limiter::follower::Sight;
use quorate_limiter::record::Renewal;
use quorate_shared::heartbeat::PoliciesInForce;
use quorate_shared::time::StoreTime;
use std::time::Duration;

/// An agent that has not looked for this long is no longer one of its region's agents.
pub const AGENT_LIFE: Duration = Duration::from_secs(5);

/// What an agent says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// Who looks.
    pub me: AgentId,
    /// Its name, for people.
    pub name: String,
    /// How often it has wished that a heartbeat were sent before its time.
    pub urges: u64,
    /// True if nobody renews the lease, and it reaches a coordinator itself.
    pub reaches: bool,
    /// When it takes the lock; who holds it keeps it.
    pub bid: Bid,
    /// Its share of the region's reports, if it has changed.
    pub reports: Option<String>,
    /// What it knows already need not be said again.
    pub known: Option<Sight>,
}

/// When an agent takes the lock of its region's renewing agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bid {
    /// If the last holder gave it back.
    pub free: bool,
    /// If there is none.
    pub none: bool,
    /// If it is still this one.
    pub challenged: Option<Lock>,
    /// If this agent holds it: an earlier life of the one that looks.
    pub predecessor: Option<AgentId>,
    /// Never: if this agent has it, it gives it back.
    pub gives_back: bool,
}

/// What an agent sees.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Looked {
    /// What the store's clock showed; `None` of a clock that nobody sets.
    pub time: Option<StoreTime>,
    /// Who renews, with what the look itself did to it.
    pub lock: Option<Lock>,
    /// The region's lease; none before its first session, or after a loss of state.
    pub lease: Option<Leased>,
    /// The region's other agents.
    pub peers: Vec<Peer>,
}

/// What a look shows of the region's lease.
#[derive(Clone, Debug, PartialEq)]
pub struct Leased {
    /// The newest number drawn, and the newest response applied.
    pub sight: Sight,
    /// In force.
    pub policies: PoliciesInForce,
    /// Which policy sets are kept beside the record; none if there are none.
    pub shelf: Option<String>,
    /// By what the response applied renewed the lease, unless the agent knows.
    pub renewal: Option<Renewal>,
}

/// Another agent of the region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Which.
    pub id: AgentId,
    /// See [`Look::urges`].
    pub urges: u64,
    /// See [`Look::reaches`].
    pub reaches: bool,
    /// Its name.
    pub name: String,
}
