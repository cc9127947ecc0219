//! The allocator: who should have how much of one budget, given who wants how much.
//!
//! Weighted max-min over reported demand. It only proposes: the ledger offers of a plan what R4
//! leaves room for, so a worse plan costs utilisation and never the bound.

use crate::budget::BudgetEntry;
use crate::command::Plan;
use crate::terms::FloorTerms;
use crate::{Ledger, session::Session};
use quorate_shared::heartbeat::{Heartbeat, Holding};
use quorate_shared::names::{BudgetId, RegionName};
use quorate_shared::policy::Shape;
use quorate_shared::policy::floors::split;
use quorate_shared::units::{Capacity, MicroTokens};
use std::collections::{BTreeMap, BTreeSet};

mod units;

/// Room above the demand, in percent, so that a rising demand is not refused at once.
const MARGIN_PERCENT: u64 = 10;

/// Demand is rounded up to this part of the limit, so that shares do not follow its noise.
const STEPS: u64 = 64;

/// What is known of one region when a budget is divided.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claim {
    /// Its static share.
    pub floor: Capacity,
    /// What of it may be lent; nothing while the region is out of reach.
    pub lendable: Capacity,
    /// Wanted in one period.
    pub demand: MicroTokens,
    /// Its part of a shortage is in proportion to this.
    pub weight: u32,
    /// False while it can be given nothing and lends nothing.
    pub live: bool,
    /// Whose loans it has now: kept where possible.
    pub borrows_from: BTreeSet<RegionName>,
}

impl Ledger {
    /// What the allocator would like of the budgets that a heartbeat speaks of, or no longer
    /// speaks of; only where that differs from what it liked before.
    pub fn plans_for(&self, beat: &Heartbeat) -> Vec<Plan> {
        let reported: BTreeMap<&BudgetId, MicroTokens> = beat.reports.iter().map(|r| (&r.budget, r.demand)).collect();
        let session = self.regions.get(&beat.region);
        let known = session.into_iter().flat_map(|s| s.reported.iter().chain(&s.open));
        let concerned: BTreeSet<&BudgetId> = reported.keys().copied().chain(known).collect();
        concerned.into_iter().filter_map(|id| self.plan_for(id, beat, reported.get(id).copied())).collect()
    }

    fn plan_for(&self, id: &BudgetId, beat: &Heartbeat, demand: Option<MicroTokens>) -> Option<Plan> {
        let terms = self.policies.offer_terms(id)?;
        let entry = self.budgets.get(id);
        let mut claims: BTreeMap<RegionName, Claim> =
            terms.floors.iter().map(|(region, floor)| (region.clone(), self.claim(region, *floor, entry))).collect();
        if let Some(own) = claims.get_mut(&beat.region) {
            own.demand = demand.unwrap_or_default();
            let floor = terms.of(&beat.region);
            (own.live, own.lendable) = (true, floor.lendable);
        }
        let targets = match terms.limit.shape() {
            Shape::Flow => plan(terms.limit.capacity().rate, terms.pool, &claims),
            Shape::Share => units::plan(terms.limit.capacity().burst, terms.pool, &claims),
            Shape::Allowance => return None,
        };
        let liked = |region: &RegionName| entry.and_then(|e| e.shares.get(region)).map(|s| s.target.clone()).unwrap_or_default();
        let known = entry.into_iter().flat_map(|e| e.shares.keys());
        let news = claims.keys().chain(known).any(|region| targets.get(region).cloned().unwrap_or_default() != liked(region));
        news.then(|| Plan { budget: id.clone(), targets })
    }

    fn claim(&self, region: &RegionName, terms: FloorTerms, entry: Option<&BudgetEntry>) -> Claim {
        let live = self.regions.get(region).is_some_and(|s: &Session| !s.expired);
        let share = entry.and_then(|e| e.shares.get(region));
        Claim {
            floor: terms.floor,
            lendable: if live { terms.lendable } else { Capacity::ZERO },
            demand: share.map(|s| s.demand).unwrap_or_default(),
            weight: self.policies.active.set.regions.get(region).map_or(1, |r| r.weight),
            live,
            borrows_from: share.map(|s| s.target.borrowed.keys().cloned().collect()).unwrap_or_default(),
        }
    }
}

/// Divides one budget of `limit` per period, `pool` of which is in no floor. Regions that are
/// to have just their floor are not named.
pub fn plan(limit: MicroTokens, pool: Capacity, claims: &BTreeMap<RegionName, Claim>) -> BTreeMap<RegionName, Holding> {
    let shares = fill(limit, pool.rate, claims);
    let mut extra: BTreeMap<&RegionName, u64> = BTreeMap::new();
    let mut spare: BTreeMap<&RegionName, u64> = BTreeMap::new();
    for (region, share) in &shares {
        let floor = claims.get(region).map(|c| c.floor.rate.0).unwrap_or_default();
        extra.insert(region, share.saturating_sub(floor));
        spare.insert(region, floor.saturating_sub(*share));
    }
    let mut targets: BTreeMap<RegionName, Holding> = BTreeMap::new();
    give_pool(pool, &mut extra, &mut targets);
    lend(claims, &mut extra, &mut spare, &mut targets);
    lend_bursts(claims, &mut targets);
    targets.retain(|_, h| !h.is_zero());
    targets
}

/// The rate each live region should have: its demand with a margin if that can be had, else a
/// weighted max-min share of what there is; never less of its own floor than it wants, nor than
/// may not be lent.
fn fill(limit: MicroTokens, pool: MicroTokens, claims: &BTreeMap<RegionName, Claim>) -> BTreeMap<RegionName, u64> {
    let live: Vec<(&RegionName, &Claim)> = claims.iter().filter(|(_, c)| c.live).collect();
    let want: Vec<u64> = live.iter().map(|(_, c)| wanted(limit, c.demand)).collect();
    let kept = |c: &Claim| c.floor.rate.saturating_sub(c.lendable.rate).0;
    let mut shares: Vec<u64> = live.iter().zip(&want).map(|((_, c), want)| (*want).min(c.floor.rate.0).max(kept(c))).collect();
    let all: u64 = live.iter().map(|(_, c)| c.floor.rate.0).fold(pool.0, u64::saturating_add);
    let mut left = shares.iter().fold(all, |left, share| left.saturating_sub(*share));
    loop {
        let hungry: Vec<usize> = (0..live.len()).filter(|i| shares[*i] < want[*i]).collect();
        if hungry.is_empty() || left == 0 {
            break;
        }
        let level = lowest_level(&hungry, &shares, &live);
        let before = left;
        let weights: Vec<u64> = level.iter().map(|i| u64::from(live[*i].1.weight.max(1))).collect();
        let rise = next_rise(&level, &hungry, &shares, &want, &live, left);
        for (i, part) in level.iter().zip(split(rise, 1, &weights)) {
            let part = part.min(want[*i] - shares[*i]).min(left);
            shares[*i] += part;
            left -= part;
        }
        if left == before {
            break;
        }
    }
    live.into_iter().map(|(name, _)| name.clone()).zip(shares).collect()
}

/// Demand with its margin, rounded up to a step and at most the limit.
fn wanted(limit: MicroTokens, demand: MicroTokens) -> u64 {
    let step = (limit.0 / STEPS).max(1);
    let with_margin = u128::from(demand.0) * u128::from(100 + MARGIN_PERCENT) / 100;
    let stepped = with_margin.div_ceil(u128::from(step)) * u128::from(step);
    u64::try_from(stepped).unwrap_or(u64::MAX).min(limit.0)
}

/// The hungry ones with the least share for their weight.
fn lowest_level(hungry: &[usize], shares: &[u64], live: &[(&RegionName, &Claim)]) -> Vec<usize> {
    let least = hungry.iter().map(|i| level_of(*i, shares, live)).min().unwrap_or_default();
    hungry.iter().copied().filter(|i| level_of(*i, shares, live) == least).collect()
}

fn level_of(i: usize, shares: &[u64], live: &[(&RegionName, &Claim)]) -> u64 {
    shares[i] / u64::from(live[i].1.weight.max(1))
}

/// How much the lowest may take together before one of them is satisfied, or is no longer among the lowest.
fn next_rise(level: &[usize], hungry: &[usize], shares: &[u64], want: &[u64], live: &[(&RegionName, &Claim)], left: u64) -> u64 {
    let weight = |i: usize| u64::from(live[i].1.weight.max(1));
    let total: u64 = level.iter().map(|i| weight(*i)).sum();
    let least = level.first().map(|i| level_of(*i, shares, live)).unwrap_or_default();
    let above = hungry.iter().map(|i| level_of(*i, shares, live)).filter(|l| *l > least).min();
    let to_above = above.map_or(u64::MAX, |l| l - least);
    let to_satisfied = level.iter().map(|i| (want[*i] - shares[*i]).div_ceil(weight(*i))).min().unwrap_or(0);
    to_above.min(to_satisfied).saturating_mul(total).clamp(1, left.max(1))
}

/// The pool goes to those who need more than their floor, in proportion to how much more.
fn give_pool(pool: Capacity, extra: &mut BTreeMap<&RegionName, u64>, targets: &mut BTreeMap<RegionName, Holding>) {
    let needs: Vec<u64> = extra.values().copied().collect();
    let needed = needs.iter().copied().fold(0, u64::saturating_add);
    let rates = split(pool.rate.0.min(needed), 1, &needs);
    let bursts = split(pool.burst.0, MicroTokens::TOKEN.0, &needs);
    for (((region, need), rate), burst) in extra.iter_mut().zip(rates).zip(bursts) {
        let rate = rate.min(*need);
        *need -= rate;
        if rate > 0 || burst > 0 {
            targets.entry((*region).clone()).or_default().pool = Capacity::new(MicroTokens(rate), MicroTokens(burst));
        }
    }
}

/// What the pool does not cover is borrowed: first from those who lend already, then by name.
fn lend(
    claims: &BTreeMap<RegionName, Claim>,
    extra: &mut BTreeMap<&RegionName, u64>,
    spare: &mut BTreeMap<&RegionName, u64>,
    targets: &mut BTreeMap<RegionName, Holding>,
) {
    for keep_pairs in [true, false] {
        for (borrower, need) in extra.iter_mut() {
            for (lender, left) in spare.iter_mut() {
                let paired = claims.get(*borrower).is_some_and(|c| c.borrows_from.contains(*lender));
                let loan = (*need).min(*left);
                if loan == 0 || (keep_pairs && !paired) {
                    continue;
                }
                (*need, *left) = (*need - loan, *left - loan);
                let rate = |c: &mut Capacity| c.rate = c.rate.saturating_add(MicroTokens(loan));
                rate(targets.entry((*borrower).clone()).or_default().borrowed.entry((*lender).clone()).or_default());
                rate(&mut targets.entry((*lender).clone()).or_default().lent);
            }
        }
    }
}

/// Burst follows rate: of what a lender may lend, as large a part as of its rate, in whole
/// tokens rounded up, divided among the borrowers by what they borrow.
fn lend_bursts(claims: &BTreeMap<RegionName, Claim>, targets: &mut BTreeMap<RegionName, Holding>) {
    let lenders: Vec<(RegionName, MicroTokens)> =
        targets.iter().filter(|(_, h)| h.lent.rate.0 > 0).map(|(name, h)| (name.clone(), h.lent.rate)).collect();
    for (lender, rate) in lenders {
        let Some(lendable) = claims.get(&lender).map(|c| c.lendable) else { continue };
        let part = lendable.burst.scale_floor(rate.0, lendable.rate.0);
        let whole = part.0.div_ceil(MicroTokens::TOKEN.0).saturating_mul(MicroTokens::TOKEN.0);
        let lent = MicroTokens(whole).min(lendable.burst);
        let loans: Vec<(RegionName, u64)> =
            targets.iter().filter_map(|(name, h)| Some((name.clone(), h.borrowed.get(&lender)?.rate.0))).collect();
        let weights: Vec<u64> = loans.iter().map(|(_, rate)| *rate).collect();
        for ((borrower, _), burst) in loans.iter().zip(split(lent.0, MicroTokens::TOKEN.0, &weights)) {
            if let Some(loan) = targets.get_mut(borrower).and_then(|h| h.borrowed.get_mut(&lender)) {
                loan.burst = MicroTokens(burst);
            }
        }
        if let Some(holding) = targets.get_mut(&lender) {
            holding.lent.burst = lent;
        }
    }
}

#[cfg(test)]
mod tests;
