//! One node of the replicated ledger: the handle that the rest of the coordinator holds.

use super::audit::{self, Place, Wanted};
use super::data_dir::{DataDir, DiskRoom};
use super::disk::{self, Disk};
use super::errors::{FormationError, MemberError, ProposeError, StartError};
use super::format;
use super::formation::Candidate;
use super::log_store::LogStore;
use super::members::{Added, Members};
use super::network::Network;
use super::office::OfficeClock;
use super::peer_routes::{self, Answerer};
use super::settings::RaftSettings;
use super::state_machine::StateMachine;
use super::status::{Leadership, MemberStatus, RaftStatus, heir, leads};
use super::types::{Metrics, Proposal, Raft, TypeConfig};
use super::wire;
use super::writer::Change;
use futures_util::future::join_all;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{ClientWriteError, ForwardToLeader, RaftError};
use quorate_ledger::level::LEVEL;
use quorate_ledger::{Command, Ledger, Outcome};
use quorate_shared::audit::AuditEvent;
use quorate_shared::heartbeat::Office;
use quorate_shared::time::LeaderTime;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A leader that ends waits so many heartbeats for another to take over.
const HAND_OVER_HEARTBEATS: u32 = 5;

/// How long a member may take to say which levels it knows.
const LEVEL_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the last word on who leads may take after a node has stopped.
const WATCHER_TIMEOUT: Duration = Duration::from_secs(1);

/// A running node.
///
/// Start it, mount [`RaftNode::peer_routes`] where the other members reach it, then call
/// [`RaftNode::initialize`]. If [`RaftNode::failed`] resolves, the process must end: what a
/// failed write left on disk is known only after a restart.
#[derive(Debug)]
pub struct RaftNode {
    settings: RaftSettings,
    raft: Raft,
    log: LogStore,
    state: StateMachine,
    disk: Arc<Disk>,
    network: Network,
    office: OfficeClock,
    leadership: watch::Receiver<Leadership>,
    unreadable: watch::Sender<Option<String>>,
    watcher: JoinHandle<()>,
}

impl RaftNode {
    /// Opens the data directory and takes part in the cluster that it belongs to, if any.
    ///
    /// # Errors
    /// If the settings contradict each other, or the data directory is in use, damaged, another
    /// node's or newer than this program.
    pub async fn start(settings: RaftSettings) -> Result<Self, StartError> {
        settings.check()?;
        let config = Arc::new(settings.config()?);
        let office = OfficeClock::new().map_err(|error| StartError::System(format!("no randomness: {error}")))?;
        let network = Network::new(&settings).map_err(|error| StartError::System(format!("cannot make a network client: {error}")))?;
        let (disk, log, state) = open(&settings).await?;
        let refused =
            |error: openraft::errors::Fatal<TypeConfig>| StartError::Raft { path: disk.path().to_owned(), detail: error.to_string() };
        let raft = Raft::new(settings.node, config, network.clone(), log.clone(), state.clone()).await.map_err(refused)?;
        let (leadership, watcher) = watch_leadership(&raft);
        let unreadable = watch::Sender::new(None);
        Ok(Self { settings, raft, log, state, disk, network, office, leadership, unreadable, watcher })
    }

    /// Forms the cluster of the members that this node was started with, unless it exists.
    /// Every member may call this, at the same time and at every start.
    ///
    /// The first time it waits until all members answer: one that does not might know of a
    /// cluster. Returns once this node knows that the cluster exists; it may have no leader yet.
    ///
    /// # Errors
    /// If members were started with different lists, this node is not in its own, or the cluster
    /// knows it with another data directory. It then takes no part in the cluster.
    pub async fn initialize(&self) -> Result<(), FormationError> {
        let (RaftSettings { node, members, join, .. }, identity) = (&self.settings, self.disk.identity());
        Candidate { node: *node, identity, members, join: *join, log: &self.log }.form(&self.raft, &self.network).await
    }

    /// Puts a command into the log and waits until it is applied here.
    ///
    /// # Errors
    /// [`ProposeError::NotLeader`]: it was not taken, try there. [`ProposeError::Level`]: nor was it, until every
    /// member's program knows it. [`ProposeError::Unavailable`]: it may or may not be applied.
    pub async fn propose(&self, command: Command) -> Result<Outcome, ProposeError> {
        let bytes = format::length(&command).map_err(|error| ProposeError::Fatal(error.to_string()))?;
        if bytes > wire::COMMAND_BYTES {
            return Err(ProposeError::TooLarge { bytes, most: wire::COMMAND_BYTES });
        }
        let waited = self.settings.propose_timeout;
        if !self.is_confirmed().await {
            return Err(ProposeError::NotLeader { leader: None });
        }
        let (needs, level) = (command.level(), self.read(Ledger::level));
        if level < needs {
            return Err(ProposeError::Level { needs, level });
        }
        let _waiting = self.state.awaited().begins(&command);
        let written = self.raft.client_write(Proposal(Arc::new(command)));
        match tokio::time::timeout(waited, written).await {
            Err(_) => Err(ProposeError::Unavailable { waited }),
            Ok(Ok(response)) => Ok(response.data),
            Ok(Err(RaftError::APIError(ClientWriteError::ForwardToLeader(forward)))) => Err(self.not_leader(forward)),
            Ok(Err(RaftError::APIError(ClientWriteError::LogEntryDiscarded(_)))) => Err(ProposeError::Unavailable { waited }),
            Ok(Err(other)) => Err(ProposeError::Fatal(other.to_string())),
        }
    }

    /// What `f` makes of the ledger as it is applied here; on a follower it may lag. The ledger
    /// does not change while `f` runs, so `f` should be brief.
    pub fn read<T>(&self, f: impl FnOnce(&Ledger) -> T) -> T {
        f(&self.state.applied().read().ledger)
    }

    /// Office and time to date a heartbeat by, if this node believes to be the leader. The clock
    /// of an office begins after its election was won, and is the same for the whole of it.
    pub fn office(&self) -> Option<(Office, LeaderTime)> {
        let metrics = self.metrics();
        leads(&metrics).then(|| self.office.now(metrics.current_term))
    }

    /// The cluster as this node sees it.
    pub fn status(&self) -> RaftStatus {
        let applied = self.state.applied().read().last;
        RaftStatus::of(&self.metrics(), applied, self.disk.counts())
    }

    /// How much room there is on the disk; `None` if the system does not tell.
    pub fn disk_room(&self) -> Option<DiskRoom> {
        DiskRoom::of(&self.settings.data_dir)
    }

    /// Who leads, now and after each change.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.clone()
    }

    /// Waits until this node knows a leader, and returns its number and address; `None` if the
    /// node stops first.
    pub async fn wait_for_leader(&self) -> Option<(u64, String)> {
        let mut leadership = self.leadership.clone();
        let known = leadership.wait_for(|now| now.leader.is_some()).await.ok()?;
        known.leader.clone()
    }

    /// A page of the account of what the log did, newest first, and where the next begins. It is this node's own: what it
    /// was sent as a snapshot is not in it.
    ///
    /// # Errors
    /// If the disk cannot be written or read.
    pub async fn audit(&self, wanted: Wanted) -> io::Result<(Vec<AuditEvent>, Option<Place>)> {
        // what was applied and nobody waited for is still queued
        self.disk.write(Change::Account(Vec::new())).await?;
        let disk = self.disk.clone();
        let read = move || {
            let before = wanted.before.unwrap_or(Place { index: u64::MAX, part: u32::MAX });
            audit::page(disk.view()?.account(before)?, &wanted)
        };
        tokio::task::spawn_blocking(read).await?
    }

    /// The newest level of the ledger that each member's program knows; `None` unless all say so.
    pub async fn level_of_all_members(&self) -> Option<Vec<u32>> {
        let members = self.status().members;
        let level = |member: MemberStatus| async move {
            match member.id == self.settings.node {
                true => Some(LEVEL),
                false => self.network.peer(member.id, &member.address).formation(LEVEL_TIMEOUT).await.ok().map(|state| state.level),
            }
        };
        join_all(members.into_iter().map(level)).await.into_iter().collect()
    }

    /// Writes a snapshot soon, besides those that the settings ask for.
    ///
    /// # Errors
    /// The reason, if the node has stopped.
    pub async fn snapshot(&self) -> Result<(), String> {
        self.raft.trigger().snapshot().await.map_err(|fatal| fatal.to_string())
    }

    /// Asks the voter `to` to take over the lead. Does nothing unless this node leads.
    ///
    /// # Errors
    /// The reason, if the node has stopped.
    pub async fn transfer_leader(&self, to: u64) -> Result<(), String> {
        self.raft.trigger().transfer_leader(to).await.map_err(|fatal| fatal.to_string())
    }

    /// Adds a node to the cluster, or goes on adding it: it learns first, and votes once it lacks little. It must run,
    /// be new, and have been told to join.
    ///
    /// # Errors
    /// If this node does not lead, or the new one does not answer as one that can be added.
    pub async fn add_member(&self, node: u64, address: &str) -> Result<Added, MemberError> {
        self.members().add(node, address).await
    }

    /// Removes a member other than the leader. Its process is of no further use.
    ///
    /// # Errors
    /// If this node does not lead, there is no such member, or no majority would be left.
    pub async fn remove_member(&self, node: u64) -> Result<(), MemberError> {
        self.members().remove(node).await
    }

    /// Lets the voter `to` lead, or whichever other is best fit; gives who leads then.
    ///
    /// # Errors
    /// If this node does not lead, or that one does not answer or does not take over in time.
    pub async fn let_lead(&self, to: Option<u64>) -> Result<u64, MemberError> {
        let waited = self.settings.propose_timeout;
        let to = self.members().heir(to).await?;
        if to == self.settings.node {
            return Ok(to);
        }
        let mut leadership = self.leadership.clone();
        self.transfer_leader(to).await.map_err(MemberError::Fatal)?;
        let other = leadership.wait_for(|now| !now.here && now.leader.is_some());
        let now = tokio::time::timeout(waited, other).await.map_err(|_| MemberError::Unavailable { waited })?;
        let leader = now.ok().and_then(|now| now.leader.as_ref().map(|(node, _)| *node));
        leader.ok_or(MemberError::Unavailable { waited })
    }

    fn members(&self) -> Members<'_> {
        Members { settings: &self.settings, raft: &self.raft, network: &self.network, level: self.read(Ledger::level) }
    }

    /// The members that it was told of and that do not answer.
    pub async fn silent_members(&self) -> Vec<u64> {
        let others = self.settings.members.iter().filter(|(id, _)| **id != self.settings.node);
        let silent = others
            .map(|(id, address)| async move { self.network.peer(*id, address).formation(LEVEL_TIMEOUT).await.is_err().then_some(*id) });
        join_all(silent).await.into_iter().flatten().collect()
    }

    /// Resolves with the reason once this node has stopped for good, [`RaftNode::shutdown`]
    /// included.
    pub async fn failed(&self) -> String {
        let mut metrics = self.raft.metrics();
        let stopped = async {
            loop {
                if let Err(fatal) = &metrics.borrow_watched().running_state {
                    return fatal.to_string();
                }
                if metrics.changed().await.is_err() {
                    return "the consensus module has ended".to_owned();
                }
            }
        };
        let mut unreadable = self.unreadable.subscribe();
        let unreadable = async {
            // the sender lives as long as this
            let told = unreadable.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
            told.unwrap_or_default()
        };
        tokio::select! { why = self.disk.failed() => why, why = stopped => why, why = unreadable => why }
    }

    /// Hands the lead over if it is here, takes no further part in the cluster, writes what is
    /// left to write, and gives the data directory back. Until this returns, the other nodes
    /// should still reach this one.
    pub async fn shutdown(&self) {
        self.hand_over().await;
        if let Err(error) = self.raft.shutdown().await {
            tracing::warn!(%error, "the consensus module did not end well");
        }
        let mut leadership = self.leadership.clone();
        // the watcher ends by itself, once it has passed on that nobody leads here any more
        let told = async { while leadership.changed().await.is_ok() {} };
        if tokio::time::timeout(WATCHER_TIMEOUT, told).await.is_err() {
            self.watcher.abort();
        }
        let disk = self.disk.clone();
        if let Err(error) = tokio::task::spawn_blocking(move || disk.close()).await {
            tracing::warn!(%error, "the Raft store did not close well");
        }
    }

    /// The routes by which the other nodes reach this one. Only they may get there.
    pub fn peer_routes(&self) -> axum::Router {
        peer_routes::routes(Answerer {
            node: self.settings.node,
            identity: self.disk.identity(),
            members: self.settings.members.clone(),
            raft: self.raft.clone(),
            log: self.log.clone(),
            unreadable: self.unreadable.clone(),
        })
    }

    /// Spares the others the wait for an election: asks one of them to lead.
    async fn hand_over(&self) {
        let patience = self.settings.heartbeat * HAND_OVER_HEARTBEATS;
        let metrics = self.metrics();
        let Some(heir) = heir(&metrics, patience).filter(|_| leads(&metrics)) else { return };
        let mut leadership = self.leadership.clone();
        if self.transfer_leader(heir).await.is_ok() {
            // If it does not answer in time, the others elect a leader as if this node had crashed.
            let _ = tokio::time::timeout(patience, leadership.wait_for(|now| !now.here)).await;
        }
    }

    /// A copy: whoever holds openraft's own would hold it up.
    fn metrics(&self) -> Metrics {
        self.raft.metrics().borrow_watched().clone()
    }

    /// Waits while this node leads but has not heard from a majority since it was elected: until
    /// then openraft takes nothing, and there is nobody else to turn to. False if it hears from
    /// none within an election timeout.
    async fn is_confirmed(&self) -> bool {
        let mut metrics = self.raft.metrics();
        let waits = |now: &Metrics| leads(now) && now.last_quorum_acked.is_none();
        // An error of `changed` means that the node has stopped; the proposal will say so.
        let confirmed = async { while waits(&metrics.borrow_watched()) && metrics.changed().await.is_ok() {} };
        tokio::time::timeout(self.settings.election_timeout.0, confirmed).await.is_ok()
    }

    fn not_leader(&self, forward: ForwardToLeader<TypeConfig>) -> ProposeError {
        let leader = forward.leader_id.zip(forward.leader_node).filter(|(id, _)| *id != self.settings.node);
        ProposeError::NotLeader { leader: leader.map(|(id, member)| (id, member.address)) }
    }
}

impl Drop for RaftNode {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

/// Opening checks the whole file, so it runs where blocking is allowed.
async fn open(settings: &RaftSettings) -> Result<(Arc<Disk>, LogStore, StateMachine), StartError> {
    let (path, node) = (settings.data_dir.clone(), settings.node);
    let opening = tokio::task::spawn_blocking(move || {
        let disk = Disk::open(DataDir::lock(&path)?, node)?;
        let damaged = |error: std::io::Error| disk::unreadable(disk.path(), &error);
        let log = LogStore::open(disk.clone()).map_err(damaged)?;
        let state = StateMachine::open(disk.clone()).map_err(damaged)?;
        Ok((disk, log, state))
    });
    opening.await.unwrap_or_else(|error| Err(StartError::System(format!("opening the data directory failed: {error}"))))
}

/// Follows openraft's metrics and tells of a change of leader alone.
fn watch_leadership(raft: &Raft) -> (watch::Receiver<Leadership>, JoinHandle<()>) {
    let mut metrics = raft.metrics();
    let (tell, leadership) = watch::channel(Leadership::of(&metrics.borrow_watched()));
    let watcher = tokio::spawn(async move {
        while metrics.changed().await.is_ok() {
            let now = Leadership::of(&metrics.borrow_watched());
            tell.send_if_modified(|told| std::mem::replace(told, now.clone()) != now);
        }
    });
    (leadership, watcher)
}
