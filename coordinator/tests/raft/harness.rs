//! Nodes of a coordinator in this process, over real loopback connections.

use quorate_coordinator::raft::{ProposeError, RaftNode, RaftSettings};
use quorate_ledger::{Author, Command, Outcome};
use quorate_shared::names::SubjectKey;
use quorate_shared::time::Drift;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Long enough for anything that comes to an end at all.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A node that serves its peers.
pub struct Served {
    pub node: Arc<RaftNode>,
    server: JoinHandle<()>,
    end: oneshot::Sender<()>,
}

impl Served {
    /// Starts a node, and serves its peers at its address.
    pub async fn start(settings: RaftSettings) -> Self {
        let address = settings.address.parse().expect("an address");
        let node = Arc::new(RaftNode::start(settings).await.expect("starts"));
        let listener = listen(address);
        let routes = node.peer_routes();
        let (end, ends) = oneshot::channel::<()>();
        let serving = axum::serve(listener, routes).with_graceful_shutdown(async { ends.await.expect("told") });
        let server = tokio::spawn(async { serving.await.expect("serves") });
        Self { node, server, end }
    }

    /// Ends the node in good order, and its connections as if its process had ended: a peer must not be answered by what it
    /// was before.
    pub async fn stop(self) {
        self.node.shutdown().await;
        self.end.send(()).expect("it serves");
        tokio::time::timeout(PATIENCE, self.server).await.expect("in time").expect("no panic");
    }
}

/// The port may still be in use by connections that a former listener closed.
fn listen(address: SocketAddr) -> TcpListener {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseaddr(true).expect("set");
    socket.bind(address).expect("bound");
    socket.listen(64).expect("listens")
}

/// Three nodes with data directories that outlive them.
pub struct Cluster {
    dir: tempfile::TempDir,
    members: BTreeMap<u64, String>,
    joining: BTreeSet<u64>,
    change: fn(&mut RaftSettings),
    pub nodes: BTreeMap<u64, Served>,
}

impl Cluster {
    /// Starts `size` nodes at once, each of which forms the cluster, and waits for a leader.
    pub async fn start(size: u64, change: fn(&mut RaftSettings)) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let members = members(size);
        let mut cluster = Self { dir, members, joining: BTreeSet::new(), change, nodes: BTreeMap::new() };
        for id in 1..=size {
            cluster.start_node(id).await;
        }
        let formed = cluster.nodes.values().map(|served| served.node.initialize());
        for result in futures_util::future::join_all(formed).await {
            result.expect("formed");
        }
        cluster.leader().await;
        cluster
    }

    pub fn settings(&self, id: u64) -> RaftSettings {
        let mut settings = RaftSettings::new(id, self.members[&id].clone(), self.members.clone(), self.data_dir(id));
        // A busy machine must not cost a leader its office unless a test is about that.
        settings.election_timeout = (Duration::from_secs(2), Duration::from_secs(3));
        settings.join = self.joining.contains(&id);
        (self.change)(&mut settings);
        settings
    }

    pub fn data_dir(&self, id: u64) -> PathBuf {
        self.dir.path().join(id.to_string())
    }

    pub async fn start_node(&mut self, id: u64) {
        self.nodes.insert(id, Served::start(self.settings(id)).await);
    }

    /// Starts a node that is to be added; where it is.
    pub async fn start_joining(&mut self, id: u64) -> String {
        let address = members(1).remove(&1).expect("one");
        self.members.insert(id, address.clone());
        self.joining.insert(id);
        self.start_node(id).await;
        address
    }

    /// Forgets what a node had.
    pub fn wipe(&self, id: u64) {
        std::fs::remove_dir_all(self.data_dir(id)).expect("removed");
    }

    pub async fn stop_node(&mut self, id: u64) {
        self.nodes.remove(&id).expect("runs").stop().await;
    }

    pub fn node(&self, id: u64) -> &Arc<RaftNode> {
        &self.nodes[&id].node
    }

    /// The node that leads, once one that runs does.
    pub async fn leader(&self) -> Arc<RaftNode> {
        let waits = self.nodes.values().map(|served| {
            Box::pin(async {
                let mut leadership = served.node.leadership();
                leadership.wait_for(|now| now.here).await.expect("lives");
                served.node.clone()
            })
        });
        let first = futures_util::future::select_all(waits);
        tokio::time::timeout(PATIENCE, first).await.expect("a leader in time").0
    }

    /// Proposes to whoever leads, until it is taken.
    pub async fn propose(&self, command: Command) -> Outcome {
        tokio::time::timeout(PATIENCE, async {
            loop {
                if let Ok(outcome) = self.leader().await.propose(command.clone()).await {
                    return outcome;
                }
                tokio::task::yield_now().await;
            }
        })
        .await
        .expect("taken in time")
    }

    pub async fn stop(self) {
        for served in self.nodes.into_values() {
            served.stop().await;
        }
    }
}

/// Waits until something is true of a node. Of what is applied, what a snapshot covers and when an
/// office ends by the clock a node tells nobody by itself: the pause between two looks decides nothing.
pub async fn eventually(node: &RaftNode, is_true: impl Fn(&RaftNode) -> bool) {
    let reached = async {
        while !is_true(node) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, reached).await.unwrap_or_else(|_| panic!("{:?}", node.status()));
}

/// Proposes to a leader that reaches no majority until it takes nothing any more.
pub async fn unheard(leader: &RaftNode) {
    let refused = async {
        loop {
            match leader.propose(entry("to nobody")).await {
                Err(ProposeError::NotLeader { leader: None }) => return,
                Err(ProposeError::Unavailable { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
    };
    tokio::time::timeout(PATIENCE, refused).await.expect("its lease ends");
}

/// Members 1 to `size` at free ports of a loopback address that only this process uses: a port
/// of it stays free while its node is down, whatever other tests do.
pub fn members(size: u64) -> BTreeMap<u64, String> {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let address = Ipv4Addr::new(127, high.saturating_add(1), middle, low);
    let held: Vec<_> = (0..size).map(|_| std::net::TcpListener::bind((address, 0)).expect("a port")).collect();
    (1..).zip(&held).map(|(id, listener)| (id, listener.local_addr().expect("bound").to_string())).collect()
}

/// The first entry of a cluster.
pub fn found() -> Command {
    Command::Found { subject_key: SubjectKey::new([7; 32]), lease: Duration::from_secs(5), drift: Drift::DEFAULT }
}

/// An entry that changes nothing and carries `why`.
pub fn entry(why: &str) -> Command {
    Command::Fence { region: "nowhere".parse().expect("a name"), by: author(why) }
}

pub fn author(why: &str) -> Author {
    Author { who: "test".to_owned(), when_ms: 0, why: Some(why.to_owned()) }
}

/// The settings of a cluster of one.
pub fn alone(dir: &Path) -> RaftSettings {
    let members = members(1);
    RaftSettings::new(1, members[&1].clone(), members, dir)
}
