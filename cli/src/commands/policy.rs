//! `quorate policy`: policy sets, checked here and put in force by a coordinator.

use super::{Verdict, ended, print};
use crate::arguments::{ApplyArgs, ImportArgs, Limiter, PolicyCommand};
use crate::client::{Ask, Client, Server};
use crate::policies::{self, PolicyFile};
use crate::table::{Align, Paint, Table, Tone};
use anyhow::Context;
use quorate_coordinator::documents::import::{self, SourceFile};
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
        PolicyCommand::Import(args) => import(&args),
        PolicyCommand::Diff(set) => put(ApplyArgs { set, if_version: None, why: None, dry_run: true }, client).await,
        PolicyCommand::Apply(args) => put(args, client).await,
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

/// The set to standard output, and all that is to be said of it to standard error.
fn import(args: &ImportArgs) -> anyhow::Result<Verdict> {
    let read = |path: &PathBuf| policies::read(path).map(|(name, text)| SourceFile { name, text });
    let files = args.files.iter().map(read).collect::<anyhow::Result<Vec<_>>>()?;
    let imported = match args.from {
        Limiter::EnvoyRatelimit => import::envoy_ratelimit(&files, &args.regions, args.merge_domains),
    };
    match imported {
        Ok(imported) => {
            imported.notes.iter().for_each(|note| eprintln!("note: {note}"));
            print(&imported.yaml)?;
            Ok(Verdict::Done)
        }
        Err(mistakes) => {
            mistakes.iter().for_each(|mistake| eprintln!("error: {mistake}"));
            Ok(Verdict::Negative)
        }
    }
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
#[derive(Debug, Deserialize)]
struct Taken {
    version: u64,
    waits_for: Vec<String>,
}

async fn put(args: ApplyArgs, client: &Client) -> anyhow::Result<Verdict> {
    let file = PolicyFile::read(&args.set.file)?;
    warn(&file);
    let old = policies::newest(client).await?.set;
    let version = args.if_version.unwrap_or(old.version);
    let query = [("dry_run", args.dry_run.then_some("true")), ("why", args.why.as_deref())];
    let text = String::from_utf8(file.text).context("the policy set is not UTF-8")?;
    // JSON is YAML.
    let ask = Ask::send(Method::PUT, "/v1/policies", &query, "application/yaml", text);
    let ask = ask.header(IF_MATCH, HeaderValue::from_str(&format!("\"{version}\""))?);
    let reply = client.ask_coordinator(&ask).await?.success(Server::Coordinator)?;
    if args.set.json {
        print(&ended(&reply.body))?;
        return Ok(Verdict::Done);
    }
    let mut text = changes_text(&diff(&old, &file.set), Paint::for_stdout());
    text.push_str(&match args.dry_run {
        true => format!("compared with version {}; nothing was changed\n", old.version),
        false => taken_text(&reply.value(Server::Coordinator)?),
    });
    print(&text)?;
    Ok(Verdict::Done)
}

fn taken_text(taken: &Taken) -> String {
    let version = taken.version;
    match taken.waits_for.as_slice() {
        [] => format!("version {version} is in force\n"),
        regions => format!("version {version} is accepted, and in force once confirmed by {}\n", regions.join(", ")),
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
        assert_eq!(taken(r#"{"version": 5, "waits_for": ["eu"]}"#), "version 5 is accepted, and in force once confirmed by eu\n");
        assert_eq!(taken(r#"{"version": 5, "waits_for": [], "more": 1}"#), "version 5 is in force\n");
    }
}
