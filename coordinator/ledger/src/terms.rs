//! The terms of one budget: its limit, and what of it is floor, lendable and pool.

use crate::windows::{Kind, kind};
use quorate_shared::heartbeat::Report;
use quorate_shared::names::{BudgetId, PolicyName, RegionName, SubjectHash, SubjectKey};
use quorate_shared::policy::floors::RegionShare;
use quorate_shared::policy::{Limit, Policy, PolicySet};
use quorate_shared::units::{Capacity, MicroTokens};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A policy set with its overrides by subject.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SetWithOverrides {
    pub set: Arc<PolicySet>,
    pub overrides: BTreeMap<PolicyName, BTreeMap<SubjectHash, Limit>>,
}

/// The terms of one budget.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Terms {
    /// The limit; while a change is pending, the active one.
    pub limit: Limit,
    /// Each region's floor and what of it may be lent.
    pub floors: BTreeMap<RegionName, FloorTerms>,
    /// `R − Σ f`, less what is reserved.
    pub pool: Capacity,
    /// Of all regions together, what agents may spend without their store: nothing that is divided here.
    pub reserved: Capacity,
}

/// One region's floor.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct FloorTerms {
    /// `f`.
    pub floor: Capacity,
    /// `λ`.
    pub lendable: Capacity,
    /// What its agents may spend without their store, all together; in neither of both.
    pub set_aside: Capacity,
}

impl SetWithOverrides {
    pub fn new(set: Arc<PolicySet>, key: &SubjectKey) -> Self {
        let with_overrides = set.policies.iter().filter(|p| !p.overrides.is_empty());
        let overrides = with_overrides.map(|p| (p.name.clone(), p.overrides_by_hash(key))).collect();
        Self { set, overrides }
    }

    /// True if the budget exists under the set.
    pub fn has(&self, budget: &BudgetId) -> bool {
        self.has_kind(&kind(budget))
    }

    /// True if budgets of this kind exist under the set.
    pub fn has_kind(&self, kind: &Kind) -> bool {
        self.set.policy(&kind.0).is_some_and(|p| p.generation == kind.1)
    }

    /// The terms of a budget under this set alone.
    pub fn terms(&self, budget: &BudgetId) -> Option<Terms> {
        let policy = self.set.policy(&budget.policy).filter(|p| p.generation == budget.generation)?;
        let own = self.overrides.get(&policy.name).and_then(|o| o.get(&budget.subject));
        let limit = own.copied().unwrap_or(policy.limit);
        let shares = self.set.shares(policy, limit);
        let reserved = shares.values().map(RegionShare::reserved).sum();
        let pool = limit.capacity().minus(shares.values().map(RegionShare::whole).sum());
        let of = |share: RegionShare| FloorTerms { floor: share.floor, lendable: share.lendable, set_aside: share.reserved() };
        let floors = shares.into_iter().map(|(name, share)| (name, of(share))).collect();
        Some(Terms { limit, floors, pool, reserved })
    }
}

impl SetWithOverrides {
    /// True if something of a policy is set aside for agents of the region, of any subject.
    pub fn has_seats(&self, policy: &Policy, region: &RegionName) -> bool {
        let own = self.overrides.get(&policy.name).into_iter().flat_map(BTreeMap::values);
        let seats = |limit: &Limit| self.set.shares(policy, *limit).get(region).map_or(0, |share| share.seats);
        own.chain([&policy.limit]).any(|limit| seats(limit) > 0)
    }
}

impl Terms {
    /// What of a capacity is wanted and divided: refill of a flow, units of anything else.
    pub fn amount(&self, of: Capacity) -> MicroTokens {
        self.limit.amount(of)
    }

    /// What floors, pool, loans and grants are of: the limit, less what is reserved.
    pub fn divided(&self) -> Capacity {
        self.limit.capacity().minus(self.reserved)
    }

    /// Floor and lendable part of a region; nothing for one that has none.
    pub fn of(&self, region: &RegionName) -> FloorTerms {
        self.floors.get(region).copied().unwrap_or_default()
    }

    /// True if a region wants more than its floor gives it.
    pub fn is_outgrown_by(&self, report: &Report, region: &RegionName) -> bool {
        let floor = self.of(region).floor;
        report.demand > self.amount(floor) || report.largest > floor.burst
    }

    /// R9: what may be offered while a change to `next` is pending: the smaller of both, part by
    /// part. A region that `next` does not name is to give up all it has.
    pub fn smaller(mut self, next: &Self) -> Self {
        self.pool = self.pool.min(next.pool);
        self.reserved = self.reserved.max(next.reserved);
        self.floors.retain(|region, _| next.floors.contains_key(region));
        for (region, terms) in &mut self.floors {
            let other = next.of(region);
            *terms = FloorTerms {
                floor: terms.floor.min(other.floor),
                lendable: terms.lendable.min(other.lendable),
                set_aside: terms.set_aside.min(other.set_aside),
            };
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{budget, set_of, tokens};
    use quorate_shared::policy::{OnStoreFailure, Region, Window};
    use quorate_shared::units::PartsPerMillion;
    use std::time::Duration;

    #[test]
    fn what_agents_may_spend_by_themselves_is_in_nothing_that_is_divided() {
        let second = Duration::from_secs(1);
        let limits = [
            Limit::TokenBucket { rate: tokens(100), period: second, burst: tokens(300) },
            Limit::FixedWindow { units: tokens(300), window: Window::Every(second) },
            Limit::SlidingLog { units: tokens(300), window: second },
        ];
        for (limit, floor) in limits.into_iter().flat_map(|limit| [1_000_000, 400_000].map(|floor| (limit, floor))) {
            let mut set = set_of(limit, floor);
            set.policies[0] = Policy {
                generation: 1,
                on_store_failure: OnStoreFailure::Emergency,
                emergency: PartsPerMillion(100_000),
                ..set.policies[0].clone()
            };
            set.regions.values_mut().for_each(|region| *region = Region { agents: 3, ..*region });
            let terms = SetWithOverrides::new(Arc::new(set), &SubjectKey::new([0; 32])).terms(&budget()).expect("the budget is there");
            let floors: Capacity = terms.floors.values().map(|f| f.floor).sum();
            assert_eq!(floors.plus(terms.pool).plus(terms.reserved), limit.capacity());
            assert_eq!(floors.plus(terms.pool), terms.divided());
            assert!(terms.reserved.burst >= tokens(6) && terms.floors.values().all(|f| f.lendable.fits(f.floor)), "{terms:?}");
        }
    }
}
