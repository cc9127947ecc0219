//! Reading a policy set from a document: taken whole or not at all, with all mistakes together.
//!
//! # Defaults
//!
//! | field | default |
//! |---|---|
//! | region's `weight` | 1 |
//! | region's `priority` | 0 |
//! | region's `agents` | 1 |
//! | `match` | all requests |
//! | `no-other-attributes` | `false` |
//! | `per` | one budget for all requests that match |
//! | `replaces` | no other policy |
//! | `burst` | what refills in one period, at least 1 token: `5000/min` may be spent all at once |
//! | `floor` | `100%` of the limit, split by weight |
//! | `lendable` | `90%` of each floor |
//! | `cost` | 1; `otherwise` 1 |
//! | `on-store-failure` | `emergency` |
//! | `emergency` | `5%` of each floor; nothing of slots, and of windows longer than a day |
//! | `floor-ttl` | none: floors need nobody's permission for as long as a region is cut off |
//! | `mode` | `enforce` |

mod cost;
mod emergency;
mod floor;
mod limit;
mod matching;
mod overrides;
mod replaces;

use super::{CostRule, FloorRule, Limit, Mode, OnStoreFailure, Override, Policy, PolicySet, Region};
use crate::located::{Fields, Located, Mistake, Node, Report, Value, Warning};
use crate::names::{PolicyName, RegionName};
use crate::settings;
use crate::units::{MicroTokens, PartsPerMillion};
use std::collections::BTreeMap;
use std::time::Duration;

/// Policies in a set at most.
pub const MAX_POLICIES: usize = 10_000;

/// Regions in a set at most.
pub const MAX_REGIONS: usize = 1_000;

/// A region's weight at most.
pub const MAX_WEIGHT: u64 = 1_000_000;

/// A region's priority at most.
pub const MAX_PRIORITY: u64 = 1_000;

/// A region's agents at most.
pub const MAX_AGENTS: u64 = 1_000;

/// The part of a floor that may be lent if the policy does not say.
const LENDABLE: PartsPerMillion = PartsPerMillion(900_000);

/// Reads a policy set. Its version and generations are 0 until [`PolicySet::succeed`] counts them.
///
/// # Errors
/// Every mistake of the document, in its order.
pub fn policy_set(document: &Node) -> Result<(PolicySet, Vec<Warning>), Vec<Mistake>> {
    let report = Report::default();
    let set = set(&Located::root(document, &report));
    report.finish(set)
}

type Regions = BTreeMap<RegionName, Region>;

fn set(document: &Located<'_>) -> Option<PolicySet> {
    if matches!(document.value(), Value::Null) {
        document.refuse("the document is empty; a policy set has `regions` and `policies`");
        return None;
    }
    let fields = document.fields(&["regions", "policies"])?;
    let regions = fields.required_as("regions", ", such as `regions: {us: {weight: 2}, eu: {}}`").and_then(regions);
    let items = fields.required("policies").and_then(policy_list)?;
    let mut names = BTreeMap::new();
    let read: Vec<(Located<'_>, Option<Policy>)> = items
        .into_iter()
        .map(|item| {
            let policy = policy(&item, regions.as_ref(), &mut names);
            (item, policy)
        })
        .collect();
    let (at, policies): (Vec<_>, Vec<_>) = read.into_iter().filter_map(|(at, policy)| Some((at, policy?))).unzip();
    let set = PolicySet { version: 0, regions: regions?, policies };
    replaces::check(&at, &set);
    emergency::warn_of_none(&at, &set);
    floor::warn_of_small_floors(&at, &set);
    Some(set)
}

/// Regions as a map of name to weight, or as a list of names.
fn regions(at: &Located<'_>) -> Option<Regions> {
    const EXPECTED: &str = "a map of regions, such as `{us: {weight: 2}, eu: {}}`";
    let count = match at.value() {
        Value::Map(entries) => entries.len(),
        Value::List(items) => items.len(),
        _ => 1,
    };
    if count > MAX_REGIONS {
        at.refuse(format!("{count} regions; at most {MAX_REGIONS}"));
        return None;
    }
    let regions = if matches!(at.value(), Value::List(_)) { region_list(at)? } else { region_map(at, EXPECTED)? };
    if count == 0 {
        at.refuse("at least one region is needed");
    }
    Some(regions)
}

fn region_map(at: &Located<'_>, expected: &str) -> Option<Regions> {
    let named = |(name, at): (&str, Located<'_>)| Some((at.taken(name.parse())?, region(&at)));
    Some(at.entries(expected)?.into_iter().filter_map(named).collect())
}

fn region_list(at: &Located<'_>) -> Option<Regions> {
    let mut regions = Regions::new();
    for item in at.list("a list of names")? {
        let Some(name) = item.scalar("the name of a region").and_then(|text| item.taken(text.parse::<RegionName>())) else { continue };
        if regions.insert(name.clone(), Region::default()).is_some() {
            item.refuse(format!("`{name}` is already there"));
        }
    }
    Some(regions)
}

/// What is said of a region; the default where it is wrong, so that the region is known to the rest.
fn region(at: &Located<'_>) -> Region {
    let default = Region::default();
    if matches!(at.value(), Value::Null) {
        return default;
    }
    let Some(fields) = at.fields(&["weight", "priority", "agents"]) else { return default };
    let whole = |key, range| fields.optional(key).and_then(|at| at.whole(range)).and_then(|n| u32::try_from(n).ok());
    Region {
        weight: whole("weight", 1..=MAX_WEIGHT).unwrap_or(default.weight),
        priority: whole("priority", 0..=MAX_PRIORITY).unwrap_or(default.priority),
        agents: whole("agents", 1..=MAX_AGENTS).unwrap_or(default.agents),
    }
}

fn policy_list<'a>(at: &Located<'a>) -> Option<Vec<Located<'a>>> {
    let items = at.list("a list of policies")?;
    if items.len() > MAX_POLICIES {
        at.refuse(format!("{} policies; at most {MAX_POLICIES}", items.len()));
        return None;
    }
    Some(items)
}

const FIELDS: &[&str] = &[
    "name",
    "match",
    "no-other-attributes",
    "per",
    "replaces",
    "limit",
    "floor",
    "lendable",
    "allow-overcommit",
    "cost",
    "overrides",
    "on-store-failure",
    "emergency",
    "floor-ttl",
    "mode",
];

fn policy(at: &Located<'_>, regions: Option<&Regions>, names: &mut BTreeMap<PolicyName, Option<u64>>) -> Option<Policy> {
    let fields = at.fields(FIELDS)?;
    // every field is read before the first `?`, or the mistakes of the later ones would be lost
    let name = fields.required("name").and_then(|at| unique_name(at, names));
    let matches = fields.or("match", BTreeMap::new(), matching::matchers);
    let no_other_attributes = fields.or("no-other-attributes", false, Located::bool);
    let per = fields.or("per", Vec::new(), matching::per);
    let replaces = fields.or("replaces", Vec::new(), replaces::names);
    let limit = fields.required("limit").and_then(limit::limit);
    let overrides = fields.or("overrides", Vec::new(), |at| overrides::overrides(at, per.as_deref(), limit));
    let floor = floor(&fields, regions);
    let lendable = fields.or("lendable", LENDABLE, floor::part);
    let cost = cost(&fields, limit, overrides.as_deref());
    let on_store_failure = fields.or("on-store-failure", OnStoreFailure::Emergency, on_store_failure);
    let emergency = emergency::part(&fields, on_store_failure, limit);
    let floor_ttl = fields.or("floor-ttl", None, |at| floor::ttl(at).map(Some));
    let mode = fields.or("mode", Mode::Enforce, mode);
    let (floor, allow_overcommit) = floor?;
    floor::countable(fields.optional("floor").unwrap_or(at), &floor, limit?, overrides.as_deref()?);
    Some(Policy {
        name: name?,
        generation: 0,
        matches: matches?,
        no_other_attributes: no_other_attributes?,
        per: per?,
        replaces: replaces?,
        limit: limit?,
        floor,
        lendable: lendable?,
        allow_overcommit,
        cost: cost?,
        overrides: overrides?,
        on_store_failure: on_store_failure?,
        emergency: emergency?,
        floor_ttl: floor_ttl?,
        mode: mode?,
    })
}

fn unique_name(at: &Located<'_>, names: &mut BTreeMap<PolicyName, Option<u64>>) -> Option<PolicyName> {
    let name: PolicyName = at.scalar("a name").and_then(|text| at.taken(text.parse()))?;
    if let Some(line) = names.get(&name) {
        let line = line.map(|l| format!(" in line {l}")).unwrap_or_default();
        at.refuse(format!("another policy has the name `{name}`{line}"));
        return None;
    }
    names.insert(name.clone(), at.line());
    Some(name)
}

/// The floor rule, and whether it may exceed the limit.
fn floor(fields: &Fields<'_>, regions: Option<&Regions>) -> Option<(FloorRule, bool)> {
    let allowed = fields.or("allow-overcommit", false, Located::bool);
    let whole = FloorRule::Together(PartsPerMillion::WHOLE);
    let rule = fields.or("floor", whole, |at| floor::rule(at, regions))?;
    let allowed = allowed?;
    if let (Some(at), false) = (fields.optional("floor"), allowed) {
        floor::within_the_limit(at, &rule);
    }
    Some((rule, allowed))
}

fn cost(fields: &Fields<'_>, limit: Option<Limit>, overrides: Option<&[Override]>) -> Option<CostRule> {
    let bursts = cost::Bursts::of(limit, overrides);
    fields.or("cost", CostRule::Fixed(MicroTokens::TOKEN), |at| cost::rule(at, bursts.as_ref()))
}

fn on_store_failure(at: &Located<'_>) -> Option<OnStoreFailure> {
    if let Value::Map(_) = at.value() {
        let span = settings::duration_in(Duration::from_secs(1)..=Duration::from_secs(24 * 3600));
        return at.fields(&["open"])?.required("open").and_then(span).map(OnStoreFailure::OpenFor);
    }
    at.word(&[("emergency", OnStoreFailure::Emergency), ("open", OnStoreFailure::Open), ("closed", OnStoreFailure::Closed)])
}

fn mode(at: &Located<'_>) -> Option<Mode> {
    match at.value() {
        Value::Map(_) => at.fields(&["canary"])?.required("canary").and_then(floor::part).map(Mode::Canary),
        Value::Text(text) if text == "observe" => Some(Mode::Observe),
        Value::Text(text) if text == "enforce" => Some(Mode::Enforce),
        _ => {
            at.refuse_kind("`observe`, `enforce` or `{canary: 10%}`");
            None
        }
    }
}
