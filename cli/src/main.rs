//! `quorate`: every role and every command in one binary.

mod arguments;
mod client;
mod commands;
mod config_file;
mod dev;
mod load;
mod policies;
mod roles;
mod table;
mod telemetry;

use arguments::{ClusterCommand, Command, CommandLine};
use clap::{CommandFactory, Parser};
use client::Client;
use commands::Verdict;
use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    // Usage errors end the process here, with status 2.
    let line = CommandLine::parse();
    match run(line).await {
        Ok(Verdict::Done) => ExitCode::SUCCESS,
        Ok(Verdict::Negative) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(line: CommandLine) -> anyhow::Result<Verdict> {
    let client = || Client::new(&line.reach);
    match line.command {
        Command::Dev(args) => dev::run(args).await.map(done),
        Command::Coordinator(args) => roles::coordinator(&args.config).await.map(done),
        Command::AgentRole(args) => roles::agent(&args.config).await.map(done),
        Command::Policy(command) => commands::policy::run(command, &client()?).await,
        Command::Check(args) => commands::check::run(args, &client()?).await,
        Command::Explain(args) => commands::explain::run(args, &client()?).await,
        Command::Budgets(args) => commands::views::budgets(args, &client()?).await,
        Command::Regions(args) => commands::views::regions(args, &client()?).await,
        Command::Bound(args) => commands::views::bound(args, &client()?).await,
        Command::Top(args) => commands::top::run(args, &client()?).await,
        Command::Audit(args) => commands::audit::run(args, &client()?).await,
        Command::Cluster(ClusterCommand::Status(args)) => commands::views::cluster(args, &client()?).await,
        Command::Cluster(ClusterCommand::Init(args)) => commands::members::init(args, &client()?).await,
        Command::Cluster(ClusterCommand::Add(args)) => commands::members::add(args, &client()?).await,
        Command::Cluster(ClusterCommand::Remove(args)) => commands::members::remove(args, &client()?).await,
        Command::Cluster(ClusterCommand::TransferLeader(args)) => commands::members::transfer_leader(args, &client()?).await,
        Command::Cluster(ClusterCommand::ClearAlarm(args)) => commands::alarm::clear(args, &client()?).await,
        Command::Cluster(ClusterCommand::Lease(args)) => commands::lease::change(args, &client()?).await,
        Command::Cluster(ClusterCommand::Snapshot(args)) => commands::backup::snapshot(&args, &client()?).await,
        Command::Cluster(ClusterCommand::Restore(args)) => commands::backup::restore(&args, &client()?).await,
        Command::Load(args) => load::run(args, &line.reach, &client()?).await,
        Command::Completions { shell } => completions(shell),
    }
}

fn done((): ()) -> Verdict {
    Verdict::Done
}

fn completions(shell: clap_complete::Shell) -> anyhow::Result<Verdict> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut CommandLine::command(), "quorate", &mut script);
    commands::print(&String::from_utf8(script)?)?;
    Ok(Verdict::Done)
}
