//! The seats of a region's agents, as its store keeps them: who has which, and by which policies they go.
//!
//! No clock but the agents' own decides: an entry is written anew whenever its agent confirms its seat, and one that
//! was seen to stand still for long enough speaks of a right that has ended. See [`crate::reserve`] for what a seat is.

mod keeper;
mod watch;

pub use keeper::SeatKeeper;
pub use watch::SeatWatch;

use crate::election::AgentId;
use quorate_shared::heartbeat::PoliciesInForce;
use quorate_shared::time::StoreTime;
use std::collections::BTreeMap;

/// One agent's seat, as the store has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeatEntry {
    /// Which, from 1.
    pub seat: u32,
    /// Counts how often it was written.
    pub beats: u64,
    /// By which sets the agent goes: by none that gives it more.
    pub goes_by: PoliciesInForce,
    /// Windows that begin up to then may have been used.
    pub clock: StoreTime,
}

/// All seats of a region, as its store has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seats {
    /// Drawn at random when the store began to keep them.
    pub born: u64,
    /// True if nobody has a seat that is not here: the store has kept them for as long as a seat may be used, or
    /// nobody ever had one before, or each seat that there is was here at once.
    pub settled: bool,
    /// By agent.
    pub entries: BTreeMap<AgentId, SeatEntry>,
}

/// What an agent says of its seat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeatWord {
    /// Who asks.
    pub me: AgentId,
    /// An earlier life of this agent, which is over: its seat is free.
    pub predecessor: Option<AgentId>,
    /// By which sets it goes: of a seat that is given to it, those in force in the store.
    pub goes_by: PoliciesInForce,
    /// Windows that begin up to then may have been used by it.
    pub clock: StoreTime,
    /// How many seats there are.
    pub seats: u32,
    /// The seat that it has a right to, and the number of the seats then.
    pub holds: Option<(u32, u64)>,
    /// True if nobody in this region can have had a seat before, under these sets or others.
    pub genesis: bool,
    /// Drawn at random: the number of the seats, if the store has none.
    pub born: u64,
    /// The number under which they are complete by now.
    pub settles: Option<u64>,
    /// Agents whose right has ended, if their entries are still these.
    pub lapsed: Vec<(AgentId, SeatEntry)>,
}

/// How an agent comes to its seat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Given {
    /// It had it already, and nobody else in between.
    #[default]
    Still,
    /// It has it from now on. Others may have had it.
    Anew,
    /// It has it from now on, and nobody ever had it before.
    Fresh,
}

/// What it hears.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeatAnswer {
    /// The seat that it has from now on, if any.
    pub seat: Option<u32>,
    /// How it comes to that.
    pub given: Given,
    /// What the store's clock showed.
    pub shown: StoreTime,
    /// The sets in force in the store.
    pub in_force: PoliciesInForce,
    /// All seats, this agent's too.
    pub seats: Seats,
}
