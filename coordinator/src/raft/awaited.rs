//! Heartbeats that somebody waits for while they are replicated, and the spans in which they wait: what is applied belongs
//! to the trace of what was proposed, though openraft has a task of its own for it.

use parking_lot::Mutex;
use quorate_ledger::Command;
use quorate_shared::heartbeat::Number;
use quorate_shared::names::RegionName;
use std::collections::BTreeMap;
use tracing::{Span, info_span};

type Key = (RegionName, Number);

/// Spans by what is awaited in them. Empty as long as nothing is traced.
#[derive(Debug, Default)]
pub struct Awaited(Mutex<BTreeMap<Key, Span>>);

/// Waits as long as it lives.
#[derive(Debug)]
pub struct Waiting<'a>(&'a Awaited, Option<Key>);

impl Awaited {
    /// Somebody waits for this command, in the present span.
    pub fn begins(&self, command: &Command) -> Waiting<'_> {
        let span = Span::current();
        let key = key(command).filter(|_| !span.is_disabled());
        if let Some(key) = &key {
            self.0.lock().insert(key.clone(), span);
        }
        Waiting(self, key)
    }

    /// The span in which this command is applied.
    pub fn applies(&self, command: Option<&Command>) -> Span {
        let awaited = self.0.lock();
        match command.filter(|_| !awaited.is_empty()).and_then(key).and_then(|key| awaited.get(&key)) {
            Some(parent) => info_span!(target: quorate_traces::TARGET, parent: parent, "apply"),
            None => Span::none(),
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(key) = &self.1 {
            self.0.0.lock().remove(key);
        }
    }
}

fn key(command: &Command) -> Option<Key> {
    match command {
        Command::Heartbeat(stamped) => Some((stamped.heartbeat.region.clone(), stamped.heartbeat.number)),
        _ => None,
    }
}
