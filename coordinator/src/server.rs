//! One node of the coordinator, whole: the port, Raft, and what founds the cluster.

use crate::config::CoordinatorConfig;
use crate::documents;
use crate::forward::Forwarder;
use crate::founding::Founding;
use crate::http::{self, Access, App};
use crate::levels;
use crate::listener;
use crate::raft::{self, RaftNode, RaftSettings};
use quorate_ledger::Backup;
use quorate_shared::policy::PolicySet;
use quorate_shared::settings;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A running node. Several may run in one process.
///
/// If [`Coordinator::failed`] resolves, the node is of no further use and the process should end.
#[derive(Debug)]
pub struct Coordinator {
    address: SocketAddr,
    app: Arc<App>,
    /// Ends what forms and founds the cluster.
    joining: CancellationToken,
    /// Ends everything else.
    closing: CancellationToken,
    tasks: TaskTracker,
    failure: watch::Receiver<Option<String>>,
}

/// Why a coordinator does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its address cannot be had.
    #[error("cannot listen on {address}: {}", settings::listen_advice(.source))]
    Listen {
        /// Which.
        address: SocketAddr,
        /// The system's word.
        source: io::Error,
    },
    /// A file that the configuration names cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// The file that should hold the peers' token does not.
    #[error("{} does not hold a token: one line of printable ASCII characters is expected", _0.display())]
    Token(PathBuf),
    /// The first policy set has these mistakes, each with its place.
    #[error("{0}")]
    Policies(String),
    /// The backup cannot be gone on from.
    #[error("{} is no backup of a cluster (`quorate cluster snapshot` writes one): {why}", path.display())]
    Backup {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The node beneath.
    #[error(transparent)]
    Node(#[from] raft::StartError),
    /// The system gives no HTTP client.
    #[error("cannot make a network client: {0}")]
    Client(#[from] reqwest::Error),
}

impl Coordinator {
    /// Listens, opens the data directory and takes part in the cluster, which it helps to found
    /// if there is none. Returns once it listens: `/readyz` says when there is a leader.
    ///
    /// # Errors
    /// If the address cannot be had, or a file that the configuration names is not usable.
    pub async fn start(config: CoordinatorConfig) -> Result<Self, StartError> {
        let address = config.listen;
        let refused = |source| StartError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(refused)?;
        Self::start_on(listener, config).await
    }

    /// The same on a listener that is there already, in place of the configured address.
    ///
    /// # Errors
    /// See [`Coordinator::start`].
    pub async fn start_on(listener: TcpListener, config: CoordinatorConfig) -> Result<Self, StartError> {
        let address = listener.local_addr().map_err(|source| StartError::Listen { address: config.listen, source })?;
        let policies = config.policies.as_deref().map(first_set).transpose()?;
        let token = config.peer_token_file.as_deref().map(peer_token).transpose()?;
        let backup = config.backup.as_deref().map(kept).transpose()?;
        let founding = Founding { lease: config.lease, drift: config.drift, policies, backup };
        let forwarder = Forwarder::new(config.node, token.clone())?;
        let access = Access::new(config.tokens.clone());
        let node = RaftNode::start(settings(config, token)).await?;

        let (closing, tasks) = (CancellationToken::new(), TaskTracker::new());
        let joining = closing.child_token();
        let app = Arc::new(App::new(node, access, forwarder, closing.clone()));
        let (fail, failure) = watch::channel(None);
        tasks.spawn(listener::serve(listener, http::router(&app), closing.clone()));
        tasks.spawn(app.clone().feed_events());
        tasks.spawn(joining.clone().run_until_cancelled_owned(keep_raising(app.clone())));
        tasks.spawn(joining.clone().run_until_cancelled_owned(take_part(app.clone(), founding, fail)));
        Ok(Self { address, app, joining, closing, tasks, failure })
    }

    /// Where it listens.
    pub const fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The replicated ledger beneath.
    pub fn node(&self) -> &RaftNode {
        &self.app.node
    }

    /// Resolves with the reason once the node has failed for good; also after
    /// [`Coordinator::shutdown`].
    pub async fn failed(&self) -> String {
        let mut failure = self.failure.clone();
        let founding = async {
            match failure.wait_for(Option::is_some).await.map(|why| why.clone()) {
                Ok(Some(why)) => why,
                // nothing will be told any more
                _ => std::future::pending().await,
            }
        };
        tokio::select! { why = founding => why, why = self.app.node.failed() => why }
    }

    /// Hands the lead over, gives the data directory back, accepts no more connections and lets
    /// requests under way end. The others reach this node until it has handed over.
    pub async fn shutdown(&self) {
        self.joining.cancel();
        self.app.node.shutdown().await;
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

async fn keep_raising(app: Arc<App>) {
    levels::keep_raising(&app.node).await;
}

/// Forms the cluster and founds it, if that is left to do.
async fn take_part(app: Arc<App>, founding: Founding, fail: watch::Sender<Option<String>>) {
    if let Err(error) = app.node.initialize().await {
        tracing::error!(%error, "cannot take part in the cluster");
        fail.send_replace(Some(error.to_string()));
        return;
    }
    founding.see_to(&app.node).await;
}

fn settings(config: CoordinatorConfig, peer_token: Option<String>) -> RaftSettings {
    let timeout = config.election_timeout;
    RaftSettings {
        heartbeat: timeout / 4,
        election_timeout: (timeout, timeout * 4 / 3),
        peer_token,
        join: config.join,
        ..RaftSettings::new(config.node, config.advertise, config.members, config.data_dir)
    }
}

fn first_set(path: &Path) -> Result<PolicySet, StartError> {
    let text = read(path)?;
    let read = documents::policy_set(&text);
    let shown = |mistakes: Vec<_>| documents::show(&path.display().to_string(), &text, &mistakes).trim_end().to_owned();
    read.map(|(set, _)| set).map_err(|mistakes| StartError::Policies(shown(mistakes)))
}

fn kept(path: &Path) -> Result<Backup, StartError> {
    let why = |why: String| StartError::Backup { path: path.to_owned(), why };
    let backup: Backup = serde_json::from_slice(&read(path)?).map_err(|error| why(error.to_string()))?;
    backup.check().map_err(|error| why(error.to_string()))?;
    Ok(backup)
}

fn peer_token(path: &Path) -> Result<String, StartError> {
    let text = read(path)?;
    let token = text.trim_ascii();
    let graphic = !token.is_empty() && token.iter().all(u8::is_ascii_graphic);
    match std::str::from_utf8(token) {
        Ok(token) if graphic => Ok(token.to_owned()),
        _ => Err(StartError::Token(path.to_owned())),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, StartError> {
    std::fs::read(path).map_err(|source| StartError::File { path: path.to_owned(), source })
}
