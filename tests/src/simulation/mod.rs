//! A world of regions, coordinators and a network that loses, delays, doubles and reorders, run
//! from one seed in virtual time. The ledger, the allocator, the lease book and the buckets are
//! the real ones; around them stand models of what may fail.
//!
//! | module | what it is |
//! |---|---|
//! | [`world`] | what happens when, and to whom |
//! | [`kinds`], [`profile`], [`fault`] | the kinds of schedules, what a seed draws of one, which faults there were |
//! | [`region`], [`agent`], [`seat`], [`store`], [`call`] | one region: its process, what that may spend by itself, its store, what is under way between them |
//! | [`cluster`] | the replicated log and those who lead it |
//! | [`policies`] | policy sets and how they change |
//! | [`invariants`] | what must hold, whatever happens; a file for each |

pub mod agent;
pub mod call;
pub mod chance;
pub mod clock;
pub mod cluster;
pub mod disk;
pub mod fault;
pub mod follower;
pub mod invariants;
pub mod kinds;
pub mod network;
pub mod policies;
pub mod profile;
pub mod queue;
pub mod region;
pub mod request;
pub mod seat;
pub mod store;
pub mod teeth;
pub mod trace;
pub mod world;

pub use invariants::Violation;
pub use world::{Report, World};

/// Microseconds of true time, which nobody in the world can read.
pub type Micros = u64;

/// One second of true time.
pub const SECOND: Micros = 1_000_000;
