//! Budgets whose past use counts (shape `share`): divided like a flow, in whole units, of which
//! there is no refill.

use super::{Claim, Situation, Targets};
use quorate_shared::heartbeat::Holding;
use quorate_shared::units::{Capacity, MicroTokens};

/// Divides the units of a budget.
pub(super) fn plan(situation: &Situation) -> Targets {
    let claims = situation.claims.iter().map(|(name, claim)| (name.clone(), as_flow(claim))).collect();
    let (limit, pool) = (rate_of(situation.limit), rate_of(situation.pool));
    let targets = super::plan(&Situation { limit, pool, claims, ..situation.clone() });
    targets.into_iter().map(|(name, holding)| (name, holding_of(&holding, units_of))).collect()
}

/// Each whole unit is one micro-token of a rate.
fn rate_of(capacity: Capacity) -> Capacity {
    Capacity::new(MicroTokens(capacity.burst.tokens_floor()), MicroTokens::ZERO)
}

fn units_of(rate: Capacity) -> Capacity {
    Capacity::new(MicroTokens::ZERO, MicroTokens(rate.rate.0.saturating_mul(MicroTokens::TOKEN.0)))
}

fn as_flow(claim: &Claim) -> Claim {
    let units = |amount: MicroTokens| MicroTokens(amount.0.div_ceil(MicroTokens::TOKEN.0));
    let large = if claim.largest > claim.floor.burst { units(claim.largest) } else { MicroTokens::ZERO };
    let (demand, returning) = match claim.demand {
        MicroTokens::ZERO => (MicroTokens::ZERO, large),
        asked => (units(asked).max(large), MicroTokens::ZERO),
    };
    Claim {
        // what may be saved up plays no part, so it is always enough
        floor: Capacity { burst: MicroTokens::TOKEN, ..rate_of(claim.floor) },
        lendable: rate_of(claim.lendable),
        demand,
        returning,
        largest: MicroTokens::ZERO,
        before: holding_of(&claim.before, rate_of),
        ..claim.clone()
    }
}

fn holding_of(holding: &Holding, part: impl Fn(Capacity) -> Capacity) -> Holding {
    let borrowed = holding.borrowed.iter().map(|(lender, loan)| (lender.clone(), part(*loan)));
    Holding { pool: part(holding.pool), lent: part(holding.lent), borrowed: borrowed.collect() }
}
