//! One agent, whole: its ports, the region, the heartbeat.

use crate::config::{AgentConfig, StoreConfig};
use crate::coordinators::Coordinators;
use crate::grpc;
use crate::http::callers::Callers;
use crate::http::{self, FrontDoor};
use crate::identity::Identity;
use crate::metrics::Metrics;
use crate::policy_shelf::{PolicyShelf, ShelfError};
use crate::presence;
use crate::region::Region;
use crate::renewal;
use crate::store::{RedisSettings, Store, StoreError};
use axum::serve::ListenerExt;
use quorate_shared::settings;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A coordinator has this long to answer a heartbeat; then the next one is asked.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(1);

/// A store that is there answers within this time when the agent starts.
const FIRST_SESSION: Duration = Duration::from_secs(1);

/// Requests under way may take so long when the agent ends.
const DRAIN: Duration = Duration::from_secs(5);

/// A running agent. Several may run in one process.
#[derive(Debug)]
pub struct Agent {
    address: SocketAddr,
    grpc_address: Option<SocketAddr>,
    region: Arc<Region>,
    closing: CancellationToken,
    tasks: TaskTracker,
    /// Ends the looks at the store, which go on while requests are still answered.
    ending: CancellationToken,
    looking: TaskTracker,
}

/// Why an agent does not start.
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
    /// The token for the coordinators cannot be read.
    #[error("cannot read the token in {}: {source}", path.display())]
    Token {
        /// Which file.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// What the disk remembers cannot be used.
    #[error(transparent)]
    Shelf(#[from] ShelfError),
    /// The store cannot be used as configured.
    #[error("the store cannot be used: {0}")]
    Store(#[from] StoreError),
    /// The system gives no HTTP client.
    #[error("cannot make a network client: {0}")]
    Client(#[from] reqwest::Error),
}

impl Agent {
    /// Listens, opens a session if the store is there, and begins to renew. Returns once it
    /// serves: `/readyz` says when it knows its policies.
    ///
    /// # Errors
    /// If the address cannot be had, or a file or the store is not usable.
    pub async fn start(config: AgentConfig) -> Result<Self, StartError> {
        let (listener, address) = listen(config.listen).await?;
        let grpc = match config.grpc_listen {
            Some(address) => Some(listen(address).await?),
            None => None,
        };
        let token = token(config.token_file)?;
        let store = match config.store {
            StoreConfig::Embedded => Store::embedded(),
            StoreConfig::Redis(redis) => Store::redis(&RedisSettings {
                redis,
                region: config.region.clone(),
                decision_timeout: config.store_timeout,
                lease_timeout: RedisSettings::LEASE_TIMEOUT,
                waiting: config.store_waiting,
            })?,
        };
        let metrics = Metrics::of_region(&config.region);
        let shelf = PolicyShelf::open(config.data_dir.clone())?;
        let identity = Identity::begin(config.data_dir.as_deref());
        let region = Region::new(config.region, config.name, identity, store, shelf, metrics.clone()).open_for(config.store_open_for);
        let region = Arc::new(region);
        let coordinators = Coordinators::new(config.coordinators, token, HEARTBEAT_TIMEOUT)?;
        let callers = Callers::with_tokens(config.tokens.into_iter().map(|caller| caller.sha256));
        let front_door = FrontDoor {
            max_body: config.max_body,
            callers,
            heartbeat: config.heartbeat,
            metrics,
            spread: http::waiting::drawn,
            legacy_headers: config.legacy_headers,
            forwarding: config.authz,
        };
        let agent = Self {
            address,
            grpc_address: grpc.as_ref().map(|(_, address)| *address),
            region: region.clone(),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
            ending: CancellationToken::new(),
            looking: TaskTracker::new(),
        };
        // who connects meanwhile waits; an agent that cannot know its store's state yet could only answer 503
        if !matches!(tokio::time::timeout(FIRST_SESSION, region.join()).await, Ok(Ok(()))) {
            tracing::warn!(region = %region.name(), "the store is not there yet");
        }
        if let Some((listener, _)) = grpc {
            agent.serve(listener, grpc::router(region.clone(), &front_door, agent.closing.clone()));
        }
        agent.serve(listener, http::router(region.clone(), front_door));
        let (seated, leaving) = (region.clone(), agent.closing.clone());
        agent.tasks.spawn(async move { crate::seat::keep_seat(&seated, leaving).await });
        let stop = agent.closing.clone();
        let period = config.heartbeat;
        let (looking, looks) = (region.clone(), agent.ending.clone());
        agent.looking.spawn(async move { presence::keep_looking(&looking, looks).await });
        agent.looking.close();
        let coordinators = Arc::new(coordinators);
        let (trying, tried, tries) = (region.clone(), coordinators.clone(), agent.closing.clone());
        agent.tasks.spawn(async move { renewal::keep_trying(&trying, &tried, tries).await });
        agent.tasks.spawn(async move { renewal::keep_renewing(&region, &coordinators, period, stop).await });
        agent.tasks.close();
        Ok(agent)
    }

    fn serve(&self, listener: TcpListener, router: axum::Router) {
        let listener = listener.tap_io(|connection| {
            let _ = connection.set_nodelay(true);
        });
        let (closing, closed) = (self.closing.clone(), self.closing.clone());
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        let serving = axum::serve(listener, service).with_graceful_shutdown(closing.cancelled_owned());
        self.tasks.spawn(async move {
            let drained = async {
                closed.cancelled().await;
                tokio::time::sleep(DRAIN).await;
            };
            tokio::select! {
                _ = serving => {}
                () = drained => tracing::warn!("requests were still under way when the agent ended"),
            }
        });
    }

    /// Where it serves.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it serves gRPC, if it does.
    pub fn grpc_address(&self) -> Option<SocketAddr> {
        self.grpc_address
    }

    /// The region that it serves.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Ends it: it is no longer ready, its lock is free for another agent, no new connections; the requests under
    /// way are answered; then its seat is free and everything stops.
    pub async fn shutdown(&self) {
        self.region.retire();
        self.closing.cancel();
        self.region.leave().await;
        self.tasks.wait().await;
        self.ending.cancel();
        self.looking.wait().await;
        self.region.leave().await;
    }
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let failed = |source| StartError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

fn token(path: Option<PathBuf>) -> Result<Option<String>, StartError> {
    let Some(path) = path else { return Ok(None) };
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(source) => Err(StartError::Token { path, source }),
    }
}
