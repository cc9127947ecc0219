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

/// What was spent of each window, by place.
#[derive(Debug)]
pub struct Labels {
    windows: Vec<BTreeMap<WindowLabel, Spent>>,
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
        Self { windows: vec![BTreeMap::new(); places] }
    }

    /// The coordinators go by this limit in a window.
    pub fn allow(&mut self, place: usize, label: WindowLabel, limit: MicroTokens) {
        let window = self.windows[place].entry(label).or_default();
        window.limit = window.limit.max(limit);
    }

    /// Counts an admission at `now`.
    pub fn admit(&mut self, now: Micros, place: usize, terms: &Terms, label: WindowLabel, cost: MicroTokens) -> Result<(), Violation> {
        self.allow(place, label, terms.whole.burst);
        let window = self.windows[place].entry(label).or_default();
        window.units = window.units.saturating_add(cost);
        let Spent { units, limit } = *window;
        match units <= limit {
            true => Ok(()),
            false => {
                let what = format!("{}: {units} of {limit} in the window of {}", terms.budget, label.start().as_micros());
                Err(Violation { at: now, rule: RULE, what })
            }
        }
    }
}
