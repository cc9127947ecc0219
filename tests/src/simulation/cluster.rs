//! The coordinators: one log, a leader that changes, old leaders that do not know it.

use super::Micros;
use super::chance::Chance;
use super::clock::{rate, scale};
use super::network::NODES;
use quorate_ledger::{Author, Backup, Command, Ledger, Outcome, StampedHeartbeat};
use quorate_shared::heartbeat::{Answer, Heartbeat, Office};
use quorate_shared::names::{RegionName, SubjectKey};
use quorate_shared::policy::PolicySet;
use quorate_shared::time::{Drift, LeaderTime};
use std::time::Duration;

/// No lease of a schedule is longer.
const LONGEST_LEASE: Duration = Duration::from_secs(6);

/// The replicated log and those who write it.
#[derive(Debug)]
pub struct Cluster {
    /// What the log amounts to: all replicas are equal.
    pub ledger: Ledger,
    term: u64,
    offices: u64,
    leader: Option<Leader>,
    /// A leader that was cut off from the others, and does not know that it leads no more.
    deposed: Option<Leader>,
    /// The office of the last entry committed by its own leader.
    committed: Option<Office>,
    /// Entries of leaders before, not committed when they lost their office.
    stranded: Vec<StampedHeartbeat>,
    /// One of after each change of policies.
    backups: Vec<Backup>,
    /// Offices up to this one were of coordinators that are lost.
    lost_offices: u64,
}

#[derive(Clone, Copy, Debug)]
struct Leader {
    node: usize,
    office: Office,
    since: Micros,
    /// How fast its clock runs, in millionths of true time.
    rate: u64,
}

impl Leader {
    fn time(&self, now: Micros) -> LeaderTime {
        LeaderTime::from_micros(scale(now - self.since, self.rate, 1_000_000))
    }
}

impl Cluster {
    /// A founded cluster with one policy set.
    pub fn found(set: PolicySet, key: SubjectKey, lease: Duration, drift: Drift) -> Self {
        let mut ledger = Ledger::default();
        ledger.apply(1, &Command::Found { subject_key: key, lease, drift });
        let mut cluster = Self {
            ledger,
            term: 1,
            offices: 0,
            leader: None,
            deposed: None,
            committed: None,
            stranded: Vec::new(),
            backups: Vec::new(),
            lost_offices: 0,
        };
        cluster.change_policies(set);
        cluster
    }

    /// Proposes a set in place of the newest. False if another one is pending.
    pub fn change_policies(&mut self, set: PolicySet) -> bool {
        let replaces = self.ledger.newest_policies().version;
        let outcome = self.ledger.apply(self.term, &Command::Policies { replaces, set: Box::new(set), by: operator() });
        self.backups.extend(self.ledger.backup());
        matches!(outcome, Outcome::Policies { .. })
    }

    /// Other coordinators begin, with one of the backups and nothing else. What was on its way to the log of those before
    /// is lost with them. False if the backup does not name a region that may be using a floor: an operator adds that first.
    pub fn restore(&mut self, chance: &mut Chance) -> bool {
        let backup = self.backups[chance.below(self.backups.len() as u64) as usize].clone();
        let names = |region: &RegionName| backup.history.last().is_some_and(|newest| newest.set.regions.contains_key(region));
        if !self.ledger.known_regions().all(names) {
            return false;
        }
        let version = self.ledger.newest_policies().version.max(self.backups.len() as u64) + 1_000;
        let mut ledger = Ledger::default();
        let founding = Command::Found { subject_key: backup.subject_key.clone(), lease: backup.lease, drift: backup.drift };
        let restore = Command::Restore { backup: Box::new(backup), longest_lease: LONGEST_LEASE, version, by: operator() };
        [founding, restore].iter().for_each(|command| drop(ledger.apply(1, command)));
        (self.ledger, self.term, self.lost_offices) = (ledger, 1, self.offices);
        (self.leader, self.deposed, self.committed) = (None, None, None);
        self.stranded.clear();
        true
    }

    /// Makes leases last so long from now on. False without a leader.
    pub fn change_lease(&mut self, lease: Duration) -> bool {
        self.leader.is_some() && self.ledger.apply(self.term, &Command::Lease { lease, by: operator() }) == Outcome::Done
    }

    /// Fences a region: `None` if that cannot be said now, else whether it was done.
    pub fn fence(&mut self, region: &RegionName) -> Option<bool> {
        self.leader?;
        match self.ledger.apply(self.term, &Command::Fence { region: region.clone(), by: operator() }) {
            Outcome::StillLive => None,
            outcome => Some(outcome == Outcome::Done),
        }
    }

    /// The leader goes; what it had not committed may still be committed by the next one.
    pub fn lose_leader(&mut self) {
        self.leader = None;
    }

    /// The leader is cut off from the other coordinators, and goes on stamping.
    pub fn isolate_leader(&mut self) {
        self.deposed = self.leader.take();
    }

    /// Nobody is cut off any more.
    pub fn rejoin(&mut self) {
        self.deposed = None;
    }

    /// A node is elected; gives the entries of leaders before that it commits, with what came of them. If `restarted`, a leader
    /// leads on in its old term, unless another has been elected meanwhile.
    pub fn elect(&mut self, now: Micros, restarted: bool, drift: Drift, chance: &mut Chance) -> Vec<(StampedHeartbeat, Outcome)> {
        let mut committed = Vec::new();
        let restarted = restarted && self.deposed.is_none();
        for entry in std::mem::take(&mut self.stranded) {
            // in its own place; or in that of a new term, where it must count for nothing
            let misplaced = !restarted && chance.per_mille(300);
            let term = if misplaced { self.term + 1 } else { entry.office.term };
            if chance.per_mille(500) {
                let outcome = self.ledger.apply(term, &Command::Heartbeat(Box::new(entry.clone())));
                committed.push((entry, outcome));
            }
        }
        if !restarted {
            self.term += 1;
        }
        self.offices += 1;
        let away = self.deposed.map(|leader| leader.node);
        let node = (0..NODES).cycle().skip(chance.below(NODES as u64) as usize).find(|node| Some(*node) != away).unwrap_or_default();
        let office = Office { term: self.term, process: self.offices };
        self.leader = Some(Leader { node, office, since: now, rate: rate(drift, chance) });
        committed
    }

    /// True while somebody leads with a majority behind it.
    pub fn has_leader(&self) -> bool {
        self.leader.is_some()
    }

    /// True while somebody believes to lead who does not.
    pub fn has_deposed(&self) -> bool {
        self.deposed.is_some()
    }

    /// Whoever `node` takes for the leader dates a heartbeat; `None` if it knows none.
    pub fn stamp(&self, node: usize, heartbeat: Heartbeat, now: Micros) -> Option<StampedHeartbeat> {
        let leader = match self.deposed {
            Some(deposed) if deposed.node == node => deposed,
            _ => self.leader?,
        };
        Some(self.ledger.stamp(heartbeat, leader.office, leader.time(now)))
    }

    /// An entry that has not got its place in the log may get it under the next leader. What a process had
    /// only in memory when it ended, and never got into the log, nobody can commit.
    fn strand(&mut self, entry: StampedHeartbeat) {
        let ended = self.leader.is_some() && entry.office.term == self.term && self.committed != Some(entry.office);
        if !ended && entry.office.process > self.lost_offices {
            self.stranded.push(entry);
        }
    }

    /// Commits an entry dated some time ago; `None` if its leader is no more.
    pub fn commit(&mut self, entry: StampedHeartbeat) -> Option<Answer> {
        if self.leader.is_none_or(|l| l.office != entry.office) {
            self.strand(entry);
            return None;
        }
        self.committed = Some(entry.office);
        match self.ledger.apply(self.term, &Command::Heartbeat(Box::new(entry))) {
            Outcome::Heartbeat(answer) => Some(answer),
            _ => None,
        }
    }
}

fn operator() -> Author {
    Author { who: "operator".into(), when_ms: 0, why: None }
}
