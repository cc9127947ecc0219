//! Floors: how a limit is divided into static shares, by largest remainder, and what of each is set
//! aside for agents that cannot ask their store.

use super::{FloorRule, Limit, Policy, PolicySet, Region, Shape};
use crate::mistake::{self, Mistake};
use crate::names::RegionName;
use crate::units::{Capacity, MicroTokens, PartsPerMillion};
use std::collections::BTreeMap;

/// The static share of one region in one budget.
///
/// A seat is a part of the floor that one agent of the region may spend by itself, whether or not its store
/// answers. It is in no other part: what regions may use together is at most the limit less all seats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionShare {
    /// `f`: what the region's store enforces, and what the protocol calls the floor.
    pub floor: Capacity,
    /// λ: of that, what may be lent.
    pub lendable: Capacity,
    /// What each of [`Self::seats`] agents may spend without the store; nothing of either part, or some of both.
    pub seat: Capacity,
    /// How many seats there are; 0 where [`Self::seat`] is nothing.
    pub seats: u32,
}

impl RegionShare {
    /// What all seats together may spend.
    pub fn reserved(&self) -> Capacity {
        let all = |amount: MicroTokens| MicroTokens(amount.0.saturating_mul(u64::from(self.seats)));
        Capacity::new(all(self.seat.rate), all(self.seat.burst))
    }

    /// The whole static share: the floor and all seats.
    pub fn whole(&self) -> Capacity {
        self.floor.plus(self.reserved())
    }

    /// What the agent of this seat, counted from 1, may spend.
    pub fn seat_of(&self, seat: u32) -> Capacity {
        if (1..=self.seats).contains(&seat) { self.seat } else { Capacity::ZERO }
    }

    /// True if `other` gives the region, and the agent of each seat, at least as much.
    pub fn fits(&self, other: &Self) -> bool {
        self.floor.fits(other.floor) && (self.seats == 0 || self.seats <= other.seats && self.seat.fits(other.seat))
    }
}

impl PolicySet {
    /// The static share of each region in a budget of `policy` under `limit`.
    ///
    /// The burst is divided in whole tokens, so that a small limit stays usable: a burst of 1
    /// over three regions is 1, 0, 0 and not three thirds that admit nothing.
    pub fn shares(&self, policy: &Policy, limit: Limit) -> BTreeMap<RegionName, RegionShare> {
        let parts: Vec<(&RegionName, &Region, u64)> = match &policy.floor {
            FloorRule::Together(_) => self.regions.iter().map(|(name, r)| (name, r, u64::from(r.weight))).collect(),
            FloorRule::Each(parts) => self.regions.iter().map(|(n, r)| (n, r, parts.get(n).map_or(0, |p| u64::from(p.0)))).collect(),
        };
        let weights: Vec<u64> = parts.iter().map(|(_, _, w)| *w).collect();
        let whole = limit.capacity();
        let total = policy.floor.total();
        let part_of = |amount: MicroTokens| amount.scale_floor(total, u64::from(PartsPerMillion::WHOLE.0));
        let rates = split(part_of(whole.rate).0, 1, &weights);
        let burst = match limit.shape() {
            Shape::Flow => part_of(whole.burst),
            // a part of a unit is of no use in a floor, and of some in the pool
            Shape::Allowance | Shape::Share => MicroTokens(part_of(whole.burst).tokens_floor() * MicroTokens::TOKEN.0),
        };
        let bursts = split(burst.0, MicroTokens::TOKEN.0, &weights);
        let wholes = rates.into_iter().zip(bursts).map(|(r, b)| Capacity::new(MicroTokens(r), MicroTokens(b)));
        parts.iter().zip(wholes).map(|((name, region, _), whole)| ((*name).clone(), policy.share_of(whole, limit, region.agents))).collect()
    }

    /// The largest cost that a region could ever hold of a budget of `policy` under `limit`: its own
    /// floor, what is in no static share, and what all others may lend; or what is set aside for one of its agents. Nothing
    /// of an allowance is lent.
    pub fn reach(&self, policy: &Policy, limit: Limit, region: &RegionName) -> MicroTokens {
        let shares = self.shares(policy, limit);
        let share = shares.get(region).copied().unwrap_or_default();
        Divisible::among(&shares, limit, |_| true).within_reach(share).burst.max(share.seat.burst)
    }
}

/// What of a limit can move between regions that are in reach of a leader: of the others nothing can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divisible {
    /// The whole limit.
    whole: Capacity,
    /// What is in no static share.
    pub pool: Capacity,
    /// What all regions in reach may lend.
    lendable: Capacity,
}

impl Divisible {
    /// Of a limit with these static shares.
    pub fn among(shares: &BTreeMap<RegionName, RegionShare>, limit: Limit, in_reach: impl Fn(&RegionName) -> bool) -> Self {
        let whole = limit.capacity();
        let lenders = shares.iter().filter(|(name, _)| in_reach(name));
        Self {
            whole,
            pool: whole.minus(shares.values().map(RegionShare::whole).sum()),
            lendable: lenders.map(|(_, share)| share.lendable).sum(),
        }
    }

    /// The most that a region in reach with this share can have: its floor, the pool, and all that the others lend.
    pub fn within_reach(&self, share: RegionShare) -> Capacity {
        let all = share.floor.plus(self.pool).plus(self.lendable.minus(share.lendable));
        // floors beyond the limit on purpose may hold more than it
        all.min(self.whole).max(share.floor)
    }
}

impl Policy {
    /// One region's static share, of which `whole` is all, with a seat for each of `agents`.
    fn share_of(&self, whole: Capacity, limit: Limit, agents: u32) -> RegionShare {
        let seat = self.seat(whole, limit, agents);
        let seats = if seat.is_zero() { 0 } else { agents };
        let all = RegionShare { seat, seats, ..RegionShare::default() };
        let floor = if mistake::made(Mistake::SeatsInFloors) { whole } else { whole.minus(all.reserved()) };
        RegionShare { floor, lendable: self.lendable_of(whole).min(floor), ..all }
    }

    /// What one agent of so many may spend without the store: in whole tokens, so that it admits something. Nothing
    /// at all where that is not enough for one request: it would be taken from the floor for nothing.
    fn seat(&self, whole: Capacity, limit: Limit, agents: u32) -> Capacity {
        let part = |amount| self.emergency.of(amount).0 / u64::from(agents.max(1));
        let burst = MicroTokens(MicroTokens(part(whole.burst)).tokens_floor() * MicroTokens::TOKEN.0);
        let seat = Capacity::new(MicroTokens(part(whole.rate)), burst);
        let refills = seat.rate > MicroTokens::ZERO || limit.shape() != Shape::Flow;
        let least = self.cost.ordinary().max(MicroTokens::TOKEN);
        if refills && burst >= least && !matches!(limit, Limit::Concurrency { .. }) { seat } else { Capacity::ZERO }
    }

    /// λ: the part of a region's static share that may be lent; of an allowance nothing, since units that
    /// were spent do not come back. The burst is rounded up to whole tokens, so that a floor of one
    /// token can be lent; of a floor of two or more one token stays, so that the lender does not
    /// refuse its own first request.
    fn lendable_of(&self, whole: Capacity) -> Capacity {
        if self.limit.shape() == Shape::Allowance {
            return Capacity::ZERO;
        }
        let burst = self.lendable.of(whole.burst);
        let tokens = MicroTokens(burst.0.div_ceil(MicroTokens::TOKEN.0).saturating_mul(MicroTokens::TOKEN.0));
        let stays = match self.lendable < PartsPerMillion::WHOLE && whole.burst.0 >= 2 * MicroTokens::TOKEN.0 {
            true => MicroTokens::TOKEN,
            false => MicroTokens::ZERO,
        };
        Capacity::new(self.lendable.of(whole.rate), tokens.min(whole.burst.saturating_sub(stays)))
    }
}

/// Divides `amount` in proportion to `weights` in multiples of `step`, by largest remainder,
/// ties to the earlier. What is left of `amount` below one step goes to the first with a
/// weight, so the parts add up to `amount`; with no weight at all, to nothing.
///
/// Source: Hamilton's method of apportionment.
pub fn split(amount: u64, step: u64, weights: &[u64]) -> Vec<u64> {
    let total: u128 = weights.iter().map(|w| u128::from(*w)).sum();
    let step = step.max(1);
    if total == 0 {
        return vec![0; weights.len()];
    }
    let steps = u128::from(amount / step);
    let mut parts: Vec<u64> = vec![0; weights.len()];
    let mut remainders: Vec<(u128, usize)> = Vec::with_capacity(weights.len());
    let mut given: u128 = 0;
    for (i, weight) in weights.iter().enumerate() {
        let exact = steps * u128::from(*weight);
        // at most `steps`, which came from a u64
        parts[i] = (exact / total) as u64;
        given += exact / total;
        remainders.push((exact % total, i));
    }
    remainders.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    let left = usize::try_from(steps - given).unwrap_or(usize::MAX);
    for (_, i) in remainders.into_iter().take(left) {
        parts[i] += 1;
    }
    for part in &mut parts {
        *part *= step;
    }
    if let Some(first) = weights.iter().position(|w| *w > 0) {
        parts[first] += amount % step;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::CostRule;

    #[test]
    fn parts_add_up_and_follow_the_weights() {
        assert_eq!(split(100, 1, &[1, 1, 1]), [34, 33, 33]);
        assert_eq!(split(200, 1, &[2, 1, 1]), [100, 50, 50]);
        assert_eq!(split(1, 1, &[1; 5]), [1, 0, 0, 0, 0]);
        assert_eq!(split(10, 1, &[0, 0]), [0, 0]);
        assert_eq!(split(0, 1, &[1, 2]), [0, 0]);
        for amount in [7, 1_000_003, u64::MAX] {
            assert_eq!(split(amount, 1_000_000, &[3, 0, 5, 1]).iter().sum::<u64>(), amount);
        }
    }

    #[test]
    fn a_small_burst_is_divided_in_whole_tokens() {
        assert_eq!(split(1_000_000, 1_000_000, &[1, 1, 1]), [1_000_000, 0, 0]);
        assert_eq!(split(2_500_000, 1_000_000, &[1, 1, 1]), [1_500_000, 1_000_000, 0]);
    }

    #[test]
    fn seats_come_out_of_the_floor_and_hold_whole_tokens_or_nothing() {
        let token = |n: u64| MicroTokens(n * 1_000_000);
        let limit = |n| Limit::TokenBucket { rate: token(n), period: std::time::Duration::from_secs(1), burst: token(n) };
        let policy = Policy { emergency: PartsPerMillion(50_000), ..crate::policy::tests::policy("a", 1, &[]) };
        let share = |agents, of: &Policy, limit: Limit| of.share_of(limit.capacity(), limit, agents);
        let two = share(2, &policy, limit(100));
        assert_eq!((two.seat, two.seats), (Capacity::new(MicroTokens(2_500_000), token(2)), 2));
        assert_eq!((two.floor, two.whole()), (Capacity::new(token(95), token(96)), limit(100).capacity()));
        assert_eq!(two.lendable, Capacity::new(token(90), token(90)));
        assert_eq!([1, 2, 3, 0].map(|seat| two.seat_of(seat)), [two.seat, two.seat, Capacity::ZERO, Capacity::ZERO]);
        // 5 % of 39 tokens is less than one token for each of two agents
        assert_eq!(
            share(2, &policy, limit(39)),
            RegionShare { seats: 0, ..share(1, &Policy { emergency: PartsPerMillion(0), ..policy.clone() }, limit(39)) }
        );
        let dear = Policy { cost: CostRule::Fixed(token(3)), ..policy.clone() };
        assert_eq!(share(2, &dear, limit(100)).seats, 0, "2 tokens are too few for a request that costs 3");
        let slots = Limit::Concurrency { slots: token(100), max_hold: std::time::Duration::from_secs(1) };
        assert_eq!(share(1, &policy, slots).seats, 0);
        let whole = Policy { lendable: PartsPerMillion::WHOLE, ..policy };
        assert_eq!(share(1, &whole, limit(100)).lendable, Capacity::new(token(95), token(95)), "no more than the floor");
    }

    #[test]
    fn a_share_fits_another_if_every_seat_does() {
        let tokens = |n: u64| Capacity::new(MicroTokens(n), MicroTokens(n));
        let of = |floor, seat, seats| RegionShare { floor: tokens(floor), lendable: Capacity::ZERO, seat: tokens(seat), seats };
        assert!(of(90, 5, 2).fits(&of(90, 5, 2)) && of(90, 5, 1).fits(&of(90, 5, 2)) && of(90, 0, 0).fits(&of(90, 5, 2)));
        assert!(!of(90, 5, 2).fits(&of(95, 5, 1)) && !of(90, 5, 2).fits(&of(95, 4, 2)) && !of(90, 5, 1).fits(&of(100, 0, 0)));
    }

    #[test]
    fn a_region_reaches_what_others_may_lend() {
        let policy = crate::policy::tests::policy("a", 1, &[]);
        let token = |n: u64| MicroTokens(n * 1_000_000);
        let limit = |n| Limit::TokenBucket { rate: token(n), period: std::time::Duration::from_secs(1), burst: token(n) };
        let regions = ["ap", "eu", "us"].map(|name| (name.parse().expect("a name"), crate::policy::Region::default()));
        let set = PolicySet { version: 1, regions: regions.into(), policies: vec![policy.clone()] };
        let reach = |n, region: &str| set.reach(&policy, limit(n), &region.parse().expect("a name")).tokens_floor();
        assert_eq!((reach(180, "eu"), reach(1, "ap"), reach(1, "us")), (60 + 2 * 54, 1, 1));
        let pooled = Policy { floor: FloorRule::Together(PartsPerMillion(0)), ..policy.clone() };
        assert_eq!(set.reach(&pooled, limit(180), &"eu".parse().expect("a name")), token(180));
    }

    #[test]
    fn a_lender_keeps_a_token_of_two_or_more() {
        let policy = crate::policy::tests::policy("a", 1, &[]);
        let lends = |tokens: u64| {
            let floor = Capacity::new(MicroTokens(tokens * 1_000_000), MicroTokens(tokens * 1_000_000));
            policy.lendable_of(floor).burst.tokens_floor()
        };
        assert_eq!([0, 1, 2, 9, 10, 11, 50].map(lends), [0, 1, 1, 8, 9, 10, 45]);
    }
}
