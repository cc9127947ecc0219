//! Three coordinators, and three regions with agents and a Redis each: processes behind proxies.

use crate::callers::Roster;
use crate::configuration;
use crate::disk::{Disk, Failure, Shim};
use crate::places::{NODES, Place, REGIONS};
use crate::ports::Port;
use crate::process::{Process, last_words, quorate};
use crate::proxy::{Course, Proxy};
use crate::wait::until;
use crate::weather::Climate;
use quorate_shared::api::{AgentStatus, Bounds, Cluster};
use rustix::process::Signal;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// For whatever ends at all.
pub const PATIENCE: Duration = Duration::from_secs(40);

/// Of each log, so many last lines are printed if a run fails.
const LOG_LINES: usize = 25;

/// The whole system. Its processes end with it; their logs are printed if the run fails.
#[derive(Debug)]
pub struct System {
    // dropped in this order: processes before the folder that they work in
    processes: BTreeMap<Place, Process>,
    proxies: BTreeMap<Place, Proxy>,
    /// How many faults keep a process down, or stopped.
    down: BTreeMap<Place, usize>,
    paused: BTreeMap<Place, usize>,
    disks: BTreeMap<u64, Disk>,
    ports: BTreeMap<Place, Port>,
    roster: Roster,
    climate: Climate,
    client: reqwest::Client,
    folder: TempDir,
}

impl System {
    /// Starts everything and waits until every region is leased. Between regions messages take
    /// half of `round_trip`.
    pub async fn start(round_trip: Duration, agents: usize) -> Self {
        let agents = REGIONS.iter().flat_map(|region| (1..=agents).map(|n| Place::Agent(region, n)));
        let places: Vec<Place> = Place::coordinators().into_iter().chain(REGIONS.map(Place::Store)).chain(agents).collect();
        let folder = tempfile::tempdir().expect("a folder");
        let shim = Shim::compile(folder.path());
        let mut system = Self {
            processes: BTreeMap::new(),
            proxies: BTreeMap::new(),
            down: BTreeMap::new(),
            paused: BTreeMap::new(),
            disks: NODES.map(|node| (node, Disk::new(&shim, folder.path(), &format!("coordinator-{node}")))).into(),
            ports: places.iter().map(|place| (*place, Port::reserve())).collect(),
            roster: Roster::default(),
            climate: Climate::fair(round_trip),
            client: reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(2)).build().expect("a client"),
            folder,
        };
        system.put_up_proxies();
        system.configure(round_trip);
        places.into_iter().for_each(|place| system.launch(place));
        system.wait_until_leased(None).await;
        system
    }

    fn put_up_proxies(&mut self) {
        let called = self.ports.iter().filter(|(place, _)| !matches!(place, Place::Agent(..)));
        let course = |(place, port): (&Place, &Port)| {
            let (roster, climate) = (self.roster.clone(), self.climate.clone());
            (*place, Proxy::along(Course { called: *place, target: port.address(), roster, climate }))
        };
        self.proxies = called.map(course).collect();
    }

    fn configure(&self, round_trip: Duration) {
        let write = |name: String, text: String| fs::write(self.folder.path().join(name), text).expect("written");
        write("policies.yaml".to_owned(), configuration::policies());
        let members = NODES.map(|node| (node, self.proxies[&Place::Coordinator(node)].address()));
        for (place, port) in &self.ports {
            let text = match place {
                Place::Coordinator(node) => configuration::coordinator(*node, port.address(), &members, round_trip),
                Place::Agent(region, _) => {
                    let coordinators: Vec<String> = nearest_first(region).map(|node| format!("http://{}", members[node].1)).collect();
                    let store = self.proxies[&Place::Store(region)].address();
                    configuration::agent(region, &place.to_string(), port.address(), &coordinators, store)
                }
                Place::Store(_) => continue,
            };
            write(format!("{place}.toml"), text);
        }
    }

    fn launch(&mut self, place: Place) {
        let path = |end: &str| self.folder.path().join(format!("{place}.{end}"));
        let config = path("toml");
        let arguments = |role| [role, "--config", config.to_str().expect("UTF-8")];
        let process = match place {
            Place::Coordinator(node) => {
                Process::start_in(&quorate(), &arguments("coordinator"), &path("log"), &self.disks[&node].environment())
            }
            Place::Agent(..) => Process::start(&quorate(), &arguments("agent"), &path("log")),
            Place::Store(_) => {
                let port = self.ports[&place].address().port().to_string();
                let arguments = ["--bind", "127.0.0.1", "--port", &port, "--save", "", "--appendonly", "no", "--loglevel", "warning"];
                Process::start(Path::new("redis-server"), &arguments, &path("log"))
            }
        };
        self.roster.add(place, process.pid());
        self.processes.insert(place, process);
    }

    /// SIGKILL; it has ended when this returns, and stays down until as many [`System::revive`].
    pub fn kill(&mut self, place: Place) {
        *self.down.entry(place).or_default() += 1;
        self.roster.remove(place);
        self.processes.remove(&place);
    }

    /// Starts what was killed, once nothing keeps it down any more.
    pub fn revive(&mut self, place: Place) {
        let down = self.down.entry(place).or_default();
        *down = down.saturating_sub(1);
        if *down == 0 && !self.runs(place) {
            self.launch(place);
            if self.paused.get(&place).is_some_and(|n| *n > 0) {
                self.processes[&place].signal(Signal::STOP);
            }
        }
    }

    /// SIGTERM, and starts it again once it has ended; what is down stays down.
    pub async fn restart(&mut self, place: Place) {
        let Some(process) = self.processes.get_mut(&place) else { return };
        process.signal(Signal::TERM);
        until(&format!("{place} ends"), PATIENCE, async || process.has_ended().then_some(())).await;
        self.roster.remove(place);
        self.processes.remove(&place);
        self.launch(place);
    }

    /// SIGSTOP, until as many [`System::go_on`].
    pub fn pause(&mut self, place: Place) {
        *self.paused.entry(place).or_default() += 1;
        if let Some(process) = self.processes.get(&place) {
            process.signal(Signal::STOP);
        }
    }

    /// SIGCONT, once nothing stops it any more.
    pub fn go_on(&mut self, place: Place) {
        let paused = self.paused.entry(place).or_default();
        *paused = paused.saturating_sub(1);
        if *paused == 0
            && let Some(process) = self.processes.get(&place)
        {
            process.signal(Signal::CONT);
        }
    }

    /// The disk of a coordinator fails from now on.
    pub fn spoil_disk(&self, node: u64, how: Failure) {
        self.disks[&node].fail(how);
    }

    /// It works again; a node that stopped over it is started. True if it had stopped.
    pub fn mend_disk(&mut self, node: u64) -> bool {
        self.disks[&node].mend();
        let place = Place::Coordinator(node);
        let stopped = self.processes.contains_key(&place) && !self.runs(place);
        if stopped {
            self.processes.remove(&place);
            self.launch(place);
        }
        stopped
    }

    /// True if it was started and has not ended.
    pub fn runs(&mut self, place: Place) -> bool {
        self.processes.get_mut(&place).is_some_and(|process| !process.has_ended())
    }

    /// What becomes of what processes send each other.
    pub fn climate(&self) -> &Climate {
        &self.climate
    }

    /// The agents of a region.
    pub fn agents(&self, region: &str) -> Vec<Place> {
        self.ports.keys().copied().filter(|place| matches!(place, Place::Agent(of, _) if *of == region)).collect()
    }

    /// The agent that renews a region's lease, as its agents know it; `None` if none of them says.
    pub async fn renewing_agent(&self, region: &str) -> Option<Place> {
        for agent in self.agents(region) {
            let known = self.status(agent).await.map(|status| status.agents).unwrap_or_default();
            let name = known.into_iter().find(|agent| agent.renews).map(|agent| agent.agent);
            if let Some(found) = name.and_then(|name| self.agents(region).into_iter().find(|agent| agent.to_string() == name)) {
                return Some(found);
            }
        }
        None
    }

    /// Base URL of a process that speaks HTTP, past its proxy.
    pub fn url(&self, place: Place) -> String {
        format!("http://{}", self.ports[&place].address())
    }

    /// Its folder stays, with logs and data; gives where it is.
    pub fn keep(&mut self) -> PathBuf {
        self.folder.disable_cleanup(true);
        self.folder.path().to_owned()
    }

    async fn get<T: DeserializeOwned>(&self, place: Place, path: &str) -> Option<T> {
        let response = self.client.get(format!("{}{path}", self.url(place))).send().await.ok()?;
        if response.status().is_success() { response.json().await.ok() } else { None }
    }

    /// What an agent says of itself; `None` if it does not.
    pub async fn status(&self, agent: Place) -> Option<AgentStatus> {
        self.get(agent, "/v1/status").await
    }

    /// What a coordinator says of the cluster; `None` if it does not.
    pub async fn cluster(&self, node: u64) -> Option<Cluster> {
        self.get(Place::Coordinator(node), "/v1/cluster").await
    }

    /// What a coordinator publishes; `None` if it does not.
    pub async fn bounds(&self, node: u64) -> Option<Bounds> {
        self.get(Place::Coordinator(node), "/v1/bound").await
    }

    /// The coordinator that leads in the newest term; `None` if nobody believes to.
    pub async fn leader(&self) -> Option<u64> {
        let answers = futures_util::future::join_all(NODES.map(|node| self.cluster(node))).await;
        let leaders = answers.into_iter().flatten().filter(|cluster| cluster.state == "leader");
        leaders.max_by_key(|cluster| cluster.term).map(|cluster| cluster.node)
    }

    /// Waits until all coordinators follow one, and have applied what it had by then.
    pub async fn wait_until_in_step(&self) {
        let leader = until("one coordinator leads", PATIENCE, async || self.leader().await).await;
        let applied = until("it says what it applied", PATIENCE, async || self.cluster(leader).await).await.applied;
        for node in NODES {
            until(&format!("coordinator {node} is in step"), PATIENCE, async || {
                self.cluster(node).await.filter(|cluster| cluster.leader.is_some() && cluster.applied >= applied)
            })
            .await;
        }
    }

    /// Waits until every agent is leased; with `since`, until a coordinator has answered each
    /// region after that.
    pub async fn wait_until_leased(&self, since: Option<std::time::Instant>) {
        for region in REGIONS {
            until(&format!("{region} is leased"), PATIENCE, async || {
                let mut renewed = since.is_none();
                for agent in self.agents(region) {
                    let status = self.status(agent).await.filter(|status| status.mode == "leased")?;
                    let age = status.last_renewal_ms.map(Duration::from_millis);
                    renewed |= since.zip(age).is_some_and(|(since, age)| age < since.elapsed());
                }
                renewed.then_some(())
            })
            .await;
        }
    }
}

/// The coordinators as an agent is to ask them, by their place in [`NODES`].
fn nearest_first(region: &str) -> impl Iterator<Item = usize> {
    let own = REGIONS.iter().position(|other| *other == region).unwrap_or_default();
    (0..NODES.len()).map(move |n| (own + n) % NODES.len())
}

impl Drop for System {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.folder.disable_cleanup(true);
            eprintln!("{}all of it is kept in {}", last_words(self.folder.path(), LOG_LINES), self.folder.path().display());
        }
    }
}
