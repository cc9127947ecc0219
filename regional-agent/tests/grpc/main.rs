//! The gRPC front door, by its routes, before a decider that says what the test wants.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test says what it expects by unwrapping, in its helpers too")]

mod beside;
mod quotas;
mod rate_limits;
mod told;
