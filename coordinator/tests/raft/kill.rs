//! Three processes, of which the leading one is killed in mid-write, again and again.

use crate::harness::{Served, author, found, members};
use quorate_coordinator::raft::{ProposeError, RaftNode, RaftSettings};
use quorate_ledger::{Command, Outcome};
use quorate_shared::policy::PolicySet;
use rustix::process::{Pid, Signal};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Tells a child who it is, who the members are, and where to write.
const NODE: &str = "QUORATE_TEST_NODE";
const MEMBERS: &str = "QUORATE_TEST_MEMBERS";
const DIR: &str = "QUORATE_TEST_DIR";

/// How many leaders are killed.
const KILLS: usize = 5;

/// Somebody leads and writes again within this time, however busy the machine is. How soon it is
/// on one that is not, the test only says.
const CEILING: Duration = Duration::from_secs(60);

/// A node acknowledged that the policy set has this version now.
struct Acknowledged {
    node: u64,
    version: u64,
    heard: Instant,
}

/// Node processes, and what they acknowledge.
struct Processes {
    dir: tempfile::TempDir,
    members: String,
    running: BTreeMap<u64, (Child, JoinHandle<()>)>,
    tell: Sender<Acknowledged>,
    told: Receiver<Acknowledged>,
    given: BTreeSet<u64>,
}

impl Processes {
    fn start() -> Self {
        let list: Vec<String> = members(3).iter().map(|(id, address)| format!("{id}={address}")).collect();
        let (tell, told) = channel();
        let dir = tempfile::tempdir().expect("a folder");
        let mut processes = Self { dir, members: list.join(","), running: BTreeMap::new(), tell, told, given: BTreeSet::new() };
        for node in 1..=3 {
            processes.start_node(node);
        }
        processes
    }

    fn start_node(&mut self, node: u64) {
        let mut child = std::process::Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "kill::child", "--ignored", "--nocapture"])
            .env(NODE, node.to_string())
            .env(MEMBERS, &self.members)
            .env(DIR, self.dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let tell = self.tell.clone();
        let listener = std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let Some(version) = line.strip_prefix("version ").and_then(|n| n.parse().ok()) else { continue };
                let heard = Instant::now();
                // An error means that the test is over.
                let _ = tell.send(Acknowledged { node, version, heard });
            }
        });
        self.running.insert(node, (child, listener));
    }

    /// Ends a node at once, and hears its last words.
    fn kill(&mut self, node: u64) {
        let (mut child, listener) = self.running.remove(&node).expect("runs");
        child.kill().expect("killed");
        child.wait().expect("ended");
        listener.join().expect("heard");
    }

    fn signal(&self, node: u64, signal: Signal) {
        let pid = Pid::from_child(&self.running[&node].0);
        rustix::process::kill_process(pid, signal).expect("sent");
    }

    /// The next acknowledgement by another node than `former`.
    fn next_of_another(&mut self, former: u64) -> Acknowledged {
        loop {
            let next = self.next();
            if next.node != former {
                return next;
            }
        }
    }

    /// The next acknowledgement. Versions count up in the log, so one that is given twice was
    /// lost in between.
    fn next(&mut self) -> Acknowledged {
        let next = self.told.recv_timeout(CEILING).expect("acknowledged in time");
        self.note(&next);
        next
    }

    fn note(&mut self, acknowledged: &Acknowledged) {
        assert!(self.given.insert(acknowledged.version), "version {} was given twice", acknowledged.version);
    }

    /// The greatest version that any node acknowledged before it was killed, none being left.
    fn last_of_all(&mut self) -> u64 {
        assert!(self.running.is_empty(), "a node that runs has more to say");
        while let Ok(acknowledged) = self.told.try_recv() {
            self.note(&acknowledged);
        }
        *self.given.last().expect("something was acknowledged")
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for (child, _) in self.running.values_mut() {
            // An error means that it has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn a_killed_leader_is_replaced_and_nothing_acknowledged_is_lost() {
    let mut processes = Processes::start();
    let mut gaps = Vec::new();
    for round in 0..KILLS {
        let mut leader = processes.next().node;
        for _ in 0..30 + 7 * round {
            leader = processes.next().node;
        }
        processes.kill(leader);
        let killed = Instant::now();
        gaps.push(processes.next_of_another(leader).heard.saturating_duration_since(killed));
        processes.start_node(leader);
    }
    gaps.sort();
    let usual = 2 * RaftSettings::new(1, "", BTreeMap::new(), "").election_timeout.1;
    println!("from the kill of a leader to the next acknowledged write: {gaps:?}, median {:?}, usually below {usual:?}", gaps[KILLS / 2]);

    for node in 1..=3 {
        processes.kill(node);
    }
    let last = processes.last_of_all();
    for node in 1..=3 {
        processes.start_node(node);
    }
    let next = processes.next().version;
    assert!(next > last, "version {next} is written anew, and {last} was acknowledged");
}

#[test]
fn a_leader_that_freezes_is_replaced_and_does_no_harm_when_it_thaws() {
    let mut processes = Processes::start();
    for _ in 0..3 {
        let mut frozen = processes.next().node;
        for _ in 0..20 {
            frozen = processes.next().node;
        }
        processes.signal(frozen, Signal::STOP);
        processes.next_of_another(frozen);
        processes.signal(frozen, Signal::CONT);
        // It may still acknowledge what it had committed, but not what it had only taken.
        for _ in 0..50 {
            processes.next();
        }
    }
}

#[test]
#[ignore = "a process of the test above"]
fn child() {
    let Ok(node) = std::env::var(NODE) else { return };
    let members = std::env::var(MEMBERS).expect("set");
    let members = members.split(',').map(|member| member.split_once('=').expect("a pair"));
    let members = BTreeMap::from_iter(members.map(|(id, address)| (id.parse().expect("a number"), address.to_owned())));
    let dir = std::env::var(DIR).expect("set");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(lead_whenever_possible(node.parse().expect("a number"), members, Path::new(&dir)));
}

async fn lead_whenever_possible(id: u64, members: BTreeMap<u64, String>, dir: &Path) {
    let settings = RaftSettings::new(id, members[&id].clone(), members, dir.join(id.to_string()));
    let served = Served::start(settings).await;
    served.node.initialize().await.expect("formed or found");
    let mut leadership = served.node.leadership();
    loop {
        leadership.wait_for(|now| now.here).await.expect("lives");
        write(&served.node).await;
    }
}

async fn write(node: &RaftNode) {
    let (founded, replaces) = node.read(|ledger| (ledger.founding().is_some(), ledger.newest_policies().version));
    let set = Command::Policies { replaces, set: Box::new(PolicySet::default()), by: author("a test") };
    match node.propose(if founded { set } else { found() }).await {
        Ok(Outcome::Policies { version, .. }) => println!("version {version}"),
        Ok(Outcome::Done | Outcome::VersionConflict { .. }) => {}
        Err(ProposeError::NotLeader { .. } | ProposeError::Unavailable { .. }) => tokio::task::yield_now().await,
        other => panic!("{other:?}"),
    }
}
