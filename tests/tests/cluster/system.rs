//! Three coordinators, and three regions with an agent and a Redis each, as processes.

use crate::load::read;
use crate::records::Outcome;
use crate::relay::{Relay, Way};
use quorate_faults::ports::Port;
use quorate_faults::process::{Process, Signal, last_words, quorate};
use quorate_faults::wait::until;
use quorate_shared::api::{AgentStatus, CheckAnswer, Cluster, Regions};
use serde::de::DeserializeOwned;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// The regions.
pub const REGIONS: [&str; 3] = ["us", "eu", "ap"];

/// The second agent of each region, where there are pairs.
pub const SECONDS: [&str; 3] = ["us-b", "eu-b", "ap-b"];

/// The coordinators.
pub const NODES: [u64; 3] = [1, 2, 3];

/// How long a region may go on without being heard.
pub const LEASE: Duration = Duration::from_secs(2);

/// How often an agent is to be heard.
pub const HEARTBEAT: Duration = Duration::from_millis(200);

/// Silence of the leader after which a follower stands for election.
pub const ELECTION_TIMEOUT: Duration = Duration::from_millis(600);

/// Tokens in a second of the policy that loads meet, in all regions together.
pub const RATE: u32 = 100;

/// Its burst. What is admitted too much must exceed what is left of it to be seen, so it is small.
/// But it must outlast the moments in which a busy machine sends nothing, and a lender must keep
/// a token of it.
pub const BURST: u32 = 50;

/// Each region's static share in a second, if there is a pool.
pub const FLOOR: f64 = 20.0;

/// What each region may save up of that.
pub const FLOOR_BURST: f64 = 10.0;

/// What is in no static share, in a second, if there is a pool.
pub const POOL: f64 = 40.0;

/// Requests in a second in each region that are together more than the limit, and each more than
/// a third of it.
pub const DEMAND: u32 = 80;

/// For whatever ends at all.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Of each log, so many last lines are printed if a test fails.
const LOG_LINES: usize = 40;

/// The whole system. Its processes end with it; their logs are printed if the test fails.
#[derive(Debug)]
pub struct System {
    // dropped in this order: processes before the folder that they work in
    coordinators: BTreeMap<u64, Option<Process>>,
    agents: BTreeMap<&'static str, Option<Process>>,
    stores: BTreeMap<&'static str, Option<Process>>,
    relays: BTreeMap<&'static str, Vec<Relay>>,
    ports: Ports,
    client: reqwest::Client,
    folder: TempDir,
    _turn: OwnedMutexGuard<()>,
}

/// How much of the limit is in static shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floors {
    /// All of it: only loans move.
    Everything,
    /// [`FLOOR`] in each region, and the rest is the pool.
    WithPool,
    /// All of it, a fifth of which is set aside for agents without their store.
    SetAside,
}

#[derive(Debug)]
struct Ports {
    coordinators: BTreeMap<u64, Port>,
    agents: BTreeMap<&'static str, Port>,
    stores: BTreeMap<&'static str, Port>,
}

impl System {
    /// The same with two agents in each region; waits until each of them is leased.
    pub async fn start_in_pairs(floors: Floors) -> Self {
        let mut system = Self::start(floors).await;
        SECONDS.into_iter().for_each(|agent| system.start_agent(agent));
        for agent in SECONDS {
            system.wait_for_mode(agent, "leased").await;
        }
        system
    }

    /// Starts everything and waits until every region is leased.
    pub async fn start(floors: Floors) -> Self {
        let turn = turn().await;
        let folder = tempfile::tempdir().expect("a folder");
        let ports = Ports {
            coordinators: NODES.map(|node| (node, Port::reserve())).into(),
            agents: REGIONS.into_iter().chain(SECONDS).map(|agent| (agent, Port::reserve())).collect(),
            stores: REGIONS.map(|region| (region, Port::reserve())).into(),
        };
        let relays = |_| ports.coordinators.values().map(|port| Relay::to(port.address())).collect();
        let mut system = Self {
            coordinators: BTreeMap::new(),
            agents: BTreeMap::new(),
            stores: BTreeMap::new(),
            relays: REGIONS.into_iter().chain(SECONDS).map(|agent| (agent, relays(agent))).collect(),
            ports,
            client: reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(2)).build().expect("a client"),
            folder,
            _turn: turn,
        };
        system.configure(floors);
        NODES.into_iter().for_each(|node| system.start_coordinator(node));
        REGIONS.into_iter().for_each(|region| system.start_store(region));
        REGIONS.into_iter().for_each(|region| system.start_agent(region));
        system.wait_until_leased().await;
        system
    }

    fn configure(&self, floors: Floors) {
        let write = |name: &str, text: String| fs::write(self.folder.path().join(name), text).expect("written");
        write("policies.yaml", policies(floors));
        let mut members = String::new();
        for (node, port) in &self.ports.coordinators {
            writeln!(members, "{node} = \"{}\"", port.address()).expect("written");
        }
        for (node, port) in &self.ports.coordinators {
            let text = format!(
                "node = {node}\nlisten = \"{}\"\ndata-dir = \"coordinator-{node}\"\nlease = \"{LEASE:?}\"\n\
                 election-timeout = \"{ELECTION_TIMEOUT:?}\"\npolicies = \"policies.yaml\"\n[members]\n{members}",
                port.address()
            );
            write(&format!("coordinator-{node}.toml"), text);
        }
        for agent in REGIONS.into_iter().chain(SECONDS) {
            let region = region_of(agent);
            let coordinators: Vec<String> = self.relays[agent].iter().map(|relay| format!("http://{}", relay.address())).collect();
            // a busy machine is no failure of the store
            let timeout = Duration::from_millis(if floors == Floors::SetAside { 500 } else { 2_000 });
            let text = format!(
                "region = \"{region}\"\nname = \"{agent}\"\nlisten = \"{}\"\ncoordinators = {coordinators:?}\ndata-dir = \"agent-{agent}\"\n\
                 store = {{ kind = \"redis\", url = \"redis://{}\" }}\nstore-timeout = \"{timeout:?}\"\nheartbeat = \"{HEARTBEAT:?}\"\n",
                self.ports.agents[agent].address(),
                self.ports.stores[region].address()
            );
            write(&format!("agent-{agent}.toml"), text);
        }
    }

    /// Starts a coordinator that does not run.
    pub fn start_coordinator(&mut self, node: u64) {
        let process = self.start_quorate("coordinator", &format!("coordinator-{node}"));
        self.coordinators.insert(node, Some(process));
    }

    /// Starts a coordinator that is to be added to the others; where it is.
    pub fn start_joining(&mut self, node: u64) -> String {
        let port = Port::reserve();
        let (address, first) = (port.address(), self.ports.coordinators[&NODES[0]].address());
        let text = format!(
            "node = {node}\nlisten = \"{address}\"\ndata-dir = \"coordinator-{node}\"\njoin = true\n\
             election-timeout = \"{ELECTION_TIMEOUT:?}\"\n[members]\n{} = \"{first}\"\n{node} = \"{address}\"\n",
            NODES[0]
        );
        fs::write(self.folder.path().join(format!("coordinator-{node}.toml")), text).expect("written");
        self.ports.coordinators.insert(node, port);
        self.start_coordinator(node);
        address.to_string()
    }

    /// What the command line says; it must succeed.
    pub async fn quorate(&self, arguments: &[&str]) -> String {
        let coordinators: Vec<String> = self.running().map(|node| format!("http://{}", self.ports.coordinators[&node].address())).collect();
        let mut command = tokio::process::Command::new(quorate());
        command.args(["--coordinator", &coordinators.join(",")]).args(arguments);
        let output = command.output().await.expect("it runs");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Starts an agent that does not run. The first of a region has its name.
    pub fn start_agent(&mut self, agent: &'static str) {
        let process = self.start_quorate("agent", &format!("agent-{agent}"));
        self.agents.insert(agent, Some(process));
    }

    /// Starts an agent that does not run on the Redis of another region than its own.
    pub fn start_agent_on(&mut self, agent: &'static str, other: &str) {
        let path = self.folder.path().join(format!("agent-{agent}.toml"));
        let address = |region: &str| self.ports.stores[region].address().to_string();
        let text = fs::read_to_string(&path).expect("written before").replace(&address(region_of(agent)), &address(other));
        fs::write(&path, text).expect("written");
        self.start_agent(agent);
    }

    /// Signals an agent that runs.
    pub fn signal_agent(&self, agent: &str, signal: Signal) {
        self.agents[agent].as_ref().expect("it runs").signal(signal);
    }

    /// Base URLs of a region's agents that run.
    pub fn urls_of(&self, region: &str) -> Vec<String> {
        let running = self.agents.iter().filter(|(agent, process)| region_of(agent) == region && process.is_some());
        running.map(|(agent, _)| self.agent_url(agent)).collect()
    }

    fn start_quorate(&self, role: &str, name: &str) -> Process {
        let path = |end: &str| self.folder.path().join(format!("{name}.{end}"));
        Process::start(&quorate(), &[role, "--config", path("toml").to_str().expect("UTF-8")], &path("log"))
    }

    /// Starts a Redis that does not run, empty.
    pub fn start_store(&mut self, region: &'static str) {
        let port = self.ports.stores[region].address().port().to_string();
        let arguments = ["--bind", "127.0.0.1", "--port", &port, "--save", "", "--appendonly", "no", "--loglevel", "warning"];
        let process = Process::start(Path::new("redis-server"), &arguments, &self.folder.path().join(format!("redis-{region}.log")));
        self.stores.insert(region, Some(process));
    }

    /// SIGKILL to a coordinator; it has ended when this returns.
    pub fn kill_coordinator(&mut self, node: u64) {
        self.coordinators.insert(node, None);
    }

    /// SIGKILL to an agent; it has ended when this returns.
    pub fn kill_agent(&mut self, agent: &'static str) {
        self.agents.insert(agent, None);
    }

    /// SIGKILL to a Redis; it has ended, and lost its state, when this returns.
    pub fn kill_store(&mut self, region: &'static str) {
        self.stores.insert(region, None);
    }

    /// Stops a Redis from running, or lets it run on.
    pub fn signal_store(&self, region: &str, signal: Signal) {
        self.stores[region].as_ref().expect("it runs").signal(signal);
    }

    /// One request of tenant `acme`, and its answer.
    pub async fn ask(&self, region: &str, route: &str) -> Outcome {
        let body = json!({"attributes": {"route": route, "tenant": "acme"}});
        match self.client.post(format!("{}/v1/check", self.agent_url(region))).json(&body).send().await {
            Ok(response) => read(response).await,
            Err(_) => Outcome::Unanswered,
        }
    }

    /// What becomes of what a region and the coordinators send each other from now on.
    pub async fn set_way(&self, region: &str, way: Way) {
        for agent in self.relays.keys().filter(|agent| region_of(agent) == region) {
            self.set_way_of(agent, way).await;
        }
    }

    /// The same of one agent alone.
    pub async fn set_way_of(&self, agent: &str, way: Way) {
        for relay in &self.relays[agent] {
            relay.set(way).await;
        }
    }

    /// Base URL of an agent.
    pub fn agent_url(&self, agent: &str) -> String {
        format!("http://{}", self.ports.agents[agent].address())
    }

    /// What an agent says of itself; `None` if it does not.
    pub async fn status(&self, agent: &str) -> Option<AgentStatus> {
        self.get(format!("{}/v1/status", self.agent_url(agent))).await
    }

    /// What a coordinator says of the cluster; `None` if it does not.
    pub async fn cluster(&self, node: u64) -> Option<Cluster> {
        self.get(self.coordinator_url(node, "cluster")).await
    }

    /// What a coordinator says of the regions; `None` if it does not.
    pub async fn regions(&self, node: u64) -> Option<Regions> {
        self.get(self.coordinator_url(node, "regions")).await
    }

    fn coordinator_url(&self, node: u64, page: &str) -> String {
        format!("http://{}/v1/{page}", self.ports.coordinators[&node].address())
    }

    async fn get<T: DeserializeOwned>(&self, url: String) -> Option<T> {
        let response = self.client.get(url).send().await.ok()?;
        if response.status().is_success() { response.json().await.ok() } else { None }
    }

    /// Asks an agent without taking anything; `None` if it does not answer, or refuses.
    pub async fn look(&self, agent: &str, attributes: &[(&str, &str)]) -> Option<CheckAnswer> {
        let attributes: BTreeMap<&str, &str> = attributes.iter().copied().collect();
        let body = json!({"attributes": attributes, "cost": 0});
        let sent = self.client.post(format!("{}/v1/check", self.agent_url(agent))).json(&body).send();
        sent.await.ok()?.error_for_status().ok()?.json().await.ok()
    }

    /// Replaces the policies that the system was started with. The new version, and the regions that it waits for.
    pub async fn change_policies(&self, change: impl Fn(&str) -> String) -> (u64, Vec<String>) {
        #[derive(serde::Deserialize)]
        struct Replaced {
            version: u64,
            waits_for: Vec<String>,
        }
        let before = fs::read_to_string(self.folder.path().join("policies.yaml")).expect("written at the start");
        let url = self.coordinator_url(self.leader().await, "policies");
        let put = self.client.put(url).header("if-match", "\"1\"").header("content-type", "application/yaml").body(change(&before));
        let answer = put.send().await.expect("it answers").error_for_status().expect("taken");
        let Replaced { version, waits_for } = answer.json().await.expect("what came of it");
        (version, waits_for)
    }

    /// The version of the policies that is in force, as one of the coordinators knows; `None` if it does not say.
    pub async fn active_policies(&self, node: u64) -> Option<u64> {
        let shown: serde_json::Value = self.get(self.coordinator_url(node, "policies")).await?;
        shown["active"].as_u64()
    }

    /// The coordinator that all that run take for the leader, once it runs itself.
    pub async fn leader(&self) -> u64 {
        until("all coordinators follow one", PATIENCE, async || {
            let mut leaders = Vec::new();
            for node in self.running() {
                leaders.push(self.cluster(node).await?.leader?);
            }
            let first = *leaders.first()?;
            (leaders.iter().all(|leader| *leader == first) && self.running().any(|node| node == first)).then_some(first)
        })
        .await
    }

    /// The coordinators that run.
    pub fn running(&self) -> impl Iterator<Item = u64> {
        self.coordinators.iter().filter(|(_, process)| process.is_some()).map(|(node, _)| *node)
    }

    /// Waits until an agent says that it is in this mode.
    pub async fn wait_for_mode(&self, region: &str, mode: &str) -> AgentStatus {
        until(&format!("{region} is {mode}"), PATIENCE, async || self.status(region).await.filter(|status| status.mode == mode)).await
    }

    /// Waits until these regions hold the whole pool together, as their agents know it.
    pub async fn wait_until_they_hold_the_pool(&self, regions: &[&str]) {
        until(&format!("{regions:?} hold the pool"), PATIENCE, async || {
            let mut held = 0.0;
            for region in regions {
                held += self.status(region).await?.budgets.iter().map(|budget| budget.pool.rate).sum::<f64>();
            }
            (held > 0.95 * POOL).then_some(())
        })
        .await;
    }

    /// Waits until every region is leased.
    pub async fn wait_until_leased(&self) {
        for region in REGIONS {
            self.wait_for_mode(region, "leased").await;
        }
    }
}

impl Drop for System {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.folder.disable_cleanup(true);
            eprintln!("{}all of it is kept in {}", last_words(self.folder.path(), LOG_LINES), self.folder.path().display());
        }
    }
}

/// The region that an agent serves.
pub fn region_of(agent: &str) -> &str {
    agent.strip_suffix("-b").unwrap_or(agent)
}

/// What a region may use in a second of the budget that the load meets, while its lease lasts.
pub fn may_use(status: &AgentStatus) -> f64 {
    let in_demand = status.budgets.iter().find(|budget| budget.policy == "write");
    in_demand.map_or(0.0, |budget| {
        let borrowed: f64 = budget.borrowed.values().map(|loan| loan.rate).sum();
        budget.floor.rate + budget.pool.rate + borrowed - budget.lent.rate
    })
}

/// One system at a time: the tests of one process would take each other's time.
async fn turn() -> OwnedMutexGuard<()> {
    static TURN: std::sync::OnceLock<Arc<Mutex<()>>> = std::sync::OnceLock::new();
    TURN.get_or_init(Arc::default).clone().lock_owned().await
}

/// `write` is what loads meet; `deep` fills slowly; the others have windows of the calendar.
fn policies(floors: Floors) -> String {
    let floor = match floors {
        Floors::Everything | Floors::SetAside => "100%",
        Floors::WithPool => "60%",
    };
    let failing = if floors == Floors::SetAside { "emergency\n  emergency: 20%" } else { "closed" };
    format!(
        "regions: {{us: {{}}, eu: {{}}, ap: {{}}}}\n\
         policies:\n\
         - name: write\n  match: {{route: write}}\n  per: [tenant]\n  floor: {floor}\n  on-store-failure: {failing}\n  \
         limit: {{algorithm: token-bucket, rate: {RATE}/s, burst: {BURST}}}\n\
         - name: deep\n  match: {{route: deep}}\n  per: [tenant]\n  on-store-failure: closed\n  \
         limit: {{algorithm: token-bucket, rate: 3/s, burst: 3000}}\n\
         - name: yearly\n  match: {{route: yearly}}\n  per: [tenant]\n  floor: 30%\n  on-store-failure: closed\n  \
         limit: {{algorithm: fixed-window, units: 100, window: year}}\n\
         - name: pooled\n  match: {{route: pooled}}\n  per: [tenant]\n  floor: 0%\n  on-store-failure: closed\n  \
         limit: {{algorithm: fixed-window, units: 100, window: year}}\n\
         - name: spare-window\n  match: {{route: spare-window}}\n  emergency: 20%\n  \
         limit: {{algorithm: fixed-window, units: 60, window: year}}\n\
         - name: spare-log\n  match: {{route: spare-log}}\n  emergency: 20%\n  \
         limit: {{algorithm: sliding-log, units: 60, window: 1h}}\n\
         - name: ending\n  match: {{route: ending}}\n  floor-ttl: 1min\n  on-store-failure: closed\n  \
         limit: {{algorithm: token-bucket, rate: 30/s}}\n\
         - name: closed\n  match: {{route: closed}}\n  on-store-failure: closed\n  \
         limit: {{algorithm: token-bucket, rate: 100/s}}\n\
         - name: monthly\n  match: {{route: monthly}}\n  per: [tenant]\n  on-store-failure: closed\n  \
         limit: {{algorithm: fixed-window, units: 3, window: month, time-zone: Europe/Berlin}}\n"
    )
}
