//! Single steps of a region and of the ledger, each worked out once: the same step is part of very
//! many transitions.

use super::canonical::{Part, hash_of};
use super::region::Region;
use super::setting::{self, Setting, Terms};
use quorate_ledger::{Author, Command, Ledger, Outcome, Plan, StampedHeartbeat, UnitPlan};
use quorate_shared::heartbeat::{Answer, Heartbeat, Office};
use quorate_shared::time::{LeaderTime, LocalTime};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// One exploration: its setting, and what was worked out before.
#[derive(Debug)]
pub struct Exploration {
    /// What may happen in it.
    pub setting: Setting,
    /// By version, from 1 on.
    terms: [Terms; 2],
    changed: Memory<Changed>,
    heeded: Memory<bool>,
    applied: Memory<Applied>,
}

/// A region after a change, and what it sends.
type Changed = (Arc<Part<Region>>, Option<Arc<Part<Heartbeat>>>);

/// What may happen to a region.
#[derive(Clone, Debug)]
pub enum Change {
    /// It takes all that it may.
    Use,
    /// It sends a heartbeat.
    Beat,
    /// An answer arrives.
    Receive(Arc<Part<Answer>>),
    /// The next step of applying a response.
    Step,
    /// The agent dies and starts again.
    Restart,
    /// The store loses everything.
    Lose,
    /// The store's clock shows the next window.
    Turn,
    /// A second agent asks the store something.
    Look,
}

/// A heartbeat with its leader's date.
#[derive(Clone, Debug)]
pub struct Entry {
    /// As it was sent.
    pub heartbeat: Arc<Part<Heartbeat>>,
    /// Whose date.
    pub office: Office,
    /// The date.
    pub at: LeaderTime,
    /// Who is to have everything.
    pub favoured: usize,
}

/// What became of the ledger.
#[derive(Clone, Debug)]
pub enum Applied {
    /// The entry was taken, or only its date was.
    Answered(Arc<Part<Ledger>>, Arc<Part<Answer>>),
    /// It was of an office that is over.
    Refused {
        /// It must not.
        changed_something: bool,
    },
}

impl Exploration {
    /// One that has not begun.
    pub fn of(setting: Setting) -> Self {
        let terms = [1, 2].map(|version| Terms::of(&setting.policies(version)));
        Self { setting, terms, changed: Memory::default(), heeded: Memory::default(), applied: Memory::default() }
    }

    /// By the policies of this version.
    pub fn terms(&self, version: u64) -> &Terms {
        &self.terms[usize::from(version > 1)]
    }

    /// The policies are changed to the other ones.
    pub fn change_policies(&self, ledger: &Part<Ledger>) -> Arc<Part<Ledger>> {
        let mut after = ledger.value.clone();
        let by = Author { who: String::new(), when_ms: 0, why: None };
        let replaces = after.newest_policies().version;
        after.apply(1, &Command::Policies { replaces, set: Box::new(self.setting.next.clone()), by });
        Arc::new(Part::new(after))
    }

    /// A region after a change at `now`, and what it sends.
    pub fn change(&self, region: &Arc<Part<Region>>, change: &Change, now: LocalTime) -> Changed {
        let what = match change {
            Change::Receive(answer) => answer.whole,
            Change::Beat => 0,
            Change::Step => 1,
            Change::Restart => 2,
            Change::Lose => 3,
            Change::Use => 4,
            Change::Turn => 5,
            Change::Look => 6,
        };
        self.changed.recall(hash_of(&(region.whole, what, now)), || {
            let mut after = region.value.clone();
            let mut beat = None;
            match change {
                Change::Beat => beat = Some(Arc::new(Part::new(after.beat(now)))),
                Change::Receive(answer) => after.receive(&answer.value, now),
                Change::Step => after.step(now),
                Change::Use => after.use_all(now),
                Change::Restart => after.restart(now),
                Change::Lose => after.lose_store(now),
                Change::Turn => after.turn(),
                Change::Look => after.look(now),
            }
            (Arc::new(Part::with_text(after.text(), after)), beat)
        })
    }

    /// False if an answer would change nothing in a region now, and so never again.
    pub fn heeds(&self, region: &Part<Region>, answer: &Part<Answer>) -> bool {
        self.heeded.recall(hash_of(&(region.whole, answer.whole)), || region.value.heeds(&answer.value))
    }

    /// An entry comes into the log under a term.
    pub fn apply(&self, ledger: &Part<Ledger>, term: u64, entry: &Entry) -> Applied {
        let Entry { heartbeat, office, at, favoured } = entry;
        self.applied.recall(hash_of(&(ledger.whole, term, heartbeat.whole, office, at, favoured)), || {
            let plans = vec![Plan { budget: setting::budget(), targets: setting::all_to(*favoured, self.setting.limit) }];
            let units = |label| UnitPlan { budget: setting::budget(), label, targets: setting::units_to(*favoured, self.setting.limit) };
            let unit_plans = heartbeat.value.windows.iter().map(|window| units(window.label)).collect();
            let stamped = StampedHeartbeat { heartbeat: heartbeat.value.clone(), office: *office, at: *at, plans, unit_plans };
            let mut after = ledger.value.clone();
            match after.apply(term, &Command::Heartbeat(Box::new(stamped))) {
                Outcome::Heartbeat(answer) => Applied::Answered(Arc::new(Part::new(after)), Arc::new(Part::new(answer))),
                _ => Applied::Refused { changed_something: after != ledger.value },
            }
        })
    }
}

/// Outcomes by the hash of all that they depend on.
#[derive(Debug)]
struct Memory<T>(Mutex<BTreeMap<u64, T>>);

impl<T> Default for Memory<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Memory<T> {
    fn recall(&self, key: u64, work_out: impl FnOnce() -> T) -> T {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        known.unwrap_or_else(|| {
            let outcome = work_out();
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, outcome.clone());
            outcome
        })
    }
}
