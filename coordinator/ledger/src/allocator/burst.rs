//! Bursts: for costs that no share holds, and along with rates.

use super::lend::Flows;
use super::{Party, Situation};
use quorate_shared::units::{Capacity, MicroTokens};

/// A borrower should be able to save up this part of its rate, so that requests that come
/// together do not meet an empty bucket. Beyond that a burst serves better where it is: it is
/// what a lender has in hand when it wakes, before a heartbeat has brought anything back, and
/// what was saved up of it would be lost on the way.
const PART_OF_RATE: u64 = 8;

/// Gives regions what they lack for the largest cost that was asked of them: from the pool, then
/// from the lendable bursts of others, the least busy first. A region either gets all that it
/// lacks or nothing; if not all can be served, those that ask now take turns, and those whose clients
/// may come back are served with what is left. Parts of a token count: a floor and the pool may make one only together.
///
/// A region whose largest cost is out of reach has smaller ones too, and without a token of burst
/// no rate can be used: so much it gets of what nobody else who asks was served with, or keeps of its own.
pub(super) fn serve_large_costs(situation: &Situation, parties: &[Party<'_>], flows: &mut Flows) {
    let hungry = (0..parties.len()).filter(|i| is_hungry(parties[*i]));
    let (mut asking, waiting): (Vec<usize>, Vec<usize>) = hungry.partition(|i| parties[*i].1.demand > MicroTokens::ZERO);
    let first = situation.turn.checked_rem(asking.len() as u64).unwrap_or_default();
    asking.rotate_left(usize::try_from(first).unwrap_or_default());
    let mut lenders: Vec<usize> = (0..parties.len()).filter(|i| parties[*i].1.live).collect();
    lenders.sort_by_key(|i| (parties[*i].1.demand, *i));
    let largest = |i: usize| (i, parties[i].1.largest);
    let asked = asking.iter().map(|i| largest(*i)).chain(asking.iter().map(|i| (*i, MicroTokens::TOKEN)));
    for one in asked.chain(waiting.iter().map(|i| largest(*i))) {
        if serve(parties, flows, one, &lenders) {
            lenders.retain(|lender| *lender != one.0);
        }
    }
}

/// Of a region whose own floor would do, the floor is not lent for others in its turn.
fn is_hungry((_, claim): Party<'_>) -> bool {
    claim.live && claim.largest > MicroTokens::ZERO
}

/// True if the region has what it needs.
fn serve(parties: &[Party<'_>], flows: &mut Flows, (borrower, needed): (usize, MicroTokens), lenders: &[usize]) -> bool {
    let claim = parties[borrower].1;
    let mut lacks = needed.saturating_sub(flows.burst_of(borrower, claim));
    let from_pool = lacks.min(flows.pool_left.burst);
    lacks = lacks.saturating_sub(from_pool);
    let mut loans = Vec::new();
    for lender in lenders.iter().filter(|lender| **lender != borrower) {
        let spare = parties[*lender].1.lendable.burst.saturating_sub(flows.lent[*lender].burst);
        let loan = lacks.min(spare);
        if loan > MicroTokens::ZERO {
            lacks = lacks.saturating_sub(loan);
            loans.push((*lender, loan));
        }
    }
    if lacks > MicroTokens::ZERO {
        return false;
    }
    let pool = Capacity::new(MicroTokens::ZERO, from_pool);
    flows.pool[borrower] = flows.pool[borrower].plus(pool);
    flows.pool_left = flows.pool_left.minus(pool);
    for (lender, burst) in loans {
        flows.lend(borrower, lender, Capacity::new(MicroTokens::ZERO, burst));
    }
    true
}

/// Lets bursts go along with lent rates where a borrower has too little for its rate: at most as
/// large a part of what may be lent as of the rate, in whole tokens rounded down.
pub(super) fn follow_rates(parties: &[Party<'_>], flows: &mut Flows) {
    let rates: Vec<((usize, usize), MicroTokens)> =
        flows.loans.iter().filter(|(_, loan)| loan.rate.0 > 0).map(|(pair, loan)| (*pair, loan.rate)).collect();
    for ((borrower, lender), rate) in rates {
        let has = flows.entitlement(borrower, parties[borrower].1);
        let lacks = MicroTokens(has.rate.0 / PART_OF_RATE).saturating_sub(has.burst);
        let lendable = parties[lender].1.lendable;
        let part = lendable.burst.scale_floor(rate.0, lendable.rate.0).min(lendable.burst.saturating_sub(flows.lent[lender].burst));
        let whole = MicroTokens(part.min(lacks).tokens_floor().saturating_mul(MicroTokens::TOKEN.0));
        if whole > MicroTokens::ZERO {
            flows.lend(borrower, lender, Capacity::new(MicroTokens::ZERO, whole));
        }
    }
}
