//! What a node is told when it starts.

use super::errors::StartError;
use openraft::{Config, SnapshotPolicy};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// A follower that lags further than this behind is sent a snapshot.
const LAG: u64 = 10_000;
/// Entries in one message to a peer, at most; `log_store` bounds their bytes besides.
const ENTRIES_PER_MESSAGE: u64 = 1_024;
/// How long a peer may take to receive and install a snapshot.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(60);
/// Waiting times between attempts to send entries to a peer that does not answer.
const BACKOFF: &str = "50ms 100ms ...400ms";

/// Settings of one node of the coordinator.
#[derive(Clone, Debug)]
pub struct RaftSettings {
    /// This node's number, unique in the cluster for ever: a node that lost its disk comes back
    /// under a new one.
    pub node: u64,
    /// Host and port at which the other nodes reach this one.
    pub address: String,
    /// The first members, with their addresses, this node among them; the same list on each.
    /// Once the cluster is formed, it is the log that says who is a member.
    pub members: BTreeMap<u64, String>,
    /// True for a node that is to be added to a cluster: it forms none. `members` are then this one, and any of the cluster.
    pub join: bool,
    /// The folder for everything that must survive a restart.
    pub data_dir: PathBuf,
    /// How often the leader is heard. Openraft waits no longer for the answer, and a leader takes no
    /// proposals without answers: it must be more than a round trip to any other node.
    pub heartbeat: Duration,
    /// A follower that has not heard of a leader for a time between these two stands for
    /// election. The leader takes no proposals once half of the longer has passed since a
    /// majority last answered it.
    pub election_timeout: (Duration, Duration),
    /// How long a proposal may take before its outcome counts as unknown.
    pub propose_timeout: Duration,
    /// Entries between two snapshots.
    pub snapshot_every: u64,
    /// Entries kept behind a snapshot, for followers that lag a little.
    pub keep_entries: u64,
    /// Sent to the other nodes as a bearer token.
    pub peer_token: Option<String>,
}

impl RaftSettings {
    /// Settings with the usual times: a heartbeat each 150 ms, an election after 600 to 800 ms of
    /// silence, 2 s for a proposal; a snapshot each 5,000 entries, of which 1,000 are kept.
    pub fn new(node: u64, address: impl Into<String>, members: BTreeMap<u64, String>, data_dir: impl Into<PathBuf>) -> Self {
        Self {
            node,
            address: address.into(),
            members,
            join: false,
            data_dir: data_dir.into(),
            heartbeat: Duration::from_millis(150),
            election_timeout: (Duration::from_millis(600), Duration::from_millis(800)),
            propose_timeout: Duration::from_secs(2),
            snapshot_every: 5_000,
            keep_entries: 1_000,
            peer_token: None,
        }
    }

    /// Openraft's own words for these settings.
    ///
    /// An openraft follower stands once its lease (`election_timeout_max`) and a random part
    /// between `election_timeout_min` and `_max` have passed, so both are halves of ours.
    pub(super) fn config(&self) -> Result<Config, StartError> {
        let (shortest, longest) = (millis(self.election_timeout.0), millis(self.election_timeout.1));
        let lease = longest / 2;
        let least = shortest.saturating_sub(lease);
        let heartbeat = millis(self.heartbeat);
        if heartbeat == 0 || least <= heartbeat || least >= lease {
            return Err(StartError::Settings(format!(
                "election timeout {shortest}ms to {longest}ms does not fit a heartbeat each {heartbeat}ms: the longer must exceed the \
                 shorter, and the shorter must be more than half of the longer and a heartbeat"
            )));
        }
        let config = Config {
            cluster_name: "quorate".to_owned(),
            heartbeat_interval: heartbeat,
            election_timeout_min: least,
            election_timeout_max: lease,
            enable_pre_vote: Some(true),
            // A leader that restarts has a new clock; let it win an election first.
            enable_leader_restore: Some(false),
            install_snapshot_timeout: millis(SNAPSHOT_TIMEOUT),
            max_payload_entries: ENTRIES_PER_MESSAGE,
            snapshot_policy: SnapshotPolicy::LogsSinceLast(self.snapshot_every),
            max_in_snapshot_log_to_keep: self.keep_entries,
            replication_lag_threshold: LAG.max(2 * self.snapshot_every),
            backoff: BACKOFF.to_owned(),
            ..Config::default()
        };
        config.validate().map_err(|error| StartError::Settings(error.to_string()))
    }

    /// Refuses settings that contradict each other.
    pub(super) fn check(&self) -> Result<(), StartError> {
        match self.members.get(&self.node) {
            Some(listed) if *listed != self.address => {
                Err(StartError::Settings(format!("node {} is at {}, but the list of members has it at {listed}", self.node, self.address)))
            }
            _ if self.snapshot_every == 0 => Err(StartError::Settings("a snapshot each 0 entries".to_owned())),
            _ => Ok(()),
        }
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> RaftSettings {
        RaftSettings::new(1, "a:1", BTreeMap::from([(1, "a:1".to_owned())]), "/nowhere")
    }

    #[test]
    fn a_follower_stands_between_the_two_timeouts() {
        let config = settings().config().expect("the usual times fit");
        assert_eq!(config.election_timeout_max + config.election_timeout_min, 600);
        assert_eq!(config.election_timeout_max * 2, 800);
    }

    #[test]
    fn times_that_do_not_fit_are_refused() {
        for (heartbeat, shortest, longest) in [(0, 600, 800), (200, 600, 800), (50, 800, 800), (50, 400, 800)] {
            let ms = Duration::from_millis;
            let times = RaftSettings { heartbeat: ms(heartbeat), election_timeout: (ms(shortest), ms(longest)), ..settings() };
            assert!(matches!(times.config(), Err(StartError::Settings(_))), "{heartbeat} {shortest} {longest}");
        }
    }

    #[test]
    fn two_addresses_of_one_node_are_refused() {
        assert!(settings().check().is_ok());
        assert!(matches!(RaftSettings { address: "b:1".to_owned(), ..settings() }.check(), Err(StartError::Settings(_))));
    }
}
