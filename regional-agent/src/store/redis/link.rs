//! One multiplexed connection to one Redis, made when it is needed and made anew when it broke.
//!
//! Whatever happens to that Redis, a question is answered within its time: no more questions wait
//! than may, and a Redis that keeps failing is not asked until it has answered a probe.

use super::breaker::{Breaker, Change};
use super::place::Place;
use super::script::Scripts;
use super::server_info::Warning;
use super::session::{Call, Session, fault};
use crate::store::{StoreError, Unusable};
use parking_lot::Mutex;
use quorate_shared::heartbeat::Number;
use redis::RedisError;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, SemaphorePermit, watch};

/// How long one attempt to connect may take, whoever waits for it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// After a failed attempt nobody tries again for this long.
const CONNECT_PAUSE: Duration = Duration::from_millis(100);
/// A connection that has not answered for this long, and did not answer in time just now, is given up.
const SILENCE: Duration = Duration::from_secs(1);
/// Between two probes of a Redis that is not asked.
const PROBE_PAUSE: Duration = Duration::from_millis(200);
/// How long the key of a probe is kept, in milliseconds.
const PROBE_LIFE: u64 = 1_000;
/// Who gives up earlier has not learnt whether the Redis would have answered.
const IMPATIENCE: Duration = Duration::from_millis(10);

/// How patient a link is.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For a probe.
    pub probe: Duration,
    /// Decisions that wait at once at most.
    pub waiting: usize,
}

/// The connection to a region's Redis.
#[derive(Debug)]
pub struct Link {
    this: Weak<Self>,
    place: Arc<Place>,
    scripts: Arc<Scripts>,
    patience: Patience,
    state: watch::Sender<State>,
    health: Mutex<Health>,
    waiting: Semaphore,
    /// The greatest number of a heartbeat that was seen drawn here.
    mark: Mutex<Number>,
}

#[derive(Clone, Debug)]
enum State {
    Idle,
    Connecting,
    Failed { at: Instant, error: StoreError },
    Up(Arc<Session>),
}

/// How the Redis has answered.
#[derive(Debug, Default)]
struct Health {
    breaker: Breaker,
    answered: bool,
    failing: Option<(Instant, StoreError)>,
}

/// How a store is, for people.
#[derive(Clone, Debug, Default)]
pub struct Condition {
    /// True if it answered the last question.
    pub healthy: bool,
    /// True if it is not asked until it answers a probe.
    pub suspended: bool,
    /// Since when it fails, and why.
    pub failing: Option<(Duration, StoreError)>,
    /// What may go wrong by how it is configured.
    pub warnings: Vec<Warning>,
}

/// Where a call begins and ends, so that one that nobody waits for any more counts too.
struct Attempt<'a> {
    link: &'a Link,
    begun: Instant,
    ended: bool,
}

impl Attempt<'_> {
    /// False if nobody waited long enough to say that there was no answer.
    fn waited(&self) -> bool {
        self.begun.elapsed() >= IMPATIENCE.min(self.link.patience.probe)
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if !self.ended && self.waited() {
            self.link.note(Some(&StoreError::Timeout));
        }
    }
}

impl Link {
    /// A link that connects when it is first needed.
    pub fn new(place: Place, scripts: Arc<Scripts>, patience: Patience) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            this: this.clone(),
            place: Arc::new(place),
            scripts,
            patience,
            state: watch::Sender::new(State::Idle),
            health: Mutex::default(),
            waiting: Semaphore::new(patience.waiting),
            mark: Mutex::default(),
        })
    }

    /// How the Redis is.
    pub fn condition(&self) -> Condition {
        let warnings = match &*self.state.borrow() {
            State::Up(session) => session.warnings(),
            _ => Vec::new(),
        };
        let health = self.health.lock();
        Condition {
            healthy: health.answered,
            suspended: !health.breaker.is_closed(),
            failing: health.failing.as_ref().map(|(since, error)| (since.elapsed(), error.clone())),
            warnings,
        }
    }

    /// True if the last call was answered.
    pub fn is_healthy(&self) -> bool {
        self.health.lock().answered
    }

    /// For how long it has failed, if it does.
    pub fn failing_for(&self) -> Option<Duration> {
        self.health.lock().failing.as_ref().map(|(since, _)| since.elapsed())
    }

    /// The greatest number of a heartbeat that was seen drawn here.
    pub fn mark(&self) -> Number {
        *self.mark.lock()
    }

    /// This session was opened here: what was drawn before means nothing more.
    pub fn saw_opened(&self, session: u64) {
        *self.mark.lock() = Number { session, seq: 0 };
    }

    /// This number was drawn here: a record that shows less has forgotten it.
    pub fn saw_drawn(&self, number: Number) {
        let mut mark = self.mark.lock();
        *mark = number.max(*mark);
    }

    /// Leave to ask something on the way of a decision, for as long as it is held.
    ///
    /// # Errors
    /// If the Redis is not asked at present, or too many wait for it.
    pub fn admit(&self) -> Result<SemaphorePermit<'_>, StoreError> {
        if !self.health.lock().breaker.is_closed() {
            return Err(StoreError::Suspended);
        }
        self.waiting.try_acquire().map_err(|_| StoreError::Overloaded)
    }

    /// Calls a script once, and waits for its answer until `limit` has passed.
    ///
    /// # Errors
    /// After [`StoreError::Timeout`], and after a connection that broke, the script may have run
    /// or may yet run; it is not called again.
    pub async fn call(&self, call: &Call<'_>, limit: Duration) -> Result<Vec<String>, StoreError> {
        let mark = self.mark();
        self.within(limit, |session| async move { session.run(&self.scripts, call, mark).await }).await
    }

    /// Any other commands, under the same rules.
    pub async fn query<T: redis::FromRedisValue>(&self, query: &redis::Pipeline, limit: Duration) -> Result<T, StoreError> {
        self.within(limit, |session| async move { query.query_async(&mut session.connection()).await }).await
    }

    /// Asks the Redis at the other end who it is, and starts anew if it is not who it was.
    pub async fn identify(&self, limit: Duration) -> Result<String, StoreError> {
        let session = self.within(limit, |session| async move { session.inspect().await.map(|identity| (session, identity)) }).await;
        let (session, identity) = session?;
        let identity = identity?;
        if *session.store() != identity {
            self.forget(&session);
        }
        Ok(identity)
    }

    /// The same, once in a while: a Redis that became another under one connection is found out.
    pub async fn identify_if_due(&self, limit: Duration) -> Result<(), StoreError> {
        let due = matches!(&*self.state.borrow(), State::Up(session) if session.is_to_be_inspected());
        if due { self.identify(limit).await.map(drop) } else { Ok(()) }
    }

    async fn within<T, F>(&self, limit: Duration, work: impl FnOnce(Arc<Session>) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, RedisError>>,
    {
        self.attempt(Instant::now() + limit, self.send(work)).await
    }

    /// Work on the present connection, or on the next. Whether it came of anything is for [`Self::attempt`] to note.
    pub async fn send<T, F>(&self, work: impl FnOnce(Arc<Session>) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, RedisError>>,
    {
        let session = self.session().await?;
        let answer = work(Arc::clone(&session)).await.map_err(|error| self.fault(&session, &error));
        if !matches!(answer, Err(StoreError::Unreachable(_) | StoreError::Timeout)) {
            session.answered();
        }
        answer
    }

    /// Waits `until` then for what is asked of the Redis, and takes the outcome into account.
    pub async fn attempt<T>(&self, until: Instant, asked: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let mut attempt = Attempt { link: self, begun: Instant::now(), ended: false };
        let result = tokio::time::timeout_at(until.into(), asked).await.unwrap_or(Err(StoreError::Timeout));
        attempt.ended = true;
        if attempt.waited() || !matches!(result, Err(StoreError::Timeout)) {
            self.note(result.as_ref().err());
        }
        if matches!(result, Err(StoreError::Timeout)) {
            self.forget_if_silent();
        }
        result
    }

    /// Gives the present connection up if it has not answered for long.
    fn forget_if_silent(&self) {
        let silent = match &*self.state.borrow() {
            State::Up(session) if session.is_silent_for(SILENCE) => Some(Arc::clone(session)),
            _ => None,
        };
        if let Some(session) = silent {
            self.forget(&session);
        }
    }

    /// What an error means, and whether the connection is of any further use.
    fn fault(&self, failed: &Arc<Session>, error: &RedisError) -> StoreError {
        let meant = fault(error);
        if let Some((address, _)) = error.redirect_node()
            && matches!(meant, StoreError::Unusable { why: Unusable::Moved, .. })
        {
            self.place.moved(address);
        }
        let elsewhere = matches!(
            meant,
            StoreError::Unusable { why: Unusable::ReadOnly | Unusable::Moved | Unusable::PrimaryDown | Unusable::Denied, .. }
        );
        if elsewhere || error.is_unrecoverable_error() {
            self.forget(failed);
        }
        meant
    }

    /// Takes an outcome into account, and says so if it changes anything.
    fn note(&self, error: Option<&StoreError>) {
        let outage = error.filter(|error| error.is_outage());
        let mut health = self.health.lock();
        let change = match outage {
            None => health.breaker.succeeded(),
            Some(_) => health.breaker.failed(),
        };
        let failed_for = health.failing.as_ref().map(|(since, _)| since.elapsed());
        health.answered = outage.is_none();
        health.failing = outage.map(|error| (health.failing.take().map_or_else(Instant::now, |(since, _)| since), error.clone()));
        drop(health);
        match change {
            Some(Change::Opened) => {
                let error = outage.map(ToString::to_string).unwrap_or_default();
                tracing::warn!(error, "the region's store keeps failing: it is not asked until it answers a probe");
                self.probe();
            }
            Some(Change::Closed) => {
                let failed_s = failed_for.map(|span| span.as_secs());
                tracing::info!(failed_s, "the region's store answers again");
            }
            None => {}
        }
    }

    /// Probes until an answer closes the breaker.
    fn probe(&self) {
        let link = self.this.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(PROBE_PAUSE).await;
                let Some(link) = link.upgrade() else { return };
                if !link.health.lock().breaker.probes() {
                    return;
                }
                let _ = link.ask_probe().await;
            }
        });
    }

    /// Writes something, since a Redis that can only be read serves nobody.
    async fn ask_probe(&self) -> Result<(), StoreError> {
        let mut query = redis::pipe();
        query.cmd("SET").arg(self.place.probe_key()).arg(1).arg("PX").arg(PROBE_LIFE).ignore();
        self.query(&query, self.patience.probe).await
    }

    /// Gives this connection up, if it is the present one.
    fn forget(&self, given_up: &Arc<Session>) {
        self.state.send_if_modified(|state| {
            let present = matches!(state, State::Up(session) if Arc::ptr_eq(session, given_up));
            if present {
                *state = State::Idle;
            }
            present
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
            let (place, scripts, state) = (Arc::clone(&self.place), Arc::clone(&self.scripts), self.state.clone());
            tokio::spawn(async move {
                let connected = tokio::time::timeout(CONNECT_TIMEOUT, Session::connect(&place, &scripts)).await;
                let outcome = match connected.unwrap_or_else(|_| Err(StoreError::Unreachable("no answer to a connection".into()))) {
                    Ok(session) => State::Up(Arc::new(session)),
                    Err(error) => {
                        place.failed();
                        State::Failed { at: Instant::now(), error }
                    }
                };
                state.send_replace(outcome);
            });
        }
    }
}
