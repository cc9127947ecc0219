//! One coordinator or one agent in this process, until it is told to stop.

use crate::config_file;
use anyhow::Context;
use quorate_agent::server::Agent;
use quorate_coordinator::server::Coordinator;
use quorate_shared::settings::{LogFormat, LogLevel, LogSettings};
use std::io::IsTerminal;
use std::path::Path;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// Runs one coordinator node until it is told to stop.
///
/// # Errors
/// The configuration's mistakes, why the node does not start, or why it had to end.
pub async fn coordinator(config: &Path) -> anyhow::Result<()> {
    let config = config_file::coordinator(config)?;
    log_to_stderr(&config.log);
    let node = Coordinator::start(config).await?;
    println!("ready: coordinator at http://{}", node.local_addr());
    let failed = tokio::select! {
        stopped = told_to_stop() => stopped.map(|()| None)?,
        reason = node.failed() => Some(reason),
    };
    node.shutdown().await;
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
    log_to_stderr(&config.log);
    let agent = Agent::start(config).await?;
    println!("ready: agent at http://{}{}", agent.address(), and_grpc(&agent));
    told_to_stop().await?;
    agent.shutdown().await;
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

/// Sends the log to standard error, with colours only where somebody sees them. `RUST_LOG` overrides the level.
pub fn log_to_stderr(settings: &LogSettings) {
    let fallback = || EnvFilter::new(filter_of(settings.level));
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| fallback());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    let set = match settings.format {
        LogFormat::Json => log.json().try_init(),
        LogFormat::Text => log.try_init(),
    };
    if let Err(error) = set {
        eprintln!("warning: the log stays off: {error}");
    }
}

/// At `info` the library beneath the replicated log would tell each of its steps, and at `error`
/// it calls it one that a node ends while another sends to it.
fn filter_of(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Error => "error,openraft=off",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info,openraft=warn",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    }
}
