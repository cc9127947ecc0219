//! Forming a cluster: once, by those who are told to, and never a second time.

use super::errors::FormationError;
use super::log_store::LogStore;
use super::network::{Network, Peer};
use super::types::{Member, Raft};
use super::wire::FormationState;
use futures_util::future::join_all;
use openraft::errors::{InitializeError, RaftError};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a member may take to say whether it is new.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between two rounds of questions.
const ROUND: Duration = Duration::from_millis(100);

/// A node that is to be part of a cluster.
pub struct Candidate<'a> {
    /// Its number.
    pub node: u64,
    /// The identity of its data directory.
    pub identity: u64,
    /// The first members of the cluster, as it was told.
    pub members: &'a BTreeMap<u64, String>,
    /// True if it waits to be added to a cluster that others form.
    pub join: bool,
    /// Its log.
    pub log: &'a LogStore,
}

/// What one round of questions told.
#[derive(Debug, PartialEq, Eq)]
enum Round {
    /// Nobody was ever part of a cluster; these are to form one.
    AllNew(BTreeMap<u64, Member>),
    /// Somebody was: the cluster exists, and its leader will call.
    Exists,
    /// These did not answer.
    Awaits(Vec<u64>),
}

impl Candidate<'_> {
    /// Forms a cluster of the members unless there is one. Returns once it is formed or found;
    /// waits as long as a member that could know of one does not answer.
    ///
    /// The member with the smallest number forms it, the others wait for that. All could do it
    /// at once, but each would begin with an election, and the first leaders would depose each other.
    pub async fn form(&self, raft: &Raft, network: &Network) -> Result<(), FormationError> {
        if !self.log.is_pristine() {
            return Ok(());
        }
        if !self.members.contains_key(&self.node) {
            return Err(FormationError::NotAMember(self.node));
        }
        let others = self.members.iter().filter(|(id, _)| **id != self.node);
        let others: Vec<_> = others.map(|(id, address)| network.peer(*id, address)).collect();
        let mut awaited = Vec::new();
        loop {
            let answers = join_all(others.iter().map(|peer| peer.formation(ANSWER_TIMEOUT))).await;
            let answers: Vec<_> = others.iter().zip(answers.into_iter().map(Result::ok)).collect();
            match self.judge(&answers)? {
                Round::Exists => return Ok(()),
                _ if !self.log.is_pristine() => return Ok(()),
                Round::AllNew(members) if !self.join && members.keys().min() == Some(&self.node) => return initialize(members, raft).await,
                Round::AllNew(_) => tokio::time::sleep(ROUND).await,
                Round::Awaits(silent) => {
                    if silent != awaited {
                        let nodes = silent.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                        tracing::info!(nodes, "waiting for all members before the cluster is formed");
                        awaited = silent;
                    }
                    tokio::time::sleep(ROUND).await;
                }
            }
        }
    }

    fn judge(&self, answers: &[(&Peer, Option<FormationState>)]) -> Result<Round, FormationError> {
        let heard = || answers.iter().filter_map(|(peer, answer)| Some((*peer, answer.as_ref()?)));
        if heard().any(|(_, answer)| answer.known.get(&self.node).is_some_and(|known| *known != self.identity)) {
            return Err(FormationError::LostDisk { node: self.node });
        }
        if heard().any(|(_, answer)| !answer.pristine) {
            return Ok(Round::Exists);
        }
        if let Some((peer, answer)) = heard().find(|(_, answer)| !self.join && answer.members != *self.members) {
            let (theirs, ours) = (list(&answer.members), list(self.members));
            return Err(FormationError::MembersDiffer { node: peer.target(), address: peer.address().to_owned(), theirs, ours });
        }
        let silent: Vec<u64> = answers.iter().filter(|(_, answer)| answer.is_none()).map(|(peer, _)| peer.target()).collect();
        if !silent.is_empty() {
            return Ok(Round::Awaits(silent));
        }
        let identities = heard().map(|(peer, answer)| (peer.target(), answer.identity)).chain([(self.node, self.identity)]);
        let member = |(id, identity)| Some((id, Member { address: self.members.get(&id)?.clone(), identity }));
        Ok(Round::AllNew(identities.filter_map(member).collect()))
    }
}

async fn initialize(members: BTreeMap<u64, Member>, raft: &Raft) -> Result<(), FormationError> {
    match raft.initialize(members).await {
        // It is not allowed if this node has voted meanwhile: then there is a cluster.
        Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => Ok(()),
        Err(RaftError::APIError(InitializeError::NotInMembers(error))) => Err(FormationError::NotAMember(error.node_id)),
        Err(RaftError::Fatal(fatal)) => Err(FormationError::Fatal(fatal.to_string())),
    }
}

fn list(members: &BTreeMap<u64, String>) -> String {
    members.iter().map(|(id, address)| format!("{id}={address}")).collect::<Vec<_>>().join(", ")
}
