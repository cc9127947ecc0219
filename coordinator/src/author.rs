//! Who did something, with the date that people see.

use quorate_ledger::Author;
use std::time::{SystemTime, UNIX_EPOCH};

/// An author at this moment of the wall clock, which dates for display only.
pub fn now(who: impl Into<String>, why: Option<String>) -> Author {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Author { who: who.into(), when_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX), why }
}
