//! `quorate load`: sends requests by the clock and measures what the limits made of them.
//!
//! What goes when ([`schedule`], [`shape`], [`trace`]) is computed without a clock, what became of it is
//! measured without one ([`measure`], [`interval`], [`ideal`]); only [`send`] meets the network.

pub mod book;
pub mod fleet;
pub mod ideal;
pub mod interval;
pub mod measure;
pub mod outcome;
pub mod report;
pub mod schedule;
pub mod send;
pub mod shape;
#[cfg(test)]
pub mod testing;
pub mod trace;
pub mod traffic;

use crate::arguments::{AgentTarget, LoadArgs, ReachArgs};
use crate::client::{Ask, Client, Server, authorization};
use crate::commands::{Verdict, print};
use crate::policies;
use crate::table::Paint;
use anyhow::Context;
use book::Book;
use fleet::{Agent, Fleet};
use futures_util::future::try_join_all;
use outcome::{Interner, Sample};
use quorate_shared::api::AgentStatus;
use quorate_shared::policy::PolicySet;
use quorate_shared::units::MicroTokens;
use schedule::{Attributes, Paced, Planned, Replay};
use send::{SendSettings, Sender};
use shape::Demand;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Mistakes of a trace that are shown; the rest are counted.
const MISTAKES_SHOWN: usize = 20;

/// Sends, measures and prints. Ctrl-C ends the sending, and what was sent until then is measured.
pub async fn run(args: LoadArgs, reach: &ReachArgs, client: &Client) -> anyhow::Result<Verdict> {
    let trace = args.trace.as_deref().map(read_trace).transpose()?;
    let set = match &args.policies {
        Some(path) => policies::from_file(path)?,
        None => newest_policies(client).await?,
    };
    let cost =
        args.cost.map(|n| MicroTokens::from_tokens(n).with_context(|| format!("a cost of {n} is more than can be counted"))).transpose()?;
    let fleet = fleet(&args.agents, client).await?;
    let (kinds, plan) = plan(&args, trace.as_deref(), &fleet)?;
    let settings =
        SendSettings { connections: args.connections, timeout: args.timeout, headers: authorization(reach.token_file.as_deref())? };
    let sender = Arc::new(Sender::new(&fleet, &kinds, args.cost, settings)?);
    let book = Book::new(set, &kinds, cost);
    let samples = collect(sender, plan).await;
    if args.policies.is_none() {
        warn_of_change(book.version(), client).await;
    }
    let report = measure::measure(samples, &book, &fleet);
    match args.json {
        true => print(&format!("{}\n", serde_json::to_string_pretty(&report)?))?,
        false => print(&report.text(Paint::for_stdout()))?,
    }
    Ok(Verdict::Done)
}

async fn newest_policies(client: &Client) -> anyhow::Result<PolicySet> {
    let newest = policies::newest(client).await.context("the policies to measure by (--policies FILE gives others)")?;
    if let Some(active) = newest.holds {
        let version = newest.set.version;
        eprintln!("warning: measured by version {version}, but until all regions have confirmed it version {active} holds");
    }
    Ok(newest.set)
}

/// A run over a change of the policies is measured by limits that did not hold all the time.
async fn warn_of_change(version: u64, client: &Client) {
    match policies::newest(client).await.map(|newest| newest.set.version) {
        Ok(now) if now == version => {}
        Ok(now) => eprintln!("warning: the policy set changed during the run, from version {version} to {now}"),
        Err(error) => eprintln!("warning: nobody can tell whether the policy set changed during the run: {error:#}"),
    }
}

fn read_trace(path: &Path) -> anyhow::Result<Vec<trace::TraceRequest>> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    trace::parse(&text).map_err(|mistakes| {
        let mut lines: Vec<String> = mistakes.iter().take(MISTAKES_SHOWN).map(|m| format!("{name}: {m}")).collect();
        if mistakes.len() > MISTAKES_SHOWN {
            lines.push(format!("and {} more", mistakes.len() - MISTAKES_SHOWN));
        }
        anyhow::anyhow!("{}", lines.join("\n"))
    })
}

/// The agents, each with its region: as given, or as it says itself.
async fn fleet(targets: &[AgentTarget], client: &Client) -> anyhow::Result<Fleet> {
    let agents = targets.iter().map(|target| async move {
        let url = target.url.to_string();
        if let Some(region) = &target.region {
            return anyhow::Ok(Agent { region: region.clone(), url });
        }
        let who = Server::LoadedAgent;
        let reply = client.ask_at(&target.url, who, &Ask::get("/v1/status", &[])).await?.success(who)?;
        let region = reply.value::<AgentStatus>(who)?.region;
        Ok(Agent { region: region.parse().with_context(|| format!("{url} names no region"))?, url })
    });
    Ok(Fleet::new(try_join_all(agents).await?))
}

/// Kinds of requests, and when each goes.
type Plan = (Vec<Attributes>, Box<dyn Iterator<Item = Planned> + Send>);

fn plan(args: &LoadArgs, trace: Option<&[trace::TraceRequest]>, fleet: &Fleet) -> anyhow::Result<Plan> {
    let attributes = args.attributes.clone().unwrap_or_default().0;
    if let Some(trace) = trace {
        let replay = Replay::new(trace, args.speed, fleet, &attributes)?;
        return Ok((replay.kinds, Box::new(replay.plan.into_iter())));
    }
    let rate = args.rate.amount.tokens() / args.rate.period.as_secs_f64();
    let demand = Demand::new(args.shape, rate, fleet.regions().len(), args.duration);
    let duration = args.duration;
    Ok((vec![attributes], Box::new(Paced::new(demand, fleet).take_while(move |p| p.at < duration))))
}

/// Sends the plan and keeps what became of each request.
async fn collect(sender: Arc<Sender>, plan: impl Iterator<Item = Planned>) -> Vec<Sample> {
    let stop = CancellationToken::new();
    let (out, mut samples) = mpsc::unbounded_channel::<Sample>();
    let interrupted = {
        let stop = stop.clone();
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                stop.cancel();
            }
        })
    };
    let keeping = async {
        let (mut interner, mut kept) = (Interner::default(), Vec::new());
        while let Some(mut sample) = samples.recv().await {
            interner.share(&mut sample.outcome);
            kept.push(sample);
        }
        kept
    };
    let ((), kept) = tokio::join!(sender.send(plan, &stop, out), keeping);
    interrupted.abort();
    kept
}
