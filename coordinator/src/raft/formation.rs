//! Forming a cluster: once, by those who are told to, and never a second time.

use super::errors::FormationError;
use super::log_store::LogStore;
use super::network::{Network, Peer};
use super::types::Raft;
use super::wire::FormationState;
use futures_util::future::join_all;
use openraft::BasicNode;
use openraft::errors::{InitializeError, RaftError};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a member may take to say whether it is new.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between two rounds of questions to members that did not answer.
const ROUND: Duration = Duration::from_millis(100);

/// What one round of questions told.
#[derive(Debug, PartialEq, Eq)]
enum Round {
    /// Nobody was ever part of a cluster.
    AllNew,
    /// Somebody was: the cluster exists, and its leader will call.
    Exists,
    /// These did not answer.
    Awaits(Vec<u64>),
}

/// Forms a cluster of `members` unless there is one. Returns once it is formed or found; waits
/// as long as a member that could know of one does not answer.
///
/// Members may do this at the same time: openraft's first entry is the same on each, and the
/// vote that follows has one winner.
pub async fn form(
    node: u64,
    members: &BTreeMap<u64, String>,
    raft: &Raft,
    log: &LogStore,
    network: &Network,
) -> Result<(), FormationError> {
    if !log.is_pristine() {
        return Ok(());
    }
    if !members.contains_key(&node) {
        return Err(FormationError::NotAMember(node));
    }
    let others: Vec<_> = members.iter().filter(|(id, _)| **id != node).map(|(id, address)| network.peer(*id, address)).collect();
    let mut awaited = Vec::new();
    loop {
        match ask(&others, members).await? {
            Round::Exists => return Ok(()),
            Round::AllNew => return initialize(members, raft).await,
            Round::Awaits(_) if !log.is_pristine() => return Ok(()),
            Round::Awaits(silent) => {
                if silent != awaited {
                    tracing::info!(nodes = ?silent, "waiting for all members before the cluster is formed");
                    awaited = silent;
                }
                tokio::time::sleep(ROUND).await;
            }
        }
    }
}

async fn ask(others: &[Peer], members: &BTreeMap<u64, String>) -> Result<Round, FormationError> {
    let answers = join_all(others.iter().map(|peer| peer.formation(ANSWER_TIMEOUT))).await;
    let answers: Vec<_> = others.iter().zip(answers.into_iter().map(Result::ok)).collect();
    judge(&answers, members)
}

fn judge(answers: &[(&Peer, Option<FormationState>)], members: &BTreeMap<u64, String>) -> Result<Round, FormationError> {
    if answers.iter().any(|(_, answer)| answer.as_ref().is_some_and(|answer| !answer.pristine)) {
        return Ok(Round::Exists);
    }
    for (peer, answer) in answers {
        if let Some(answer) = answer
            && answer.members != *members
        {
            let (theirs, ours) = (list(&answer.members), list(members));
            return Err(FormationError::MembersDiffer { node: peer.target(), address: peer.address().to_owned(), theirs, ours });
        }
    }
    let silent: Vec<u64> = answers.iter().filter(|(_, answer)| answer.is_none()).map(|(peer, _)| peer.target()).collect();
    Ok(if silent.is_empty() { Round::AllNew } else { Round::Awaits(silent) })
}

async fn initialize(members: &BTreeMap<u64, String>, raft: &Raft) -> Result<(), FormationError> {
    let nodes: BTreeMap<u64, BasicNode> = members.iter().map(|(id, address)| (*id, BasicNode::new(address))).collect();
    match raft.initialize(nodes).await {
        // It is not allowed because another member was faster.
        Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => Ok(()),
        Err(RaftError::APIError(InitializeError::NotInMembers(error))) => Err(FormationError::NotAMember(error.node_id)),
        Err(RaftError::Fatal(fatal)) => Err(FormationError::Fatal(fatal.to_string())),
    }
}

fn list(members: &BTreeMap<u64, String>) -> String {
    members.iter().map(|(id, address)| format!("{id}={address}")).collect::<Vec<_>>().join(", ")
}
