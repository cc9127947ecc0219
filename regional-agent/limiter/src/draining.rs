//! Up to which response past use has come down: what a region reports as drained (shape `share`).

use quorate_shared::heartbeat::{Number, Offer, Stamp};
use quorate_shared::names::BudgetId;
use quorate_shared::time::{Drift, LocalTime};
use std::collections::BTreeMap;
use std::time::Duration;

/// The budgets of a session whose past use keeps counting, and the policies'.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draining {
    budgets: BTreeMap<BudgetId, Drained>,
    floors: Floors,
}

/// One budget.
#[derive(Clone, Debug, Default)]
struct Drained {
    /// The response that last changed what is held.
    changed: Number,
    /// The newest response up to which the count has come down.
    by: Option<Stamp>,
    /// The first heartbeat that said so of the last change.
    told: Option<u64>,
}

/// Which response's policies alone past use counts under.
#[derive(Clone, Debug, Default)]
struct Floors {
    /// The newest such response of this session.
    drained: Option<Stamp>,
    /// The longest drain of any policy met in this session.
    longest: Duration,
    /// Since when the present floors are in force.
    since: LocalTime,
}

impl Draining {
    /// Of a session opened at `now`: what was in force just before, nobody knows.
    pub fn open(now: LocalTime) -> Self {
        Self { floors: Floors { since: now, ..Floors::default() }, ..Self::default() }
    }

    /// Budgets of which the count is to be known before each heartbeat.
    pub fn budgets(&self) -> impl Iterator<Item = &BudgetId> {
        self.budgets.keys()
    }

    /// The count of a budget fits what may be used without the parts given up by response `by`.
    pub fn note_drained(&mut self, budget: &BudgetId, by: Stamp) {
        if let Some(drained) = self.budgets.get_mut(budget) {
            drained.by = Some(by);
        }
    }

    /// A response is in force: it offered these, and named all there is if `full`. Budgets of which
    /// nothing is `held`, and the coordinators know that, need no word any more.
    pub fn applied(&mut self, stamp: Stamp, offers: &[Offer], full: bool, held: impl Fn(&BudgetId) -> bool) {
        if full {
            self.budgets.retain(|id, _| offers.iter().any(|offer| offer.budget == *id));
        }
        let known = |d: &Drained| d.told.is_some_and(|seq| seq <= stamp.number.seq);
        self.budgets.retain(|id, drained| held(id) || !known(drained));
        for offer in offers.iter().filter(|offer| offer.drains) {
            let drained = self.budgets.entry(offer.budget.clone()).or_default();
            (drained.changed, drained.told) = (stamp.number, None);
        }
    }

    /// What heartbeat `seq` says of the budgets.
    pub fn report(&mut self, seq: u64) -> Vec<(BudgetId, Stamp)> {
        for drained in self.budgets.values_mut() {
            if drained.told.is_none() && drained.by.is_some_and(|by| by.number >= drained.changed) {
                drained.told = Some(seq);
            }
        }
        self.budgets.iter().filter_map(|(id, drained)| Some((id.clone(), drained.by?))).collect()
    }

    /// Floors have changed at `now`, or may have; `longest` is the longest drain of the policies before and after.
    pub fn floors_applied(&mut self, now: LocalTime, changed: bool, longest: Duration) {
        self.floors.longest = self.floors.longest.max(longest);
        if changed {
            self.floors.since = now;
        }
    }

    /// The newest response, `applied` being in force, whose floors alone past use counts under at `now`.
    pub fn floors_drained(&mut self, now: LocalTime, applied: Option<Stamp>, drift: Drift) -> Option<Stamp> {
        if now >= self.floors.since.after(drift.stretch(self.floors.longest)) {
            self.floors.drained = applied;
        }
        self.floors.drained
    }
}
