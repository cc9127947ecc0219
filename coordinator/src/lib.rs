//! Placeholder.

pub mod documents;
