//! The regional agent: front doors, the region's store, the heartbeat.
//!
//! The agent decides every request beside the region's store and waits for no coordinator on
//! the way; what it may admit is kept true by [`renewal`], once per period.

pub mod clock;
pub mod config;
mod conflict;
pub mod coordinators;
pub mod decide;
mod emergency;
mod ended_floors;
pub mod fallback;
mod following;
pub mod grpc;
pub mod holds;
pub mod http;
pub mod identity;
#[cfg(test)]
mod log_tests;
pub mod metrics;
mod opening;
pub mod policy_shelf;
mod presence;
pub mod region;
pub mod renewal;
mod seat;
pub mod server;
mod status;
pub mod store;
