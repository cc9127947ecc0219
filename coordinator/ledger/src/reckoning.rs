//! What the ledger reckons with: the most and the least that a region may be acting on.

use crate::Ledger;
use crate::windows::kind;
use quorate_shared::names::{BudgetId, RegionName};
use quorate_shared::time::WindowLabel;
use quorate_shared::units::{Capacity, MicroTokens};
use std::collections::BTreeMap;

/// What one region may hold of one budget, by all that it was told since its echo (rule C).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reckoning {
    /// True if the region acts on what is said here: its lease has not ended since it was last told everything.
    pub live: bool,
    /// The most of the pool.
    pub pool: Capacity,
    /// The most of each lender's floor.
    pub borrowed: BTreeMap<RegionName, Capacity>,
    /// The least that it leaves alone of its own floor.
    pub lent_least: Capacity,
    /// The most that it was told to leave alone.
    pub lent_most: Capacity,
}

impl Ledger {
    /// The newest window that each region has opened of an allowance, with the limit that holds in it. For checks.
    pub fn open_window_limits(&self, budget: &BudgetId) -> Vec<(WindowLabel, MicroTokens)> {
        let kind = kind(budget);
        let newest = self.regions.values().filter_map(|session| session.windows.get(&kind).copied());
        newest.filter_map(|label| Some((label, self.window_terms(budget, label)?.1))).collect()
    }

    /// What a region may hold of a budget beyond its floor. For checks.
    pub fn reckoning(&self, budget: &BudgetId, region: &RegionName) -> Reckoning {
        let live = self.regions.get(region).is_some_and(|session| !session.expired && !session.wants_full());
        let Some(share) = self.budgets.get(budget).and_then(|entry| entry.shares.get(region)) else {
            return Reckoning { live, ..Reckoning::default() };
        };
        let mut told = Reckoning { live, lent_least: share.offered().lent, ..Reckoning::default() };
        for holding in share.told() {
            told.pool = told.pool.max(holding.pool);
            told.lent_least = told.lent_least.min(holding.lent);
            told.lent_most = told.lent_most.max(holding.lent);
            for (lender, loan) in &holding.borrowed {
                let most = told.borrowed.entry(lender.clone()).or_default();
                *most = most.max(*loan);
            }
        }
        told
    }
}
