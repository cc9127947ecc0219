//! `floor` and `lendable`: static shares and what may be lent of them.

use super::Regions;
use crate::heartbeat::LONGEST_LEASE;
use crate::located::{Located, Value};
use crate::names::RegionName;
use crate::policy::{FloorRule, Limit, Override, Policy, PolicySet};
use crate::text::{self, DurationText, ShareText};
use crate::units::{MAX_EXACT, MicroTokens, PartsPerMillion};
use std::collections::BTreeMap;
use std::time::Duration;

/// A share that is at most the whole.
pub(super) fn part(at: &Located<'_>) -> Option<PartsPerMillion> {
    let part = at.read("a share such as `10%`", text::share)?;
    if part > PartsPerMillion::WHOLE {
        at.refuse(format!("{} is more than the whole", ShareText(part)));
        return None;
    }
    Some(part)
}

/// The shortest time for which floors may hold by themselves: a lease may last as long, and they are to outlast it.
const SHORTEST_TTL: Duration = LONGEST_LEASE;

/// The longest: with more nobody would wait for its end.
const LONGEST_TTL: Duration = Duration::from_secs(30 * 24 * 3600);

/// `floor-ttl`: how long floors hold without a coordinator.
pub(super) fn ttl(at: &Located<'_>) -> Option<Duration> {
    let ttl = at.read("a duration such as `10min`", text::duration)?;
    let shortest = format!("at least {}, since floors are to outlast any lease", DurationText(SHORTEST_TTL));
    let longest = format!("at most {}; leave it out if a change is to wait for a region that is out of reach", DurationText(LONGEST_TTL));
    let (wrong, right) = match ttl {
        ttl if ttl < SHORTEST_TTL => ("short", shortest),
        ttl if ttl > LONGEST_TTL => ("long", longest),
        ttl => return Some(ttl),
    };
    at.refuse(format!("{} is too {wrong}: {right}", DurationText(ttl)));
    None
}

/// `floor`: one share for all regions together, or each its own. `regions` is `None` where they
/// are wrong themselves.
pub(super) fn rule(at: &Located<'_>, regions: Option<&Regions>) -> Option<FloorRule> {
    if !matches!(at.value(), Value::Map(_)) {
        return at.read("a share such as `100%`, or a map such as `{us: 50%, eu: 30%}`", text::share).map(FloorRule::Together);
    }
    let mut parts = BTreeMap::new();
    let mut all = true;
    for (name, value) in at.entries("a map of regions")? {
        let region = region(&value, name, regions);
        let part = value.read("a share such as `30%`", text::share);
        match (region, part) {
            (Some(region), Some(part)) => drop(parts.insert(region, part)),
            _ => all = false,
        }
    }
    all.then_some(FloorRule::Each(parts))
}

fn region(at: &Located<'_>, name: &str, regions: Option<&Regions>) -> Option<RegionName> {
    let region: RegionName = at.taken(name.parse())?;
    let Some(regions) = regions else { return Some(region) };
    if regions.contains_key(&region) {
        return Some(region);
    }
    let hint = match at.meant(name, regions.keys().map(RegionName::as_str)) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => "add it to `regions`".into(),
    };
    at.refuse(format!("there is no region `{name}`; {hint}"));
    None
}

/// Refuses floors that add up to more than the limit.
pub(super) fn within_the_limit(at: &Located<'_>, rule: &FloorRule) {
    let total = rule.total();
    if total > u64::from(PartsPerMillion::WHOLE.0) {
        let total = u32::try_from(total).map_or_else(|_| "too much".into(), |t| ShareText(PartsPerMillion(t)).to_string());
        at.refuse(format!(
            "the floors add up to {total} of the limit, so it could be exceeded; write at most 100%, or `allow-overcommit: true` if that is what you want"
        ));
    }
}

/// Refuses floors that together hold more than can be counted exactly.
pub(super) fn countable(at: &Located<'_>, rule: &FloorRule, limit: Limit, overrides: &[Override]) {
    let whole = overrides.iter().map(|o| o.limit.capacity()).fold(limit.capacity(), crate::units::Capacity::max);
    let largest = whole.rate.max(whole.burst).scale_floor(rule.total(), u64::from(PartsPerMillion::WHOLE.0));
    if largest > MicroTokens(MAX_EXACT) {
        at.refuse(format!("the floors add up to {largest} tokens; at most {} can be counted exactly", MicroTokens(MAX_EXACT)));
    }
}

/// Policies that are warned of, of those that are alike.
const WARNED: usize = 100;

/// Warns of policies under which a region that is cut off refuses every request, because its
/// floor holds less than one of them costs.
pub(super) fn warn_of_small_floors(at: &[Located<'_>], set: &PolicySet) {
    let weights = set.regions.values().map(|r| u64::from(r.weight));
    let smallest = weights.clone().min().unwrap_or(0);
    let sum: u64 = weights.sum();
    let small = |(at, policy)| {
        // the floors of all regions are computed only where one may be small
        let enough = least(policy, smallest, sum) >= policy.cost.ordinary();
        if enough { None } else { Some((at, policy, regions_below_cost(policy, set)?)) }
    };
    for (at, policy, names) in at.iter().zip(&set.policies).filter_map(small).take(WARNED) {
        let cost = policy.cost.ordinary();
        at.warn(format!(
            "while cut off from the coordinators, {names} can admit nothing: the floor there holds less than a request costs ({cost})"
        ));
    }
}

/// What the floor of every region holds at least: its part of the burst in whole tokens, less what is set aside.
fn least(policy: &Policy, smallest: u64, sum: u64) -> MicroTokens {
    let (part, of) = match &policy.floor {
        FloorRule::Together(_) => (smallest, sum),
        FloorRule::Each(_) => return MicroTokens::ZERO,
    };
    let together = policy.limit.capacity().burst.scale_floor(policy.floor.total(), u64::from(PartsPerMillion::WHOLE.0));
    let whole = MicroTokens::from_tokens(MicroTokens(together.tokens_floor()).scale_floor(part, of).0).unwrap_or(MicroTokens::ZERO);
    whole.saturating_sub(policy.emergency.of(whole))
}

fn regions_below_cost(policy: &Policy, set: &PolicySet) -> Option<String> {
    let shares = set.shares(policy, policy.limit);
    let mut small = shares.iter().filter(|(_, share)| share.floor.burst < policy.cost.ordinary()).map(|(name, _)| name);
    let first = small.next()?;
    match small.count() {
        0 => Some(first.to_string()),
        more => Some(format!("{first} and {more} more")),
    }
}
