//! The whole system as real processes: three coordinators, three regions with an agent and a
//! Redis each. Parts of it are cut off, killed and started again while requests go on, and every
//! test asserts that no interval of its whole run admitted more than the limit.
//!
//! Needs `redis-server` on PATH and the `quorate` binary of the same profile, as `./test` builds
//! it. What a test waits for it asks the processes' own endpoints, each wait with a deadline.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    reason = "tests with real processes: they read clocks, start programs and print what they measured"
)]

mod agents;
mod allowance;
mod cut_off;
mod floor_ttl;
mod load;
mod members;
mod moving;
mod no_coordinators;
mod no_leader;
mod records;
mod relay;
mod restarts;
mod store_paused;
mod system;
