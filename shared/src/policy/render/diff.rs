//! What a new policy set changes, for a dry run and for the history.

use super::{Keys, fields, limit};
use crate::located::{Key, Node, Value};
use crate::names::PolicyName;
use crate::policy::{Policy, PolicySet, Region, Shape};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use utoipa::ToSchema;

/// One difference between two sets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Change {
    /// Whose; `None`: of the set itself (a region, or the order of the policies).
    #[schema(value_type = Option<String>)]
    pub policy: Option<PolicyName>,
    /// Which field, such as `limit.burst` or `overrides(tenant: acme).limit`. Of a policy that
    /// comes or goes: `policy`. `kind` says what follows for the budgets that exist.
    pub field: String,
    /// As it was written; `None` where there was nothing.
    pub from: Option<String>,
    /// As it is written; `None` where there is nothing.
    pub to: Option<String>,
}

/// What follows from another algorithm, period or subject.
const NEW_BUDGETS: &str = "kind changed: new budgets";

/// The same where they have windows: nobody knows what was used before under another kind of limit.
const NEW_WINDOWS: &str = "kind changed: new budgets; the window in which it takes effect counts as used";

/// Every difference between two sets: regions, then policies in the order of the new set, then
/// those that are gone. Versions and generations are no difference.
pub fn diff(old: &PolicySet, new: &PolicySet) -> Vec<Change> {
    let mut changes = compare(None, &regions(old), &regions(new));
    if let Some(change) = order(old, new) {
        changes.push(change);
    }
    let (before, after) = (by_name(old), by_name(new));
    for policy in &new.policies {
        match before.get(&policy.name) {
            Some(before) => changes.extend(changed(before, policy)),
            None => changes.push(whole(policy, |text| (None, Some(text)))),
        }
    }
    let gone = old.policies.iter().filter(|p| !after.contains_key(&p.name));
    changes.extend(gone.map(|policy| whole(policy, |text| (Some(text), None))));
    changes
}

fn by_name(set: &PolicySet) -> BTreeMap<&PolicyName, &Policy> {
    set.policies.iter().map(|policy| (&policy.name, policy)).collect()
}

fn regions(set: &PolicySet) -> BTreeMap<String, String> {
    let words = |region: &Region| {
        let mut words = format!("weight {}", region.weight);
        if region.priority > 0 {
            words.push_str(&format!(", priority {}", region.priority));
        }
        if region.agents > 1 {
            words.push_str(&format!(", {} agents", region.agents));
        }
        words
    };
    set.regions.iter().map(|(name, region)| (format!("regions.{name}"), words(region))).collect()
}

/// The order of the policies is the order of the limits in an answer.
fn order(old: &PolicySet, new: &PolicySet) -> Option<Change> {
    let common = |a: &PolicySet, b: &PolicySet| -> Vec<String> {
        let names: BTreeSet<&PolicyName> = b.policies.iter().map(|p| &p.name).collect();
        a.policies.iter().filter(|p| names.contains(&p.name)).map(|p| p.name.to_string()).collect()
    };
    let (before, after) = (common(old, new), common(new, old));
    let change = || Change { policy: None, field: "policies (order)".into(), from: Some(before.join(", ")), to: Some(after.join(", ")) };
    (before != after).then(change)
}

fn whole(policy: &Policy, side: impl FnOnce(String) -> (Option<String>, Option<String>)) -> Change {
    let node = Node::map(fields(policy, Keys::Kebab).into_iter().filter(|(key, _)| *key != "name"));
    let (from, to) = side(flow(&node));
    Change { policy: Some(policy.name.clone()), field: "policy".into(), from, to }
}

fn changed(old: &Policy, new: &Policy) -> Vec<Change> {
    let mut changes = compare(Some(&new.name), &flat(old), &flat(new));
    if old.per != new.per || !old.limit.same_kind(new.limit) {
        let begins = if new.limit.shape() == Shape::Allowance { NEW_WINDOWS } else { NEW_BUDGETS };
        let note = Change { policy: Some(new.name.clone()), field: "kind".into(), from: None, to: Some(begins.into()) };
        changes.push(note);
    }
    changes
}

fn compare(policy: Option<&PolicyName>, old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> Vec<Change> {
    let fields: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let change = |field: &String| {
        let (from, to) = (old.get(field), new.get(field));
        (from != to).then(|| Change { policy: policy.cloned(), field: field.clone(), from: from.cloned(), to: to.cloned() })
    };
    fields.into_iter().filter_map(change).collect()
}

/// The fields of a policy, with the inner ones of those that people change one by one.
fn flat(policy: &Policy) -> BTreeMap<String, String> {
    let mut flat = BTreeMap::new();
    for (key, node) in fields(policy, Keys::Kebab) {
        match (key, &node.value) {
            ("overrides", _) => {}
            ("match" | "limit" | "floor" | "cost", Value::Map(entries)) => {
                flat.extend(entries.iter().map(|(inner, node)| (format!("{key}.{}", inner.name), flow(node))));
            }
            _ => drop(flat.insert(key.to_owned(), flow(&node))),
        }
    }
    for one in &policy.overrides {
        let subject = one.subject.iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join(", ");
        flat.insert(format!("overrides({subject}).limit"), flow(&Node::map(limit(one.limit, Keys::Kebab))));
    }
    flat
}

/// A value in one line, for people.
fn flow(node: &Node) -> String {
    match &node.value {
        Value::Null => "null".into(),
        Value::Bool(b) => b.to_string(),
        Value::Number(text) | Value::Text(text) => text.clone(),
        Value::List(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Map(entries) => {
            let entry = |(key, node): &(Key, Node)| format!("{}: {}", key.name, flow(node));
            format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
    }
}
