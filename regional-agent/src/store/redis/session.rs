//! One connection, and who is at its other end.
//!
//! With each connection comes the identity of the process at its other end. Every script is told
//! it and compares it with the record's, so a question that reaches another Redis than the one
//! that wrote the record (restart, failover, restore) is answered as by a store without a record,
//! at once and not first at the next heartbeat.

use super::place::Place;
use super::script::{Script, Scripts};
use super::server_info::{ServerInfo, Warning};
use crate::store::{StoreError, Unusable};
use parking_lot::Mutex;
use quorate_shared::heartbeat::Number;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue, RedisError, ServerErrorKind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often a call begins anew because its script was not there: nothing was done then.
const LOADS: usize = 3;
/// How often a cluster may point to another node while a connection is made.
const REDIRECTS: usize = 5;
/// Between two looks at who is at the other end.
const INSPECTION: Duration = Duration::from_secs(5);

/// One connection, and who is at its other end.
pub struct Session {
    connection: MultiplexedConnection,
    /// The identity of the Redis at the other end when the connection was made.
    store: String,
    seen: Mutex<Seen>,
    loading: tokio::sync::Mutex<()>,
    loads: AtomicU64,
}

/// What was last seen of the other end.
struct Seen {
    answer: Instant,
    inspection: Instant,
    evicts: bool,
    warnings: Vec<Warning>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("store", &self.store).finish_non_exhaustive()
    }
}

/// One call of a script. Every script's first argument says what the caller knows of the store.
#[derive(Debug)]
pub struct Call<'a> {
    /// Which.
    pub script: &'a Script,
    /// Every key that it touches.
    pub keys: Vec<String>,
    /// Arguments after the first.
    pub arguments: Vec<String>,
}

impl Session {
    /// Connects to the Redis that serves the region, wherever a cluster says that it is.
    pub async fn connect(place: &Place, scripts: &Scripts) -> Result<Self, StoreError> {
        for _ in 0..REDIRECTS {
            if let Some(session) = Self::try_connect(&place.client().await?, place, scripts).await? {
                return Ok(session);
            }
        }
        Err(StoreError::Unusable { why: Unusable::Moved, said: format!("redirected {REDIRECTS} times") })
    }

    /// None if the region's slot is on another node.
    async fn try_connect(client: &Client, place: &Place, scripts: &Scripts) -> Result<Option<Self>, StoreError> {
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await.map_err(|error| fault(&error))?;
        let info: String = redis::cmd("INFO").query_async(&mut connection).await.map_err(|error| fault(&error))?;
        let mut server = ServerInfo::read(&info)?;
        if server.is_clustered() && !serves_slot(&mut connection, place).await? {
            return Ok(None);
        }
        server.check()?;
        server.read_save(redis::cmd("CONFIG").arg("GET").arg("save").query_async(&mut connection).await.ok());
        load(&mut connection, scripts).await.map_err(|error| fault(&error))?;
        for warning in server.warnings() {
            match warning {
                Warning::Eviction(_) => tracing::warn!("the region's store: {warning}"),
                Warning::Persistence => tracing::info!("the region's store: {warning}"),
            }
        }
        let now = Instant::now();
        let seen = Seen { answer: now, inspection: now, evicts: server.evicts(), warnings: server.warnings() };
        Ok(Some(Self {
            connection,
            store: server.identity(),
            seen: Mutex::new(seen),
            loading: tokio::sync::Mutex::new(()),
            loads: AtomicU64::new(0),
        }))
    }

    /// A handle to the connection.
    pub fn connection(&self) -> MultiplexedConnection {
        self.connection.clone()
    }

    /// The identity of the Redis at the other end when the connection was made.
    pub const fn store(&self) -> &String {
        &self.store
    }

    /// See [`ServerInfo::warnings`].
    pub fn warnings(&self) -> Vec<Warning> {
        self.seen.lock().warnings.clone()
    }

    /// Something was answered just now.
    pub fn answered(&self) {
        self.seen.lock().answer = Instant::now();
    }

    /// True if nothing was answered for longer than this.
    pub fn is_silent_for(&self, span: Duration) -> bool {
        self.seen.lock().answer.elapsed() > span
    }

    /// True once in a while.
    pub fn is_to_be_inspected(&self) -> bool {
        self.seen.lock().inspection.elapsed() > INSPECTION
    }

    /// Asks who is at the other end.
    pub async fn inspect(&self) -> Result<Result<String, StoreError>, RedisError> {
        let mut connection = self.connection();
        let info: String = redis::cmd("INFO").query_async(&mut connection).await?;
        let save = redis::cmd("CONFIG").arg("GET").arg("save").query_async(&mut connection).await.ok();
        Ok(ServerInfo::read(&info).map(|mut server| {
            server.read_save(save);
            let mut seen = self.seen.lock();
            (seen.inspection, seen.evicts, seen.warnings) = (Instant::now(), server.evicts(), server.warnings());
            server.identity()
        }))
    }

    /// Calls a script; `mark` is the greatest number of a heartbeat that was seen drawn.
    pub async fn run(&self, scripts: &Scripts, call: &Call<'_>, mark: Number) -> Result<Vec<String>, RedisError> {
        let known = self.known(mark);
        let write = |command: &mut Cmd| {
            command.arg(call.keys.len()).arg(&call.keys).arg(known).arg(&call.arguments);
        };
        self.evaluate(scripts, call.script, write).await
    }

    /// Every script's first argument: what the caller knows of the store.
    pub fn known(&self, mark: Number) -> String {
        format!("{} {} {} {}", self.store, mark.session, mark.seq, u8::from(self.seen.lock().evicts))
    }

    /// Calls a script with the keys and arguments that `write` gives.
    pub async fn evaluate<T: FromRedisValue>(
        &self,
        scripts: &Scripts,
        script: &Script,
        write: impl FnOnce(&mut Cmd),
    ) -> Result<T, RedisError> {
        let mut command = redis::cmd("EVALSHA");
        command.arg(script.sha());
        write(&mut command);
        let mut connection = self.connection();
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
            load(&mut self.connection(), scripts).await?;
            self.loads.fetch_add(1, Ordering::Release);
        }
        Ok(())
    }
}

/// True if this node of a cluster serves the region's slot; else the place knows which one does.
async fn serves_slot(connection: &mut MultiplexedConnection, place: &Place) -> Result<bool, StoreError> {
    let nodes: Result<String, RedisError> = redis::cmd("CLUSTER").arg("NODES").query_async(connection).await;
    place.learn(&nodes.unwrap_or_default());
    let served: Result<bool, RedisError> = redis::cmd("EXISTS").arg(place.probe_key()).query_async(connection).await;
    match served {
        Ok(_) => Ok(true),
        Err(error) => match (fault(&error), error.redirect_node()) {
            (StoreError::Unusable { why: Unusable::Moved, .. }, Some((address, _))) => {
                place.moved(address);
                Ok(false)
            }
            // the key of a probe is on its way like all others: this node still serves the slot
            (StoreError::Unusable { why: Unusable::Migrating, .. }, _) => Ok(true),
            (error, _) => Err(error),
        },
    }
}

async fn load(connection: &mut MultiplexedConnection, scripts: &Scripts) -> Result<(), RedisError> {
    let mut loads = redis::pipe();
    for script in scripts.all() {
        loads.cmd("SCRIPT").arg("LOAD").arg(script.text()).ignore();
    }
    loads.query_async(connection).await
}

/// What an error of the client means.
pub fn fault(error: &RedisError) -> StoreError {
    if error.is_timeout() {
        return StoreError::Timeout;
    }
    let said = error.to_string();
    let code = error.code().unwrap_or_default();
    match error.kind() {
        ErrorKind::Io => StoreError::Unreachable(said),
        ErrorKind::AuthenticationFailed => StoreError::Unusable { why: Unusable::Denied, said },
        _ => match Unusable::of_code(code).or_else(|| within_script(&said)) {
            Some(why) => StoreError::Unusable { why, said },
            None => StoreError::Refused(said),
        },
    }
}

/// Before Redis 7 an error of a command within a script came as text behind the script's own.
fn within_script(said: &str) -> Option<Unusable> {
    let (_, inner) = said.split_once(": -")?;
    Unusable::of_code(inner.split(' ').next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_within_scripts_of_older_versions_are_read() {
        let of = |code: &str| format!("Error running script (call to f_0): @user_script:1: @user_script: 1: -{code} command not allowed");
        assert_eq!(within_script(&of("OOM")), Some(Unusable::OutOfMemory));
        assert_eq!(within_script(&of("READONLY")), Some(Unusable::ReadOnly));
        assert_eq!(within_script("ERR unreadable bucket quorate:{eu}:bucket:-OOM"), None);
    }
}
