//! The coordinators: one log, a leader that changes, old leaders that do not know it.

use super::Micros;
use super::chance::Chance;
use quorate_ledger::{Author, Command, Ledger, Outcome, StampedHeartbeat};
use quorate_shared::heartbeat::{Answer, Heartbeat, Office};
use quorate_shared::names::SubjectKey;
use quorate_shared::policy::PolicySet;
use quorate_shared::time::{Drift, LeaderTime};
use std::time::Duration;

/// The replicated log and those who write it.
#[derive(Debug)]
pub struct Cluster {
    /// What the log amounts to: all replicas are equal.
    pub ledger: Ledger,
    term: u64,
    offices: u64,
    leader: Option<Leader>,
    /// Entries of the leader before, not committed when it lost its office.
    stranded: Vec<StampedHeartbeat>,
}

#[derive(Clone, Copy, Debug)]
struct Leader {
    office: Office,
    since: Micros,
    /// How fast its clock runs, in millionths of true time.
    rate: u64,
}

impl Cluster {
    /// A founded cluster with one policy set.
    pub fn found(set: PolicySet, lease: Duration, drift: Drift) -> Self {
        let mut ledger = Ledger::default();
        ledger.apply(1, &Command::Found { subject_key: SubjectKey::new([1; 32]), lease, drift });
        let mut cluster = Self { ledger, term: 1, offices: 0, leader: None, stranded: Vec::new() };
        cluster.change_policies(set);
        cluster
    }

    /// Proposes a set in place of the newest. False if another one is pending.
    pub fn change_policies(&mut self, set: PolicySet) -> bool {
        let replaces = self.ledger.newest_policies().version;
        let by = Author { who: "simulation".into(), when_ms: 0, why: None };
        let outcome = self.ledger.apply(self.term, &Command::Policies { replaces, set: Box::new(set), by });
        matches!(outcome, Outcome::Policies { .. })
    }

    /// The leader goes; what it had not committed may still be committed by the next one.
    pub fn lose_leader(&mut self) {
        self.leader = None;
    }

    /// A node is elected, or a leader that restarted leads on in its old term.
    pub fn elect(&mut self, now: Micros, same_term: bool, drift: Drift, chance: &mut Chance) {
        if !same_term {
            for entry in std::mem::take(&mut self.stranded) {
                if chance.per_mille(500) {
                    let term = entry.office.term;
                    self.ledger.apply(term, &Command::Heartbeat(Box::new(entry)));
                }
            }
            self.term += 1;
        }
        self.offices += 1;
        let ppm = u64::from(drift.ppm());
        let rate = chance.between(1_000_000 - ppm / 2, 1_000_000 + ppm / 2);
        self.leader = Some(Leader { office: Office { term: self.term, process: self.offices }, since: now, rate });
    }

    /// True while somebody leads.
    pub fn has_leader(&self) -> bool {
        self.leader.is_some()
    }

    /// The leader dates a heartbeat; `None` without one.
    pub fn stamp(&self, heartbeat: Heartbeat, now: Micros) -> Option<StampedHeartbeat> {
        let leader = self.leader?;
        let shown = u128::from(now - leader.since) * u128::from(leader.rate) / 1_000_000;
        let at = LeaderTime::from_micros(u64::try_from(shown).unwrap_or(u64::MAX));
        Some(self.ledger.stamp(heartbeat, leader.office, at))
    }

    /// Commits an entry dated some time ago; `None` if its leader is no more.
    pub fn commit(&mut self, entry: StampedHeartbeat) -> Option<Answer> {
        if self.leader.is_none_or(|l| l.office != entry.office) {
            self.stranded.push(entry);
            return None;
        }
        match self.ledger.apply(self.term, &Command::Heartbeat(Box::new(entry))) {
            Outcome::Heartbeat(answer) => Some(answer),
            _ => None,
        }
    }
}
