//! `quorate policy`: policy sets, checked here and put in force by a coordinator.

use super::{Verdict, ended, history, print, validate};
use crate::arguments::{ApplyArgs, ChangeArgs, DiffArgs, HistoryArgs, ImportArgs, Limiter, PolicyCommand, RollbackArgs};
use crate::client::{Ask, Client, Reply, Server};
use crate::policies::{self, PolicyFile};
use crate::table::{Align, Paint, Table, Tone};
use anyhow::Context;
use quorate_coordinator::documents::import::{self, SourceFile};
use quorate_shared::policy::render::{Change, diff};
use quorate_shared::problem::InputError;
use reqwest::Method;
use reqwest::header::{HeaderValue, IF_MATCH};
use serde::Deserialize;
use std::path::PathBuf;

/// `quorate policy …`.
pub async fn run(command: PolicyCommand, client: &Client) -> anyhow::Result<Verdict> {
    match command {
        PolicyCommand::Validate { files, json } => validate::run(&files, json),
        PolicyCommand::Import(args) => import(&args),
        PolicyCommand::Diff(DiffArgs { file, json }) => {
            let change = ChangeArgs { dry_run: true, json, ..ChangeArgs::default() };
            apply(ApplyArgs { file, change }, client).await
        }
        PolicyCommand::Apply(args) => apply(args, client).await,
        PolicyCommand::History(HistoryArgs { version: None, json }) => history::list(json, client).await,
        PolicyCommand::History(HistoryArgs { version: Some(version), json }) => history::show(version, json, client).await,
        PolicyCommand::Rollback(args) => roll_back(args, client).await,
    }
}

/// The set to standard output, and all that is to be said of it to standard error.
fn import(args: &ImportArgs) -> anyhow::Result<Verdict> {
    let read = |path: &PathBuf| policies::read(path).map(|(name, text)| SourceFile { name, text });
    let files = args.files.iter().map(read).collect::<anyhow::Result<Vec<_>>>()?;
    let imported = match args.from {
        Limiter::Limitador if args.merge_domains => {
            anyhow::bail!("--merge-domains is for --from envoy-ratelimit: a limits file may hold any namespace")
        }
        Limiter::Limitador => import::limitador(&files, &args.regions),
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

pub(super) fn warn(file: &PolicyFile) {
    for warning in &file.warnings {
        eprintln!("warning: {warning}");
    }
}

/// What a coordinator says to a set that it took, or would take.
#[derive(Debug, Deserialize)]
struct Taken {
    version: u64,
    waits_for: Vec<String>,
    #[serde(default)]
    warnings: Vec<InputError>,
    #[serde(default)]
    diff: Vec<Change>,
}

/// What replaces the policy set.
struct Command {
    method: Method,
    path: &'static str,
    content_type: &'static str,
    body: String,
}

async fn apply(args: ApplyArgs, client: &Client) -> anyhow::Result<Verdict> {
    let file = PolicyFile::read(&args.file)?;
    warn(&file);
    let text = String::from_utf8(file.text).context("the policy set is not UTF-8")?;
    // JSON is YAML.
    let command = Command { method: Method::PUT, path: "/v1/policies", content_type: "application/yaml", body: text };
    let old = policies::newest(client).await?.set;
    let (reply, taken) = send(command, &args.change, old.version, client).await?;
    tell(&args.change, &reply, &taken, &diff(&old, &file.set))
}

async fn roll_back(args: RollbackArgs, client: &Client) -> anyhow::Result<Verdict> {
    let body = serde_json::json!({"to": args.to}).to_string();
    let command = Command { method: Method::POST, path: "/v1/policies/rollback", content_type: "application/json", body };
    let newest = policies::newest(client).await?.set.version;
    let (reply, taken) = send(command, &args.change, newest, client).await?;
    for warning in &taken.warnings {
        eprintln!("warning: {}: {}", warning.pointer, warning.detail);
    }
    tell(&args.change, &reply, &taken, &taken.diff)
}

/// Sends a change in place of the version that it names, or of the newest. A second one that is sent because
/// the answer was lost is refused for that version: nothing is changed twice.
async fn send(command: Command, change: &ChangeArgs, newest: u64, client: &Client) -> anyhow::Result<(Reply, Taken)> {
    let version = change.if_version.unwrap_or(newest);
    let query = [("dry_run", change.dry_run.then_some("true")), ("why", change.why.as_deref())];
    let ask = Ask::send(command.method, command.path, &query, command.content_type, command.body);
    let ask = ask.header(IF_MATCH, HeaderValue::from_str(&format!("\"{version}\""))?);
    let reply = client.ask_coordinator(&ask).await?.success(Server::Coordinator)?;
    let taken = reply.value(Server::Coordinator)?;
    Ok((reply, taken))
}

fn tell(change: &ChangeArgs, reply: &Reply, taken: &Taken, changes: &[Change]) -> anyhow::Result<Verdict> {
    if change.json {
        print(&ended(&reply.body))?;
        return Ok(Verdict::Done);
    }
    let mut text = changes_text(changes, Paint::for_stdout());
    text.push_str(&match change.dry_run {
        true => format!("compared with version {}; nothing was changed\n", taken.version),
        false => taken_text(taken),
    });
    print(&text)?;
    Ok(Verdict::Done)
}

fn taken_text(taken: &Taken) -> String {
    let version = taken.version;
    match taken.waits_for.as_slice() {
        [] => format!("version {version} is in force\n"),
        regions => format!(
            "version {version} is accepted, and in force once confirmed by {} (`quorate bound` says until when); until then a \
             rollback to the version in force withdraws it\n",
            regions.join(", ")
        ),
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
        assert_eq!(
            taken(r#"{"version": 5, "waits_for": ["eu"]}"#),
            "version 5 is accepted, and in force once confirmed by eu (`quorate bound` says until when); until then a rollback to the \
             version in force withdraws it\n"
        );
        assert_eq!(taken(r#"{"version": 5, "waits_for": [], "more": 1}"#), "version 5 is in force\n");
    }
}
