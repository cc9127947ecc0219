//! `quorate cluster init`, `add`, `remove` and `transfer-leader`: who is a member, and who leads.

use super::{Verdict, print};
use crate::arguments::{AddArgs, LeadArgs, RemoveArgs, ViewArgs};
use crate::client::{Ask, Client, Server};
use reqwest::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// What a coordinator says to a new node.
#[derive(Debug, Deserialize)]
struct Added {
    voter: bool,
    lag: u64,
}

/// What it says to another leader.
#[derive(Debug, Deserialize)]
struct Leads {
    leader: u64,
}

/// `quorate cluster init`.
pub async fn init(args: ViewArgs, client: &Client) -> anyhow::Result<Verdict> {
    let ask = Ask::send(Method::POST, "/v1/cluster/init", &[], "application/json", String::new());
    client.ask_coordinator(&ask).await?.success(Server::Coordinator)?;
    super::views::cluster(args, client).await
}

/// `quorate cluster add`. The coordinator answers while the new node learns; it is asked until the node votes.
pub async fn add(args: AddArgs, client: &Client) -> anyhow::Result<Verdict> {
    let node = args.node.to_string();
    let query = [("node", Some(node.as_str())), ("address", Some(args.address.as_str())), ("why", args.why.as_deref())];
    let mut told = None;
    loop {
        let Added { voter, lag } = order("/v1/cluster/add", &query, client).await?;
        if voter {
            print(&format!("node {node} at {} is a member\n", args.address))?;
            return Ok(Verdict::Done);
        }
        if told != Some(lag) {
            eprintln!("node {node} learns{}", if lag == u64::MAX { String::new() } else { format!(": it lacks {lag} entries") });
            told = Some(lag);
        }
    }
}

/// `quorate cluster remove`.
pub async fn remove(args: RemoveArgs, client: &Client) -> anyhow::Result<Verdict> {
    let node = args.node.to_string();
    let _: serde_json::Value = order("/v1/cluster/remove", &[("node", Some(&node)), ("why", args.why.as_deref())], client).await?;
    print(&format!("node {node} is no member any more; end its process, and do not use its number or its data again\n"))?;
    Ok(Verdict::Done)
}

/// `quorate cluster transfer-leader`.
pub async fn transfer_leader(args: LeadArgs, client: &Client) -> anyhow::Result<Verdict> {
    let node = args.node.map(|node| node.to_string());
    let query = [("node", node.as_deref()), ("why", args.why.as_deref())];
    let Leads { leader } = order("/v1/cluster/transfer-leader", &query, client).await?;
    print(&format!("node {leader} leads\n"))?;
    Ok(Verdict::Done)
}

async fn order<T: DeserializeOwned>(path: &str, query: &[(&str, Option<&str>)], client: &Client) -> anyhow::Result<T> {
    let ask = Ask::send(Method::POST, path, query, "application/json", String::new());
    Ok(client.ask_coordinator(&ask).await?.success(Server::Coordinator)?.value(Server::Coordinator)?)
}
