//! The ledger: who may use how much of which budget, until when.
//!
//! A pure state machine. [`Ledger::apply`] is total: it never panics, reads no clock and draws
//! no random number, so every replica that applies the same log is in the same state. What may
//! be refused is refused as a value.

pub mod command;
mod ledger;

pub use command::{Author, Command, Outcome, StampedHeartbeat};
pub use ledger::Ledger;
