//! Policy sets, from files and from a coordinator.

use crate::client::{Ask, Client, Server};
use anyhow::Context;
use quorate_coordinator::documents;
use quorate_shared::policy::PolicySet;
use reqwest::header::{ACCEPT, HeaderValue};
use serde::Deserialize;
use serde_json::Value;
use std::io::Read;
use std::path::Path;

/// A policy set as it was written, and what it means.
#[derive(Clone, Debug)]
pub struct PolicyFile {
    /// Its name, for messages.
    pub name: String,
    /// As it was written.
    pub text: Vec<u8>,
    /// What it means.
    pub set: PolicySet,
    /// What is probably not as meant, by place.
    pub warnings: Vec<String>,
}

impl PolicyFile {
    /// Reads a file, or standard input if it is called `-`.
    ///
    /// # Errors
    /// It cannot be read, or all its mistakes, each with its line.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let (name, text) = read(path)?;
        match documents::policy_set(&text) {
            Ok((set, warnings)) => {
                let warnings = warnings.iter().map(|w| format!("{name}:{w}")).collect();
                Ok(Self { name, text, set, warnings })
            }
            Err(mistakes) => Err(anyhow::anyhow!("{}", documents::show(&name, &text, &mistakes).trim_end())),
        }
    }
}

/// A file as it is, or standard input if it is called `-`, with its name for messages.
///
/// # Errors
/// It cannot be read.
pub fn read(path: &Path) -> anyhow::Result<(String, Vec<u8>)> {
    let (name, text) = match path.as_os_str() == "-" {
        true => ("standard input".to_owned(), standard_input()),
        false => (path.display().to_string(), std::fs::read(path)),
    };
    let text = text.with_context(|| format!("cannot read {name}"))?;
    Ok((name, text))
}

fn standard_input() -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    std::io::stdin().lock().read_to_end(&mut text)?;
    Ok(text)
}

/// The policy set of a file.
pub fn from_file(path: &Path) -> anyhow::Result<PolicySet> {
    Ok(PolicyFile::read(path)?.set)
}

/// The newest policy set of a coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newest {
    /// The set, with its version.
    pub set: PolicySet,
    /// The version that holds until all regions have confirmed the newest; absent once they have.
    pub holds: Option<u64>,
}

/// What an answer says of a set beside the set itself.
#[derive(Debug, Deserialize)]
struct Versions {
    version: u64,
    active: Option<u64>,
}

/// The newest policy set of a coordinator.
pub async fn newest(client: &Client) -> anyhow::Result<Newest> {
    let ask = Ask::get("/v1/policies", &[]).header(ACCEPT, HeaderValue::from_static("application/json"));
    let reply = client.ask_coordinator(&ask).await?.success(Server::Coordinator)?;
    served(&reply.from.clone(), reply.value(Server::Coordinator)?)
}

fn served(from: &str, body: Value) -> anyhow::Result<Newest> {
    let versions = Versions::deserialize(&body).with_context(|| format!("the policy set of {from} has no version"))?;
    if versions.version == 0 {
        // a cluster that was given none yet
        return Ok(Newest { set: PolicySet::default(), holds: None });
    }
    let set = ["regions", "policies"].map(|field| (field.to_owned(), body.get(field).cloned().unwrap_or_default()));
    let text = serde_json::to_vec(&Value::Object(set.into_iter().collect()))?;
    match documents::policy_set(&text) {
        Ok((set, _)) => {
            let set = PolicySet { version: versions.version, ..set };
            Ok(Newest { holds: versions.active.filter(|active| *active != set.version), set })
        }
        Err(mistakes) => {
            let shown = documents::show(from, &text, &mistakes);
            anyhow::bail!("the policy set of {from} is not understood; is it of another version of quorate?\n{}", shown.trim_end())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SET: &str = "regions: {us: {weight: 2}, eu: {}}\npolicies:\n- {name: write, per: [tenant], limit: {algorithm: token-bucket, rate: 100/s, burst: 200}}\n";

    /// As a coordinator writes it.
    fn body(more: &Value) -> Value {
        let (set, _) = documents::policy_set(SET.as_bytes()).expect("a set");
        let mut body = documents::to_json(&set).expect("JSON");
        for (key, value) in more.as_object().expect("a map") {
            body[key] = value.clone();
        }
        body
    }

    #[test]
    fn a_cluster_without_a_set_has_the_empty_one() {
        let none = json!({"version": 0, "regions": {}, "policies": [], "active": 0, "pending": null});
        assert_eq!(served("it", none).expect("a set"), Newest { set: PolicySet::default(), holds: None });
    }

    #[test]
    fn what_a_coordinator_writes_is_read() {
        let newest = served("it", body(&json!({"version": 4, "active": 4, "pending": null}))).expect("a set");
        let (set, _) = documents::policy_set(SET.as_bytes()).expect("a set");
        assert_eq!(newest, Newest { set: PolicySet { version: 4, ..set }, holds: None });
    }

    #[test]
    fn a_set_that_is_not_in_force_yet_is_told_from_the_one_that_is() {
        let pending = json!({"version": 5, "active": 4, "pending": {"version": 5, "waits_for": ["eu"]}});
        assert_eq!(served("it", body(&pending)).expect("a set").holds, Some(4));
        assert!(served("it", body(&json!({}))).is_err(), "without a version");
    }

    #[test]
    fn a_set_with_mistakes_is_not_measured_by() {
        let told =
            served("it", json!({"version": 4, "regions": {"us": {}}, "policies": [{"name": "Write"}]})).expect_err("mistakes").to_string();
        assert!(told.contains("another version of quorate") && told.contains("Write"), "{told}");
    }
}
