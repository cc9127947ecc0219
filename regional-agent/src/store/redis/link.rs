//! One multiplexed connection to one Redis, made when it is needed and made anew when it broke.
//!
//! With each connection comes the identity of the process at its other end. Every script is told
//! it and compares it with the record's, so a question that reaches another Redis than the one
//! that wrote the record (restart, failover, restore) is answered as by a store without a record,
//! at once and not first at the next heartbeat.

use super::script::{Script, Scripts};
use crate::store::StoreError;
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ErrorKind, RedisError, ServerErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How long one attempt to connect may take, whoever waits for it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// After a failed attempt nobody tries again for this long.
const CONNECT_PAUSE: Duration = Duration::from_millis(100);
/// A connection that has not answered for this long, and did not answer in time just now, is given up.
const SILENCE: Duration = Duration::from_secs(1);
/// How often a call begins anew because its script was not there: nothing was done then.
const LOADS: usize = 3;
/// The oldest Redis that will do: scripts that read `TIME` and write need effects replication
/// (5.0); 6.2 is the oldest that Redis itself still mends.
const OLDEST: (u64, u64) = (6, 2);

/// The connection to a region's Redis.
#[derive(Debug)]
pub struct Link {
    client: Client,
    scripts: Arc<Scripts>,
    state: watch::Sender<State>,
    answered: AtomicBool,
}

#[derive(Clone, Debug)]
enum State {
    Idle,
    Connecting,
    Failed { at: Instant, error: StoreError },
    Up(Arc<Session>),
}

/// One connection, and who is at its other end.
pub struct Session {
    connection: MultiplexedConnection,
    /// The identity of the Redis at the other end when the connection was made.
    store: String,
    last_answer: Mutex<Instant>,
    loading: tokio::sync::Mutex<()>,
    loads: AtomicU64,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("store", &self.store).finish_non_exhaustive()
    }
}

/// One call of a script. Every script's first argument is the identity of the store.
#[derive(Debug)]
pub struct Call<'a> {
    /// Which.
    pub script: &'a Script,
    /// Every key that it touches.
    pub keys: Vec<String>,
    /// Arguments after the first.
    pub arguments: Vec<String>,
}

impl Link {
    /// A link that connects when it is first needed.
    pub fn new(client: Client, scripts: Arc<Scripts>) -> Self {
        Self { client, scripts, state: watch::Sender::new(State::Idle), answered: AtomicBool::new(false) }
    }

    /// True if the last call was answered.
    pub fn is_healthy(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    /// Calls a script once, and waits for its answer until `limit` has passed.
    ///
    /// # Errors
    /// After [`StoreError::Timeout`], and after a connection that broke, the script may have run
    /// or may yet run; it is not called again.
    pub async fn call(&self, call: &Call<'_>, limit: Duration) -> Result<Vec<String>, StoreError> {
        self.within(limit, |session| async move { session.run(&self.scripts, call).await }).await
    }

    /// Any other commands, under the same rules.
    pub async fn query<T: redis::FromRedisValue>(&self, query: &redis::Pipeline, limit: Duration) -> Result<T, StoreError> {
        self.within(limit, |session| async move { query.query_async(&mut session.connection.clone()).await }).await
    }

    /// Asks the Redis at the other end who it is, and starts anew if it is not who it was.
    pub async fn identify(&self, limit: Duration) -> Result<String, StoreError> {
        let info: (String,) = self.query(redis::pipe().cmd("INFO"), limit).await?;
        let server = Server::read(&info.0)?;
        let identity = server.identity();
        self.forget(|session| session.store != identity);
        Ok(identity)
    }

    async fn within<T, F>(&self, limit: Duration, work: impl FnOnce(Arc<Session>) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, RedisError>>,
    {
        let done = tokio::time::timeout(limit, async {
            let session = self.session().await?;
            match work(Arc::clone(&session)).await {
                Ok(answer) => {
                    *session.last_answer.lock() = Instant::now();
                    Ok(answer)
                }
                Err(error) => Err(self.fault(&session, &error)),
            }
        });
        let result = done.await.unwrap_or(Err(StoreError::Timeout));
        self.answered.store(matches!(result, Ok(_) | Err(StoreError::Refused(_))), Ordering::Relaxed);
        if matches!(result, Err(StoreError::Timeout)) {
            self.forget(|session| session.last_answer.lock().elapsed() > SILENCE);
        }
        result
    }

    /// What an error means, and whether the connection is of any further use.
    fn fault(&self, failed: &Arc<Session>, error: &RedisError) -> StoreError {
        let demoted = error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly);
        if demoted || error.is_unrecoverable_error() {
            self.forget(|session| std::ptr::eq(session, Arc::as_ptr(failed)));
        }
        described(error)
    }

    /// Gives the present connection up if it is one of `these`.
    fn forget(&self, these: impl Fn(&Session) -> bool) {
        self.state.send_if_modified(|state| match state {
            State::Up(session) if these(session) => {
                *state = State::Idle;
                true
            }
            _ => false,
        });
    }

    /// The present connection, or the next.
    async fn session(&self) -> Result<Arc<Session>, StoreError> {
        if let State::Up(session) = &*self.state.borrow() {
            return Ok(Arc::clone(session));
        }
        let mut changes = self.state.subscribe();
        self.connect();
        let state = changes.wait_for(|state| !matches!(state, State::Connecting)).await;
        match state.as_deref() {
            Ok(State::Up(session)) => Ok(Arc::clone(session)),
            Ok(State::Failed { error, .. }) => Err(error.clone()),
            _ => Err(StoreError::Unreachable("the connection broke".into())),
        }
    }

    /// Starts to connect unless that is under way, or failed just now. Goes on without its callers:
    /// none of them waits long enough to connect to a store that is far or slow.
    fn connect(&self) {
        let due = |state: &State| match state {
            State::Idle => true,
            State::Failed { at, .. } => at.elapsed() >= CONNECT_PAUSE,
            State::Connecting | State::Up(_) => false,
        };
        let started = self.state.send_if_modified(|state| {
            let due = due(state);
            if due {
                *state = State::Connecting;
            }
            due
        });
        if started {
            let (client, scripts, state) = (self.client.clone(), Arc::clone(&self.scripts), self.state.clone());
            tokio::spawn(async move {
                let outcome = match tokio::time::timeout(CONNECT_TIMEOUT, Session::connect(&client, &scripts)).await {
                    Ok(Ok(session)) => State::Up(Arc::new(session)),
                    Ok(Err(error)) => State::Failed { at: Instant::now(), error },
                    Err(_) => State::Failed { at: Instant::now(), error: StoreError::Unreachable("no answer to a connection".into()) },
                };
                state.send_replace(outcome);
            });
        }
    }
}

impl Session {
    async fn connect(client: &Client, scripts: &Scripts) -> Result<Self, StoreError> {
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let connected = client.get_multiplexed_async_connection_with_config(&config).await;
        let mut connection = connected.map_err(|error| described(&error))?;
        let info: String = redis::cmd("INFO").query_async(&mut connection).await.map_err(|error| described(&error))?;
        let server = Server::read(&info)?;
        server.check()?;
        load(&mut connection, scripts).await.map_err(|error| described(&error))?;
        Ok(Self {
            connection,
            store: server.identity(),
            last_answer: Mutex::new(Instant::now()),
            loading: tokio::sync::Mutex::new(()),
            loads: AtomicU64::new(0),
        })
    }

    async fn run(&self, scripts: &Scripts, call: &Call<'_>) -> Result<Vec<String>, RedisError> {
        let mut command = redis::cmd("EVALSHA");
        command.arg(call.script.sha()).arg(call.keys.len()).arg(&call.keys).arg(&self.store).arg(&call.arguments);
        let mut connection = self.connection.clone();
        for _ in 1..LOADS {
            let loads = self.loads.load(Ordering::Acquire);
            match command.query_async(&mut connection).await {
                Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => self.reload(scripts, loads).await?,
                answer => return answer,
            }
        }
        command.query_async(&mut connection).await
    }

    /// Loads all scripts, once for all the calls that missed one since load number `seen`.
    async fn reload(&self, scripts: &Scripts, seen: u64) -> Result<(), RedisError> {
        let _turn = self.loading.lock().await;
        if self.loads.load(Ordering::Acquire) == seen {
            load(&mut self.connection.clone(), scripts).await?;
            self.loads.fetch_add(1, Ordering::Release);
        }
        Ok(())
    }
}

async fn load(connection: &mut MultiplexedConnection, scripts: &Scripts) -> Result<(), RedisError> {
    let mut loads = redis::pipe();
    for script in scripts.all() {
        loads.cmd("SCRIPT").arg("LOAD").arg(script.text()).ignore();
    }
    loads.query_async(connection).await
}

fn described(error: &RedisError) -> StoreError {
    match error.kind() {
        _ if error.is_timeout() => StoreError::Timeout,
        ErrorKind::Io => StoreError::Unreachable(error.to_string()),
        _ => StoreError::Refused(error.to_string()),
    }
}

/// What a Redis says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Server {
    version: String,
    run_id: String,
    replication_id: String,
    eviction: String,
}

impl Server {
    fn read(info: &str) -> Result<Self, StoreError> {
        let field = |name: &str| {
            let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.map(|value| value.trim().to_owned())
        };
        let needed = |name: &str| field(name).ok_or_else(|| StoreError::Refused(format!("INFO does not name its {name}")));
        Ok(Self {
            version: needed("redis_version")?,
            run_id: needed("run_id")?,
            replication_id: needed("master_replid")?,
            eviction: field("maxmemory_policy").unwrap_or_default(),
        })
    }

    /// Another text after a restart, a failover or a restore.
    fn identity(&self) -> String {
        format!("{}/{}", self.run_id, self.replication_id)
    }

    fn check(&self) -> Result<(), StoreError> {
        let mut numbers = self.version.split('.').map(|part| part.parse().unwrap_or(0));
        let version: (u64, u64) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        if version < OLDEST {
            let (major, minor) = OLDEST;
            return Err(StoreError::Refused(format!(
                "this is Redis {}; scripts that read TIME and write need {major}.{minor} or newer",
                self.version
            )));
        }
        if !matches!(self.eviction.as_str(), "" | "noeviction") {
            tracing::warn!(policy = self.eviction, "this Redis may evict buckets that are in use: set maxmemory-policy to noeviction");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(version: &str) -> String {
        format!("# Server\r\nredis_version:{version}\r\nrun_id:abc\r\n\r\n# Replication\r\nmaster_replid:def\r\nmaster_replid2:000\r\n")
    }

    #[test]
    fn a_redis_that_is_too_old_is_named_with_what_is_needed() {
        for (version, good) in [("7.0.15", true), ("6.2.0", true), ("10.0.1", true), ("6.0.16", false), ("5.0.14", false), ("?", false)] {
            let checked = Server::read(&info(version)).and_then(|server| server.check());
            assert_eq!(checked.is_ok(), good, "{version}");
            if let Err(StoreError::Refused(text)) = checked {
                assert!(text.contains(version) && text.contains("6.2"), "{text}");
            }
        }
    }

    #[test]
    fn a_redis_is_known_by_its_process_and_its_history() {
        assert_eq!(Server::read(&info("7.0.0")).map(|server| server.identity()), Ok("abc/def".into()));
        assert!(matches!(Server::read("redis_version:7.0.0\r\n"), Err(StoreError::Refused(text)) if text.contains("run_id")));
    }
}
