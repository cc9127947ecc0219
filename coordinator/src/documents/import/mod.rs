//! Policy sets out of the files of other rate limiters.
//!
//! Text in, a policy set and notes out. A file that the other limiter would not load is refused
//! with all of its mistakes; what it would load and a policy set cannot say, or says otherwise, is
//! a note with file and line. Nothing is left out without one.

mod draft;
mod envoy;
mod findings;
mod limitador;
mod scalar;
mod whole;

pub use envoy::import as envoy_ratelimit;
pub use findings::Note;
pub use limitador::import as limitador;

use quorate_shared::policy::PolicySet;

/// A file of another rate limiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Its name, for notes.
    pub name: String,
    /// What is in it.
    pub text: Vec<u8>,
}

/// What files of another rate limiter come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The policy set as text, with the place that each policy comes from.
    pub yaml: String,
    /// The same set, read.
    pub set: PolicySet,
    /// What does not carry over, or not as it was probably meant.
    pub notes: Vec<Note>,
}

#[cfg(test)]
mod tests;
