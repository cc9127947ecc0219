//! Runs faults, and says what they came to.

#![allow(clippy::expect_used, reason = "a test of the whole")]

use clap::Parser;
use futures_util::FutureExt;
use quorate_faults::alone::Alone;
use quorate_faults::backlog::{PAGES, VIEWERS, Viewers, measure, names, policies};
use quorate_faults::fault::Fault;
use quorate_faults::run::{Report, failed, run};
use quorate_faults::scenario::Scenario;
use std::panic::AssertUnwindSafe;
use std::process::{Command, ExitCode};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Runs the whole system as real processes under load while things go wrong, each run by itself.
#[derive(Debug, Parser)]
#[command(name = "faults")]
struct Arguments {
    /// So many compositions of faults, after each fault by itself
    #[arg(long, default_value_t = 0)]
    seeds: u64,
    /// The seed of the first composition; alone: this one, and nothing else
    #[arg(long)]
    seed: Option<u64>,
    /// Faults by themselves whose names contain this, and nothing else
    #[arg(long)]
    only: Option<String>,
    /// Agents in each region
    #[arg(long, default_value_t = quorate_faults::configuration::AGENTS)]
    agents: usize,
    /// Prints what would run
    #[arg(long)]
    list: bool,
    /// Instead of faults: heartbeats of so many regions on one coordinator, by themselves and while
    /// its views are hammered
    #[arg(long, value_name = "REGIONS")]
    backlog: Option<usize>,
}

impl Arguments {
    fn scenarios(&self) -> Vec<Scenario> {
        let first = self.seed.unwrap_or_default();
        let count = if self.seed.is_some() { self.seeds.max(1) } else { self.seeds };
        let compositions = (first..first.saturating_add(count)).map(Scenario::composition);
        match &self.only {
            Some(part) => Scenario::singles().into_iter().filter(|scenario| scenario.name.contains(part)).collect(),
            None if self.seed.is_some() => compositions.collect(),
            None => Scenario::singles().into_iter().chain(compositions).collect(),
        }
    }
}

/// Why a run has no result.
const ENDED: &str = "it was to end";

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(regions) = arguments.backlog {
        return if build() { backlog(regions).await } else { ExitCode::FAILURE };
    }
    let scenarios = arguments.scenarios();
    if arguments.list {
        scenarios.iter().for_each(|scenario| println!("{scenario}"));
        return ExitCode::SUCCESS;
    }
    if scenarios.is_empty() {
        let names: Vec<String> = Fault::all("eu", 1).into_iter().map(Fault::name).collect();
        eprintln!("nothing to run; faults: {}", names.join(", "));
        return ExitCode::from(2);
    }
    if !build() {
        return ExitCode::FAILURE;
    }
    let mut bad = Vec::new();
    for scenario in scenarios {
        println!("{scenario}");
        let report = run_apart(scenario, arguments.agents).await;
        println!("  {report}");
        if report.broken.iter().any(|why| why == ENDED) {
            return ExitCode::FAILURE;
        }
        if !report.is_well() {
            bad.push(report.name);
        }
    }
    if bad.is_empty() {
        println!("all is well");
        return ExitCode::SUCCESS;
    }
    println!("{} went wrong: {}", bad.len(), bad.join("; "));
    ExitCode::FAILURE
}

/// Agents of a region whose heartbeats all arrive, though one of them renews for all.
const ALL: usize = 10;

/// How long each measurement takes.
const SPAN: Duration = Duration::from_secs(10);

async fn backlog(regions: usize) -> ExitCode {
    let names = names(regions);
    let coordinator = Alone::start(&policies(&names)).await;
    println!("{regions} regions, 3 budgets in each heartbeat, {SPAN:?} each");
    for (agents, viewers) in [(1, 0), (1, VIEWERS), (ALL, 0), (ALL, VIEWERS)] {
        let hammering = Viewers::of(&coordinator.url(), PAGES, viewers);
        let figures = measure(&coordinator.url(), &names, agents, Duration::from_secs(1), SPAN).await;
        let (answered, shed) = hammering.counts();
        println!(
            "  {agents} a second in each, {viewers} viewers: {:.0}/s renewed; p50 {:?}, p99 {:?}, longest {:?}; {} stale, {} refused, \
             {} unanswered; views: {answered} answered, {shed} shed",
            figures.per_second(),
            figures.per_mille(500),
            figures.per_mille(990),
            figures.per_mille(1_000),
            figures.stale,
            figures.refused,
            figures.unanswered
        );
    }
    ExitCode::SUCCESS
}

/// A run that panics is a report like any other; what the panic said is printed by then. Its processes
/// end with it, also if this one is to end.
async fn run_apart(scenario: Scenario, agents: usize) -> Report {
    let mut terminate = signal(SignalKind::terminate()).expect("a signal handler");
    let run = AssertUnwindSafe(run(&scenario, agents)).catch_unwind();
    let ended = tokio::select! {
        ended = run => ended.map_err(|_| "it could not go on; see above"),
        _ = tokio::signal::ctrl_c() => Err(ENDED),
        _ = terminate.recv() => Err(ENDED),
    };
    ended.unwrap_or_else(|why| failed(&scenario, why))
}

/// Builds the `quorate` of this program's own profile, if Cargo runs it.
fn build() -> bool {
    let Some(cargo) = std::env::var_os("CARGO") else { return true };
    let profile = if cfg!(debug_assertions) { "dev" } else { "release" };
    let built = Command::new(cargo).args(["build", "--quiet", "--locked", "--package", "quorate", "--profile", profile]).status();
    built.is_ok_and(|status| status.success())
}
