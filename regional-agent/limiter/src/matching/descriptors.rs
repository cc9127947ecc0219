//! Requests that are several things at once: each meets policies by itself, and all of them are charged or none.

use super::{Matched, PolicyTable};
use quorate_shared::names::PolicyName;
use quorate_shared::policy::{Limit, RateUnit};
use quorate_shared::units::{MAX_EXACT, MicroTokens};
use std::collections::BTreeMap;

/// Descriptors that a request may have.
pub const MOST_DESCRIPTORS: usize = 64;

/// One of the things that a request is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// What is known of it.
    pub attributes: BTreeMap<String, String>,
    /// What it takes of each policy that it meets; `None`: as each policy says; zero only looks.
    pub cost: Option<MicroTokens>,
    /// So many such requests at once: it costs as many times as much. `None`: one.
    pub times: Option<u64>,
    /// How many such requests a policy that it meets is to let pass, instead of its own number.
    pub limit: Option<OwnLimit>,
}

/// A limit that a request brings along.
///
/// The budget stays the policy's, so what is charged is scaled: with a policy of 100 in a second, a request that is
/// to be let pass 20 times in a second costs 5 tokens. So the policy's bound holds, whatever requests say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnLimit {
    /// So many; 0: none.
    pub requests: u32,
    /// In each of these.
    pub unit: RateUnit,
}

impl OwnLimit {
    /// What a request costs that would cost `cost`, of a limit of another number; rounded up. `None` if the limit is
    /// not told by this unit.
    pub fn scaled(self, cost: MicroTokens, limit: Limit) -> Option<MicroTokens> {
        if limit.unit() != Some(self.unit) {
            return None;
        }
        if cost == MicroTokens::ZERO {
            return Some(cost);
        }
        let whole = limit.amount(limit.capacity());
        let requests = u128::from(self.requests) * u128::from(MicroTokens::TOKEN.0);
        let scaled = match requests {
            0 => u128::MAX,
            _ => (u128::from(cost.0) * u128::from(whole.0)).div_ceil(requests),
        };
        Some(MicroTokens(u64::try_from(scaled).map_or(MAX_EXACT, |scaled| scaled.min(MAX_EXACT))))
    }

    /// How many requests of one token what is left of a policy's limit is enough for, rounded down.
    pub fn requests_in(self, left: MicroTokens, limit: Limit) -> u64 {
        left.scale_floor(u64::from(self.requests), limit.amount(limit.capacity()).0).0
    }
}

/// A request brings a limit along that is told by another unit than the limit of a policy that it meets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the policy `{policy}` limits {limit}: a limit of one's own is for the same unit of time, not each {}", unit.name())]
pub struct OtherUnit {
    /// Which policy.
    pub policy: PolicyName,
    /// Its limit.
    pub limit: Limit,
    /// What the request says.
    pub unit: RateUnit,
}

/// Which descriptors of a request met a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetBy(u64);

impl MetBy {
    /// The first, or the only one.
    pub const FIRST: Self = Self(1);

    /// One of them, by its place from 0; none beyond [`MOST_DESCRIPTORS`].
    pub const fn only(place: usize) -> Self {
        Self(if place < MOST_DESCRIPTORS { 1 << place } else { 0 })
    }

    /// True if this one did.
    pub const fn contains(self, place: usize) -> bool {
        self.0 & Self::only(place).0 != 0
    }

    const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl PolicyTable {
    /// Every policy that one of these meets. What several of them take of one budget adds up; slots are taken once.
    ///
    /// # Errors
    /// If one brings a limit of its own for another unit of time than a policy that it meets.
    pub fn met_by(&self, descriptors: &[Descriptor]) -> Result<Vec<Matched>, OtherUnit> {
        let mut all: Vec<Matched> = Vec::new();
        for (place, descriptor) in descriptors.iter().enumerate() {
            let attribute = |name: &str| descriptor.attributes.get(name).map(String::as_str);
            for mut met in self.met(attribute, descriptor.attributes.len(), descriptor.cost) {
                met.met_by = MetBy::only(place);
                let times = descriptor.times.unwrap_or(1);
                met.charge.cost = MicroTokens(met.charge.cost.0.saturating_mul(times).min(MAX_EXACT));
                if let Some(own) = descriptor.limit {
                    let limit = met.charge.limit;
                    let other = || OtherUnit { policy: met.policy.clone(), limit, unit: own.unit };
                    met.charge.cost = own.scaled(met.charge.cost, limit).ok_or_else(other)?;
                }
                match all.iter_mut().find(|known| known.charge.budget == met.charge.budget) {
                    Some(known) => known.join(&met),
                    None => all.push(met),
                }
            }
        }
        Ok(self.unreplaced(all))
    }
}

impl Matched {
    fn join(&mut self, other: &Self) {
        self.met_by = self.met_by.and(other.met_by);
        self.charge.cost = match self.charge.limit {
            Limit::Concurrency { .. } => self.charge.cost.max(other.charge.cost),
            _ => self.charge.cost.saturating_add(other.charge.cost).min(MicroTokens(MAX_EXACT)),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_shared::names::SubjectKey;
    use quorate_shared::policy::{CostRule, FloorRule, Matcher, Mode, OnStoreFailure, Policy, PolicySet, Region, Window};
    use quorate_shared::units::PartsPerMillion;
    use std::sync::Arc;
    use std::time::Duration;

    fn tokens(n: u64) -> MicroTokens {
        MicroTokens::from_tokens(n).expect("few")
    }

    fn each(units: u64, seconds: u64) -> Limit {
        Limit::FixedWindow { units: tokens(units), window: Window::Every(Duration::from_secs(seconds)) }
    }

    fn own(requests: u32, unit: RateUnit) -> OwnLimit {
        OwnLimit { requests, unit }
    }

    #[test]
    fn a_limit_of_ones_own_makes_a_request_cost_more_or_less() {
        let cost = |requests, limit| own(requests, RateUnit::Minute).scaled(MicroTokens::TOKEN, limit).map(|cost| cost.0);
        assert_eq!(
            [cost(20, each(100, 60)), cost(100, each(100, 60)), cost(400, each(100, 60))],
            [Some(5_000_000), Some(1_000_000), Some(250_000)]
        );
        assert_eq!(cost(3, each(100, 60)), Some(33_333_334), "against the request");
        assert_eq!(
            [cost(0, each(100, 60)), cost(1, each(9_000_000_000, 60))],
            [Some(MAX_EXACT), Some(9_000_000_000_000_000)],
            "never, and once"
        );
        assert_eq!([cost(20, each(100, 1)), cost(20, each(100, 90))], [None; 2]);
        let looks = own(20, RateUnit::Minute).scaled(MicroTokens::ZERO, each(100, 60));
        assert_eq!(looks, Some(MicroTokens::ZERO));
    }

    #[test]
    fn as_many_requests_fit_as_the_request_says() {
        for requests in [1, 3, 7, 20, 33, 99, 100, 101, 350, 100_000_000] {
            let own = own(requests, RateUnit::Minute);
            let each_costs = own.scaled(MicroTokens::TOKEN, each(100, 60)).expect("a minute").0;
            let fit = tokens(100).0 / each_costs;
            let short = u64::from(requests).saturating_sub(fit);
            assert!(fit <= u64::from(requests) && short <= u64::from(requests) / 100_000 + 1, "{fit} of {requests}");
            assert_eq!(own.requests_in(tokens(100), each(100, 60)), u64::from(requests));
        }
    }

    fn table(policies: &[(&str, &str, Limit)]) -> PolicyTable {
        let policy = |(name, attribute, limit): &(&str, &str, Limit)| Policy {
            name: name.parse().expect("a name"),
            generation: 1,
            matches: BTreeMap::from([((*attribute).to_owned(), Matcher::Present)]),
            no_other_attributes: false,
            replaces: Vec::new(),
            per: vec![(*attribute).to_owned()],
            limit: *limit,
            floor: FloorRule::Together(PartsPerMillion::WHOLE),
            lendable: PartsPerMillion(900_000),
            allow_overcommit: false,
            cost: CostRule::Fixed(MicroTokens::TOKEN),
            overrides: vec![],
            on_store_failure: OnStoreFailure::Closed,
            emergency: PartsPerMillion(0),
            floor_ttl: None,
            mode: Mode::Enforce,
        };
        let regions = BTreeMap::from([("eu".parse().expect("a name"), Region::default())]);
        let set = PolicySet { version: 1, regions, policies: policies.iter().map(policy).collect() };
        PolicyTable::new(&"eu".parse().expect("a name"), &Arc::new(set), None, SubjectKey::new([0; 32]))
    }

    fn descriptor(pairs: &[(&str, &str)], cost: Option<u64>) -> Descriptor {
        let attributes = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Descriptor { attributes, cost: cost.map(tokens), ..Descriptor::default() }
    }

    /// Policy, tokens, and the places of the descriptors that met it.
    fn met(table: &PolicyTable, descriptors: &[Descriptor]) -> Vec<(String, u64, Vec<usize>)> {
        let matched = table.met_by(descriptors).expect("the same units");
        let places = |m: &Matched| (0..MOST_DESCRIPTORS).filter(|place| m.met_by.contains(*place)).collect();
        matched.iter().map(|m| (m.policy.to_string(), m.charge.cost.tokens_floor(), places(m))).collect()
    }

    #[test]
    fn each_descriptor_meets_policies_by_itself_and_one_budget_is_charged_once() {
        let slots = Limit::Concurrency { slots: tokens(5), max_hold: Duration::from_secs(9) };
        let table = table(&[("by-tenant", "tenant", each(100, 60)), ("by-path", "path", each(9, 1)), ("at-once", "slot", slots)]);
        let [acme, path] = [descriptor(&[("tenant", "acme")], Some(3)), descriptor(&[("path", "/a")], None)];
        let named = |name: &str, cost, places: &[usize]| (name.to_owned(), cost, places.to_vec());
        assert_eq!(met(&table, &[acme.clone(), path]), [named("by-tenant", 3, &[0]), named("by-path", 1, &[1])]);
        let other = descriptor(&[("tenant", "umbrella")], Some(0));
        assert_eq!(met(&table, &[acme.clone(), other, acme]), [named("by-tenant", 6, &[0, 2]), named("by-tenant", 0, &[1])]);
        let many = Descriptor { times: Some(7), ..descriptor(&[("tenant", "acme")], Some(2)) };
        assert_eq!(met(&table, &[many]), [named("by-tenant", 14, &[0])]);
        let slot = descriptor(&[("slot", "a")], Some(7));
        assert_eq!(met(&table, &[slot.clone(), slot]), [named("at-once", 1, &[0, 1])]);
        assert_eq!(met(&table, &[descriptor(&[], None)]), []);
    }

    #[test]
    fn a_limit_for_another_unit_is_named() {
        let table = table(&[("by-tenant", "tenant", each(100, 60))]);
        let hourly = Descriptor { limit: Some(own(5, RateUnit::Hour)), ..descriptor(&[("tenant", "acme")], None) };
        let error = table.met_by(std::slice::from_ref(&hourly)).expect_err("an hour is no minute");
        assert_eq!(
            error.to_string(),
            "the policy `by-tenant` limits 100 each 1min: a limit of one's own is for the same unit of time, not each hour"
        );
        assert_eq!(table.met_by(&[Descriptor { attributes: BTreeMap::new(), ..hourly }]), Ok(vec![]), "nothing to limit");
    }

    #[test]
    fn beyond_the_most_descriptors_there_are_none() {
        assert!(MetBy::only(63).contains(63) && !MetBy::only(64).contains(64) && !MetBy::only(64).contains(0));
    }

    #[test]
    fn what_a_request_meets_replaces_others_whichever_descriptor_met_them_and_though_it_is_replaced() {
        let mut table = table(&[("all", "user", each(5, 60)), ("few", "plan", each(5, 60)), ("own", "team", each(5, 60))]);
        table.rows[1].policy.replaces = vec!["all".parse().expect("a name")];
        table.rows[2].policy.replaces = vec!["few".parse().expect("a name")];
        let names = |pairs: &[&[(&str, &str)]]| {
            let descriptors: Vec<_> = pairs.iter().map(|pairs| descriptor(pairs, None)).collect();
            met(&table, &descriptors).into_iter().map(|(name, ..)| name).collect::<Vec<_>>()
        };
        assert_eq!(names(&[&[("user", "u")]]), ["all"]);
        assert_eq!(names(&[&[("user", "u"), ("plan", "p")]]), ["few"]);
        assert_eq!(names(&[&[("user", "u")], &[("plan", "p")]]), ["few"]);
        assert_eq!(names(&[&[("plan", "p"), ("team", "t")], &[("user", "u")]]), ["own"]);
        let attributes = |name: &str| Some(if name == "user" { "u" } else { "p" });
        let both: Vec<_> = table.matches(attributes, 2, None).into_iter().map(|met| met.policy.to_string()).collect();
        assert_eq!(both, ["own"]);
    }
}
