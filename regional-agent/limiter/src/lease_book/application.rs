//! A response on its way into the store, and what it changes.

use crate::record::Renewal;
use quorate_shared::heartbeat::{Grant, Holding, Offer, PoliciesInForce, Stamp};
use quorate_shared::names::BudgetId;
use quorate_shared::time::{LocalTime, StoreTime};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A response on its way into the store.
#[derive(Clone, Debug, PartialEq)]
pub struct Application {
    /// Of the response.
    pub stamp: Stamp,
    /// What to write before the stamp.
    pub reductions: Vec<(BudgetId, Holding)>,
    /// What to write after the stamp.
    pub increases: Vec<(BudgetId, Holding)>,
    /// Units of allowances to write before the stamp.
    pub fewer_units: Vec<Grant>,
    /// Units to write after the stamp.
    pub more_units: Vec<Grant>,
    /// What holds once it is applied.
    pub holdings: BTreeMap<BudgetId, Holding>,
    /// True if budgets that it does not name have nothing.
    pub full: bool,
    /// True if nothing was ever admitted in this region.
    pub genesis: bool,
    /// The policy sets that hold from the stamp on.
    pub policies: PoliciesInForce,
    /// See [`quorate_shared::heartbeat::Response::clock_at_least`].
    pub clock_at_least: StoreTime,
    pub(super) sent: LocalTime,
    pub(super) received: LocalTime,
    pub(super) renewal: Renewal,
    pub(super) longest_lease: Duration,
    pub(super) offers: Vec<Offer>,
    pub(super) grants: Vec<Grant>,
}

impl Application {
    /// True if the coordinators should hear of it at once: capacity that others wait for is free.
    pub fn gives_up(&self) -> bool {
        let rises = |fewer: &Grant| self.more_units.iter().any(|more| more.budget == fewer.budget && more.label == fewer.label);
        !self.reductions.is_empty() || self.fewer_units.iter().any(|fewer| !rises(fewer))
    }

    /// By what it renews the lease.
    pub fn renewal(&self) -> Renewal {
        self.renewal.clone()
    }
}

/// The way from what is held to what is offered: first a part that only gives up, then one that
/// only takes.
#[derive(Debug, Default)]
pub(super) struct Difference {
    pub reductions: Vec<(BudgetId, Holding)>,
    pub increases: Vec<(BudgetId, Holding)>,
}

impl Difference {
    pub fn between(held: &BTreeMap<BudgetId, Holding>, offered: &BTreeMap<BudgetId, Holding>) -> Self {
        let mut way = Self::default();
        let named: BTreeSet<&BudgetId> = held.keys().chain(offered.keys()).collect();
        for id in named {
            let held = held.get(id).cloned().unwrap_or_default();
            let offered = offered.get(id).cloned().unwrap_or_default();
            let between = smaller(&held, &offered);
            if between != held {
                way.reductions.push((id.clone(), between.clone()));
            }
            if between != offered {
                way.increases.push((id.clone(), offered));
            }
        }
        way
    }
}

/// What both allow: the smaller pool and loans, the larger part lent.
fn smaller(a: &Holding, b: &Holding) -> Holding {
    let loans = a.borrowed.iter().map(|(lender, loan)| (lender.clone(), loan.min(b.borrowed_from(lender))));
    Holding { pool: a.pool.min(b.pool), lent: a.lent.max(b.lent), borrowed: loans.filter(|(_, loan)| !loan.is_zero()).collect() }
}
