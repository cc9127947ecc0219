//! Doors for tests of outside bytes, to parsers that nothing else outside this package needs.
//!
//! Without the cargo feature `testing`, which only dependencies of tests may name, none of this is
//! there.

use quorate_shared::heartbeat::Heartbeat;

pub use crate::raft::messages::{Unfaithful, kinds};

/// A heartbeat as the leader takes it from a request for `region`.
///
/// # Errors
/// The status of the answer.
pub fn heartbeat(content: &[u8], region: &str) -> Result<Heartbeat, u16> {
    crate::http::read_heartbeat(content, region).map_err(|refusal| refusal.status().as_u16())
}
