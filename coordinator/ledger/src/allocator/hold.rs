//! Hysteresis: a plan stands until another is better by something that matters. Each change of a
//! share costs heartbeats, and what is on its way from one region to another serves nobody.

use super::lend::Flows;
use super::{Claim, Party, Shares, Situation, Targets};
use quorate_shared::names::RegionName;
use quorate_shared::units::{Capacity, MicroTokens};
use std::collections::BTreeMap;

/// A region may lack this part of what it needs.
const LACK: u64 = 16;

/// Regions together may lack this part of the limit.
const LACK_TOGETHER: u64 = 200;

/// Regions together may have this part of the limit beyond what they should.
const SURPLUS: u64 = 32;

/// Bursts may differ by this part of the whole.
const BURST: u64 = 8;

/// True if the plan before still holds together and serves the same demand, or nearly so. Where
/// nothing need move any more everything is given back.
pub(super) fn is_good_enough(situation: &Situation, parties: &[Party<'_>], shares: &Shares, new: &Flows) -> bool {
    if !holds_together(situation, parties) || new.is_nothing() {
        return false;
    }
    let (mut lack, mut surplus, mut missing_burst) = (0_u64, 0_u64, 0_u64);
    for (i, (_, claim)) in parties.iter().enumerate().filter(|(_, (_, claim))| claim.live) {
        let (old, new) = (entitlement(claim), new.entitlement(i, claim));
        let needed = shares.needed[i];
        let asks = claim.demand > MicroTokens::ZERO;
        let gains = |cost: MicroTokens| cost <= new.burst && cost > old.burst;
        // without a token no rate can be used
        if needed.saturating_sub(old.rate.0) > needed / LACK || gains(claim.largest) || asks && gains(MicroTokens::TOKEN) {
            return false;
        }
        lack = lack.saturating_add(needed.saturating_sub(old.rate.0));
        surplus = surplus.saturating_add(old.rate.saturating_sub(new.rate).0);
        missing_burst = missing_burst.saturating_add(new.burst.saturating_sub(old.burst).0);
    }
    lack <= situation.limit.rate.0 / LACK_TOGETHER
        && surplus <= situation.limit.rate.0 / SURPLUS
        && missing_burst <= situation.limit.burst.0 / BURST
}

/// The plan before.
pub(super) fn before(parties: &[Party<'_>]) -> Targets {
    let held = parties.iter().filter(|(_, claim)| !claim.before.is_zero());
    held.map(|(name, claim)| ((*name).clone(), claim.before.clone())).collect()
}

fn entitlement(claim: &Claim) -> Capacity {
    claim.before.entitlement(claim.floor, false, true, |_| true)
}

/// True if what was planned before could be planned now.
fn holds_together(situation: &Situation, parties: &[Party<'_>]) -> bool {
    let mut loans: BTreeMap<&RegionName, Capacity> = BTreeMap::new();
    for (lender, loan) in parties.iter().flat_map(|(_, claim)| &claim.before.borrowed) {
        let lent = loans.entry(lender).or_default();
        *lent = lent.plus(*loan);
    }
    let pool: Capacity = parties.iter().map(|(_, claim)| claim.before.pool).sum();
    let covered = |(lender, loan): (&&RegionName, &Capacity)| situation.claims.get(*lender).is_some_and(|c| loan.fits(c.before.lent));
    let stands = |(_, claim): &Party<'_>| claim.before.lent.fits(claim.lendable) && (claim.live || claim.before.is_zero());
    pool.fits(situation.pool) && loans.iter().all(covered) && parties.iter().all(stands)
}
