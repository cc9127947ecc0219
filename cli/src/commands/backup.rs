//! `quorate cluster snapshot` and `restore`: what is kept of a cluster outside of it.

use super::{Verdict, print};
use crate::arguments::{RestoreArgs, SnapshotArgs};
use crate::client::{Ask, Client, Server};
use anyhow::Context;
use reqwest::Method;
use serde::Deserialize;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

/// What a coordinator says to a backup that it took.
#[derive(Debug, Deserialize)]
struct Restored {
    version: u64,
    waits_for: Vec<String>,
}

/// `quorate cluster snapshot`.
pub async fn snapshot(args: &SnapshotArgs, client: &Client) -> anyhow::Result<Verdict> {
    let reply = client.ask_coordinator(&Ask::get("/v1/cluster/snapshot", &[])).await?.success(Server::Coordinator)?;
    // as secret as the subjects, whose key it holds
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&args.file);
    let mut file = file.with_context(|| format!("{} cannot be written", args.file.display()))?;
    let written = file.write_all(reply.body.as_bytes()).and_then(|()| file.sync_all());
    written.with_context(|| format!("{} cannot be written", args.file.display()))?;
    print(&format!("{}: policy sets and the key of subjects; keep it secret\n", args.file.display()))?;
    Ok(Verdict::Done)
}

/// `quorate cluster restore`.
pub async fn restore(args: &RestoreArgs, client: &Client) -> anyhow::Result<Verdict> {
    let text = std::fs::read_to_string(&args.file).with_context(|| format!("{} cannot be read", args.file.display()))?;
    let ask = Ask::send(Method::POST, "/v1/cluster/restore", &[("why", args.why.as_deref())], "application/json", text);
    let Restored { version, waits_for } = client.ask_coordinator(&ask).await?.success(Server::Coordinator)?.value(Server::Coordinator)?;
    print(&format!(
        "version {version} of the policies is in force once {} confirm it; until no lease from before can count any more, regions serve their floors\n",
        waits_for.join(", ")
    ))?;
    Ok(Verdict::Done)
}
