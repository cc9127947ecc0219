//! A policy set back as a document, and the difference between two sets.
//!
//! Whatever [`super::read::policy_set`] reads, [`document`] writes so that it reads back equal.
//! The version and the generations are not in it: they are the ledger's, not the author's.

use super::{CostRule, FloorRule, Limit, Matcher, Mode, OnStoreFailure, Override, Pattern, Policy, PolicySet, Region, Window};
use crate::located::{Node, Value};
use crate::names::RegionName;
use crate::text::{DurationText, Rate, ShareText};
use crate::units::PartsPerMillion;

mod diff;

pub use diff::{Change, diff};

/// How the keys of fields are spelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// `on-store-failure`: YAML and TOML.
    Kebab,
    /// `on_store_failure`: JSON.
    Snake,
}

impl Keys {
    fn spell(self, key: &str) -> String {
        match self {
            Self::Kebab => key.to_owned(),
            Self::Snake => key.replace('-', "_"),
        }
    }
}

/// The set as a document. Every default is written out, except what is empty or `false`.
pub fn document(set: &PolicySet, keys: Keys) -> Node {
    let region = |(name, region): (&RegionName, &Region)| (name.as_str().to_owned(), region_fields(*region));
    let policies = set.policies.iter().map(|p| Node::map(fields(p, keys).into_iter().map(|(key, node)| (keys.spell(key), node))));
    Node::map([("regions", Node::map(set.regions.iter().map(region))), ("policies", Node::list(policies))])
}

/// A priority that is as any other is not written, nor a single agent, so that a set without them looks as ever.
fn region_fields(region: Region) -> Node {
    let priority = (region.priority > 0).then(|| ("priority", Node::number(region.priority)));
    let agents = (region.agents > 1).then(|| ("agents", Node::number(region.agents)));
    Node::map(std::iter::once(("weight", Node::number(region.weight))).chain(priority).chain(agents))
}

/// The fields of a policy in the order in which people write them, those in them spelled as in the document.
fn fields(policy: &Policy, keys: Keys) -> Vec<(&'static str, Node)> {
    let mut fields = vec![("name", Node::text(&policy.name))];
    if !policy.matches.is_empty() {
        fields.push(("match", Node::map(policy.matches.iter().map(|(name, m)| (name.clone(), matcher(m))))));
    }
    if policy.no_other_attributes {
        fields.push(("no-other-attributes", Node::new(Value::Bool(true))));
    }
    if !policy.per.is_empty() {
        fields.push(("per", Node::list(policy.per.iter().map(Node::text))));
    }
    if !policy.replaces.is_empty() {
        fields.push(("replaces", Node::list(policy.replaces.iter().map(Node::text))));
    }
    let algorithm = ("algorithm".to_owned(), Node::text(policy.limit.algorithm()));
    fields.push(("limit", Node::map(std::iter::once(algorithm).chain(limit(policy.limit, keys)))));
    fields.push(("floor", floor(&policy.floor)));
    fields.push(("lendable", share(policy.lendable)));
    if policy.allow_overcommit {
        fields.push(("allow-overcommit", Node::new(Value::Bool(true))));
    }
    fields.push(("cost", cost(&policy.cost)));
    if !policy.overrides.is_empty() {
        fields.push(("overrides", Node::list(policy.overrides.iter().map(|one| overriding(one, keys)))));
    }
    fields.push(("on-store-failure", on_store_failure(policy.on_store_failure)));
    if policy.on_store_failure != OnStoreFailure::Closed {
        fields.push(("emergency", share(policy.emergency)));
    }
    if let Some(ttl) = policy.floor_ttl {
        fields.push(("floor-ttl", Node::text(DurationText(ttl))));
    }
    fields.push(("mode", mode(policy.mode)));
    fields
}

/// A value that holds a `*` is written in a list, where it is exact.
fn matcher(matcher: &Matcher) -> Node {
    match matcher {
        Matcher::Present => Node::text("*"),
        Matcher::Prefix(prefix) => Node::text(format_args!("{prefix}*")),
        Matcher::OneOf(values) => match values.as_slice() {
            [value] if !value.contains('*') => Node::text(value),
            values => Node::list(values.iter().map(Node::text)),
        },
        Matcher::Like { like, not } => like_and_not(like, not),
    }
}

/// `like: "*"` is left out beside a `not`, which says as much.
fn like_and_not(like: &Pattern, not: &[Pattern]) -> Node {
    let like = (not.is_empty() || like.as_str() != "*").then(|| ("like", Node::text(like)));
    let not = (!not.is_empty()).then(|| ("not", Node::list(not.iter().map(Node::text))));
    Node::map(like.into_iter().chain(not))
}

fn limit(limit: Limit, keys: Keys) -> Vec<(String, Node)> {
    let span = |span| Node::text(DurationText(span));
    let fields = match limit {
        Limit::TokenBucket { rate, period, burst } => {
            vec![("rate", Node::text(Rate { amount: rate, period })), ("burst", Node::number(burst))]
        }
        Limit::FixedWindow { units, window: Window::Every(length) } => vec![("units", Node::number(units)), ("window", span(length))],
        Limit::FixedWindow { units, window: Window::Calendar { unit, zone } } => {
            vec![("units", Node::number(units)), ("window", Node::text(unit.name())), ("time-zone", Node::text(zone))]
        }
        Limit::SlidingWindow { units, window } | Limit::SlidingLog { units, window } => {
            vec![("units", Node::number(units)), ("window", span(window))]
        }
        Limit::Concurrency { slots, max_hold } => vec![("slots", Node::number(slots)), ("max-hold", span(max_hold))],
    };
    fields.into_iter().map(|(key, node)| (keys.spell(key), node)).collect()
}

fn floor(floor: &FloorRule) -> Node {
    match floor {
        FloorRule::Together(part) => share(*part),
        FloorRule::Each(parts) => Node::map(parts.iter().map(|(name, part)| (name.as_str(), share(*part)))),
    }
}

fn share(part: PartsPerMillion) -> Node {
    Node::text(ShareText(part))
}

fn cost(cost: &CostRule) -> Node {
    match cost {
        CostRule::Fixed(cost) => Node::number(cost),
        CostRule::ByAttribute { attribute, values, otherwise } => Node::map([
            ("attribute", Node::text(attribute)),
            ("values", Node::map(values.iter().map(|(value, cost)| (value.as_str(), Node::number(cost))))),
            ("otherwise", Node::number(otherwise)),
        ]),
    }
}

fn overriding(of: &Override, keys: Keys) -> Node {
    let subject = Node::map(of.subject.iter().map(|(name, value)| (name.as_str(), Node::text(value))));
    Node::map([("subject", subject), ("limit", Node::map(limit(of.limit, keys)))])
}

fn on_store_failure(answer: OnStoreFailure) -> Node {
    match answer {
        OnStoreFailure::Emergency => Node::text("emergency"),
        OnStoreFailure::Open => Node::text("open"),
        OnStoreFailure::OpenFor(span) => Node::map([("open", Node::text(DurationText(span).to_string()))]),
        OnStoreFailure::Closed => Node::text("closed"),
    }
}

fn mode(mode: Mode) -> Node {
    match mode {
        Mode::Observe => Node::text("observe"),
        Mode::Enforce => Node::text("enforce"),
        Mode::Canary(part) => Node::map([("canary", share(part))]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::read::policy_set;
    use crate::policy::{CalendarUnit, TimeZone};
    use crate::units::{MAX_EXACT, MicroTokens};
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::time::Duration;

    const REGIONS: [&str; 3] = ["ap", "eu", "us"];

    fn period() -> impl Strategy<Value = Duration> {
        prop_oneof![Just(1), Just(60), Just(3600), Just(86_400), 1..=129_600u64].prop_map(Duration::from_secs)
    }

    /// Small enough that floors beyond the limit are still countable.
    fn bucket(period: Duration) -> impl Strategy<Value = Limit> {
        let amount = 1_000_000..=MAX_EXACT / 100;
        (amount.clone(), amount).prop_filter_map("fills in time", move |(rate, burst)| {
            let fill = u128::from(burst) * u128::from(period.as_secs()) / u128::from(rate);
            let limit = Limit::TokenBucket { rate: MicroTokens(rate), period, burst: MicroTokens(burst) };
            (fill < 100 * 365 * 86_400).then_some(limit)
        })
    }

    fn kinds() -> impl Strategy<Value = Limit> {
        let unit = prop::sample::select(CalendarUnit::ALL.to_vec());
        let zone = prop::sample::select(TimeZone::names().collect::<Vec<_>>()).prop_map(|name| TimeZone::named(name).expect("a zone"));
        let calendar = (unit, zone).prop_map(|(unit, zone)| Window::Calendar { unit, zone });
        let span = || (1_000..=100 * 365 * 86_400_000_000u64).prop_map(Duration::from_micros);
        let windows = prop_oneof![span().prop_map(Window::Every), calendar];
        prop_oneof![
            period().prop_flat_map(bucket),
            windows.prop_map(|window| Limit::FixedWindow { units: MicroTokens::ZERO, window }),
            span().prop_map(|window| Limit::SlidingWindow { units: MicroTokens::ZERO, window }),
            span().prop_map(|window| Limit::SlidingLog { units: MicroTokens::ZERO, window }),
            span().prop_map(|max_hold| Limit::Concurrency { slots: MicroTokens::ZERO, max_hold }),
        ]
    }

    /// Another limit of the same kind.
    fn alike(kind: Limit) -> BoxedStrategy<Limit> {
        let amount = (1_000_000..=MAX_EXACT / 100).prop_map(MicroTokens);
        match kind {
            Limit::TokenBucket { period, .. } => bucket(period).boxed(),
            Limit::FixedWindow { window, .. } => amount.prop_map(move |units| Limit::FixedWindow { units, window }).boxed(),
            Limit::SlidingWindow { window, .. } => amount.prop_map(move |units| Limit::SlidingWindow { units, window }).boxed(),
            Limit::SlidingLog { window, .. } => amount.prop_map(move |units| Limit::SlidingLog { units, window }).boxed(),
            Limit::Concurrency { max_hold, .. } => amount.prop_map(move |slots| Limit::Concurrency { slots, max_hold }).boxed(),
        }
    }

    fn pattern() -> impl Strategy<Value = Pattern> {
        prop_oneof![Just("*".to_owned()), ".{0,8}", "[ab*]{1,5}"].prop_map(Pattern::new)
    }

    fn matchers() -> impl Strategy<Value = BTreeMap<String, Matcher>> {
        let one = prop_oneof![
            Just(Matcher::Present),
            "[^*]{1,8}".prop_map(Matcher::Prefix),
            (pattern(), prop::collection::btree_set(pattern(), 0..3))
                .prop_map(|(like, not)| Matcher::Like { like, not: not.into_iter().collect() }),
            prop::collection::btree_set(".{0,8}", 1..4).prop_map(|values| Matcher::OneOf(values.into_iter().collect())),
        ];
        prop::collection::btree_map("\\PC{1,20}", one, 0..4)
    }

    fn part() -> impl Strategy<Value = PartsPerMillion> {
        (0..=1_000_000u32).prop_map(PartsPerMillion)
    }

    fn floor() -> impl Strategy<Value = (FloorRule, bool)> {
        let each = prop::collection::btree_map(prop::sample::select(&REGIONS[..]).prop_map(|r| r.parse().expect("a name")), part(), 0..=3);
        prop_oneof![
            part().prop_map(FloorRule::Together),
            (0..=3_000_000u32).prop_map(|p| FloorRule::Together(PartsPerMillion(p))),
            each.prop_map(FloorRule::Each)
        ]
        .prop_map(|rule| {
            let over = rule.total() > 1_000_000;
            (rule, over)
        })
    }

    fn cost() -> impl Strategy<Value = CostRule> {
        let cost = || (0..=1_000_000u64).prop_map(MicroTokens);
        let values = prop::collection::btree_map(".{0,8}", cost(), 0..3);
        let by = ("\\PC{1,20}", values, cost()).prop_map(|(attribute, values, otherwise)| CostRule::ByAttribute {
            attribute,
            values,
            otherwise,
        });
        prop_oneof![cost().prop_map(CostRule::Fixed), by]
    }

    fn overrides(per: Vec<String>, kind: Limit) -> BoxedStrategy<Vec<Override>> {
        if per.is_empty() {
            return Just(vec![]).boxed();
        }
        let values = prop::collection::vec(".{0,8}", per.len());
        let subjects = prop::collection::btree_map(values, alike(kind), 0..3);
        subjects
            .prop_map(move |limits| {
                let one = |(values, limit): (Vec<String>, Limit)| Override { subject: per.iter().cloned().zip(values).collect(), limit };
                limits.into_iter().map(one).collect()
            })
            .boxed()
    }

    fn policy() -> impl Strategy<Value = Policy> {
        let per = prop::collection::btree_set("\\PC{1,20}", 0..3).prop_map(|per| per.into_iter().collect::<Vec<_>>());
        let answer = prop_oneof![
            part().prop_map(|part| (OnStoreFailure::Emergency, part)),
            part().prop_map(|part| (OnStoreFailure::Open, part)),
            (1..=86_400u64, part()).prop_map(|(seconds, part)| (OnStoreFailure::OpenFor(Duration::from_secs(seconds)), part)),
            Just((OnStoreFailure::Closed, PartsPerMillion(0))),
        ];
        let ttl = prop::option::of((60..=30 * 86_400u64).prop_map(Duration::from_secs));
        let mode = prop_oneof![Just(Mode::Observe), Just(Mode::Enforce), part().prop_map(Mode::Canary)];
        let limits = (per, kinds()).prop_flat_map(|(per, kind)| (Just(per.clone()), alike(kind), overrides(per, kind)));
        (limits, (matchers(), any::<bool>()), floor(), part(), cost(), answer, (ttl, mode)).prop_map(
            |((per, limit, overrides), (matches, no_other_attributes), (floor, over), lendable, cost, answer, (floor_ttl, mode))| Policy {
                name: "placeholder".parse().expect("a name"),
                generation: 0,
                matches,
                no_other_attributes,
                replaces: Vec::new(),
                per,
                limit,
                floor,
                lendable,
                allow_overcommit: over,
                cost,
                overrides,
                on_store_failure: answer.0,
                // nothing is set aside of slots
                emergency: if matches!(limit, Limit::Concurrency { .. }) { PartsPerMillion(0) } else { answer.1 },
                floor_ttl,
                mode,
            },
        )
    }

    fn sets() -> impl Strategy<Value = PolicySet> {
        let named = prop::collection::btree_map("[a-z0-9-]{1,63}", policy(), 0..4).prop_map(|named| {
            named.into_iter().map(|(name, policy)| Policy { name: name.parse().expect("a name"), ..policy }).collect::<Vec<_>>()
        });
        let region = (1..=1_000_000u32, 0..=1_000u32, 1..=1_000u32);
        let region = region.prop_map(|(weight, priority, agents)| Region { weight, priority, agents });
        (named, prop::array::uniform3(region)).prop_map(|(policies, of)| PolicySet {
            version: 0,
            regions: REGIONS.iter().zip(of).map(|(r, region)| (r.parse().expect("a name"), region)).collect(),
            policies,
        })
    }

    proptest! {
        #[test]
        fn a_set_reads_back_as_rendered(set in sets(), keys in prop::sample::select(vec![Keys::Kebab, Keys::Snake])) {
            let read = policy_set(&document(&set, keys)).map(|(set, _)| set);
            prop_assert_eq!(read, Ok(set));
        }

        #[test]
        fn only_different_sets_differ(a in sets(), b in sets()) {
            prop_assert_eq!(diff(&a, &a), vec![]);
            prop_assert_eq!(diff(&a, &b).is_empty(), a == b);
        }
    }
}
