//! Policy sets, from files and from a coordinator.

use crate::client::{Ask, Client, Reply, Server};
use anyhow::Context;
use quorate_coordinator::documents;
use quorate_shared::policy::PolicySet;
use reqwest::header::{ACCEPT, HeaderValue};
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
        let (name, text) = match path.as_os_str() == "-" {
            true => ("standard input".to_owned(), standard_input()),
            false => (path.display().to_string(), std::fs::read(path)),
        };
        let text = text.with_context(|| format!("cannot read {name}"))?;
        match documents::policy_set(&text) {
            Ok((set, warnings)) => {
                let warnings = warnings.iter().map(|w| format!("{name}:{w}")).collect();
                Ok(Self { name, text, set, warnings })
            }
            Err(mistakes) => Err(anyhow::anyhow!("{}", documents::show(&name, &text, &mistakes).trim_end())),
        }
    }
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

/// The policy set that a coordinator serves, with its version.
pub async fn in_force(client: &Client) -> anyhow::Result<PolicySet> {
    let ask = Ask::get("/v1/policies", &[]).header(ACCEPT, HeaderValue::from_static("application/json"));
    let reply = client.ask_coordinator(&ask).await?.success(Server::Coordinator)?;
    served(reply)
}

fn served(reply: Reply) -> anyhow::Result<PolicySet> {
    let (from, tag) = (reply.from.clone(), reply.etag.as_deref().and_then(|tag| tag.parse().ok()));
    let body: Value = reply.value(Server::Coordinator)?;
    let version = body.get("version").and_then(Value::as_u64).or(tag);
    let version = version.with_context(|| format!("the policy set of {from} has no version"))?;
    // What else an answer says of the set is not part of it.
    let set = ["regions", "policies"].map(|field| (field.to_owned(), body.get(field).cloned().unwrap_or_default()));
    let text = serde_json::to_vec(&Value::Object(set.into_iter().collect()))?;
    match documents::policy_set(&text) {
        Ok((set, _)) => Ok(PolicySet { version, ..set }),
        Err(mistakes) => {
            let shown = documents::show(&from, &text, &mistakes);
            anyhow::bail!("the policy set of {from} is not understood; is it of another version of quorate?\n{}", shown.trim_end())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::StatusCode;

    const SET: &str = r#"{"version": 4, "pending": [], "regions": {"us": {"weight": 2}, "eu": {"weight": 1}}, "policies": [
        {"name": "write", "per": ["tenant"], "limit": {"algorithm": "token-bucket", "rate": "100/s", "burst": 200}, "on_store_failure": "closed"}]}"#;

    fn reply(body: &str, etag: Option<&str>) -> Reply {
        Reply { from: "http://a:1".into(), status: StatusCode::OK, etag: etag.map(str::to_owned), body: body.into() }
    }

    #[test]
    fn an_answer_is_a_set_and_more() {
        let set = served(reply(SET, None)).expect("a set");
        assert_eq!((set.version, set.regions.len(), set.policies[0].name.as_str()), (4, 2, "write"));
    }

    #[test]
    fn the_version_may_be_the_tag() {
        let body = SET.replace(r#""version": 4, "#, "");
        assert_eq!(served(reply(&body, Some("9"))).expect("a set").version, 9);
        assert!(served(reply(&body, None)).is_err());
    }

    #[test]
    fn a_set_with_mistakes_is_not_measured_by() {
        let told = served(reply(&SET.replace("100/s", "fast"), None)).expect_err("a mistake").to_string();
        assert!(told.contains("another version of quorate") && told.contains("rate"), "{told}");
    }
}
