//! `quorate top`: regions, bounds and the budgets most in demand, on one screen.

use super::{Verdict, views, watch};
use crate::arguments::TopArgs;
use crate::client::{Ask, Client, Failure, Server};
use crate::table::Paint;
use quorate_shared::api::{Bounds, Budgets, Regions};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::IsTerminal;
use std::time::Duration;

/// How often it is shown again.
const PERIOD: Duration = Duration::from_secs(1);

#[derive(Debug, Serialize)]
struct Screen {
    #[serde(flatten)]
    regions: Regions,
    #[serde(flatten)]
    bounds: Bounds,
    #[serde(flatten)]
    budgets: Budgets,
}

/// `quorate top`: again and again on a terminal, once elsewhere.
pub async fn run(args: TopArgs, client: &Client) -> anyhow::Result<Verdict> {
    let again = std::io::stdout().is_terminal() && !args.view.json;
    let period = args.view.watch.or(again.then_some(PERIOD));
    let limit = args.limit.to_string();
    watch::show(period, || async {
        let query = [("policy", args.policy.as_deref()), ("sort", Some(args.sort.as_str())), ("limit", Some(limit.as_str()))];
        let screen = Screen {
            regions: ask(client, &Ask::get("/v1/regions", &[])).await?,
            bounds: ask(client, &Ask::get("/v1/bound", &[])).await?,
            budgets: ask(client, &Ask::get("/v1/budgets", &query)).await?,
        };
        match args.view.json {
            true => Ok(format!("{}\n", serde_json::to_string(&screen)?)),
            false => Ok(text(&screen, Paint::for_stdout())),
        }
    })
    .await
}

async fn ask<T: DeserializeOwned>(client: &Client, ask: &Ask) -> Result<T, Failure> {
    client.ask_coordinator(ask).await?.success(Server::Coordinator)?.value(Server::Coordinator)
}

fn text(screen: &Screen, paint: Paint) -> String {
    let parts = [
        views::regions_text(&screen.regions, paint),
        views::bound_text(&screen.bounds, paint),
        views::budgets_text(&screen.budgets, paint),
    ];
    parts.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_system_says_so_in_every_part() {
        let screen = Screen { regions: Regions::default(), bounds: Bounds::default(), budgets: Budgets::default() };
        let text = text(&screen, Paint::NONE);
        assert_eq!(text.lines().filter(|line| line.starts_with("no ")).count(), 3, "{text}");
        assert_eq!(
            serde_json::to_string(&screen).ok().as_deref(),
            Some(r#"{"regions":[],"policies":[],"budgets":[],"cursor":null,"total":0}"#)
        );
    }
}
