//! The allocator of allowances: who should have how many units of one window.
//!
//! Each region should have what it has spent and what it wants in one lease. Where that is more
//! than the limit, what is left is divided among those who want it, by weight.

use crate::Ledger;
use crate::allowance::{Floors, Window};
use crate::command::UnitPlan;
use crate::windows::{ahead, spent_of};
use quorate_shared::heartbeat::{Heartbeat, Report};
use quorate_shared::names::{BudgetId, RegionName};
use quorate_shared::policy::Shape;
use quorate_shared::policy::floors::split;
use quorate_shared::units::MicroTokens;
use std::collections::BTreeMap;

/// What is known of one region when a window is divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct UnitClaim {
    /// Its floor, or what it has spent if that is more.
    sure: MicroTokens,
    /// What it should have.
    want: MicroTokens,
    weight: u32,
}

impl Ledger {
    /// What the allocator would like of the windows that a heartbeat speaks of, where that differs
    /// from what it liked before.
    pub fn unit_plans_for(&self, beat: &Heartbeat) -> Vec<UnitPlan> {
        let reported: BTreeMap<&BudgetId, &Report> = beat.reports.iter().map(|r| (&r.budget, r)).collect();
        let known = self.regions.get(&beat.region).into_iter().flat_map(|s| &s.reported);
        let silent = known.filter(|id| self.allowances.contains_key(id) && !reported.contains_key(id));
        let concerned = reported.iter().map(|(id, report)| (*id, Some(*report))).chain(silent.map(|id| (id, None)));
        concerned.filter_map(|(id, report)| self.unit_plan(id, beat, report)).collect()
    }

    fn unit_plan(&self, id: &BudgetId, beat: &Heartbeat, report: Option<&Report>) -> Option<UnitPlan> {
        let terms = self.policies.active_terms(id).filter(|t| t.limit.shape() == Shape::Allowance)?;
        let opened = beat.windows.iter().filter(|w| w.policy == id.policy && w.generation == id.generation).map(|w| w.label).max();
        let label = opened.into_iter().chain(self.window_of(&beat.region, id)).max()?;
        let (floors, limit) = self.window_terms(id, label)?;
        let window = self.allowances.get(id).and_then(|a| a.windows.get(&label)).cloned().unwrap_or_default();
        let lease = self.founding()?.lease;
        let wanted = |region: &RegionName| {
            let share = window.shares.get(region);
            let own = (*region == beat.region).then_some(report);
            let spent = share.map(|s| s.spent).unwrap_or_default();
            let spent = if own.is_some() { spent.max(spent_of(beat, id, label)) } else { spent };
            let (demand, largest) = match own {
                Some(report) => report.map(|r| (r.demand, r.largest)).unwrap_or_default(),
                None => (share.map(|s| s.demand).unwrap_or_default(), MicroTokens::ZERO),
            };
            let in_hand = ahead(demand, largest, lease, terms.limit.period());
            let target = share.map(|s| s.target).unwrap_or_default();
            (spent, steady(target, spent, in_hand))
        };
        let claim = |region: &RegionName| {
            let (spent, want) = wanted(region);
            let floor = floors.get(region).copied().unwrap_or_default();
            let weight = self.active_policies().regions.get(region).map_or(1, |r| r.weight);
            UnitClaim { sure: floor.max(spent), want: want.min(limit), weight }
        };
        let claims: BTreeMap<&RegionName, UnitClaim> = floors.keys().chain(window.shares.keys()).map(|name| (name, claim(name))).collect();
        let targets = divide(limit, &claims);
        is_news(&window, &targets, &floors).then(|| UnitPlan { budget: id.clone(), label, targets })
    }
}

/// A target that leaves between half and twice of what should be in hand stays as it is.
fn steady(target: MicroTokens, spent: MicroTokens, in_hand: MicroTokens) -> MicroTokens {
    let left = target.saturating_sub(spent);
    let enough = in_hand > MicroTokens::ZERO && left.0 >= in_hand.0.div_ceil(2) && left <= in_hand.saturating_add(in_hand);
    if enough { target } else { spent.saturating_add(in_hand) }
}

/// Divides the units of one window; regions that should have just their floor are not named.
fn divide(limit: MicroTokens, claims: &BTreeMap<&RegionName, UnitClaim>) -> BTreeMap<RegionName, MicroTokens> {
    let sure: u64 = claims.values().map(|c| c.sure.0).fold(0, u64::saturating_add);
    let mut left = limit.0.saturating_sub(sure);
    let mut given: BTreeMap<&RegionName, u64> = BTreeMap::new();
    let mut hungry: Vec<(&RegionName, u64, u64)> =
        claims.iter().map(|(name, c)| (*name, c.want.saturating_sub(c.sure).0, u64::from(c.weight.max(1)))).collect();
    hungry.retain(|(_, need, _)| *need > 0);
    while !hungry.is_empty() && left > 0 {
        let weights: Vec<u64> = hungry.iter().map(|(_, _, weight)| *weight).collect();
        let parts = split(left, MicroTokens::TOKEN.0, &weights);
        let satisfied = hungry.iter().zip(&parts).any(|((_, need, _), part)| need <= part);
        let mut still = Vec::new();
        for ((name, need, weight), part) in hungry.into_iter().zip(parts) {
            if need <= part || !satisfied {
                let units = need.min(part);
                given.insert(name, units);
                left -= units;
            } else {
                still.push((name, need, weight));
            }
        }
        hungry = still;
    }
    let total = |(name, units): (&RegionName, u64)| {
        (name.clone(), claims.get(name).map(|c| c.sure).unwrap_or_default().saturating_add(MicroTokens(units)))
    };
    given.into_iter().filter(|(_, units)| *units > 0).map(total).collect()
}

/// True if some region beyond its floor is to have other than what was liked before.
fn is_news(window: &Window, targets: &BTreeMap<RegionName, MicroTokens>, floors: &Floors) -> bool {
    let liked = |name: &RegionName| window.shares.get(name).map(|s| s.target).unwrap_or_default();
    let wanted = |name: &RegionName| targets.get(name).copied().unwrap_or_default();
    floors.keys().chain(window.shares.keys()).any(|name| liked(name) != wanted(name))
}
