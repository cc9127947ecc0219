//! What the loader refuses before it looks at any meaning: one list of known keys for every depth.

use super::last_of_each;
use crate::documents::import::findings::Findings;
use crate::documents::import::scalar::{Meaning, Origin};
use quorate_shared::located::{Key, Node, Value, nearest};
use quorate_shared::text::cut;

/// The keys that may stand anywhere; where one has no meaning it is passed over.
const KNOWN: [&str; 16] = [
    "domain",
    "key",
    "value",
    "descriptors",
    "rate_limit",
    "unit",
    "requests_per_unit",
    "unlimited",
    "shadow_mode",
    "quota_mode",
    "name",
    "replaces",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
    "metadata",
];

/// True of a document that is not refused.
pub(super) fn keys(document: &Node, origin: &Origin<'_>, findings: &mut Findings) -> bool {
    let before = findings.mistakes.len();
    match document.value {
        Value::Null => {}
        Value::Map(_) => map(document, origin, findings),
        _ => findings.refuse(document.at, "expected a map with `domain` and `descriptors`"),
    }
    findings.mistakes.len() == before
}

fn map(node: &Node, origin: &Origin<'_>, findings: &mut Findings) {
    for (key, value) in last_of_each(node) {
        known(key, origin, findings);
        if key.name != "metadata" {
            one(value, origin, findings);
        }
    }
}

fn known(key: &Key, origin: &Origin<'_>, findings: &mut Findings) {
    if origin.meaning(key.at, &key.name) != Meaning::Text {
        return findings.refuse(key.at, format!("the key `{}` is not a text", cut(&key.name)));
    }
    if KNOWN.contains(&key.name.as_str()) {
        return;
    }
    let hint = match key.name.as_str() {
        "apiVersion" | "kind" | "data" => "; this looks like a ConfigMap: the file that it holds is meant".to_owned(),
        name => nearest(name, KNOWN).map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default(),
    };
    findings.refuse(key.at, format!("unknown key `{}`{hint}", cut(&key.name)));
}

fn one(value: &Node, origin: &Origin<'_>, findings: &mut Findings) {
    match &value.value {
        Value::Map(_) => map(value, origin, findings),
        Value::List(items) => {
            for item in items {
                match item.value {
                    Value::Map(_) => map(item, origin, findings),
                    _ => findings.refuse(item.at, "expected a map: a list holds nothing else here"),
                }
            }
        }
        _ => scalar(value, origin, findings),
    }
}

fn scalar(value: &Node, origin: &Origin<'_>, findings: &mut Findings) {
    let largest = i128::from(i64::MAX);
    let refused = match origin.scalar(value) {
        Some((Meaning::Float, _)) => true,
        Some((Meaning::Whole(n), _)) => n.is_none_or(|n| n > largest),
        _ => false,
    };
    if refused {
        let written = origin.scalar(value).map(|(_, written)| cut(written)).unwrap_or_default();
        findings
            .refuse(value.at, format!("`{written}` is a fraction, or a whole number above 2^63 - 1: write it in quotes if it is a value"));
    }
}
