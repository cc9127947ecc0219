//! What may go wrong, in words that say what to do.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting contradicts another.
    #[error("{0}")]
    Settings(String),
    /// The data directory cannot be used.
    #[error("cannot use the data directory: {}: {source}", path.display())]
    DataDir {
        /// What cannot be read or written.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// Another process has it.
    #[error("{} is held by {}; each node needs a data directory of its own, and only one process may run a node", path.display(), by(*holder))]
    Locked {
        /// The lock's file.
        path: PathBuf,
        /// The number of the process that holds it, if it could be read.
        holder: Option<u32>,
    },
    /// The data directory belongs to another node.
    #[error("{} belongs to node {found}, not to node {wanted}; correct `node` or `data-dir`: a node that takes another's place can vote twice", path.display())]
    OtherNode {
        /// The store's file.
        path: PathBuf,
        /// Whose it is.
        found: u64,
        /// Who wanted it.
        wanted: u64,
    },
    /// A later version of the program wrote it.
    #[error("{} has format version {found}, and this program reads up to {known}; run the version that wrote it", path.display())]
    NewerFormat {
        /// The store's file.
        path: PathBuf,
        /// Its version.
        found: u8,
        /// The newest that this program reads.
        known: u8,
    },
    /// It is damaged or not a store at all.
    #[error(
        "{} is damaged: {detail}; keep it aside; the other nodes go on without this one. Do not put an older copy in its place: it has forgotten votes and entries that this node acknowledged",
        path.display()
    )]
    Corrupted {
        /// The store's file.
        path: PathBuf,
        /// What is wrong.
        detail: String,
    },
    /// The system gives no network client or no random number.
    #[error("{0}")]
    System(String),
    /// The consensus module refused what it found on disk.
    #[error("{}: {detail}", path.display())]
    Raft {
        /// The store's file.
        path: PathBuf,
        /// Its word.
        detail: String,
    },
}

fn by(holder: Option<u32>) -> String {
    holder.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

/// Why a command has no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// This node does not lead, or has not heard from a majority lately. The command did not enter the log.
    #[error("this node is not the leader{}", leader.as_ref().map(|(id, address)| format!("; node {id} at {address} is")).unwrap_or_default())]
    NotLeader {
        /// Number and address of the leader, if known; never this node.
        leader: Option<(u64, String)>,
    },
    /// No outcome in time, or the leader lost its office meanwhile: the command may or may not be applied, now or later.
    #[error("no majority of the coordinators answered within {waited:?}; the outcome is unknown")]
    Unavailable {
        /// How long the caller waited.
        waited: Duration,
    },
    /// The command says what a member's program may not know yet. It did not enter the log.
    #[error(
        "this needs level {needs} of the ledger, which is at {level}: it rises by itself once every coordinator runs this version (`quorate cluster status`)"
    )]
    Level {
        /// The least.
        needs: u32,
        /// The ledger's.
        level: u32,
    },
    /// The command is so large that no follower would take it.
    #[error("a command of {bytes} bytes is larger than {most}, the most that is replicated")]
    TooLarge {
        /// Its size, encoded.
        bytes: usize,
        /// The largest.
        most: usize,
    },
    /// The node has stopped for good.
    #[error("this node has stopped: {0}")]
    Fatal(String),
}

/// Why a cluster is not formed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormationError {
    /// Another member was started with another list of members: two clusters might be formed.
    #[error("node {node} at {address} lists the members {theirs}, but this node lists {ours}; make the lists equal")]
    MembersDiffer {
        /// The other.
        node: u64,
        /// Where it is.
        address: String,
        /// Its list.
        theirs: String,
        /// Ours.
        ours: String,
    },
    /// The cluster knows this node with another data directory: it lost its own.
    #[error(
        "the cluster knows node {node} with another data directory than the one it has now; it takes no part, since what it promised is \
         lost: start it under a new number, or put its data directory back"
    )]
    LostDisk {
        /// This node.
        node: u64,
    },
    /// This node is not among the members.
    #[error("node {0} is not among the members that it was started with; it waits to be added to the cluster")]
    NotAMember(u64),
    /// The node has stopped.
    #[error("this node has stopped: {0}")]
    Fatal(String),
}

/// Why the members of the cluster stay as they are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemberError {
    /// Only the leader changes them.
    #[error("this node is not the leader")]
    NotLeader,
    /// The new node cannot be one.
    #[error("node {node} at {address} cannot be added: {detail}")]
    Unfit {
        /// Which.
        node: u64,
        /// Where.
        address: String,
        /// Why.
        detail: String,
    },
    /// There is a member of this number with another address or data directory.
    #[error(
        "node {node} is a member already, at {address} with the data directory that it had when it was added: a node that moved or lost its \
         data is removed, and added under a number that was never used"
    )]
    Taken {
        /// Which.
        node: u64,
        /// Where.
        address: String,
    },
    /// Another member is there.
    #[error("node {node} is the member at {address}")]
    AddressTaken {
        /// Which.
        node: u64,
        /// Where.
        address: String,
    },
    /// There are as many as there may be.
    #[error("the cluster has {most} members, the most that there may be; remove one first")]
    TooMany {
        /// So many.
        most: usize,
    },
    /// There is no such member.
    #[error("node {node} is not a member that votes")]
    Unknown {
        /// Which.
        node: u64,
    },
    /// The leader does not remove itself.
    #[error("node {node} leads; let another lead first: quorate cluster transfer-leader")]
    Leads {
        /// Which.
        node: u64,
    },
    /// These do not answer, and would be needed.
    #[error("no answer from node {}, without which nothing could be decided any more; start it first", list(nodes))]
    Silent {
        /// Which.
        nodes: Vec<u64>,
    },
    /// There is nobody to lead.
    #[error("no other node that votes answers")]
    NoHeir,
    /// Another change is under way.
    #[error("another change of the members is under way; try again")]
    Changing,
    /// No outcome in time: it may be done now, later or never.
    #[error(
        "no majority of the coordinators answered within {waited:?}; the outcome is unknown: see `quorate cluster status`, and ask again"
    )]
    Unavailable {
        /// How long the caller waited.
        waited: Duration,
    },
    /// The node has stopped.
    #[error("this node has stopped: {0}")]
    Fatal(String),
}

fn list(nodes: &[u64]) -> String {
    nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
