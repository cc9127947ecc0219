//! The first entries of a cluster: what all replicas share, and the first policy set.

use crate::author;
use crate::raft::{ProposeError, RaftNode};
use quorate_ledger::{Backup, Command};
use quorate_shared::names::SubjectKey;
use quorate_shared::policy::PolicySet;
use quorate_shared::time::Drift;
use std::time::Duration;

/// Between two attempts of a leader.
const RETRY: Duration = Duration::from_millis(100);
/// How often the others look whether it is done.
const LOOK: Duration = Duration::from_secs(1);

/// Who is named as the author of the first policy set.
const AUTHOR: &str = "founding";

/// What a cluster begins with, if this node is the one that founds it.
#[derive(Debug)]
pub struct Founding {
    /// `L`.
    pub lease: Duration,
    /// ρ.
    pub drift: Drift,
    /// The first policy set, if there is to be one.
    pub policies: Option<PolicySet>,
    /// What the cluster goes on from, if another was lost. It is the first entry of the log: an agent that met a cluster
    /// without it would forget the one before.
    pub backup: Option<Backup>,
}

impl Founding {
    /// Waits until this node leads or another has founded the cluster, and sees to it that it is
    /// founded. A second leader that does the same meanwhile changes nothing: the ledger takes
    /// the first founding, and the first set only as the successor of none.
    pub async fn see_to(self, node: &RaftNode) {
        let mut leadership = node.leadership();
        while !self.is_done(node) {
            let here = leadership.borrow_and_update().here;
            if here && let Err(error) = self.propose(node).await {
                tracing::info!(%error, "the cluster is not founded yet");
            }
            tokio::select! {
                changed = leadership.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(if here { RETRY } else { LOOK }) => {}
            }
        }
    }

    fn is_done(&self, node: &RaftNode) -> bool {
        node.read(|ledger| ledger.founding().is_some() && (self.policies.is_none() || ledger.newest_policies().version > 0))
    }

    fn first_entry(&self) -> Result<Command, ProposeError> {
        if let Some(backup) = &self.backup {
            return Ok(author::restore(backup.clone(), author::now(AUTHOR, None)));
        }
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|error| ProposeError::Fatal(format!("no randomness: {error}")))?;
        Ok(Command::Found { subject_key: SubjectKey::new(key), lease: self.lease, drift: self.drift })
    }

    async fn propose(&self, node: &RaftNode) -> Result<(), ProposeError> {
        if node.read(|ledger| ledger.founding().is_none()) {
            node.propose(self.first_entry()?).await?;
        }
        if let Some(set) = &self.policies
            && node.read(|ledger| ledger.newest_policies().version == 0)
        {
            let by = author::now(AUTHOR, None);
            node.propose(Command::Policies { replaces: 0, set: Box::new(set.clone()), by }).await?;
        }
        Ok(())
    }
}
