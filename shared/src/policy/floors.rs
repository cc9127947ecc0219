//! Floors: how a limit is divided into static shares, by largest remainder.

use super::{FloorRule, Limit, Policy, PolicySet, Shape};
use crate::names::RegionName;
use crate::units::{Capacity, MicroTokens, PartsPerMillion};
use std::collections::BTreeMap;

impl PolicySet {
    /// The floor of each region for a budget of `policy` under `limit`.
    ///
    /// The burst is divided in whole tokens, so that a small limit stays usable: a burst of 1
    /// over three regions is 1, 0, 0 and not three thirds that admit nothing.
    pub fn floors(&self, policy: &Policy, limit: Limit) -> BTreeMap<RegionName, Capacity> {
        let parts: Vec<(&RegionName, u64)> = match &policy.floor {
            FloorRule::Together(_) => self.regions.iter().map(|(name, r)| (name, u64::from(r.weight))).collect(),
            FloorRule::Each(parts) => self.regions.keys().map(|n| (n, parts.get(n).map_or(0, |p| u64::from(p.0)))).collect(),
        };
        let weights: Vec<u64> = parts.iter().map(|(_, w)| *w).collect();
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
        let floors = rates.into_iter().zip(bursts).map(|(r, b)| Capacity::new(MicroTokens(r), MicroTokens(b)));
        parts.iter().map(|(name, _)| (*name).clone()).zip(floors).collect()
    }
}

impl PolicySet {
    /// The largest cost that a region could ever hold of a budget of `policy` under `limit`: its own
    /// floor, what is in no floor, and what all others may lend. Nothing of an allowance is lent.
    pub fn reach(&self, policy: &Policy, limit: Limit, region: &RegionName) -> MicroTokens {
        let floors = self.floors(policy, limit);
        let own = floors.get(region).map(|floor| floor.burst).unwrap_or_default();
        let whole = limit.capacity();
        let pool = whole.minus(floors.values().copied().sum()).burst;
        let lent = |(name, floor): (&RegionName, &Capacity)| match limit.shape() {
            Shape::Flow | Shape::Share if name != region => policy.lendable_of(*floor).burst,
            _ => MicroTokens::ZERO,
        };
        let all = floors.iter().map(lent).fold(own.saturating_add(pool), MicroTokens::saturating_add);
        // floors beyond the limit on purpose may hold more than it
        all.min(whole.burst).max(own)
    }
}

impl Policy {
    /// λ: the part of a region's floor that may be lent; of an allowance nothing, since units that
    /// were spent do not come back. The burst is rounded up to whole tokens, so that a floor of one
    /// token can be lent; of a floor of two or more one token stays, so that the lender does not
    /// refuse its own first request.
    pub fn lendable_of(&self, floor: Capacity) -> Capacity {
        if self.limit.shape() == Shape::Allowance {
            return Capacity::ZERO;
        }
        let burst = self.lendable.of(floor.burst);
        let whole = MicroTokens(burst.0.div_ceil(MicroTokens::TOKEN.0).saturating_mul(MicroTokens::TOKEN.0));
        let stays = match self.lendable < PartsPerMillion::WHOLE && floor.burst.0 >= 2 * MicroTokens::TOKEN.0 {
            true => MicroTokens::TOKEN,
            false => MicroTokens::ZERO,
        };
        Capacity::new(self.lendable.of(floor.rate), whole.min(floor.burst.saturating_sub(stays)))
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
