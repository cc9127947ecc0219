//! The ledger: who may use how much of which budget, until when.
//!
//! A pure state machine. [`Ledger::apply`] is total: it never panics, reads no clock and draws
//! no random number, so every replica that applies the same log is in the same state. What may
//! be refused is refused as a value.
//!
//! The allocator proposes ([`Ledger::plans_for`], called by the leader), the ledger disposes
//! ([`Ledger::apply`], on every replica). Rule numbers (R1–R9) are those of `docs/protocol.md`.

mod alarms;
pub mod allocator;
mod allowance;
mod bounds;
mod budget;
pub mod command;
mod departed;
mod expiry;
mod journal;
mod lapse;
mod ledger;
pub mod level;
mod measured;
mod meter;
mod policies;
mod recent;
mod reckoning;
mod renewal;
pub mod restore;
mod session;
mod sliding;
mod terms;
#[cfg(test)]
mod testing;
mod unit_plans;
mod view;
mod windows;

pub use command::{Author, Command, MemberOrder, Outcome, Plan, StampedHeartbeat, UnitPlan};
pub use journal::Note;
pub use ledger::{Ledger, Violation};
pub use policies::PolicyVersion;
pub use reckoning::Reckoning;
pub use restore::{Backup, NotRestored};
pub use view::Now;
