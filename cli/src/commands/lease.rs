//! `quorate cluster lease`: how long a region may go on without being heard.

use super::{Verdict, print};
use crate::arguments::LeaseArgs;
use crate::client::{Ask, Client, Server};
use reqwest::Method;

/// `quorate cluster lease`.
pub async fn change(args: LeaseArgs, client: &Client) -> anyhow::Result<Verdict> {
    let query = [("lease", Some(args.lease.as_str())), ("why", args.why.as_deref())];
    let ask = Ask::send(Method::POST, "/v1/cluster/lease", &query, "application/json", String::new());
    client.ask_coordinator(&ask).await?.success(Server::Coordinator)?;
    print(&format!("the lease is {} from each region's next heartbeat on\n", args.lease))?;
    Ok(Verdict::Done)
}
