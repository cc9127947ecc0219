//! The regional agent: front doors, the region's store, the heartbeat.

pub mod store;
