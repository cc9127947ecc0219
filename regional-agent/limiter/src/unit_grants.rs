//! The grants of allowances that one session knows of, and what is to be said of them.

use quorate_shared::heartbeat::{Grant, OpenWindow};
use quorate_shared::names::BudgetId;
use quorate_shared::time::WindowLabel;
use quorate_shared::units::MicroTokens;
use std::collections::BTreeMap;

/// Grants by budget and window.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnitGrants {
    grants: BTreeMap<(BudgetId, WindowLabel), Known>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    units: MicroTokens,
    /// The first heartbeat that said what was spent after the grant had come to nothing.
    told: Option<u64>,
}

impl UnitGrants {
    /// What a region's store says that it was granted.
    pub fn open(stored: impl IntoIterator<Item = ((BudgetId, WindowLabel), MicroTokens)>) -> Self {
        Self { grants: stored.into_iter().map(|(key, units)| (key, Known { units, told: None })).collect() }
    }

    /// Windows of which the units spent are to be said in each heartbeat.
    pub fn windows(&self) -> impl Iterator<Item = &(BudgetId, WindowLabel)> {
        self.grants.keys()
    }

    /// Splits a response's grants into those that give something up and those that do not. In a
    /// full one, what is not named is nothing; so is what windows left behind had. What a burnt window can
    /// have come to is given up too, since it counts as spent: it must be known before the response
    /// is echoed beside what was spent.
    pub fn compare(&self, offered: &[Grant], full: bool, over: impl Fn(&BudgetId, WindowLabel) -> bool) -> (Vec<Grant>, Vec<Grant>) {
        let named = |key: &(BudgetId, WindowLabel)| offered.iter().any(|g| g.budget == key.0 && g.label == key.1);
        let gone = self.grants.keys().filter(|key| over(&key.0, key.1) || (full && !named(key)));
        let nothing = |(budget, label): &(BudgetId, WindowLabel)| Grant {
            budget: budget.clone(),
            label: *label,
            granted: MicroTokens::ZERO,
            used_at_most: MicroTokens::ZERO,
        };
        let current = offered.iter().filter(|g| !over(&g.budget, g.label)).cloned();
        let (mut less, more): (Vec<Grant>, Vec<Grant>) = current.partition(|g| g.granted < self.units(&g.budget, g.label));
        let burnt = more.iter().filter(|g| g.used_at_most > MicroTokens::ZERO);
        less.extend(burnt.map(|g| Grant { granted: self.units(&g.budget, g.label), ..g.clone() }));
        less.extend(gone.map(nothing));
        (less, more)
    }

    /// These grants are in force, and response `seq` is applied.
    pub fn applied(&mut self, grants: &[Grant], seq: u64, over: impl Fn(&BudgetId, WindowLabel) -> bool) {
        let known = |k: &Known| k.told.is_some_and(|told| told <= seq);
        self.grants.retain(|(budget, label), k| !over(budget, *label) && !known(k));
        for grant in grants.iter().filter(|g| !over(&g.budget, g.label)) {
            // of nothing too the coordinators wait to hear what was spent
            self.grants.insert((grant.budget.clone(), grant.label), Known { units: grant.granted, told: None });
        }
    }

    /// Heartbeat `seq` says what was spent of all of them.
    pub fn tell(&mut self, seq: u64) {
        for known in self.grants.values_mut().filter(|k| k.units == MicroTokens::ZERO) {
            known.told.get_or_insert(seq);
        }
    }

    fn units(&self, budget: &BudgetId, label: WindowLabel) -> MicroTokens {
        self.grants.get(&(budget.clone(), label)).map(|k| k.units).unwrap_or_default()
    }
}

/// True of a window that the region has left behind.
pub(crate) fn is_over(windows: &[OpenWindow], budget: &BudgetId, label: WindowLabel) -> bool {
    windows.iter().any(|w| w.policy == budget.policy && w.generation == budget.generation && label < w.label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_shared::names::{SubjectHash, SubjectKey};
    use quorate_shared::time::StoreTime;

    fn grant(units: u64, used_at_most: u64) -> Grant {
        let policy = "p".parse().expect("a name");
        let budget = BudgetId { subject: SubjectHash::of(&SubjectKey::new([1; 32]), &policy, []), policy, generation: 1 };
        let label = WindowLabel::beginning_at(StoreTime::from_micros(7));
        Grant { budget, label, granted: MicroTokens(units), used_at_most: MicroTokens(used_at_most) }
    }

    #[test]
    fn what_a_burnt_window_can_have_come_to_is_known_before_its_grant_is_used() {
        let mut known = UnitGrants::default();
        known.applied(&[grant(3, 0)], 1, |_, _| false);
        let (less, more) = known.compare(&[grant(5, 4)], false, |_, _| false);
        assert_eq!((less, more), (vec![grant(3, 4)], vec![grant(5, 4)]));
        let (less, more) = known.compare(&[grant(5, 0)], false, |_, _| false);
        assert_eq!((less, more), (vec![], vec![grant(5, 0)]));
        let (less, more) = known.compare(&[grant(2, 4)], false, |_, _| false);
        assert_eq!((less, more), (vec![grant(2, 4)], vec![]));
    }
}
