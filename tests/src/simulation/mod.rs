//! A world of regions, coordinators and a network that loses, delays, doubles and reorders, run
//! from one seed in virtual time. The ledger, the allocator, the lease book and the buckets are
//! the real ones.
//!
//! What is checked after every event is in [`check`].

pub mod chance;
pub mod check;
pub mod cluster;
pub mod region;
pub mod world;

pub use world::{Report, World};

/// Microseconds of true time, which nobody in the world can read.
pub type Micros = u64;

/// One second of true time.
pub const SECOND: Micros = 1_000_000;
