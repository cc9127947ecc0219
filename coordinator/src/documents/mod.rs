//! Policy sets as text: YAML or JSON in, YAML or JSON out, and mistakes shown in their lines.
//!
//! JSON goes the same way as YAML, of which it is a subset, so its mistakes have lines too.

pub mod import;
mod show;
mod write;
mod yaml;

pub use show::{printable, show};
pub use write::{to_json, to_yaml};
pub use yaml::{MAX_BYTES, parse, utf8};

use quorate_shared::located::{Mistake, Warning};
use quorate_shared::policy::{PolicySet, read};

/// Reads a policy set from YAML or JSON.
///
/// # Errors
/// All mistakes of the text, in its order; a text that is no YAML has one.
pub fn policy_set(text: &[u8]) -> Result<(PolicySet, Vec<Warning>), Vec<Mistake>> {
    read::policy_set(&parse(text)?)
}

#[cfg(test)]
mod tests;
