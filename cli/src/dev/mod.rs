//! The whole system in this process, on loopback: coordinators, one agent for each region, their
//! stores, sample policies and, if asked for, sample traffic.

mod redis_server;
mod sample;

use crate::arguments::{DevArgs, Traffic};
use crate::load::traffic;
use crate::roles;
use crate::telemetry::{Service, Telemetry};
use anyhow::{Context, bail, ensure};
use quorate_agent::config::{AgentConfig, RedisConfig, StoreConfig};
use quorate_agent::server::Agent;
use quorate_coordinator::config::CoordinatorConfig;
use quorate_coordinator::documents;
use quorate_coordinator::server::Coordinator;
use quorate_shared::names::RegionName;
use quorate_shared::settings::{LogLevel, LogSettings, TraceSettings};
use quorate_shared::units::PartsPerMillion;
use redis_server::RedisServer;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

/// Everything must serve within this time.
const START: Duration = Duration::from_secs(30);

/// How often a part is asked whether it serves.
const ASK: Duration = Duration::from_millis(10);

/// How long a region stays cut off, and then connected, under `--traffic partition`.
const CUT: Duration = Duration::from_secs(15);

/// The parts, in the order in which they end.
struct Dev {
    agents: Vec<Agent>,
    coordinators: Vec<Coordinator>,
    redis: Vec<RedisServer>,
}

/// Runs the whole system until it is told to stop.
///
/// # Errors
/// What does not start, and what to do about it.
pub async fn run(args: DevArgs) -> anyhow::Result<()> {
    // that the first heartbeats find no leader is how every start goes
    let log = LogSettings { level: LogLevel::Error, ..LogSettings::default() };
    let traces = args.traces.clone().map(|endpoint| TraceSettings { endpoint, sample: PartsPerMillion::WHOLE });
    let telemetry = Telemetry::begin(&log, traces.as_ref(), Service { name: "quorate-dev", instance: "dev".to_owned() })?;
    let names: BTreeSet<&RegionName> = args.regions.iter().collect();
    ensure!(names.len() == args.regions.len(), "--regions names a region twice");
    let temporary = tempfile::tempdir().context("cannot make a temporary directory; name one by --data-dir")?;
    let data = args.data_dir.clone().unwrap_or_else(|| temporary.path().to_owned());
    std::fs::create_dir_all(&data).with_context(|| format!("cannot make {}", data.display()))?;
    let policies = policies(&args, &data)?;

    let mut dev = Dev { agents: Vec::new(), coordinators: Vec::new(), redis: Vec::new() };
    let started = start(&mut dev, &args, &data, &policies).await;
    let outcome = match started {
        Ok(()) => serve(&dev, &args).await,
        Err(error) => Err(error),
    };
    dev.stop().await;
    telemetry.end().await;
    outcome
}

async fn start(dev: &mut Dev, args: &DevArgs, data: &Path, policies: &Path) -> anyhow::Result<()> {
    let members: BTreeMap<u64, String> = (1..=args.coordinators).map(|n| (u64::from(n), loopback(args, n).to_string())).collect();
    for n in 1..=args.coordinators {
        let directory = data.join(format!("coordinator-{n}"));
        let config = CoordinatorConfig::new(u64::from(n), loopback(args, n), members.clone(), directory);
        dev.coordinators.push(Coordinator::start(CoordinatorConfig { policies: Some(policies.to_owned()), ..config }).await?);
    }
    let urls: Vec<String> = members.values().map(|address| format!("http://{address}")).collect();
    for (n, region) in (1..).zip(&args.regions) {
        let store = match args.redis {
            false => StoreConfig::Embedded,
            true => {
                let directory = data.join(format!("redis-{region}"));
                let server = RedisServer::start(args.port_base + 300 + n, &directory, args.data_dir.is_some()).await?;
                let redis = RedisConfig::at(server.url());
                dev.redis.push(server);
                StoreConfig::Redis(redis)
            }
        };
        let config = AgentConfig::new(region.clone(), loopback(args, 100 + n), urls.clone(), store);
        let remembers = Some(data.join(format!("agent-{region}")));
        let grpc_listen = Some(loopback(args, 200 + n));
        dev.agents.push(Agent::start(AgentConfig { data_dir: remembers, grpc_listen, ..config }).await?);
    }
    dev.wait_until_ready().await
}

fn loopback(args: &DevArgs, above_base: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, args.port_base + above_base))
}

/// The file of the policy set to begin with.
fn policies(args: &DevArgs, data: &Path) -> anyhow::Result<PathBuf> {
    let Some(path) = &args.policies else {
        let path = data.join("sample-policies.yaml");
        std::fs::write(&path, sample::policies(&args.regions)).with_context(|| format!("cannot write {}", path.display()))?;
        return Ok(path);
    };
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let (set, _) = match documents::policy_set(&text) {
        Ok(read) => read,
        Err(mistakes) => bail!("{}", documents::show(&path.display().to_string(), &text, &mistakes)),
    };
    for region in &args.regions {
        ensure!(
            set.regions.contains_key(region),
            "{} names no region `{region}`: add it there, or choose others by --regions",
            path.display()
        );
    }
    Ok(path.clone())
}

/// Says what is where, sends the traffic that was asked for, and waits for the end.
async fn serve(dev: &Dev, args: &DevArgs) -> anyhow::Result<()> {
    for (n, node) in (1..).zip(&dev.coordinators) {
        println!("coordinator {n}   http://{}", node.local_addr());
    }
    for agent in &dev.agents {
        println!("agent {:<11} http://{}{}", agent.region().name(), agent.address(), roles::and_grpc(agent));
    }
    let dashboard = dev.coordinators.first().map(Coordinator::local_addr);
    println!("ready: dashboard at http://{}/", dashboard.context("there is no coordinator")?);

    let stop = CancellationToken::new();
    let failed = async {
        let failures = dev.coordinators.iter().map(|node| Box::pin(node.failed()));
        futures_util::future::select_all(failures).await.0
    };
    let outcome = tokio::select! {
        stopped = roles::told_to_stop() => stopped,
        reason = failed => Err(anyhow::anyhow!("a coordinator cannot go on: {reason}")),
        sent = send_traffic(dev, args.traffic, stop.clone()) => sent,
    };
    stop.cancel();
    outcome
}

/// Sends the sample traffic until stopped; without any, just waits.
async fn send_traffic(dev: &Dev, kind: Traffic, stop: CancellationToken) -> anyhow::Result<()> {
    let Some(shape) = kind.shape() else {
        stop.cancelled().await;
        return Ok(());
    };
    let agents = dev.agents.iter().map(|agent| (agent.region().name().to_string(), format!("http://{}", agent.address())));
    let sending = traffic::run(agents.collect(), shape, sample::RATE, sample::attributes(), stop.clone());
    let cutting = async {
        match kind {
            Traffic::Partition => cut_now_and_then(dev, &stop).await,
            _ => stop.cancelled().await,
        }
    };
    let (sent, ()) = tokio::join!(sending, cutting);
    sent.map(|_| ())
}

/// Cuts the first region off from the coordinators and connects it again, over and over.
async fn cut_now_and_then(dev: &Dev, stop: &CancellationToken) {
    let Some(first) = dev.agents.first() else { return };
    let mut cut = false;
    while stop.run_until_cancelled(sleep(CUT)).await.is_some() {
        cut = !cut;
        first.region().unplug(cut);
        let what = if cut { "cut off from" } else { "connected to" };
        println!("region {} is {what} the coordinators", first.region().name());
    }
}

impl Dev {
    /// Waits until every coordinator knows a leader and every agent its policies.
    async fn wait_until_ready(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + START;
        for agent in &self.agents {
            let ready = async {
                while agent.region().ready().is_err() {
                    sleep(ASK).await;
                }
            };
            if timeout_at(deadline, ready).await.is_err() {
                let missing = agent.region().ready().err().unwrap_or_default();
                let last = agent.region().status().last_error.unwrap_or_default();
                bail!("the agent of {} is not ready after {START:?}: {missing} {last}", agent.region().name());
            }
        }
        Ok(())
    }

    async fn stop(self) {
        for agent in &self.agents {
            agent.shutdown().await;
        }
        for node in &self.coordinators {
            node.shutdown().await;
        }
        for server in self.redis {
            server.stop().await;
        }
    }
}
