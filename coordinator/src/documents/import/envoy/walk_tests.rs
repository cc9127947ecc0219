//! Imported sets limit as the tree of descriptors does: any tree, any request, played against a
//! walk down the tree as that limiter goes it.

use super::import;
use crate::documents::import::SourceFile;
use proptest::prelude::*;
use quorate_shared::names::{PolicyName, SubjectHash, SubjectKey};
use quorate_shared::policy::{Limit, Mode, Pattern, Policy, PolicySet, Window};
use quorate_shared::units::MicroTokens;
use serde_json::{Value, json};

/// One node of a generated tree.
#[derive(Clone, Debug)]
struct Node {
    key: &'static str,
    value: &'static str,
    /// Units, and the index of the unit.
    limit: Option<(u32, usize)>,
    unlimited: bool,
    shadow: bool,
    shared: bool,
    nodes: Vec<Self>,
}

const UNITS: [(&str, u64); 2] = [("second", 1), ("minute", 60)];

/// Each depth has keys of its own, since attributes have no order.
const KEYS: [[&str; 2]; 3] = [["a", "b"], ["c", "d"], ["e", "f"]];

const VALUES: [&str; 8] = ["", "", "x", "y", "x*", "*y", "x*y", "*"];

/// What a limit comes to: units of a window of seconds, and whether it only watches.
type Met = (u32, u64, bool);

/// A counter: each key with the value, or the pattern that several values share.
type Counter = Vec<(&'static str, String)>;

fn level(depth: usize) -> BoxedStrategy<Vec<Node>> {
    let deeper = match depth {
        2 => Just(Vec::new()).boxed(),
        _ => prop_oneof![Just(Vec::new()), level(depth + 1)].boxed(),
    };
    let key = prop::sample::select(KEYS[depth].to_vec());
    let limit = prop::option::weighted(0.8, (0..5u32, 0..UNITS.len()));
    let node =
        (key, prop::sample::select(VALUES.to_vec()), limit, prop::bool::weighted(0.1), prop::bool::weighted(0.2), any::<bool>(), deeper);
    let node = node.prop_map(|(key, value, limit, unlimited, shadow, shared, nodes)| Node {
        key,
        value,
        limit: limit.filter(|_| !unlimited),
        unlimited,
        shadow,
        shared: shared && value.contains('*'),
        nodes,
    });
    prop::collection::vec(node, 1..6)
        .prop_map(|mut nodes| {
            let mut seen = Vec::new();
            nodes.retain(|node| {
                let first = !seen.contains(&(node.key, node.value));
                seen.push((node.key, node.value));
                first
            });
            nodes
        })
        .boxed()
}

fn request() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    let entry = |depth: usize| (prop::sample::select(KEYS[depth].to_vec()), prop::sample::select(vec!["", "x", "y", "xy", "xzy", "z"]));
    (entry(0), entry(1), entry(2), 1..=3usize).prop_map(|(a, b, c, depth)| [a, b, c].into_iter().take(depth).collect())
}

fn json(nodes: &[Node]) -> Value {
    let one = |node: &Node| {
        let limit = node.limit.map(|(units, unit)| json!({"requests_per_unit": units, "unit": UNITS[unit].0}));
        let limit = if node.unlimited { Some(json!({"unlimited": true})) } else { limit };
        json!({
            "key": node.key, "value": node.value, "rate_limit": limit, "shadow_mode": node.shadow,
            "share_threshold": node.shared, "descriptors": json(&node.nodes),
        })
    };
    Value::Array(nodes.iter().map(one).collect())
}

/// Which limit the request meets and where it is counted, by the walk.
fn walk(mut level: &[Node], request: &[(&'static str, &'static str)]) -> Option<(Met, Counter)> {
    let mut counter = Counter::new();
    let mut met = None;
    for (key, value) in request {
        let of_key = || level.iter().filter(|node| node.key == *key);
        let exact = of_key().find(|node| !node.value.is_empty() && node.value == *value);
        let like = || of_key().find(|node| node.value.contains('*') && Pattern::new(node.value).matches(value));
        let node = exact.or_else(like).or_else(|| of_key().find(|node| node.value.is_empty()))?;
        counter.push((key, if node.shared { node.value } else { value }.to_owned()));
        met = node.limit.map(|(units, unit)| (units, UNITS[unit].1, node.shadow));
        level = &node.nodes;
    }
    met.map(|met| (met, counter))
}

/// The same by the policies: all that match.
fn matched(set: &PolicySet, request: &[(&str, &str)]) -> Vec<(Met, (PolicyName, SubjectHash))> {
    let key = SubjectKey::new([0; 32]);
    let met = |policy: &Policy| {
        let value = |name: &str| request.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        let subject = policy.subject(&key, |name| if name == "domain" { Some("d") } else { value(name) }, request.len() + 1)?;
        let limit = policy.overrides_by_hash(&key).get(&subject).copied().unwrap_or(policy.limit);
        let Limit::FixedWindow { units: MicroTokens(units), window: Window::Every(window) } = limit else { panic!("{limit:?}") };
        let units = u32::try_from(units / 1_000_000).expect("few");
        Some(((units, window.as_secs(), policy.mode == Mode::Observe), (policy.name.clone(), subject)))
    };
    set.policies.iter().filter_map(met).collect()
}

proptest! {
    #[test]
    fn any_tree_limits_as_before(tree in level(0), requests in prop::collection::vec(request(), 1..30)) {
        let text = json!({"domain": "d", "descriptors": json(&tree)}).to_string().into_bytes();
        let regions = ["eu".parse().expect("a name")];
        let imported = import(&[SourceFile { name: "f".into(), text }], &regions, false).expect("it loads");
        let mut counted: Vec<(Counter, (PolicyName, SubjectHash))> = Vec::new();
        for request in &requests {
            let mut found = matched(&imported.set, request);
            prop_assert!(found.len() <= 1, "{:?}: {:?}\n{}", request, found, imported.yaml);
            let (before, now) = (walk(&tree, request), found.pop());
            prop_assert_eq!(before.as_ref().map(|(met, _)| *met), now.as_ref().map(|(met, _)| *met), "{:?}\n{}", request, imported.yaml);
            counted.extend(before.zip(now).map(|((_, counter), (_, budget))| (counter, budget)));
        }
        for (counter, budget) in &counted {
            for (other, its) in &counted {
                prop_assert_eq!(counter == other, budget == its, "{:?}, {:?}\n{}", counter, other, imported.yaml);
            }
        }
    }
}
