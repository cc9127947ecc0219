//! The coordinators: the real ledger, a leader and the one that follows it, each with a clock of its own.

use super::canonical::Part;
use super::exploration::{Applied, Entry, Exploration};
use super::setting::{self, Setting};
use super::state::shown;
use quorate_ledger::{Author, Command, Ledger};
use quorate_shared::heartbeat::{Answer, Heartbeat, Office};
use quorate_shared::time::LeaderTime;
use std::sync::Arc;

/// The replicated log, by what it amounts to, and who may write it.
#[derive(Clone, Debug)]
pub struct Coordinators {
    /// All replicas are equal.
    pub ledger: Arc<Part<Ledger>>,
    /// Of the newest entry.
    pub log_office: Office,
    /// Who leads.
    pub office: Office,
    /// True time at its election.
    pub since: u64,
    /// How fast its clock runs.
    pub rate: u64,
    /// Dated by the last leader, and not in the log when it went. Gone once the log has an entry of the next.
    pub stranded: Option<Entry>,
    /// Whom the leader would like to give everything to.
    pub favoured: usize,
    /// An entry of an office that was over was not refused.
    pub refused_entry_counted: bool,
}

impl Coordinators {
    /// A cluster with its policies, under its first leader.
    pub fn found(setting: &Setting, now: u64) -> Self {
        let mut ledger = Ledger::default();
        let (subject_key, lease, drift) = (setting::key(), setting::LEASE, setting.drift);
        ledger.apply(1, &Command::Found { subject_key, lease, drift });
        let by = Author { who: String::new(), when_ms: 0, why: None };
        ledger.apply(1, &Command::Policies { replaces: 0, set: Box::new(setting::policies(setting.limit)), by });
        Self {
            ledger: Arc::new(Part::new(ledger)),
            log_office: Office { term: 1, process: 0 },
            office: Office { term: 1, process: 1 },
            since: now,
            rate: setting.leaders[0],
            stranded: None,
            favoured: 0,
            refused_entry_counted: false,
        }
    }

    /// What the leader's clock shows.
    pub fn leader_time(&self, now: u64) -> LeaderTime {
        LeaderTime::from_micros(shown(now - self.since, self.rate))
    }

    /// The next leader, of the next term or, after a restart, of the same.
    pub fn elect(&mut self, same_term: bool, rate: u64, now: u64) {
        self.office = Office { term: self.office.term + u64::from(!same_term), process: self.office.process + 1 };
        (self.since, self.rate) = (now, rate);
    }

    /// The leader dates a heartbeat.
    pub fn stamp(&self, heartbeat: Arc<Part<Heartbeat>>, now: u64) -> Entry {
        Entry { heartbeat, office: self.office, at: self.leader_time(now), favoured: self.favoured }
    }

    /// An operator changes the policies.
    pub fn change_policies(&mut self, within: &Exploration) {
        self.ledger = within.change_policies(&self.ledger);
    }

    /// A dated heartbeat comes into the log. With the first of an office the one before it is over:
    /// what its leader left behind must be refused from then on.
    pub fn commit(&mut self, within: &Exploration, entry: &Entry) -> Option<Arc<Part<Answer>>> {
        let Applied::Answered(ledger, answer) = within.apply(&self.ledger, entry.office.term, entry) else { return None };
        (self.ledger, self.log_office) = (ledger, entry.office);
        if let Some(late) = self.stranded.take_if(|late| late.office != entry.office) {
            let applied = within.apply(&self.ledger, entry.office.term, &late);
            self.refused_entry_counted |= !matches!(applied, Applied::Refused { changed_something: false });
        }
        Some(answer)
    }
}
