//! Gateways as real programs before the agents of three regions: nginx, HAProxy, Caddy, Envoy.
//!
//! They run with the files of `deploy/`; only ports, and what happens without an agent, are put in. Needs the programs
//! on PATH and the `quorate` binary of the same profile, as `./test` installs and builds them. A test whose program
//! is not there says so and passes over it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    reason = "tests with real processes: they read clocks, start programs and print what they measured"
)]

mod api;
mod doors;
mod envoy;
mod gateway;
mod regions;
