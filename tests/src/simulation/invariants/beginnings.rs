//! docs/protocol.md, "Policy changes": budgets of another algorithm, or of another window, begin with all used up.
//!
//! After what a region took of the former ones it gets of a flow what refills since, and of a share nothing for as long
//! as past use would count. Of a window that had begun by then all such regions together get what is in no floor.

use super::admissions::Admissions;
use super::{Terms, Violation};
use crate::simulation::Micros;
use quorate_shared::policy::Shape;
use quorate_shared::time::{StoreTime, WindowLabel};
use quorate_shared::units::MicroTokens;
use std::collections::BTreeMap;
use std::time::Duration;

const RULE: &str = "another algorithm begins with all used up";

/// What each region took last of each place, and what since its budgets there began.
#[derive(Debug)]
pub struct Beginnings {
    /// By region and place.
    uses: Vec<Vec<Uses>>,
    /// By region: what refills.
    flows: Vec<Admissions>,
    /// By place.
    windows: Vec<Windows>,
}

/// One admission.
#[derive(Clone, Copy, Debug, Default)]
pub struct Use {
    /// Of which budget.
    pub generation: u64,
    /// When.
    pub at: Micros,
    /// The same by the store's clock, which was never put forward.
    pub clock: StoreTime,
}

#[derive(Clone, Copy, Debug, Default)]
struct Uses {
    last: Use,
    /// The last one of a former generation.
    before: Option<Use>,
}

/// What was spent of windows that had begun before the budgets did.
#[derive(Clone, Debug, Default)]
struct Windows {
    generation: u64,
    /// The greatest limit of the generation, and the least that was in floors.
    limits: (MicroTokens, MicroTokens),
    spent: BTreeMap<WindowLabel, MicroTokens>,
    /// The policy was taken out meanwhile: then its budgets begin like those of a new one.
    gone: bool,
}

impl Beginnings {
    /// Nothing was taken yet.
    pub fn new(regions: usize, places: usize) -> Self {
        let flows = (0..regions).map(|_| Admissions::new(places)).collect();
        Self { uses: vec![vec![Uses::default(); places]; regions], flows, windows: vec![Windows::default(); places] }
    }

    /// Other terms are in force from now on.
    pub fn follow(&mut self, now: Micros, place: usize, before: Option<&Terms>, after: Option<&Terms>) {
        self.flows.iter_mut().for_each(|flow| flow.retune(now, place, before, after));
        let windows = &mut self.windows[place];
        let Some(after) = after else {
            windows.gone = true;
            return;
        };
        let floors = after.floors.iter().map(|floor| floor.burst).fold(MicroTokens::ZERO, MicroTokens::saturating_add);
        if windows.generation != after.budget.generation {
            let limits = (MicroTokens::ZERO, MicroTokens(u64::MAX));
            *windows = Windows { generation: after.budget.generation, limits, spent: BTreeMap::new(), gone: windows.gone };
        }
        windows.limits = (windows.limits.0.max(after.whole.burst), windows.limits.1.min(floors));
    }

    /// A region took `cost` of a place, of a window if the budget has some.
    ///
    /// # Errors
    /// If it is of what is used up.
    pub fn admit(
        &mut self,
        r: usize,
        place: usize,
        terms: &Terms,
        taken: Use,
        window: Option<WindowLabel>,
        cost: MicroTokens,
    ) -> Result<(), Violation> {
        let uses = &mut self.uses[r][place];
        if uses.last.generation != taken.generation {
            uses.before = (uses.last.generation > 0).then_some(uses.last);
            if let Some(before) = uses.before {
                self.flows[r].begin_empty(before.at, place);
            }
        }
        uses.last = taken;
        let windows = &mut self.windows[place];
        let Some(before) = uses.before.filter(|_| taken.generation == terms.budget.generation && !windows.gone) else { return Ok(()) };
        let fault = |what: String| Err(Violation { at: taken.at, rule: RULE, what: format!("{}: {what}", terms.budget) });
        let since = Duration::from_micros(taken.at.saturating_sub(before.at));
        match terms.limit.shape() {
            Shape::Flow => self.flows[r].admit(taken.at, place, terms, cost).or_else(|violation| fault(violation.what)),
            Shape::Share if since < terms.limit.drain() => fault(format!("region {r} takes {cost} after {since:?}")),
            Shape::Share => Ok(()),
            Shape::Allowance => {
                let Some(label) = window.filter(|label| label.start() <= before.clock) else { return Ok(()) };
                let spent = windows.spent.entry(label).or_default();
                *spent = spent.saturating_add(cost);
                match *spent <= windows.limits.0.saturating_sub(windows.limits.1) {
                    true => Ok(()),
                    false => fault(format!("{spent} of the window of {}, in which others counted", label.start().as_micros())),
                }
            }
        }
    }
}
