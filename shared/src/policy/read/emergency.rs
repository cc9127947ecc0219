//! `emergency`: what of a floor is set aside for agents that cannot ask their store.

use super::floor;
use crate::located::{Fields, Located};
use crate::names::RegionName;
use crate::policy::{Limit, OnStoreFailure, Policy, PolicySet};
use crate::text::ShareText;
use crate::units::PartsPerMillion;
use std::time::Duration;

/// What is set aside of each floor if the policy does not say.
const SET_ASIDE: PartsPerMillion = PartsPerMillion(50_000);

/// Of longer windows nothing is: what is set aside of a window is lost for it when its agent ends. A day of a calendar
/// may last for 25 hours.
const LONGEST_WINDOW: Duration = Duration::from_secs(26 * 3600);

fn default_of(limit: Limit) -> PartsPerMillion {
    match limit {
        Limit::TokenBucket { .. } => SET_ASIDE,
        Limit::Concurrency { .. } => PartsPerMillion(0),
        limit if limit.period() > LONGEST_WINDOW => PartsPerMillion(0),
        _ => SET_ASIDE,
    }
}

/// The part, which only a policy that answers by it may name.
pub(super) fn part(fields: &Fields<'_>, answer: Option<OnStoreFailure>, limit: Option<Limit>) -> Option<PartsPerMillion> {
    let slots = matches!(limit, Some(Limit::Concurrency { .. }));
    let closed = answer.is_some_and(|answer| answer == OnStoreFailure::Closed);
    let default = if closed { PartsPerMillion(0) } else { limit.map(default_of).unwrap_or_default() };
    let Some(at) = fields.optional("emergency") else { return Some(default) };
    let part = floor::part(at)?;
    if part > PartsPerMillion(0) && slots {
        at.refuse("slots are not given out without the store, which knows who holds them: leave `emergency` out");
    }
    if part > PartsPerMillion(0) && closed {
        at.refuse("of no use where `on-store-failure` is `closed`");
    }
    Some(part)
}

/// Warns of policies that are to go on without the store, and have nothing to go on with somewhere: of the
/// first, since others are mostly alike.
pub(super) fn warn_of_none(at: &[Located<'_>], set: &PolicySet) {
    let wanting = at.iter().zip(&set.policies).filter(|(_, policy)| policy.on_store_failure == OnStoreFailure::Emergency);
    let mut without = wanting.filter_map(|(at, policy)| Some((at, policy, regions_without(policy, set)?)));
    let Some((at, policy, regions)) = without.next() else { return };
    let why = match (policy.limit, policy.emergency) {
        (Limit::Concurrency { .. }, _) => "slots are not given out without it".to_owned(),
        (_, PartsPerMillion(0)) => "nothing is set aside".to_owned(),
        (_, part) => format!("{} of the floor, divided by the region's `agents`, is not enough for one request", ShareText(part)),
    };
    let more = and_more(without.count());
    at.warn(format!("while the store of {regions} fails, `{}`{more} answers like `closed`: {why}", policy.name));
}

fn regions_without(policy: &Policy, set: &PolicySet) -> Option<String> {
    let shares = set.shares(policy, policy.limit);
    let mut without = shares.iter().filter(|(_, share)| share.seats == 0).map(|(name, _)| name);
    let first: &RegionName = without.next()?;
    Some(format!("{first}{}", and_more(without.count())))
}

fn and_more(count: usize) -> String {
    if count == 0 { String::new() } else { format!(" and {count} more") }
}
