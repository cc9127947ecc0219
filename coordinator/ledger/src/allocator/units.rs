//! Budgets whose past use counts (shape `share`): divided like a flow, in whole units, of which
//! there is no refill.

use super::Claim;
use quorate_shared::heartbeat::Holding;
use quorate_shared::names::RegionName;
use quorate_shared::units::{Capacity, MicroTokens};
use std::collections::BTreeMap;

/// Divides `limit` units, `pool` of which are in no floor.
pub(super) fn plan(limit: MicroTokens, pool: Capacity, claims: &BTreeMap<RegionName, Claim>) -> BTreeMap<RegionName, Holding> {
    let claims = claims.iter().map(|(name, claim)| (name.clone(), as_flow(claim))).collect();
    let targets = super::plan(MicroTokens(limit.tokens_floor()), rate_of(pool), &claims);
    targets.into_iter().map(|(name, holding)| (name, in_units(holding))).collect()
}

/// Each whole unit is one micro-token of a rate.
fn rate_of(capacity: Capacity) -> Capacity {
    Capacity::new(MicroTokens(capacity.burst.tokens_floor()), MicroTokens::ZERO)
}

fn as_flow(claim: &Claim) -> Claim {
    let demand = MicroTokens(claim.demand.0.div_ceil(MicroTokens::TOKEN.0));
    Claim { floor: rate_of(claim.floor), lendable: rate_of(claim.lendable), demand, ..claim.clone() }
}

fn in_units(holding: Holding) -> Holding {
    let units = |part: Capacity| Capacity::new(MicroTokens::ZERO, MicroTokens(part.rate.0.saturating_mul(MicroTokens::TOKEN.0)));
    let borrowed = holding.borrowed.into_iter().map(|(lender, loan)| (lender, units(loan)));
    Holding { pool: units(holding.pool), lent: units(holding.lent), borrowed: borrowed.collect() }
}
