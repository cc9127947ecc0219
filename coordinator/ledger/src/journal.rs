//! What applying the last entry did, for those who keep an account of it. Nothing in the ledger rests on it, and no
//! snapshot has it.

use quorate_shared::heartbeat::Holding;
use quorate_shared::names::{BudgetId, RegionName};
use quorate_shared::time::WindowLabel;
use quorate_shared::units::MicroTokens;

/// One thing that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A region was offered another holding than before.
    Granted {
        /// To whom.
        region: RegionName,
        /// Of which budget.
        budget: BudgetId,
        /// All that it has of it beyond its floor, and of its floor lent to others.
        holding: Holding,
    },
    /// A region was granted another number of units of a window than before.
    GrantedUnits {
        /// To whom.
        region: RegionName,
        /// Of which budget.
        budget: BudgetId,
        /// Of which window.
        label: WindowLabel,
        /// All that it may spend of it, its floor included; zero: its floor.
        units: MicroTokens,
    },
    /// A region opened a session.
    SessionBegan {
        /// Which region.
        region: RegionName,
        /// The session.
        session: u64,
    },
    /// A region was not heard of in time: what it held returned, what it lent is its own again.
    LeaseEnded {
        /// Which region.
        region: RegionName,
    },
    /// The operator's word that a region serves nothing counts from now on.
    Fenced {
        /// Which region.
        region: RegionName,
    },
    /// A policy set is in force.
    Activated {
        /// Its version.
        version: u64,
    },
    /// An internal check failed: nothing is granted of this budget.
    CheckFailed {
        /// Of which budget.
        budget: BudgetId,
        /// What failed.
        what: String,
    },
}

/// The notes of one entry. Any two are equal: replicas agree in what they know, not in when they began to take notes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal(Vec<Note>);

impl PartialEq for Journal {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Journal {
    /// Another entry begins.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub fn note(&mut self, note: Note) {
        self.0.push(note);
    }

    /// In the order in which it was done.
    pub fn notes(&self) -> &[Note] {
        &self.0
    }
}
