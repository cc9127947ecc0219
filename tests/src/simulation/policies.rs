//! Policy sets, and how operators change them.

use super::chance::Chance;
use super::fault::Fault;
use super::profile::Profile;
use quorate_shared::names::{PolicyName, RegionName, SubjectHash, SubjectKey};
use quorate_shared::policy::{CostRule, FloorRule, Limit, Mode, OnStoreFailure, Override, Policy, PolicySet, Region, Shape, Window};
use quorate_shared::units::{MicroTokens, PartsPerMillion};
use std::collections::BTreeMap;
use std::time::Duration;

/// Subjects are told apart by it.
pub const ATTRIBUTE: &str = "tenant";
const SUBJECTS: [&str; 2] = ["acme", "zeta"];

/// What is limited in a world: which policies there may be, and on which subjects.
#[derive(Clone, Debug)]
pub struct Catalogue {
    /// The names of all regions.
    pub regions: Vec<RegionName>,
    /// The names of all policies.
    pub policies: Vec<PolicyName>,
    /// One place for each policy and subject.
    pub places: Vec<Place>,
}

/// One subject of one policy: a budget, whatever its generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Whose.
    pub policy: PolicyName,
    /// On which subject.
    pub subject: SubjectHash,
    /// What the subject is called.
    pub name: &'static str,
}

impl Catalogue {
    /// What is limited in a world of this profile.
    pub fn new(profile: &Profile, key: &SubjectKey) -> Self {
        let policies: Vec<PolicyName> = ["p", "q"].iter().take(profile.policies).filter_map(|n| n.parse().ok()).collect();
        let hash = |policy: &PolicyName, subject| SubjectHash::of(key, policy, [subject]);
        let place = |name: &'static str, policy: &PolicyName| Place { policy: policy.clone(), subject: hash(policy, name), name };
        let subjects = SUBJECTS.iter().take(profile.subjects);
        let places = subjects.flat_map(|name| policies.iter().map(|policy| place(name, policy)).collect::<Vec<_>>()).collect();
        let regions = ["ap", "eu", "us"].iter().take(profile.regions).filter_map(|n| n.parse().ok()).collect();
        Self { regions, policies, places }
    }

    /// The subjects, each with the places of all policies: a request is charged to all of them.
    pub fn subjects(&self) -> usize {
        self.places.len() / self.policies.len().max(1)
    }

    /// The places of a subject.
    pub fn places_of(&self, subject: usize) -> std::ops::Range<usize> {
        let each = self.policies.len();
        subject * each..(subject + 1) * each
    }

    /// The set at the beginning.
    pub fn first(&self, profile: &Profile, chance: &mut Chance) -> PolicySet {
        let regions = self.regions.iter().map(|name| (name.clone(), weight(chance))).collect();
        let policies = self.policies.iter().map(|name| policy(name, profile, chance)).collect();
        PolicySet { version: 0, regions, policies }
    }

    /// The set with everything in it that there may be.
    pub fn completed(&self, mut set: PolicySet, profile: &Profile, chance: &mut Chance) -> PolicySet {
        for name in &self.regions {
            set.regions.entry(name.clone()).or_insert_with(|| weight(chance));
        }
        for name in &self.policies {
            if set.policy(name).is_none() {
                set.policies.push(policy(name, profile, chance));
            }
        }
        set
    }

    /// True if nothing is missing in the set.
    pub fn is_complete(&self, set: &PolicySet) -> bool {
        self.regions.iter().all(|name| set.regions.contains_key(name)) && self.policies.iter().all(|name| set.policy(name).is_some())
    }

    /// The set after a change of this kind; `None` if it cannot be changed so.
    pub fn changed(&self, set: &PolicySet, by: Fault, profile: &Profile, chance: &mut Chance) -> Option<PolicySet> {
        let mut set = set.clone();
        match by {
            Fault::RegionAdded => {
                let name = self.regions.iter().find(|name| !set.regions.contains_key(name))?;
                set.regions.insert(name.clone(), weight(chance));
                return Some(set);
            }
            Fault::PolicyAdded => {
                let name = self.policies.iter().find(|name| set.policy(name).is_none())?;
                set.policies.push(policy(name, profile, chance));
                return Some(set);
            }
            Fault::PolicyRemoved if !set.policies.is_empty() => {
                set.policies.remove(chance.below(set.policies.len() as u64) as usize);
                return Some(set);
            }
            _ => {}
        }
        if set.policies.is_empty() {
            return None;
        }
        let index = chance.below(set.policies.len() as u64) as usize;
        if by == Fault::FloorsDivided && chance.per_mille(500) {
            set.regions.values_mut().for_each(|region| *region = weight(chance));
            return Some(set);
        }
        change_policy(set.policies.get_mut(index)?, by, profile, chance).then_some(set)
    }

    /// The set without a region.
    pub fn without(&self, set: &PolicySet, region: &RegionName) -> Option<PolicySet> {
        let mut set = set.clone();
        (set.regions.len() > 1 && set.regions.remove(region).is_some()).then_some(set)
    }
}

fn change_policy(policy: &mut Policy, by: Fault, profile: &Profile, chance: &mut Chance) -> bool {
    let whole = policy.limit.capacity();
    let tokens = |amount: MicroTokens| amount.tokens_floor();
    match by {
        Fault::LimitLowered => {
            let (rate, burst) = (tokens(whole.rate).max(1), tokens(whole.burst).max(1));
            policy.limit = like(policy.limit, chance.between(1, rate), chance.between(1, burst));
        }
        Fault::LimitRaised => {
            let (rate, burst) = amounts(policy.limit.period(), profile, chance);
            policy.limit = like(policy.limit, tokens(whole.rate) + rate, tokens(whole.burst) + burst);
        }
        Fault::FloorsDivided => {
            (policy.floor, policy.lendable) = floors(profile, chance);
            policy.emergency = emergency(profile, chance);
        }
        Fault::PeriodChanged => {
            policy.limit = in_another_period(policy.limit, profile);
            policy.overrides.clear();
        }
        Fault::AlgorithmChanged => {
            policy.limit = by_another_algorithm(policy.limit, profile, chance);
            policy.overrides.clear();
        }
        Fault::ModeChanged => {
            let part = PartsPerMillion(chance.between(1, 999_999) as u32);
            policy.mode = chance.pick(&[Mode::Observe, Mode::Enforce, Mode::Enforce, Mode::Canary(part)]);
        }
        Fault::OverrideChanged => {
            policy.overrides.clear();
            if chance.per_mille(700) {
                policy.overrides.push(override_of(policy.limit, profile, chance));
            }
        }
        _ => return false,
    }
    policy.allow_overcommit = policy.floor.total() > u64::from(PartsPerMillion::WHOLE.0);
    policy.floor_ttl = profile.floor_ttl(chance);
    true
}

fn policy(name: &PolicyName, profile: &Profile, chance: &mut Chance) -> Policy {
    let period = Duration::from_secs(chance.pick(profile.periods(profile.shape)));
    let (floor, lendable) = floors(profile, chance);
    let overridden = profile.subjects > 1 && chance.per_mille(300);
    let (rate, burst) = amounts(period, profile, chance);
    let limit = match profile.kind.reserves && profile.shape == Shape::Share && chance.per_mille(300) {
        true => Limit::Concurrency { slots: tokens(burst), max_hold: period },
        false => limit(profile.shape, rate, period, burst),
    };
    Policy {
        name: name.clone(),
        generation: 0,
        matches: BTreeMap::new(),
        no_other_attributes: false,
        replaces: Vec::new(),
        per: vec![ATTRIBUTE.into()],
        limit,
        allow_overcommit: floor.total() > u64::from(PartsPerMillion::WHOLE.0),
        floor,
        lendable,
        cost: CostRule::Fixed(MicroTokens::TOKEN),
        overrides: if overridden { vec![override_of(limit, profile, chance)] } else { Vec::new() },
        on_store_failure: OnStoreFailure::Emergency,
        emergency: emergency(profile, chance),
        floor_ttl: profile.floor_ttl(chance),
        mode: Mode::Enforce,
    }
}

/// Another limit like that of the policy, for one of the subjects.
fn override_of(base: Limit, profile: &Profile, chance: &mut Chance) -> Override {
    let subject = BTreeMap::from([(ATTRIBUTE.to_owned(), chance.pick(&SUBJECTS).to_owned())]);
    let (rate, burst) = amounts(base.period(), profile, chance);
    Override { subject, limit: like(base, rate, burst) }
}

/// Refill in one period, and what may be saved up, or units.
fn amounts(period: Duration, profile: &Profile, chance: &mut Chance) -> (u64, u64) {
    let (rate, burst) = (chance.between(profile.rate.0, profile.rate.1), chance.between(profile.burst.0, profile.burst.1));
    (rate * period.as_secs(), burst)
}

fn limit(shape: Shape, rate: u64, period: Duration, burst: u64) -> Limit {
    let units = tokens(burst);
    match shape {
        Shape::Flow => Limit::TokenBucket { rate: tokens(rate), period, burst: units },
        Shape::Share => Limit::SlidingLog { units, window: period },
        Shape::Allowance => Limit::FixedWindow { units, window: Window::Every(period) },
    }
}

/// A limit of the same kind.
fn like(base: Limit, rate: u64, burst: u64) -> Limit {
    match base {
        Limit::Concurrency { max_hold, .. } => Limit::Concurrency { slots: tokens(burst), max_hold },
        _ => limit(base.shape(), rate, base.period(), burst),
    }
}

/// The same amounts in the other period that there is.
fn in_another_period(base: Limit, profile: &Profile) -> Limit {
    let mut others = match base.shape() {
        Shape::Flow => [1, 3].iter(),
        other => profile.periods(other).iter(),
    };
    let period = others.find(|seconds| Duration::from_secs(**seconds) != base.period()).map_or(base.period(), |s| Duration::from_secs(*s));
    let (rate, burst) = (base.capacity().rate.tokens_floor(), base.capacity().burst.tokens_floor());
    match base {
        Limit::Concurrency { slots, .. } => Limit::Concurrency { slots, max_hold: period },
        _ => limit(base.shape(), rate, period, burst),
    }
}

/// A limit of another algorithm. Slots are never given back here: each ends by itself.
fn by_another_algorithm(base: Limit, profile: &Profile, chance: &mut Chance) -> Limit {
    let shape = chance.pick(&[Shape::Flow, Shape::Share, Shape::Share, Shape::Allowance]);
    let period = Duration::from_secs(chance.pick(profile.periods(shape)));
    let (rate, burst) = amounts(period, profile, chance);
    match chance.per_mille(400) && shape == Shape::Share {
        true => Limit::Concurrency { slots: tokens(burst), max_hold: period },
        // the same once in a while: an edit like any other
        false => match limit(shape, rate, period, burst) {
            same if same.same_kind(base) => like(base, rate, burst),
            other => other,
        },
    }
}

fn tokens(n: u64) -> MicroTokens {
    MicroTokens(n * MicroTokens::TOKEN.0)
}

fn floors(profile: &Profile, chance: &mut Chance) -> (FloorRule, PartsPerMillion) {
    let total = match profile.overcommitted && chance.per_mille(500) {
        true => 1_300_000,
        // of a floor of units nothing is lent
        false if profile.shape == Shape::Allowance => chance.pick(&[1_000_000, 500_000, 200_000, 200_000, 0]),
        false => chance.pick(&[1_000_000, 1_000_000, 600_000, 200_000, 0]),
    };
    (FloorRule::Together(PartsPerMillion(total)), PartsPerMillion(chance.pick(&[900_000, 1_000_000, 500_000])))
}

/// What is set aside for agents by themselves.
fn emergency(profile: &Profile, chance: &mut Chance) -> PartsPerMillion {
    PartsPerMillion(if profile.seats { chance.pick(&[0, 100_000, 300_000, 600_000]) } else { 0 })
}

fn weight(chance: &mut Chance) -> Region {
    Region { weight: u32::try_from(chance.between(1, 3)).unwrap_or(1), ..Region::default() }
}
