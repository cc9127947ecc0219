//! The coordinator: the shell around the pure ledger.
//!
//! It keeps the ledger on several nodes at once ([`raft`]), reads the clocks that the ledger may
//! not read ([`clock`]), and answers agents, operators and browsers. What is decided is decided
//! in `quorate-ledger`; here it is only carried, stored and shown.

pub mod clock;
pub mod config;
pub mod documents;
pub mod raft;
