//! The policy sets: the active one, the one about to be, and those that were (R9).

use crate::command::Author;
use crate::terms::{SetWithOverrides, Terms};
use quorate_shared::heartbeat::PoliciesInForce;
use quorate_shared::names::{BudgetId, RegionName, SubjectKey};
use quorate_shared::policy::PolicySet;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How many versions of the policy set are kept.
const KEPT_VERSIONS: usize = 100;

/// One accepted policy set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyVersion {
    /// The set.
    pub set: Arc<PolicySet>,
    /// Who wanted it, when and why.
    pub by: Author,
}

/// The policy sets of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PolicyBook {
    pub active: SetWithOverrides,
    pub next: Option<SetWithOverrides>,
    /// Sets that were active, and that some region may still act on.
    pub former: Vec<SetWithOverrides>,
    pub history: Vec<PolicyVersion>,
}

impl PolicyBook {
    /// The newest accepted set.
    pub fn newest(&self) -> &Arc<PolicySet> {
        self.next.as_ref().map_or(&self.active.set, |next| &next.set)
    }

    /// What a response says of the sets.
    pub fn in_force(&self) -> PoliciesInForce {
        PoliciesInForce { active: self.active.set.version, next: self.next.as_ref().map(|n| n.set.version) }
    }

    /// The sets that an agent lacks which has read up to version `known`.
    pub fn newer_than(&self, known: Option<u64>) -> Vec<Arc<PolicySet>> {
        let sets = std::iter::once(&self.active).chain(&self.next).map(|s| &s.set);
        sets.filter(|set| set.version > 0 && known.is_none_or(|k| set.version > k)).cloned().collect()
    }

    /// Takes a set as the successor of the newest, to become active when confirmed; gives its version.
    pub fn propose(&mut self, set: PolicySet, by: Author, key: &SubjectKey) -> u64 {
        let set = Arc::new(set.succeed(self.newest()));
        let version = set.version;
        self.history.push(PolicyVersion { set: set.clone(), by });
        let surplus = self.history.len().saturating_sub(KEPT_VERSIONS);
        self.history.drain(..surplus);
        self.next = Some(SetWithOverrides::new(set, key));
        version
    }

    /// Makes the pending set the active one. `acted_on` tells whether a region may still act on
    /// a set of this version.
    pub fn activate(&mut self, acted_on: impl Fn(u64) -> bool) {
        if let Some(next) = self.next.take() {
            self.former.push(std::mem::replace(&mut self.active, next));
        }
        self.former.retain(|former| acted_on(former.set.version));
    }

    /// The terms of a budget under the active set.
    pub fn active_terms(&self, budget: &BudgetId) -> Option<Terms> {
        self.active.terms(budget)
    }

    /// The terms of a budget under the pending set.
    pub fn next_terms(&self, budget: &BudgetId) -> Option<Terms> {
        self.next.as_ref()?.terms(budget)
    }

    /// The terms by which offers are made: the active set's, or while another is pending the
    /// smaller of both. `None`: there is no such budget, or it is about to end.
    pub fn offer_terms(&self, budget: &BudgetId) -> Option<Terms> {
        let terms = self.active_terms(budget)?;
        match &self.next {
            None => Some(terms),
            Some(next) => Some(terms.smaller(&next.terms(budget)?)),
        }
    }

    /// True if the policy of this budget lives on in the pending set with budgets of another kind.
    pub fn goes_on_elsewhere(&self, budget: &BudgetId) -> bool {
        let successor = self.next.as_ref().and_then(|next| next.set.policy(&budget.policy));
        successor.is_some_and(|p| p.generation != budget.generation)
    }

    /// True if the pending set gives a region less than the set of version `acting_on`, of any policy
    /// that both have. That need not be the active set: a region that has not been heard of may act
    /// on an older one, with a policy that was taken out meanwhile and is now to come back.
    pub fn reduces_floor_of(&self, region: &RegionName, acting_on: u64) -> bool {
        let Some(next) = &self.next else { return false };
        let mut sets = std::iter::once(&self.active).chain(&self.former);
        let Some(acting) = sets.find(|s| s.set.version == acting_on) else { return true };
        acting.set.policies.iter().any(|old| {
            let Some(new) = next.set.policy(&old.name) else { return false };
            if new.generation != old.generation {
                return true; // counted in other units, or on other subjects
            }
            let floor = |s: &PolicySet, p, limit| s.floors(p, limit).get(region).copied().unwrap_or_default();
            let base = floor(&acting.set, old, old.limit).fits(floor(&next.set, new, new.limit));
            let (overrides_before, overrides_after) = (acting.overrides.get(&old.name), next.overrides.get(&old.name));
            let mut overridden = [overrides_before, overrides_after].into_iter().flatten().flat_map(|o| o.keys());
            let each = overridden.all(|subject| {
                let before = overrides_before.and_then(|o| o.get(subject)).copied().unwrap_or(old.limit);
                let after = overrides_after.and_then(|o| o.get(subject)).copied().unwrap_or(new.limit);
                floor(&acting.set, old, before).fits(floor(&next.set, new, after))
            });
            !(base && each)
        })
    }
}
