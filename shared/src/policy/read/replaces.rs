//! `replaces`: which policies do not count a request that this one meets.

use crate::located::{Located, Once};
use crate::names::PolicyName;
use crate::policy::PolicySet;

/// Names of policies.
pub(super) fn names(at: &Located<'_>) -> Option<Vec<PolicyName>> {
    let items = at.list("a list of names of policies")?;
    let (mut seen, mut names) = (Once::default(), Vec::new());
    for item in &items {
        let Some(name) = item.scalar("the name of a policy").and_then(|text| item.taken(text.parse::<PolicyName>())) else { continue };
        if seen.first(item, name.to_string(), "this policy is already there").is_some() {
            names.push(name);
        }
    }
    (names.len() == items.len()).then_some(names)
}

/// Each name is that of another policy of the set.
pub(super) fn check(at: &[Located<'_>], set: &PolicySet) {
    for (at, policy) in at.iter().zip(&set.policies) {
        for name in &policy.replaces {
            if *name == policy.name {
                at.refuse(format!("`{name}` does not replace itself"));
            } else if set.policy(name).is_none() {
                at.refuse(format!("`replaces` names `{name}`, and there is no such policy"));
            }
        }
    }
}
