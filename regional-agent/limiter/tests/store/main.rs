//! A region's store in memory, by its public calls.

#![allow(clippy::expect_used, clippy::panic, reason = "a test says what it expects by unwrapping, in its helpers too")]

mod bucket;
mod ended;
mod gone;
mod holds;
mod lease;
mod never_more;
mod parts;
mod region;
mod settlements;
mod shares;
mod window;
