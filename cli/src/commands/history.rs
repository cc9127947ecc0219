//! `quorate policy history`: the kept versions of the policy set.

use super::{Verdict, ended, print};
use crate::client::{Ask, Client, Server};
use crate::table::{Align, Cell, Paint, Table, Tone};
use quorate_shared::api::{KeptVersion, VersionState};
use quorate_shared::policy::render::Change;
use reqwest::header::{ACCEPT, HeaderValue};
use serde::Deserialize;

const PATH: &str = "/v1/policies/history";

/// How many policies a line of the history names.
const MOST_NAMES: usize = 3;

#[derive(Debug, Deserialize)]
struct History {
    history: Vec<KeptVersion>,
}

/// Every kept version, newest first.
pub async fn list(json: bool, client: &Client) -> anyhow::Result<Verdict> {
    let reply = client.ask_coordinator(&Ask::get(PATH, &[])).await?.success(Server::Coordinator)?;
    match json {
        true => print(&ended(&reply.body))?,
        false => print(&table(&reply.value::<History>(Server::Coordinator)?.history, Paint::for_stdout()))?,
    }
    Ok(Verdict::Done)
}

/// The whole set of one version: YAML that can be applied, or JSON.
pub async fn show(version: u64, json: bool, client: &Client) -> anyhow::Result<Verdict> {
    let media_type = HeaderValue::from_static(if json { "application/json" } else { "application/yaml" });
    let ask = Ask::get(PATH, &[("version", Some(&version.to_string()))]).header(ACCEPT, media_type);
    let reply = client.ask_coordinator(&ask).await?.success(Server::Coordinator)?;
    print(&ended(&reply.body))?;
    Ok(Verdict::Done)
}

fn table(history: &[KeptVersion], paint: Paint) -> String {
    if history.is_empty() {
        return "no versions: no policy set was ever applied\n".to_owned();
    }
    let columns = [
        ("VERSION", Align::Right),
        ("STATE", Align::Left),
        ("WHEN", Align::Left),
        ("WHO", Align::Left),
        ("CHANGED", Align::Left),
        ("WHY", Align::Left),
    ];
    let mut table = Table::new(&columns);
    for version in history {
        table.row([
            version.version.into(),
            state(version.state),
            (&version.when).into(),
            (&version.who).into(),
            changed(version.diff.as_deref()).into(),
            version.why.as_deref().unwrap_or("-").into(),
        ]);
    }
    table.render(paint)
}

fn state(state: VersionState) -> Cell {
    match state {
        VersionState::Pending => Cell::toned("pending", Tone::Attention),
        VersionState::Active => Cell::toned("active", Tone::Good),
        VersionState::Former => "former".into(),
        VersionState::Withdrawn => "withdrawn".into(),
    }
}

/// One change in words; of more how many, and of whom.
fn changed(diff: Option<&[Change]>) -> String {
    let whose = |change: &Change| change.policy.as_ref().map_or("the set", |name| name.as_str()).to_owned();
    match diff {
        None => "not known any more".to_owned(),
        Some([]) => "nothing".to_owned(),
        Some([change]) => match (&change.from, &change.to) {
            (Some(from), Some(to)) => format!("{} {}: {from} > {to}", whose(change), change.field),
            (None, _) => format!("{} {} added", whose(change), change.field),
            (_, None) => format!("{} {} taken out", whose(change), change.field),
        },
        Some(changes) => {
            let mut names: Vec<String> = changes.iter().map(whose).collect();
            names.dedup();
            let more = names.len().saturating_sub(MOST_NAMES);
            names.truncate(MOST_NAMES);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("{} changes of {}{more}", changes.len(), names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(policy: &str, from: Option<&str>, to: Option<&str>) -> Change {
        let text = |text: Option<&str>| text.map(str::to_owned);
        Change { policy: policy.parse().ok(), field: "limit.rate".into(), from: text(from), to: text(to) }
    }

    #[test]
    fn the_history_is_a_table() {
        let version = |version, state, why: Option<&str>, diff| KeptVersion {
            version,
            who: "ops".into(),
            when: "2026-01-02T03:04:05.678Z".into(),
            why: why.map(str::to_owned),
            state,
            diff,
        };
        let history = [
            version(12, VersionState::Active, Some("more room"), Some(vec![change("write", Some("1/s"), Some("2/s"))])),
            version(11, VersionState::Former, None, None),
        ];
        let expected = "\
VERSION  STATE   WHEN                      WHO  CHANGED                      WHY
     12  active  2026-01-02T03:04:05.678Z  ops  write limit.rate: 1/s > 2/s  more room
     11  former  2026-01-02T03:04:05.678Z  ops  not known any more           -
";
        assert_eq!(table(&history, Paint::NONE), expected);
        assert_eq!(table(&[], Paint::NONE), "no versions: no policy set was ever applied\n");
    }

    #[test]
    fn many_changes_are_counted() {
        let of = |names: &[&str]| changed(Some(&names.iter().map(|name| change(name, Some("a"), None)).collect::<Vec<_>>()));
        assert_eq!(of(&[]), "nothing");
        assert_eq!(of(&["a"]), "a limit.rate taken out");
        assert_eq!(of(&["a", "a", "b"]), "3 changes of a, b");
        assert_eq!(of(&["a", "b", "c", "d", "e"]), "5 changes of a, b, c and 2 more");
        assert_eq!(changed(Some(&[change("", None, Some("x"))])), "the set limit.rate added");
    }
}
