//! Placeholder.
use crate::{Command, Outcome};
use serde::{Deserialize, Serialize};
/// Placeholder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ledger {}
impl Ledger {
    /// Placeholder.
    pub fn apply(&mut self, _log_term: u64, _command: &Command) -> Outcome {
        Outcome::Done
    }
}
