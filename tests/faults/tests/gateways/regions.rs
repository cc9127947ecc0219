//! One coordinator and three regions with an agent each, as processes.

use quorate_faults::ports::Port;
use quorate_faults::process::{Process, last_words, quorate};
use quorate_faults::wait::until;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// The regions.
pub const REGIONS: [&str; 3] = ["us", "eu", "ap"];

/// What one tenant may ask in all regions together, in a year.
pub const UNITS: usize = 100;

/// For whatever ends at all.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// What gateways write is read as by deploy's configurations.
const AUTHZ: &str = r#"
[authz]
trusted-proxies = ["127.0.0.1"]
[authz.attributes]
tenant = { header = "X-Tenant" }
ip = "client-address"
path = "path"
method = "method"
host = "host"
"#;

const POLICIES: &str = "regions: {us: {}, eu: {}, ap: {}}
policies:
- name: per-tenant
  match: {tenant: '*'}
  per: [tenant]
  on-store-failure: closed
  limit: {algorithm: fixed-window, units: 100, window: year}
- name: one-each
  match: {path: /once}
  per: [tenant, ip]
  limit: {algorithm: token-bucket, rate: 3/h, burst: 3}
- name: far-away
  match: {path: /bench}
  limit: {algorithm: token-bucket, rate: 1000000/s, burst: 1000000}
- name: one-each-by-envoy
  match: {domain: edge, route: write, tenant: once}
  limit: {algorithm: token-bucket, rate: 3/h, burst: 3}
- name: too-large
  match: {path: /huge}
  cost: 2
  lendable: 0%
  limit: {algorithm: token-bucket, rate: 3/s, burst: 3}
";

/// All of it. Its processes end with it; their logs are printed if the test fails.
#[derive(Debug)]
pub struct Regions {
    agents: Vec<Option<Process>>,
    _coordinator: Process,
    ports: Vec<Port>,
    grpc: Vec<Port>,
    folder: TempDir,
}

impl Regions {
    /// Starts everything and waits until every region is leased.
    pub async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("written");
        let coordinator = Port::reserve();
        let at = coordinator.address();
        write("policies.yaml", POLICIES);
        let text =
            format!("node = 1\nlisten = \"{at}\"\ndata-dir = \"coordinator\"\npolicies = \"policies.yaml\"\n[members]\n1 = \"{at}\"\n");
        write("coordinator.toml", &text);
        let ports: Vec<Port> = REGIONS.iter().map(|_| Port::reserve()).collect();
        let grpc: Vec<Port> = REGIONS.iter().map(|_| Port::reserve()).collect();
        for ((region, port), grpc) in REGIONS.iter().zip(&ports).zip(&grpc) {
            let text = format!(
                "region = \"{region}\"\nlisten = \"{}\"\ngrpc-listen = \"{}\"\ncoordinators = [\"http://{at}\"]\nstore = {{ kind = \"embedded\" }}\n\
                 heartbeat = \"200ms\"\n{AUTHZ}",
                port.address(),
                grpc.address()
            );
            write(&format!("{region}.toml"), &text);
        }
        let start = |role: &str, name: &str| start(folder.path(), role, name);
        let _coordinator = start("coordinator", "coordinator");
        let agents = REGIONS.iter().map(|region| Some(start("agent", region))).collect();
        let regions = Self { agents, _coordinator, ports, grpc, folder };
        for region in 0..REGIONS.len() {
            regions.wait_until_leased(region).await;
        }
        regions
    }

    async fn wait_until_leased(&self, region: usize) {
        let url = format!("http://{}/v1/status", self.agent(region));
        until(&format!("{} is leased", REGIONS[region]), PATIENCE, async || {
            let status: serde_json::Value = reqwest::get(&url).await.ok()?.json().await.ok()?;
            (status["mode"] == "leased").then_some(())
        })
        .await;
    }

    /// Where a region's agent is.
    pub fn agent(&self, region: usize) -> SocketAddr {
        self.ports[region].address()
    }

    /// Where a region's agent serves gRPC.
    pub fn grpc(&self, region: usize) -> SocketAddr {
        self.grpc[region].address()
    }

    /// SIGKILL to an agent; it has ended when this returns.
    pub fn kill_agent(&mut self, region: usize) {
        self.agents[region] = None;
    }

    /// Where everything is, and what gateways write goes.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Regions {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", last_words(self.folder.path(), 40));
        }
    }
}

fn start(folder: &Path, role: &str, name: &str) -> Process {
    let path = |end: &str| folder.join(format!("{name}.{end}"));
    Process::start(&quorate(), &[role, "--config", path("toml").to_str().expect("UTF-8")], &path("log"))
}
