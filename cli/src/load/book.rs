//! Which budgets each kind of request is charged to, by the policy set: seen from outside, with the
//! attributes that were sent and without the coordinator's key.

use super::ideal::Charge;
use super::schedule::Attributes;
use quorate_shared::names::{SubjectHash, SubjectKey};
use quorate_shared::policy::{Limit, Mode, Policy, PolicySet};
use quorate_shared::units::MicroTokens;
use std::collections::{BTreeMap, HashMap};

/// Subjects are hashed here only to tell them apart.
const KEY: SubjectKey = SubjectKey::new([0; 32]);

/// One budget that the run met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Index of its policy in the set.
    pub policy: usize,
    /// The values of the policy's `per` attributes, as `name=value`; `all` without any.
    pub subject: String,
    /// Its limit.
    pub limit: Limit,
}

/// The budgets of a run, and what each kind of request takes from them.
#[derive(Clone, Debug)]
pub struct Book {
    set: PolicySet,
    budgets: Vec<Budget>,
    charges: Vec<Vec<Charge>>,
}

impl Book {
    /// The book of requests with these attributes; each takes `cost`, or what its policies say.
    ///
    /// Only a policy that enforces for all subjects is taken to refuse: which part of the subjects a canary meets
    /// depends on the coordinator's key.
    pub fn new(set: PolicySet, kinds: &[Attributes], cost: Option<MicroTokens>) -> Self {
        let overrides: Vec<_> = set.policies.iter().map(|p| p.overrides_by_hash(&KEY)).collect();
        let mut entries = Entries { overrides, ..Entries::default() };
        let charges = kinds.iter().map(|kind| entries.charges(&set.policies, kind, cost)).collect();
        Self { budgets: entries.budgets, charges, set }
    }

    /// Version of the policy set.
    pub fn version(&self) -> u64 {
        self.set.version
    }

    /// The policies.
    pub fn policies(&self) -> &[Policy] {
        &self.set.policies
    }

    /// The budgets; charges index them.
    pub fn budgets(&self) -> &[Budget] {
        &self.budgets
    }

    /// What a request of this kind takes.
    pub fn charges(&self, kind: usize) -> &[Charge] {
        self.charges.get(kind).map_or(&[], Vec::as_slice)
    }

    /// The policy of a charge.
    pub fn policy_of(&self, charge: &Charge) -> &Policy {
        &self.set.policies[self.budgets[charge.budget].policy]
    }
}

#[derive(Default)]
struct Entries {
    overrides: Vec<BTreeMap<SubjectHash, Limit>>,
    budgets: Vec<Budget>,
    known: HashMap<(usize, SubjectHash), usize>,
}

impl Entries {
    fn charges(&mut self, policies: &[Policy], kind: &Attributes, cost: Option<MicroTokens>) -> Vec<Charge> {
        let matched = policies.iter().enumerate().filter_map(|(i, policy)| Some((i, policy, subject(policy, kind)?)));
        let matched: Vec<(usize, &Policy, SubjectHash)> = matched.collect();
        let charged = matched.iter().filter(|(_, policy, _)| !matched.iter().any(|(_, by, _)| by.replaces(policy)));
        charged.map(|&(i, policy, hash)| self.charge(i, policy, hash, kind, cost)).collect()
    }

    fn charge(&mut self, index: usize, policy: &Policy, hash: SubjectHash, kind: &Attributes, cost: Option<MicroTokens>) -> Charge {
        let budgets = &mut self.budgets;
        let limit = self.overrides[index].get(&hash).copied().unwrap_or(policy.limit);
        let budget = *self.known.entry((index, hash)).or_insert_with(|| {
            budgets.push(Budget { policy: index, subject: subject_text(policy, kind), limit });
            budgets.len() - 1
        });
        let by_policy = || policy.cost.of(|name| kind.get(name).map(String::as_str));
        Charge { budget, cost: cost.unwrap_or_else(by_policy), enforced: policy.mode == Mode::Enforce }
    }
}

fn subject<'a>(policy: &'a Policy, kind: &'a Attributes) -> Option<SubjectHash> {
    policy.subject(&KEY, |name| kind.get(name).map(String::as_str), kind.len())
}

fn subject_text(policy: &Policy, kind: &Attributes) -> String {
    let pair = |name: &String| format!("{name}={}", kind.get(name).map_or("", String::as_str));
    match policy.per.as_slice() {
        [] => "all".to_owned(),
        per => per.iter().map(pair).collect::<Vec<_>>().join(","),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::testing::{attributes, policy};
    use quorate_shared::policy::{CostRule, Matcher, Override};

    #[test]
    fn requests_are_charged_to_the_budgets_of_their_subjects() {
        let mut by_route = policy("by-route", 10, 5, &["route"]);
        by_route.overrides = vec![Override { subject: attributes("route=b"), limit: policy("x", 1, 1, &[]).limit }];
        let mut all = policy("all", 100, 50, &[]);
        all.matches = BTreeMap::from([("method".into(), Matcher::OneOf(vec!["GET".into()]))]);
        all.mode = Mode::Observe;
        let set = PolicySet { policies: vec![by_route, all], ..PolicySet::default() };
        let kinds = ["route=a,method=GET", "route=b,method=GET", "route=a,method=PUT", "method=PUT"].map(attributes);
        let book = Book::new(set, &kinds, None);
        let subjects: Vec<(usize, &str)> = book.budgets().iter().map(|b| (b.policy, b.subject.as_str())).collect();
        assert_eq!(subjects, [(0, "route=a"), (1, "all"), (0, "route=b")]);
        assert_eq!(book.budgets()[2].limit, policy("x", 1, 1, &[]).limit);
        let charged = |kind| book.charges(kind).iter().map(|c| (c.budget, c.enforced)).collect::<Vec<_>>();
        assert_eq!(charged(0), [(0, true), (1, false)]);
        assert_eq!(charged(1), [(2, true), (1, false)]);
        assert_eq!(charged(2), [(0, true)]);
        assert_eq!((charged(3), charged(4)), (vec![], vec![]));
    }

    #[test]
    fn the_cost_is_that_of_the_request_or_else_of_the_policy() {
        let mut one = policy("one", 10, 5, &[]);
        let values = BTreeMap::from([("batch".into(), MicroTokens(7))]);
        one.cost = CostRule::ByAttribute { attribute: "plan".into(), values, otherwise: MicroTokens(2) };
        let set = PolicySet { policies: vec![one], ..PolicySet::default() };
        let kinds = ["plan=batch", "plan=other", ""].map(attributes);
        let costs = |cost| {
            let book = Book::new(set.clone(), &kinds, cost);
            (0..3).map(|kind| book.charges(kind)[0].cost.0).collect::<Vec<_>>()
        };
        assert_eq!(costs(None), [7, 2, 2]);
        assert_eq!(costs(Some(MicroTokens(3))), [3, 3, 3]);
    }
}
