//! `quorate policy`: policy sets, checked here and put in force by a coordinator.

use super::{Verdict, ended, print};
use crate::arguments::{ApplyArgs, PolicyCommand, PolicySetArgs};
use crate::client::{Ask, Client, Server};
use crate::policies::{self, PolicyFile};
use crate::table::{Align, Paint, Table, Tone};
use anyhow::Context;
use quorate_shared::policy::PolicySet;
use quorate_shared::policy::render::{Change, diff};
use reqwest::Method;
use reqwest::header::{HeaderValue, IF_MATCH};
use serde::Deserialize;
use std::path::PathBuf;

/// `quorate policy …`.
pub async fn run(command: PolicyCommand, client: &Client) -> anyhow::Result<Verdict> {
    match command {
        PolicyCommand::Validate { files } => validate(&files),
        PolicyCommand::Diff(args) => put(args, None, true, client).await,
        PolicyCommand::Apply(args) => {
            let ApplyArgs { set, if_version, dry_run } = args;
            put(set, if_version, dry_run, client).await
        }
    }
}

/// Tells the mistakes of all files, and not only of the first.
fn validate(files: &[PathBuf]) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::Done;
    for path in files {
        match PolicyFile::read(path) {
            Ok(file) => {
                warn(&file);
                print(&format!("{}: good; {}\n", file.name, contents(&file.set)))?;
            }
            Err(error) => {
                eprintln!("{error:#}");
                verdict = Verdict::Negative;
            }
        }
    }
    Ok(verdict)
}

fn warn(file: &PolicyFile) {
    for warning in &file.warnings {
        eprintln!("warning: {warning}");
    }
}

fn contents(set: &PolicySet) -> String {
    let counted = |n: usize, one: &str, more: &str| format!("{n} {}", if n == 1 { one } else { more });
    format!("{}, {}", counted(set.policies.len(), "policy", "policies"), counted(set.regions.len(), "region", "regions"))
}

/// What a coordinator says to a set that it took.
#[derive(Debug, Default, Deserialize)]
struct Taken {
    version: Option<u64>,
    #[serde(default)]
    waits_for: Vec<String>,
}

async fn put(args: PolicySetArgs, if_version: Option<u64>, dry_run: bool, client: &Client) -> anyhow::Result<Verdict> {
    let file = PolicyFile::read(&args.file)?;
    warn(&file);
    let old = policies::in_force(client).await?;
    let version = if_version.unwrap_or(old.version);
    let path = if dry_run { "/v1/policies?dry_run=true" } else { "/v1/policies" };
    let text = String::from_utf8(file.text).context("the policy set is not UTF-8")?;
    // JSON is YAML.
    let ask = Ask::send(Method::PUT, path, "application/yaml", text).header(IF_MATCH, HeaderValue::from_str(&format!("\"{version}\""))?);
    let reply = client.ask_coordinator(&ask).await?.success(Server::Coordinator)?;
    if args.json {
        print(&ended(&reply.body))?;
        return Ok(Verdict::Done);
    }
    let taken = serde_json::from_str::<Taken>(&reply.body).unwrap_or_default();
    let paint = Paint::for_stdout();
    let mut text = changes_text(&diff(&old, &file.set), paint);
    text.push_str(&match dry_run {
        true => format!("compared with version {}; nothing was changed\n", old.version),
        false => taken_text(&taken),
    });
    print(&text)?;
    Ok(Verdict::Done)
}

fn taken_text(taken: &Taken) -> String {
    let version = taken.version.map_or("the set is accepted".to_owned(), |v| format!("version {v} is accepted"));
    match taken.waits_for.as_slice() {
        [] => format!("{version}\n"),
        regions => format!("{version}; it takes effect when confirmed by {}\n", regions.join(", ")),
    }
}

fn changes_text(changes: &[Change], paint: Paint) -> String {
    if changes.is_empty() {
        return "no differences\n".to_owned();
    }
    let mut table = Table::new(&[("POLICY", Align::Left), ("FIELD", Align::Left), ("FROM", Align::Left), ("TO", Align::Left)]);
    for change in changes {
        let policy = change.policy.as_ref().map_or("(set)", |name| name.as_str());
        let side = |value: &Option<String>, tone| match value {
            Some(text) => crate::table::Cell::toned(text, tone),
            None => "-".into(),
        };
        table.row([policy.into(), (&change.field).into(), side(&change.from, Tone::Bad), side(&change.to, Tone::Good)]);
    }
    table.render(paint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_shown_side_by_side() {
        let change = |policy: Option<&str>, from: Option<&str>, to: Option<&str>| Change {
            policy: policy.map(|p| p.parse().expect("a name")),
            field: "limit.rate".into(),
            from: from.map(str::to_owned),
            to: to.map(str::to_owned),
        };
        let text = changes_text(&[change(Some("write"), Some("1/s"), Some("2/s")), change(None, None, Some("x"))], Paint::NONE);
        assert_eq!(text, "POLICY  FIELD       FROM  TO\nwrite   limit.rate  1/s   2/s\n(set)   limit.rate  -     x\n");
        assert_eq!(changes_text(&[], Paint::NONE), "no differences\n");
    }

    #[test]
    fn a_set_that_waits_says_for_whom() {
        let taken = |json| taken_text(&serde_json::from_str(json).expect("an answer"));
        assert_eq!(taken(r#"{"version": 5, "waits_for": ["eu"]}"#), "version 5 is accepted; it takes effect when confirmed by eu\n");
        assert_eq!(taken(r#"{"version": 5, "more": 1}"#), "version 5 is accepted\n");
    }
}
