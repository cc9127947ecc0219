//! What a coordinator is told when it starts: `coordinator.toml`, read with all its mistakes
//! together.
//!
//! | field | default | what |
//! |---|---|---|
//! | `node` | | this node's number, from 1, never used again for another node |
//! | `listen` | | address to serve on |
//! | `members` | | every node's number and address, the same on each: 1, 3 or 5 |
//! | `advertise` | own entry of `members` | where the others reach this node |
//! | `data-dir` | | what must survive a restart |
//! | `join` | false | this node waits to be added to a cluster: `members` are then itself and any that are there |
//! | `lease` | `5s` | how long a region may go on without being heard; 1s to 1min |
//! | `drift-ppm` | 1000 | largest ratio between two clocks, less 1; up to 100000 |
//! | `election-timeout` | `600ms` | silence of the leader after which a follower stands; 200ms to 10s |
//! | `policies` | none | a policy set, applied once: when the cluster is founded |
//! | `backup` | none | of a cluster that was lost: this one goes on from it, in place of `policies` |
//! | `tokens` | none | who may call: `{name, role, sha256}`, for an agent also `region` |
//! | `peer-token-file` | none | holds the token that this node shows to the others |
//! | `log` | text, info | `{format = "text" or "json", level = "error" … "trace"}` |
//! | `traces` | none | `{endpoint = "http://127.0.0.1:4318", sample = "1%"}`: spans, to a collector that takes OTLP over HTTP |
//!
//! Without tokens anybody may do anything, so such a node listens on loopback only.

use quorate_shared::heartbeat::LONGEST_LEASE;
use quorate_shared::located::{Fields, Located, Mistake, Node, Once, Report};
use quorate_shared::names::RegionName;
use quorate_shared::settings::{self, LogSettings, Seen, TokenHash, TraceSettings, duration_in};
use quorate_shared::text;
use quorate_shared::time::Drift;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a region may go on without being heard, if nothing else is said.
pub const LEASE: Duration = Duration::from_secs(5);

/// Silence of the leader after which a follower stands for election, if nothing else is said.
pub const ELECTION_TIMEOUT: Duration = Duration::from_millis(600);

/// What a coordinator is told when it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoordinatorConfig {
    /// This node's number, from 1.
    pub node: u64,
    /// Where it serves.
    pub listen: SocketAddr,
    /// Host and port at which the other nodes reach it.
    pub advertise: String,
    /// The folder for everything that must survive a restart.
    pub data_dir: PathBuf,
    /// Every node of the cluster when it is founded, with its host and port, this one among them.
    pub members: BTreeMap<u64, String>,
    /// True if it waits to be added to a cluster that there is: then `members` are itself and any of that cluster.
    pub join: bool,
    /// How long a region may go on without being heard.
    pub lease: Duration,
    /// The largest ratio between two clocks.
    pub drift: Drift,
    /// A follower that has not heard the leader for this long, or up to a third longer, stands
    /// for election.
    pub election_timeout: Duration,
    /// A policy set to apply when the cluster is founded.
    pub policies: Option<PathBuf>,
    /// A backup of a cluster that was lost, for this one to go on from when it is founded.
    pub backup: Option<PathBuf>,
    /// Who may call. Empty: anybody.
    pub tokens: Vec<Token>,
    /// Holds the token that this node shows to the others.
    pub peer_token_file: Option<PathBuf>,
    /// How it logs.
    pub log: LogSettings,
    /// Where it sends spans.
    pub traces: Option<TraceSettings>,
}

/// One credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// For the audit, unique.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// What is kept of it.
    pub sha256: TokenHash,
}

/// What a credential may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Read.
    Viewer,
    /// Read and change.
    Operator,
    /// Send the heartbeats of this region.
    Agent(RegionName),
    /// Be another node of the cluster.
    Peer,
}

/// The greatest number of a node.
const MAX_NODE: u64 = 1_000_000;

const FIELDS: &[&str] = &[
    "node",
    "listen",
    "advertise",
    "data-dir",
    "members",
    "join",
    "lease",
    "drift-ppm",
    "election-timeout",
    "policies",
    "backup",
    "tokens",
    "peer-token-file",
    "log",
    "traces",
];

impl CoordinatorConfig {
    /// A node that serves where the others reach it, without credentials; everything else as if
    /// it was not said.
    pub fn new(node: u64, listen: SocketAddr, members: BTreeMap<u64, String>, data_dir: impl Into<PathBuf>) -> Self {
        Self {
            node,
            listen,
            advertise: members.get(&node).cloned().unwrap_or_else(|| listen.to_string()),
            data_dir: data_dir.into(),
            members,
            join: false,
            lease: LEASE,
            drift: Drift::DEFAULT,
            election_timeout: ELECTION_TIMEOUT,
            policies: None,
            backup: None,
            tokens: Vec::new(),
            peer_token_file: None,
            log: LogSettings::default(),
            traces: None,
        }
    }

    /// Reads a configuration.
    ///
    /// # Errors
    /// Every mistake, in the order of the text.
    pub fn from_node(document: &Node) -> Result<Self, Vec<Mistake>> {
        let report = Report::default();
        let config = config(&Located::root(document, &report));
        report.finish(config).map(|(config, _)| config)
    }

    /// The same, with relative paths taken from `folder`.
    #[must_use]
    pub fn relative_to(mut self, folder: &Path) -> Self {
        self.data_dir = folder.join(&self.data_dir);
        self.policies = self.policies.map(|path| folder.join(path));
        self.backup = self.backup.map(|path| folder.join(path));
        self.peer_token_file = self.peer_token_file.map(|path| folder.join(path));
        self
    }
}

fn config(document: &Located<'_>) -> Option<CoordinatorConfig> {
    let fields = document.fields(FIELDS)?;
    // every field is read before the first `?`, or the mistakes of the later ones would be lost
    let node = fields.required_as("node", ", this node's number, from 1").and_then(|at| at.whole(1..=MAX_NODE));
    let listen = fields.required_as("listen", ", such as \"127.0.0.1:7101\"").and_then(|at| at.read("an address", text::socket_address));
    let data_dir = fields.required("data-dir").and_then(settings::path);
    let members_at = fields.required_as("members", ", such as { 1 = \"10.0.0.1:7101\" }: every node, this one among them");
    let join = fields.or("join", false, Located::bool);
    let members = members_at.and_then(|at| members(at, join.unwrap_or_default()));
    let advertise = fields.optional("advertise").map(|at| (at, at.read("a host and a port", text::host_and_port)));
    let lease = fields.or("lease", LEASE, duration_in(Duration::from_secs(1)..=LONGEST_LEASE));
    let drift = fields.or("drift-ppm", Drift::DEFAULT, drift);
    let election_timeout =
        fields.or("election-timeout", ELECTION_TIMEOUT, duration_in(Duration::from_millis(200)..=Duration::from_secs(10)));
    let policies = fields.or("policies", None, |at| settings::path(at).map(Some));
    let backup = fields.or("backup", None, |at| settings::path(at).map(Some));
    let tokens = fields.or("tokens", Vec::new(), tokens);
    let peer_token_file = fields.or("peer-token-file", None, |at| settings::path(at).map(Some));
    let log = fields.or("log", LogSettings::default(), settings::log);
    let traces = fields.or("traces", None, |at| settings::traces(at).map(Some));

    if let (Some(at), Some(listen), Some(tokens)) = (fields.optional("listen"), listen, &tokens) {
        settings::not_open_to_all(at, listen, !tokens.is_empty());
    }
    if let (Some(tokens), Some(members)) = (&tokens, &members) {
        peers_can_meet(&fields, tokens, members.len());
    }
    let advertise = own_address(members_at?, node?, members.as_ref()?, advertise);
    Some(CoordinatorConfig {
        node: node?,
        listen: listen?,
        advertise: advertise?,
        data_dir: data_dir?,
        members: members?,
        join: join?,
        lease: lease?,
        drift: drift?,
        election_timeout: election_timeout?,
        policies: policies?,
        backup: backup?,
        tokens: tokens?,
        peer_token_file: peer_token_file?,
        log: log?,
        traces: traces?,
    })
}

/// 1, 3 or 5 nodes, each at an address of its own; of one that joins, itself and others.
fn members(at: &Located<'_>, join: bool) -> Option<BTreeMap<u64, String>> {
    let mut members = BTreeMap::new();
    let mut addresses = Once::default();
    let entries = at.entries("a map of numbers to addresses, such as { 1 = \"10.0.0.1:7101\" }")?;
    let count = entries.len();
    for (key, value) in entries {
        let number = node_number(&value, key);
        let address = value.read("a host and a port", text::host_and_port);
        if let (Some(number), Some(address)) = (number, address) {
            addresses.first(&value, address.clone(), "another member has this address");
            members.insert(number, address);
        }
    }
    if join && count < 2 {
        at.refuse("a node that joins a cluster must know another node of it");
    }
    if !join && !matches!(count, 1 | 3 | 5) {
        at.refuse(format!("{count} members; 1, 3 or 5, so that a majority is left when one or two fail"));
    }
    (members.len() == count && count > 0).then_some(members)
}

fn node_number(at: &Located<'_>, key: &str) -> Option<u64> {
    match key.parse::<u64>() {
        Ok(number) if (1..=MAX_NODE).contains(&number) && key == number.to_string() => Some(number),
        _ => {
            at.refuse(format!("`{}` is not the number of a node, from 1 to {MAX_NODE}", text::cut(key)));
            None
        }
    }
}

/// Where the others reach this node: as `members` has it. `advertise` may only say the same.
fn own_address(
    members_at: &Located<'_>,
    node: u64,
    members: &BTreeMap<u64, String>,
    advertise: Option<(&Located<'_>, Option<String>)>,
) -> Option<String> {
    let Some(listed) = members.get(&node) else {
        members_at.refuse(format!("node {node} is not among the members, and it is this node"));
        return None;
    };
    match advertise {
        Some((at, Some(own))) if own != *listed => {
            at.refuse(format!("this is node {node}, and `members` has it at {listed}; both must say the same"));
            None
        }
        _ => Some(listed.clone()),
    }
}

fn drift(at: &Located<'_>) -> Option<Drift> {
    let ppm = at.whole(0..=u64::from(Drift::MAX.ppm()))?;
    Drift::from_ppm(u32::try_from(ppm).ok()?)
}

fn tokens(at: &Located<'_>) -> Option<Vec<Token>> {
    let items = settings::token_list(at, "[{ name = \"ops\", role = \"operator\", sha256 = \"…\" }]")?;
    let mut seen = Seen::default();
    let tokens: Vec<Token> = items.iter().filter_map(|item| token(item, &mut seen)).collect();
    (tokens.len() == items.len()).then_some(tokens)
}

fn token<'a>(at: &Located<'a>, seen: &mut Seen<'a>) -> Option<Token> {
    let fields = settings::token_fields(at, &["name", "role", "region", "sha256"])?;
    let (name, sha256) = settings::name_and_hash(&fields, seen);
    let role = fields.required("role").and_then(|at| role(at, &fields));
    Some(Token { name: name?, role: role?, sha256: sha256? })
}

fn role(at: &Located<'_>, fields: &Fields<'_>) -> Option<Role> {
    let word = at.word(&[("viewer", "viewer"), ("operator", "operator"), ("agent", "agent"), ("peer", "peer")])?;
    if word == "agent" {
        let region = fields.required_as("region", ", the one region that this agent may speak for")?;
        return region.taken(region.text("the name of a region")?.parse()).map(Role::Agent);
    }
    if let Some(region) = fields.optional("region") {
        region.refuse(format!("a region belongs to the role `agent`, and this is a token of role `{word}`"));
        return None;
    }
    Some(match word {
        "viewer" => Role::Viewer,
        "operator" => Role::Operator,
        _ => Role::Peer,
    })
}

/// Nodes that ask for tokens must be able to show one to each other.
fn peers_can_meet(fields: &Fields<'_>, tokens: &[Token], members: usize) {
    let Some(at) = fields.optional("tokens").filter(|_| !tokens.is_empty() && members > 1) else { return };
    if !tokens.iter().any(|t| t.role == Role::Peer) {
        at.refuse("none has the role `peer`: the nodes would refuse each other");
    }
    fields.required_as("peer-token-file", ": where there are tokens, this node needs one to speak to the others");
}
