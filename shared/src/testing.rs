//! What the tests of several packages begin with: a set of one policy, which has one budget.
//!
//! Without the cargo feature `testing`, which only dependencies of tests may name, none of this is
//! there.

use crate::names::{BudgetId, PolicyName, RegionName, SubjectHash, SubjectKey};
use crate::policy::{CostRule, FloorRule, Limit, Mode, OnStoreFailure, Policy, PolicySet, Region};
use crate::units::{MicroTokens, PartsPerMillion};
use std::collections::BTreeMap;

/// A policy of one budget for all requests: enforced, a token each, `floor` of the limit in equal
/// floors all of which may be lent, nothing admitted while a store fails.
pub fn policy(name: PolicyName, limit: Limit, floor: PartsPerMillion) -> Policy {
    Policy {
        name,
        generation: 0,
        matches: BTreeMap::new(),
        no_other_attributes: false,
        replaces: Vec::new(),
        per: Vec::new(),
        limit,
        floor: FloorRule::Together(floor),
        lendable: PartsPerMillion::WHOLE,
        allow_overcommit: false,
        cost: CostRule::Fixed(MicroTokens::TOKEN),
        overrides: Vec::new(),
        on_store_failure: OnStoreFailure::Closed,
        emergency: PartsPerMillion(0),
        floor_ttl: None,
        mode: Mode::Enforce,
    }
}

/// The set of that policy alone, in these regions.
pub fn policy_set(regions: impl IntoIterator<Item = RegionName>, policy: Policy) -> PolicySet {
    let regions = regions.into_iter().map(|name| (name, Region::default())).collect();
    PolicySet { version: 0, regions, policies: vec![policy] }
}

/// The one budget of such a policy since the first version, under a subject key of zeros.
pub fn budget(policy: PolicyName) -> BudgetId {
    let subject = SubjectHash::of(&SubjectKey::new([0; 32]), &policy, []);
    BudgetId { policy, generation: 1, subject }
}
