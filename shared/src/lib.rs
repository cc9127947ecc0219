//! Values that both sides of Quorate speak: units, names, policies, the heartbeat, the bound.
//!
//! Nothing here reads a clock, does I/O or knows of a runtime. A value that crosses the
//! border between coordinator and agent, or between either and a user, is defined once, here.

pub mod api;
pub mod audit;
pub mod bound;
pub mod heartbeat;
pub mod located;
pub mod mistake;
pub mod names;
pub mod policy;
pub mod problem;
pub mod settings;
#[cfg(feature = "testing")]
pub mod testing;
pub mod text;
pub mod time;
pub mod units;
pub mod what_if;
