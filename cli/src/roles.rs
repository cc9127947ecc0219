//! One coordinator or one agent in this process, until it is told to stop.

use crate::config_file;
use crate::telemetry::{Service, Telemetry};
use anyhow::Context;
use quorate_agent::server::Agent;
use quorate_coordinator::server::Coordinator;
use std::path::Path;
use tokio::signal::unix::{SignalKind, signal};

/// Runs one coordinator node until it is told to stop.
///
/// # Errors
/// The configuration's mistakes, why the node does not start, or why it had to end.
pub async fn coordinator(config: &Path) -> anyhow::Result<()> {
    let config = config_file::coordinator(config)?;
    let service = Service { name: "quorate-coordinator", instance: config.node.to_string() };
    let telemetry = Telemetry::begin(&config.log, config.traces.as_ref(), service)?;
    let node = Coordinator::start(config).await?;
    println!("ready: coordinator at http://{}", node.local_addr());
    let failed = tokio::select! {
        stopped = told_to_stop() => stopped.map(|()| None)?,
        reason = node.failed() => Some(reason),
    };
    node.shutdown().await;
    telemetry.end().await;
    match failed {
        None => Ok(()),
        Some(reason) => anyhow::bail!("the node cannot go on: {reason}"),
    }
}

/// Runs one agent until it is told to stop.
///
/// # Errors
/// The configuration's mistakes, or why the agent does not start.
pub async fn agent(config: &Path) -> anyhow::Result<()> {
    let config = config_file::agent(config)?;
    let service = Service { name: "quorate-agent", instance: config.name.clone() };
    let telemetry = Telemetry::begin(&config.log, config.traces.as_ref(), service)?;
    let agent = Agent::start(config).await?;
    println!("ready: agent at http://{}{}", agent.address(), and_grpc(&agent));
    told_to_stop().await?;
    agent.shutdown().await;
    telemetry.end().await;
    Ok(())
}

/// Where an agent serves gRPC, after the address of the rest; nothing if it does not.
pub fn and_grpc(agent: &Agent) -> String {
    agent.grpc_address().map(|address| format!(", gRPC {address}")).unwrap_or_default()
}

/// Waits for Ctrl-C or SIGTERM.
pub async fn told_to_stop() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted.context("cannot wait for Ctrl-C"),
        _ = terminate.recv() => Ok(()),
    }
}
