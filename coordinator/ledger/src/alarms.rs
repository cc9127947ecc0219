//! Budgets of which an internal check failed: a bug, so nothing is granted of them until an
//! operator says otherwise. Others go on.

use crate::Ledger;
use crate::command::Outcome;
use crate::journal::Note;
use crate::ledger::Violation;
use quorate_shared::names::{BudgetId, PolicyName, SubjectHash};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// So many budgets are told apart. A mistake that meets more of them meets all.
const MOST: usize = 1_000;

/// The checks that failed, by budget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Alarms(BTreeMap<BudgetId, String>);

impl Alarms {
    /// True if nothing may be granted of this budget.
    pub fn stop(&self, budget: &BudgetId) -> bool {
        self.0.contains_key(budget) || self.0.len() >= MOST
    }

    /// Notes the first check of a budget that failed.
    pub fn raise(&mut self, violation: &Violation) {
        if !self.stop(&violation.budget) {
            self.0.insert(violation.budget.clone(), violation.to_string());
        }
    }

    fn matching(&self, policy: Option<&PolicyName>, subject: Option<SubjectHash>) -> Vec<BudgetId> {
        let named = |id: &&BudgetId| policy.is_none_or(|p| id.policy == *p) && subject.is_none_or(|s| id.subject == s);
        self.0.keys().filter(named).cloned().collect()
    }
}

impl Ledger {
    /// The budgets of which an internal check failed, each with the first that did.
    pub fn alarms(&self) -> impl Iterator<Item = (&BudgetId, &str)> {
        self.alarms.0.iter().map(|(id, what)| (id, what.as_str()))
    }

    /// The first of them.
    pub fn alarm(&self) -> Option<&str> {
        self.alarms().next().map(|(_, what)| what)
    }

    /// Stops all grants of a budget. What regions hold of it they are told to give up.
    pub(crate) fn raise_alarm(&mut self, violation: &Violation) {
        self.alarms.raise(violation);
        self.journal.note(Note::CheckFailed { budget: violation.budget.clone(), what: violation.to_string() });
        let id = &violation.budget;
        let Some(entry) = self.budgets.get_mut(id) else { return };
        entry.shares.values_mut().for_each(|share| share.restate = true);
        entry.mark_open(id, &mut self.regions);
    }

    /// The operator's word that grants may go on, taken of each budget that passes its check now.
    pub(crate) fn clear_alarms(&mut self, policy: Option<&PolicyName>, subject: Option<SubjectHash>) -> Outcome {
        let (mut cleared, mut standing) = (Vec::new(), Vec::new());
        for id in self.alarms.matching(policy, subject) {
            match self.check_budget(&id) {
                Err(violation) => standing.push((id, violation.to_string())),
                Ok(()) => {
                    self.alarms.0.remove(&id);
                    if let Some(entry) = self.budgets.get(&id) {
                        entry.mark_open(&id, &mut self.regions);
                    }
                    cleared.push(id);
                }
            }
        }
        Outcome::AlarmsCleared { cleared, standing }
    }

    fn check_budget(&self, id: &BudgetId) -> Result<(), Violation> {
        if let (Some(entry), Some(terms)) = (self.budgets.get(id), self.policies.active_terms(id)) {
            entry.check(id, &terms)?;
        }
        self.check_windows_of(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_shared::names::SubjectKey;
    use quorate_shared::units::Capacity;

    #[test]
    fn so_many_alarms_stop_everything() {
        let budget = |n: usize| {
            let policy: PolicyName = "p".parse().expect("a name");
            let subject = SubjectHash::of(&SubjectKey::new([0; 32]), &policy, [n.to_string().as_str()]);
            BudgetId { policy, generation: 1, subject }
        };
        let violation = |n| Violation { budget: budget(n), what: "sum", held: Capacity::ZERO, limit: Capacity::ZERO };
        let mut alarms = Alarms::default();
        for n in 0..MOST - 1 {
            alarms.raise(&violation(n));
        }
        assert!(alarms.stop(&budget(0)) && !alarms.stop(&budget(MOST)));
        for n in [MOST - 1, MOST, MOST + 1] {
            alarms.raise(&violation(n));
        }
        assert!(alarms.stop(&budget(2 * MOST)), "of budgets never seen too");
        assert_eq!(alarms.0.len(), MOST);
        assert_eq!(alarms.matching(None, Some(budget(7).subject)), [budget(7)]);
    }
}
