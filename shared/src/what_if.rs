//! What each region could admit if regions or coordinators were out of reach.
//!
//! By the shares that the ledger divides with ([`crate::policy::floors`]): a region in reach has its floor, and may get the
//! pool and what the others in reach lend; one that is cut off has its floor, once the lease of what it lent has ended. Their
//! sum never exceeds the greater of the limit and its floors, whoever is lost, so the bound ([`crate::bound`]) is the
//! same in each case.

use crate::api::CapacityTokens;
use crate::bound::Bound;
use crate::names::RegionName;
use crate::policy::floors::{Divisible, RegionShare};
use crate::policy::{Policy, PolicySet};
use crate::units::Capacity;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use utoipa::ToSchema;

/// Who is out of reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Regions that reach no coordinator.
    pub regions: BTreeSet<RegionName>,
    /// True if too few coordinators are left for a leader, so that no region has a lease.
    pub leader: bool,
}

impl Lost {
    fn leases(&self, region: &RegionName) -> bool {
        !self.leader && !self.regions.contains(region)
    }
}

/// `GET /v1/what-if`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WhatIf {
    /// Coordinators that vote.
    pub voters: usize,
    /// Those of them that are left.
    pub voters_left: usize,
    /// So many are needed for a leader.
    pub voters_needed: usize,
    /// True if there would be a leader.
    pub leader: bool,
    /// In the order of the set.
    pub policies: Vec<PolicyIf>,
    /// How many policies there are in all.
    pub total: usize,
}

/// One policy, by its own limit: overrides are not told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PolicyIf {
    /// Its name.
    pub policy: String,
    /// The whole limit.
    pub limit: CapacityTokens,
    /// The same in a few words.
    pub limit_in_words: String,
    /// The span that rates speak of.
    pub period_ms: u64,
    /// What all regions together can have, at most: the greater of the limit and its floors, or less.
    pub together: CapacityTokens,
    /// Of that, what the regions with a lease divide among themselves.
    pub leased: CapacityTokens,
    /// Of that, what lies in the static shares of regions without one.
    pub cut_off: CapacityTokens,
    /// Of the limit, what nobody could use.
    pub idle: CapacityTokens,
    /// By region.
    pub regions: BTreeMap<String, RegionIf>,
    /// The promise, as it is now.
    #[serde(flatten)]
    pub bound: Bound,
}

/// What one region could have of one budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RegionIf {
    /// False if it would have no lease.
    pub leased: bool,
    /// At most, while its store answers.
    pub at_most: CapacityTokens,
    /// Of that, its floor.
    pub floor: CapacityTokens,
    /// What its agents could admit without its store; `null`: everything.
    pub without_store: Option<CapacityTokens>,
    /// Without a lease: after so long its floor ends too; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_after_ms: Option<u64>,
}

/// What the regions could have of a budget of `policy`, whose bound is this.
pub fn what_if(set: &PolicySet, policy: &Policy, bound: Bound, lost: &Lost) -> PolicyIf {
    let shares = set.shares(policy, policy.limit);
    let divisible = Divisible::among(&shares, policy.limit, |name| lost.leases(name));
    let wholes =
        |leased: bool| -> Capacity { shares.iter().filter(|(name, _)| lost.leases(name) == leased).map(|(_, share)| share.whole()).sum() };
    let pool = divisible.pool;
    let (leased, idle) = match shares.keys().any(|name| lost.leases(name)) {
        true => (wholes(true).plus(pool), Capacity::ZERO),
        false => (Capacity::ZERO, pool),
    };
    let cut_off = wholes(false);
    let region = |(name, share): (&RegionName, &RegionShare)| {
        let region = region_if(policy, *share, lost.leases(name).then_some(divisible));
        (name.to_string(), region)
    };
    PolicyIf {
        policy: policy.name.to_string(),
        limit: policy.limit.capacity().into(),
        limit_in_words: policy.limit.to_string(),
        period_ms: millis(policy.limit.period()),
        together: leased.plus(cut_off).into(),
        leased: leased.into(),
        cut_off: cut_off.into(),
        idle: idle.into(),
        regions: shares.iter().map(region).collect(),
        bound,
    }
}

fn region_if(policy: &Policy, share: RegionShare, divisible: Option<Divisible>) -> RegionIf {
    RegionIf {
        leased: divisible.is_some(),
        at_most: divisible.map_or(share.floor, |divisible| divisible.within_reach(share)).into(),
        floor: share.floor.into(),
        without_store: (!policy.lets_pass()).then(|| share.reserved().into()),
        ends_after_ms: policy.floor_ttl.filter(|_| divisible.is_none()).map(millis),
    }
}

fn millis(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::{Circumstances, bound};
    use crate::policy::{FloorRule, Limit, Region, tests::policy};
    use crate::units::{MicroTokens, PartsPerMillion};
    use std::time::Duration;

    fn tokens(n: u64) -> MicroTokens {
        MicroTokens(n * 1_000_000)
    }

    /// Three regions share 90/s with a burst of 90; so many percent of it are floors, half of which may be lent.
    fn told(floor: u32, lost: &[&str], leader: bool) -> PolicyIf {
        let limit = Limit::TokenBucket { rate: tokens(90), period: Duration::from_secs(1), burst: tokens(90) };
        let floor = FloorRule::Together(PartsPerMillion(floor * 10_000));
        let policy =
            Policy { limit, floor, lendable: PartsPerMillion(500_000), floor_ttl: Some(Duration::from_secs(60)), ..policy("a", 1, &[]) };
        let name = |text: &str| -> RegionName { text.parse().expect("a name") };
        let regions = ["ap", "eu", "us"].map(|text| (name(text), Region::default()));
        let set = PolicySet { version: 1, regions: regions.into(), policies: vec![policy.clone()] };
        let lost = Lost { regions: lost.iter().map(|text| name(text)).collect(), leader: !leader };
        what_if(&set, &policy, bound(&policy, &Circumstances::quiet([limit], Capacity::ZERO)), &lost)
    }

    fn rates(told: &PolicyIf) -> ([f64; 4], Vec<f64>) {
        let sums = [told.together, told.leased, told.cut_off, told.idle].map(|capacity| capacity.rate);
        (sums, told.regions.values().map(|region| region.at_most.rate).collect())
    }

    #[test]
    fn a_region_that_is_cut_off_keeps_its_floor_and_lends_nothing() {
        assert_eq!(rates(&told(100, &[], true)), ([90.0, 90.0, 0.0, 0.0], vec![60.0; 3]));
        assert_eq!(rates(&told(100, &["us"], true)), ([90.0, 60.0, 30.0, 0.0], vec![45.0, 45.0, 30.0]));
        assert_eq!(rates(&told(50, &["us", "eu"], true)), ([90.0, 60.0, 30.0, 0.0], vec![60.0, 15.0, 15.0]));
        let ends: Vec<_> = told(100, &["us"], true).regions.values().map(|region| region.ends_after_ms).collect();
        assert_eq!(ends, [None, None, Some(60_000)]);
    }

    #[test]
    fn without_a_leader_or_any_region_the_pool_lies_idle() {
        let alone = ([45.0, 0.0, 45.0, 45.0], vec![15.0; 3]);
        assert_eq!(rates(&told(50, &[], false)), alone);
        assert_eq!(rates(&told(50, &["ap", "eu", "us"], true)), alone);
    }

    #[test]
    fn together_they_never_have_more_than_the_limit_or_its_floors() {
        for (floor, most) in [(0, 90.0), (50, 90.0), (100, 90.0), (150, 135.0)] {
            for lost in [&[][..], &["ap"], &["ap", "us"], &["ap", "eu", "us"]] {
                for leader in [true, false] {
                    let ([together, leased, cut_off, idle], regions) = rates(&told(floor, lost, leader));
                    assert!(together <= most && leased + cut_off == together, "{floor} {lost:?}");
                    assert_eq!(together + idle, most, "{floor} {lost:?}");
                    assert!(regions.iter().all(|region| *region <= together), "{floor} {lost:?} {regions:?}");
                }
            }
        }
    }
}
