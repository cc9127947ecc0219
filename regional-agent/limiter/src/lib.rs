//! The agent's pure core: what a region may admit, by its lease, its floor and its buckets.
//!
//! Time and randomness are arguments; what is to be done leaves as data.

pub mod bucket;
pub mod decision;
pub mod demand;
pub mod lease_book;
pub mod matching;
pub mod record;
pub mod store;
