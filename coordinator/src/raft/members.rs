//! Changing the members of a cluster that there is: one node at a time, by its leader.
//!
//! A new node first learns what the others know, and votes once it lacks little (Ongaro's dissertation, section 4.2.1);
//! the change itself goes through a joint majority of both configurations (the Raft paper, section 6).

use super::errors::MemberError;
use super::network::Network;
use super::settings::RaftSettings;
use super::status::{heir, lag, leads};
use super::types::{Member, Metrics, Raft, TypeConfig};
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{ChangeMembershipError, ClientWriteError, RaftError};
use openraft::{ChangeMembers, Instant};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long a new node may take to say who it is.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// How long one call waits for a new node to learn; the next goes on from there.
const LEARNING: Duration = Duration::from_secs(1);
/// A node that lacks no more entries than this may vote.
const LITTLE: u64 = 100;
/// With more nodes each write waits for more of them, and no more may fail at once than anybody needs.
const MOST: usize = 7;

/// How far a new node has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Added {
    /// True once it votes. Until then it learns; asking again goes on.
    pub voter: bool,
    /// Entries of the log that it lacked when it was last heard of.
    pub lag: u64,
}

/// The members as the leader changes them.
pub struct Members<'a> {
    /// Its settings.
    pub settings: &'a RaftSettings,
    /// Its consensus module.
    pub raft: &'a Raft,
    /// Its way to the others.
    pub network: &'a Network,
    /// The ledger's level: a new node's program must know it.
    pub level: u32,
}

type Change = ChangeMembers<u64, Member>;

impl Members<'_> {
    /// Adds a node that is new, or goes on adding it.
    pub async fn add(&self, node: u64, address: &str) -> Result<Added, MemberError> {
        let metrics = self.leading()?;
        let member = self.meet(node, address).await?;
        match metrics.membership_config.get_node(&node) {
            Some(known) if *known != member => return Err(MemberError::Taken { node, address: known.address.clone() }),
            Some(_) if is_voter(&metrics, node) => return Ok(Added { voter: true, lag: lag(&metrics, node).unwrap_or(0) }),
            Some(_) => {}
            None => self.learn(&metrics, node, member).await?,
        }
        let lag = self.catch_up(node).await;
        if lag > LITTLE {
            return Ok(Added { voter: false, lag });
        }
        self.change(ChangeMembers::AddVoterIds(BTreeSet::from([node]))).await?;
        Ok(Added { voter: true, lag })
    }

    /// Removes a member other than the leader.
    pub async fn remove(&self, node: u64) -> Result<(), MemberError> {
        let metrics = self.leading()?;
        if metrics.membership_config.get_node(&node).is_none() {
            return Err(MemberError::Unknown { node });
        }
        if node == self.settings.node {
            return Err(MemberError::Leads { node });
        }
        self.majority_without(&metrics, node).await?;
        if is_voter(&metrics, node) {
            return self.change(ChangeMembers::RemoveVoters(BTreeSet::from([node]))).await;
        }
        self.change(ChangeMembers::RemoveNodes(BTreeSet::from([node]))).await
    }

    /// The voter `to`, or the one that is best fit; refused unless it answers: without an heir nobody would lead.
    pub async fn heir(&self, to: Option<u64>) -> Result<u64, MemberError> {
        let metrics = self.leading()?;
        if let Some(node) = to.filter(|to| !is_voter(&metrics, *to)) {
            return Err(MemberError::Unknown { node });
        }
        let voters = || metrics.membership_config.voter_ids();
        let wanted: Vec<u64> = voters().filter(|id| to.is_none_or(|to| to == *id)).collect();
        let silent = self.silent(wanted).await;
        match to {
            Some(to) if silent.is_empty() => Ok(to),
            Some(_) => Err(MemberError::Silent { nodes: silent }),
            None => heir(&self.leading()?, self.fresh()).ok_or(MemberError::NoHeir),
        }
    }

    fn leading(&self) -> Result<Metrics, MemberError> {
        let metrics = self.raft.metrics().borrow_watched().clone();
        if leads(&metrics) { Ok(metrics) } else { Err(MemberError::NotLeader) }
    }

    /// Asks the node for the identity of its data directory.
    async fn meet(&self, node: u64, address: &str) -> Result<Member, MemberError> {
        let unfit = |detail: String| MemberError::Unfit { node, address: address.to_owned(), detail };
        let answer = self.network.peer(node, address).formation(ANSWER_TIMEOUT).await.map_err(|error| unfit(error.to_string()))?;
        if answer.level < self.level {
            return Err(unfit(format!("its program knows levels up to {}, the ledger is at {}", answer.level, self.level)));
        }
        let metrics = self.raft.metrics().borrow_watched().clone();
        let is_of_ours = metrics.membership_config.nodes().any(|(id, ours)| answer.known.get(id) == Some(&ours.identity));
        if !answer.pristine && !is_of_ours {
            return Err(unfit("it has been part of another cluster; give it an empty data directory".to_owned()));
        }
        Ok(Member { address: address.to_owned(), identity: answer.identity })
    }

    async fn learn(&self, metrics: &Metrics, node: u64, member: Member) -> Result<(), MemberError> {
        let mut members = metrics.membership_config.nodes();
        if let Some((holder, _)) = members.find(|(_, known)| known.address == member.address) {
            return Err(MemberError::AddressTaken { node: *holder, address: member.address });
        }
        if metrics.membership_config.nodes().count() >= MOST {
            return Err(MemberError::TooMany { most: MOST });
        }
        self.change(ChangeMembers::AddNodes(BTreeMap::from([(node, member)]))).await
    }

    /// Waits a while for a node that learns; what it still lacks.
    async fn catch_up(&self, node: u64) -> u64 {
        let mut metrics = self.raft.metrics();
        let mut lacks = u64::MAX;
        let learned = async {
            loop {
                lacks = lag(&metrics.borrow_watched(), node).unwrap_or(u64::MAX);
                // an error means that this node has stopped; the change will say so
                if lacks <= LITTLE || metrics.changed().await.is_err() {
                    return;
                }
            }
        };
        // it is asked again
        let _ = tokio::time::timeout(LEARNING, learned).await;
        lacks
    }

    /// Refuses a removal after which no majority would answer: it could not be undone.
    async fn majority_without(&self, metrics: &Metrics, node: u64) -> Result<(), MemberError> {
        let left: Vec<u64> = metrics.membership_config.voter_ids().filter(|id| *id != node).collect();
        let silent = self.silent(left.clone()).await;
        if 2 * silent.len() >= left.len() { Err(MemberError::Silent { nodes: silent }) } else { Ok(()) }
    }

    /// Those of `nodes` that do not answer. A leader that is new has not heard of anybody yet, so it waits a while.
    async fn silent(&self, nodes: Vec<u64>) -> Vec<u64> {
        let mut metrics = self.raft.metrics();
        let mut silent = nodes;
        let heard = async {
            loop {
                silent.retain(|node| *node != self.settings.node && !self.answers(&metrics.borrow_watched(), *node));
                // an error means that this node has stopped; what follows will say so
                if silent.is_empty() || metrics.changed().await.is_err() {
                    return;
                }
            }
        };
        // who is silent still, is
        let _ = tokio::time::timeout(self.fresh(), heard).await;
        silent
    }

    /// A node that was heard within this time answers.
    fn fresh(&self) -> Duration {
        self.settings.election_timeout.1
    }

    fn answers(&self, metrics: &Metrics, node: u64) -> bool {
        let last = metrics.heartbeat.as_ref().and_then(|heard| *heard.get(&node)?);
        last.is_some_and(|answered| answered.elapsed() < self.fresh())
    }

    /// A leader that is new has first to commit an entry of its own, and a change before this one to end: it is tried
    /// again for a while.
    async fn change(&self, change: Change) -> Result<(), MemberError> {
        let waited = self.settings.propose_timeout;
        let mut metrics = self.raft.metrics();
        let mut last = MemberError::Unavailable { waited };
        let changed = async {
            loop {
                last = MemberError::Unavailable { waited };
                let Err(error) = self.raft.change_membership(change.clone(), false).await else { return Ok(()) };
                last = refused(error, waited);
                if last != MemberError::Changing || metrics.changed().await.is_err() {
                    return Err(last.clone());
                }
            }
        };
        let changed = tokio::time::timeout(waited, changed).await;
        changed.unwrap_or(Err(last))
    }
}

fn refused(error: RaftError<TypeConfig, ClientWriteError<TypeConfig>>, waited: Duration) -> MemberError {
    match error {
        RaftError::APIError(ClientWriteError::ForwardToLeader(_)) => MemberError::NotLeader,
        RaftError::APIError(ClientWriteError::LogEntryDiscarded(_) | ClientWriteError::PreconditionFailed(_)) => {
            MemberError::Unavailable { waited }
        }
        RaftError::APIError(ClientWriteError::ChangeMembershipError(
            ChangeMembershipError::InProgress(_) | ChangeMembershipError::UncommittedLeaderLog(_),
        )) => MemberError::Changing,
        other => MemberError::Fatal(other.to_string()),
    }
}

fn is_voter(metrics: &Metrics, node: u64) -> bool {
    metrics.membership_config.voter_ids().any(|id| id == node)
}
