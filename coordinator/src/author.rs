//! Who did something, with the date that people see.

use quorate_ledger::{Author, Backup, Command};
use quorate_shared::heartbeat::LONGEST_LEASE;
use std::time::{SystemTime, UNIX_EPOCH};

/// The command that lets a cluster go on from a backup, as `by` wants it.
pub fn restore(backup: Backup, by: Author) -> Command {
    // greater than any version since: nobody changes policies once a second for years
    let version = by.when_ms / 1_000;
    Command::Restore { backup: Box::new(backup), longest_lease: LONGEST_LEASE, version, by }
}

/// An author at this moment of the wall clock, which dates for display only.
pub fn now(who: impl Into<String>, why: Option<String>) -> Author {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Author { who: who.into(), when_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX), why }
}
