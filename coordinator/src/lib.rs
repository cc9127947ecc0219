//! The coordinator: the shell around the pure ledger.
//!
//! It keeps the ledger on several nodes at once ([`raft`]), reads the clocks that the ledger may
//! not read ([`clock`]), and answers agents, operators and browsers. What is decided is decided
//! in `quorate-ledger`; here it is only carried, stored and shown.

mod author;
pub mod clock;
pub mod config;
pub mod documents;
mod forward;
mod founding;
mod http;
mod levels;
mod listener;
mod metrics;
pub mod raft;
pub mod server;
#[cfg(feature = "testing")]
pub mod testing;
