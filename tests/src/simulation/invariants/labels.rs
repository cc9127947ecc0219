//! docs/protocol.md, "Allowance": what all regions together spend of one window is within the
//! limit, for every label.
//!
//! A limit that is lowered holds from the next window on, one that is raised at once: of a window
//! counts the greatest limit that the coordinators went by in it.

use super::{Terms, Violation};
use crate::simulation::Micros;
use quorate_shared::time::WindowLabel;
use quorate_shared::units::MicroTokens;
use std::collections::BTreeMap;

const RULE: &str = "units spent within the limit of their window";

/// What was spent of each window, by place, and by generation of the budgets there.
#[derive(Debug)]
pub struct Labels {
    windows: Vec<BTreeMap<(u64, WindowLabel), Spent>>,
    /// The greatest limit of each generation.
    limits: Vec<BTreeMap<u64, MicroTokens>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    units: MicroTokens,
    /// The greatest that held in the window.
    limit: MicroTokens,
}

impl Labels {
    /// Nothing was spent yet.
    pub fn new(places: usize) -> Self {
        Self { windows: vec![BTreeMap::new(); places], limits: vec![BTreeMap::new(); places] }
    }

    /// Budgets of this generation have, or had, this limit.
    pub fn know(&mut self, place: usize, generation: u64, limit: MicroTokens) {
        let known = self.limits[place].entry(generation).or_default();
        *known = (*known).max(limit);
    }

    /// The coordinators go by this limit in a window.
    pub fn allow(&mut self, place: usize, generation: u64, label: WindowLabel, limit: MicroTokens) {
        let window = self.windows[place].entry((generation, label)).or_default();
        window.limit = window.limit.max(limit);
    }

    /// An estimate of a window took so much less than it was counted with.
    pub fn lower(&mut self, place: usize, generation: u64, label: WindowLabel, less: MicroTokens) {
        if let Some(window) = self.windows[place].get_mut(&(generation, label)) {
            window.units = window.units.saturating_sub(less);
        }
    }

    /// Counts an admission at `now` under these terms.
    pub fn admit(&mut self, now: Micros, place: usize, terms: &Terms, label: WindowLabel, cost: MicroTokens) -> Result<(), Violation> {
        self.allow(place, terms.budget.generation, label, terms.whole.burst);
        self.admit_by(now, place, terms.budget.generation, label, cost)
    }

    /// Counts an admission at `now` by a region that goes by budgets of this generation, perhaps of former times. Of those
    /// the coordinators heard of no window any more: any of their limits counts.
    pub fn admit_by(&mut self, now: Micros, place: usize, generation: u64, label: WindowLabel, cost: MicroTokens) -> Result<(), Violation> {
        let window = self.windows[place].entry((generation, label)).or_default();
        window.units = window.units.saturating_add(cost);
        let known = self.limits[place].get(&generation).copied().unwrap_or_default();
        let Spent { units, limit } = *window;
        let limit = if limit == MicroTokens::ZERO { known } else { limit };
        match units <= limit {
            true => Ok(()),
            false => {
                let what =
                    format!("place {place}, generation {generation}: {units} of {limit} in the window of {}", label.start().as_micros());
                Err(Violation { at: now, rule: RULE, what })
            }
        }
    }
}
