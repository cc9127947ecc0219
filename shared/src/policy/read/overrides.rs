//! `overrides`.

use super::limit;
use super::matching::warn_of_star;
use crate::located::Located;
use crate::policy::{Limit, Override};
use crate::text::cut;
use std::collections::BTreeMap;

/// The overrides of a policy. `per` and `of` are `None` where they are wrong themselves; what
/// depends on them is not looked at then.
pub(super) fn overrides(at: &Located<'_>, per: Option<&[String]>, of: Option<Limit>) -> Option<Vec<Override>> {
    let items = at.list("a list of overrides, such as `[{subject: {tenant: acme}, limit: {rate: 500/s, burst: 1000}}]`")?;
    if per.is_some_and(<[String]>::is_empty) && !items.is_empty() {
        at.refuse("an override is for one subject, and without `per` there is one budget for all");
        return None;
    }
    let mut seen: BTreeMap<BTreeMap<String, String>, Option<u64>> = BTreeMap::new();
    let mut overrides = Vec::with_capacity(items.len());
    for item in &items {
        let Some(read) = one(item, per, of) else { continue };
        match seen.get(&read.subject) {
            Some(line) => {
                let line = line.map(|l| format!(" in line {l}")).unwrap_or_default();
                item.refuse(format!("another override is for the same subject{line}"));
            }
            None => {
                seen.insert(read.subject.clone(), item.line());
                overrides.push(read);
            }
        }
    }
    (overrides.len() == items.len()).then_some(overrides)
}

fn one(at: &Located<'_>, per: Option<&[String]>, of: Option<Limit>) -> Option<Override> {
    let fields = at.fields(&["subject", "limit"])?;
    let subject = fields.required("subject").and_then(|at| subject(at, per));
    let limit = fields.required("limit").and_then(|at| limit::overriding(at, of));
    Some(Override { subject: subject?, limit: limit? })
}

/// A value for exactly the attributes of `per`.
fn subject(at: &Located<'_>, per: Option<&[String]>) -> Option<BTreeMap<String, String>> {
    let mut subject = BTreeMap::new();
    for (name, value) in at.entries("a value for each attribute of `per`, such as `{tenant: acme}`")? {
        let text = value.scalar("a value");
        if let Some(per) = per
            && !per.iter().any(|p| p == name)
        {
            let hint = match value.meant(name, per.iter().map(String::as_str)) {
                Some(meant) => format!("; did you mean `{meant}`?"),
                None => String::new(),
            };
            value.refuse(format!("`{}` is not in the policy's `per`{hint}", cut(name)));
        }
        if let Some(text) = text {
            warn_of_star(&value, text);
            subject.insert(name.to_owned(), text.to_owned());
        }
    }
    let missing: Vec<&str> = per.unwrap_or_default().iter().filter(|p| !at.has(p)).map(String::as_str).collect();
    if !missing.is_empty() {
        at.refuse(format!("a value is missing for {}", missing.iter().map(|m| format!("`{m}`")).collect::<Vec<_>>().join(", ")));
        return None;
    }
    Some(subject)
}
