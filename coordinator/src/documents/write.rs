//! Tree to text.

use quorate_shared::policy::PolicySet;
use quorate_shared::policy::render::{Keys, document};

/// The set as YAML, with keys in `kebab-case`.
///
/// # Errors
/// The writer's; none is known for a valid set.
pub fn to_yaml(set: &PolicySet) -> anyhow::Result<String> {
    Ok(serde_saphyr::to_string(&document(set, Keys::Kebab))?)
}

/// The set as JSON, with keys in `snake_case`.
///
/// # Errors
/// The writer's; none is known for a valid set.
pub fn to_json(set: &PolicySet) -> serde_json::Result<serde_json::Value> {
    serde_json::to_value(document(set, Keys::Snake))
}
