//! Where the capacity goes: the real ledger, allocator, lease books, stores and demand trackers
//! under loads that move between regions, against what one global bucket would have admitted.
//!
//! Virtual time, one seed, no faults: those are the simulator's matter. What is measured is how
//! much of the ideal's admissions the regions make, and that they never make one too many.

pub mod region;
pub mod report;
pub mod workload;
pub mod world;
pub mod yardstick;

/// Microseconds of true time.
pub type Micros = u64;

/// One second.
pub const SECOND: Micros = 1_000_000;
