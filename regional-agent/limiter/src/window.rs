//! Units of one window of an allowance: what a region may spend, and has spent.
//!
//! The same stands in `store/scripts/window.lua` of the agent; a test plays both. Which window it is
//! is computed here alone: a script is told when it begins and ends.

use crate::decision::{Charge, LimitDecision};
use crate::record::Record;
use quorate_shared::time::{StoreTime, WindowLabel};
use quorate_shared::units::{Capacity, MAX_EXACT, MicroTokens};
use std::time::Duration;

/// Units spent of the newest window of a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Units {
    /// Which window.
    pub label: WindowLabel,
    /// How many.
    pub spent: MicroTokens,
    /// [`Record::lost_at`] when they were counted: a replica that takes over, or a backup, brings
    /// counts from before, which say nothing.
    pub lost_at: Option<StoreTime>,
}

/// How one allowance stands in the window of one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Purse {
    /// Spent so far.
    pub units: Units,
    /// What the region may spend in the window, floor included.
    usable: MicroTokens,
    /// Until the window ends.
    ends_in: Duration,
}

impl Purse {
    /// By the region's `record` and what it has `stored`; `None` of a limit without windows.
    pub fn new(charge: &Charge, record: &Record, stored: Option<Units>, now: StoreTime) -> Option<Self> {
        let label = charge.limit.window_at(now.max(record.clock))?;
        let floor = floor_in(charge, label);
        let granted = record.grants.get(&(charge.budget.clone(), label)).copied().unwrap_or_default();
        let counts = |units: &Units| units.label == label && (record.lost_at.is_none() || units.lost_at == record.lost_at);
        let spent = match stored.filter(counts) {
            Some(units) => units.spent,
            None if record.counts_as_used(&charge.budget, label) => floor.max(granted.used_at_most),
            None => MicroTokens::ZERO,
        };
        let ends_in = charge.limit.end_of(label).since(now);
        Some(Self { units: Units { label, spent, lost_at: record.lost_at }, usable: floor.max(granted.units), ends_in })
    }

    /// True if `cost` more may be spent.
    pub fn fits(&self, cost: MicroTokens) -> bool {
        self.units.spent.saturating_add(cost) <= self.usable
    }

    /// Spends `cost`.
    pub fn spend(&mut self, cost: MicroTokens) {
        self.units.spent = self.units.spent.saturating_add(cost);
    }

    /// What the answer is made of.
    pub const fn standing(&self, fits: bool) -> Standing {
        Standing { fits, usable: self.usable, spent: self.units.spent, ends_in: self.ends_in }
    }
}

/// How one allowance stands after a question: what a store answers for each charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// True if the charge fitted by itself.
    pub fits: bool,
    /// What the region may spend in the window, floor included.
    pub usable: MicroTokens,
    /// Spent, after the decision.
    pub spent: MicroTokens,
    /// Until the window ends, by the store's clock.
    pub ends_in: Duration,
}

impl Standing {
    /// In the words of the answer.
    pub fn decision(&self, cost: MicroTokens) -> LimitDecision {
        let can_fit = !self.fits && cost <= self.usable;
        LimitDecision {
            fits: self.fits,
            capacity: Capacity::new(MicroTokens::ZERO, self.usable),
            remaining: self.usable.saturating_sub(self.spent),
            retry_after: can_fit.then_some(self.ends_in),
            reset_after: Some(self.ends_in),
            used_lease: false,
        }
    }
}

/// The floor of a charge in one window, at most what a script can hold. R9: in a window that began
/// under another policy set it is at most what that gave.
pub fn floor_in(charge: &Charge, label: WindowLabel) -> MicroTokens {
    let former = charge.former_floors.iter().filter(|(last, _)| label <= *last).map(|(_, floor)| *floor);
    former.fold(charge.floor.burst, MicroTokens::min).min(MicroTokens(MAX_EXACT))
}
