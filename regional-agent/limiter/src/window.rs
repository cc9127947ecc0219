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
    /// How many, within what the region might spend.
    pub spent: MicroTokens,
    /// Beyond that, by costs above their estimates: leaves room for less, and is not reported as spent.
    pub beyond: MicroTokens,
    /// [`Record::lost_at`] when they were counted: a replica that takes over, or a backup, brings
    /// counts from before, which say nothing.
    pub lost_at: Option<StoreTime>,
}

/// What a hold needs to know of units that it was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Of which window.
    pub label: WindowLabel,
    /// When that is over.
    pub ends: StoreTime,
    /// The region's floor in it.
    pub floor: MicroTokens,
}

impl Units {
    /// Puts a true `cost` in the place of an estimate of the same window, of which so much is `usable` now: what is
    /// given back, and what was not there to be taken.
    pub fn settle(&mut self, usable: MicroTokens, estimate: MicroTokens, cost: MicroTokens) -> (MicroTokens, MicroTokens) {
        let (returned, excess) = (estimate.saturating_sub(cost).min(self.spent), cost.saturating_sub(estimate));
        let spent = self.spent.saturating_sub(returned);
        let beyond = self.beyond.saturating_add(excess).min(MicroTokens(MAX_EXACT));
        let there = beyond.min(usable.saturating_sub(spent));
        (self.spent, self.beyond) = (spent.saturating_add(there), beyond.saturating_sub(there));
        (returned, excess.min(self.beyond))
    }

    /// All that was used.
    const fn used(&self) -> MicroTokens {
        self.spent.saturating_add(self.beyond)
    }
}

/// How one allowance stands in the window of one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Purse {
    /// Spent so far.
    pub units: Units,
    floor: MicroTokens,
    /// What the region may spend in the window, floor included.
    usable: MicroTokens,
    ends: StoreTime,
    /// Until then.
    ends_in: Duration,
}

impl Purse {
    /// By the region's `record` and what it has `stored`; `None` of a limit without windows.
    pub fn new(charge: &Charge, record: &Record, stored: Option<Units>, now: StoreTime) -> Option<Self> {
        let label = charge.limit.window_at(now.max(record.clock))?;
        let floor = floor_in(charge, label);
        let granted = record.grants.get(&(charge.budget.clone(), label)).copied().unwrap_or_default();
        let counts = |units: &Units| units.label == label && (record.lost_at.is_none() || units.lost_at == record.lost_at);
        let (spent, beyond) = match stored.filter(counts) {
            Some(units) => (units.spent, units.beyond),
            None if record.counts_as_used(&charge.budget, label) => (floor.max(granted.used_at_most), MicroTokens::ZERO),
            None => (MicroTokens::ZERO, MicroTokens::ZERO),
        };
        let ends = charge.limit.end_of(label);
        let units = Units { label, spent, beyond, lost_at: record.lost_at };
        Some(Self { units, floor, usable: floor.max(granted.units), ends, ends_in: ends.since(now) })
    }

    /// True if `cost` more may be spent. Who only looks spends nothing, however much that is.
    pub fn fits(&self, cost: MicroTokens) -> bool {
        cost == MicroTokens::ZERO || self.units.used().saturating_add(cost) <= self.usable
    }

    /// Spends `cost`.
    pub fn spend(&mut self, cost: MicroTokens) {
        self.units.spent = self.units.spent.saturating_add(cost);
    }

    /// What a hold of what was spent needs to know.
    pub const fn ticket(&self) -> Ticket {
        Ticket { label: self.units.label, ends: self.ends, floor: self.floor }
    }

    /// What the answer is made of.
    pub const fn standing(&self, fits: bool) -> Standing {
        Standing { fits, usable: self.usable, used: self.units.used(), ends_in: self.ends_in }
    }
}

/// How one allowance stands after a question: what a store answers for each charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// True if the charge fitted by itself.
    pub fits: bool,
    /// What the region may spend in the window, floor included.
    pub usable: MicroTokens,
    /// Used of it, or beyond it, after the decision.
    pub used: MicroTokens,
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
            remaining: self.usable.saturating_sub(self.used),
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
