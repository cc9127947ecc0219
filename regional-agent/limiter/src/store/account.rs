//! A charge while a question is decided.

use crate::bucket::{Bucket, Standing, Terms};
use crate::decision::{Charge, LimitDecision};
use crate::hold::{HoldId, NewHold, Part, Place};
use crate::share::ShareTerms;
use crate::sliding::{self, WindowCount};
use crate::slots::Slots;
use crate::use_log::{self, UseLog};
use crate::window::Purse;
use quorate_shared::time::StoreTime;
use std::time::Duration;

/// A charge and what it is counted by while a question is decided.
pub(super) struct Account<'a> {
    pub charge: &'a Charge,
    pub fits: bool,
    pub count: Count,
}

pub(super) enum Count {
    Bucket(Terms, Bucket),
    /// With how long a unit counts.
    Log(ShareTerms, Duration),
    /// With the length of a window.
    Sliding(ShareTerms, Duration, WindowCount),
    Window(Purse),
    /// With how long a slot lasts, and the id by which it is taken.
    Slots(ShareTerms, Duration, HoldId),
    /// Its floor has ended: it is not looked at.
    Ended,
}

impl Account<'_> {
    /// Takes the cost.
    pub fn take(&mut self) {
        match &mut self.count {
            Count::Bucket(_, bucket) => bucket.take(self.charge.cost),
            Count::Sliding(_, _, count) => count.current = count.current.saturating_add(self.charge.cost),
            Count::Window(purse) => purse.spend(self.charge.cost),
            // these are long: what is taken is added where it is kept
            Count::Log(..) | Count::Slots(..) | Count::Ended => {}
        }
    }

    /// What was taken is an estimate from now on, to be settled by `hold`.
    pub fn reserve(&mut self, now: StoreTime, hold: NewHold) -> Option<Part> {
        let estimate = self.charge.cost;
        let place = match &mut self.count {
            Count::Ended => return None,
            Count::Bucket(terms, bucket) => Place::Bucket(bucket.reserve(hold, estimate, terms)),
            Count::Slots(_, _, slot) => Place::Slot(*slot),
            Count::Window(purse) => Place::Window(purse.ticket()),
            Count::Log(_, keep) => Place::Log(use_log::Ticket { at: now, keep: *keep }),
            Count::Sliding(_, length, WindowCount { index, .. }) => Place::Sliding(sliding::Ticket { index: *index, length: *length }),
        };
        Some(Part { budget: self.charge.budget.clone(), estimate, place })
    }

    /// In the words of the answer; `log` and `slots` are those of the budget, as they are kept after the decision.
    pub fn decision(&self, now: StoreTime, log: Option<&UseLog>, slots: Option<&Slots>) -> LimitDecision {
        match &self.count {
            Count::Bucket(terms, bucket) => {
                Standing::of(bucket, terms, self.fits, self.charge.cost).decision(self.charge.cost, terms.period)
            }
            Count::Log(terms, keep) => {
                let empty = terms.standing(self.fits);
                log.map_or(empty, |log| empty.logged(log, now, *keep, self.charge.cost)).decision(self.charge.cost)
            }
            Count::Sliding(terms, window, count) => {
                let weighed = count.weighed(*window, now);
                terms.standing(self.fits).weighed(&weighed, self.charge.cost).decision(self.charge.cost)
            }
            Count::Slots(terms, keep, _) => {
                let empty = terms.standing(self.fits);
                slots.map_or(empty, |slots| empty.held(slots, now, *keep, self.charge.cost)).decision(self.charge.cost)
            }
            Count::Window(purse) => purse.standing(self.fits).decision(self.charge.cost),
            Count::Ended => LimitDecision::ended(self.charge.cost),
        }
    }
}
