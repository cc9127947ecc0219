//! The agent's pure core: what a region may admit, by its lease, its floor and its buckets.
//!
//! Time and randomness are arguments; what is to be done leaves as data.

pub mod announced;
pub mod bucket;
pub mod contact;
pub mod decision;
pub mod demand;
mod draining;
pub mod election;
pub mod estimates;
pub mod excess;
pub mod follower;
pub mod hold;
mod horizons;
pub mod hot_keys;
pub mod lease_book;
pub mod matching;
pub mod pace;
pub mod quota;
pub mod record;
pub mod regional_reports;
pub mod reserve;
pub mod seats;
pub mod share;
pub mod sliding;
pub mod slots;
pub mod step_watch;
pub mod store;
mod telling;
pub mod turn;
mod unit_grants;
pub mod use_log;
pub mod window;
