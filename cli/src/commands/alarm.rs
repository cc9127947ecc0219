//! `quorate cluster clear-alarm`: grants go on of budgets of which an internal check failed.

use super::{Verdict, ended, print};
use crate::arguments::ClearAlarmArgs;
use crate::client::{Ask, Client, Server};
use quorate_shared::api::ClearedAlarms;
use reqwest::Method;

/// `quorate cluster clear-alarm`. What fails its check still is a negative answer.
pub async fn clear(args: ClearAlarmArgs, client: &Client) -> anyhow::Result<Verdict> {
    let query = [("policy", args.policy.as_deref()), ("subject", args.subject.as_deref()), ("why", args.why.as_deref())];
    let ask = Ask::send(Method::POST, "/v1/budgets/alarm/clear", &query, "application/json", String::new());
    let reply = client.ask_coordinator(&ask).await?.success(Server::Coordinator)?;
    let answer: ClearedAlarms = reply.value(Server::Coordinator)?;
    match args.json {
        true => print(&ended(&reply.body))?,
        false => print(&text(&answer))?,
    }
    Ok(if answer.standing.is_empty() { Verdict::Done } else { Verdict::Negative })
}

fn text(answer: &ClearedAlarms) -> String {
    let cleared = answer.cleared.iter().map(|b| format!("{} {}: cleared, grants go on\n", b.policy, b.subject));
    let standing = answer.standing.iter().map(|b| format!("{} {}: not cleared, the check fails still: {}\n", b.policy, b.subject, b.what));
    let lines: String = cleared.chain(standing).collect();
    if lines.is_empty() { "no alarm stands\n".to_owned() } else { lines }
}
