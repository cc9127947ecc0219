//! A region's Redis: every operation is one script, atomic in Redis, on the clock of its host.

mod answers;
mod batch;
mod breaker;
mod holds;
mod link;
mod looks;
mod place;
mod questions;
mod record;
mod script;
mod seats;
mod server_info;
mod session;
mod shares;
#[cfg(test)]
mod tests;
mod wall;
mod windows;
mod wire;

use super::keep::{Keep, Said};
use super::{Drawn, LeaseError, StoreError, Usages};
use crate::config::RedisConfig;
use batch::Batches;
pub use link::Condition;
use link::{Link, Patience};
use parking_lot::Mutex;
use place::Place;
use questions::Asked;
use quorate_limiter::decision::{Charge, Question};
use quorate_limiter::election::AgentId;
use quorate_limiter::follower::Sight;
use quorate_limiter::record::{Finish, HoldingsChange, Loaded, Opening};
use quorate_shared::heartbeat::Number;
use quorate_shared::names::RegionName;
use quorate_shared::time::{Drift, StoreTime};
use script::{Script, Scripts};
pub use server_info::Warning;
use session::Call;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wall::StoreWall;
use windows::Told;
use wire::Keys;

/// Budgets that one script writes or reads at most: a longer one would keep Redis from its questions.
const BUDGETS_AT_ONCE: usize = 128;

/// How often a script is told which windows are open: the answer to the first says what its clock
/// shows, and the others are for windows that are about as short as the way there.
const TELLINGS: usize = 6;

/// Which Redis, and how long to wait for it.
#[derive(Clone, Debug)]
pub struct RedisSettings {
    /// Where it is.
    pub redis: RedisConfig,
    /// Whose record and buckets.
    pub region: RegionName,
    /// For a decision; an answer that takes longer is no answer.
    pub decision_timeout: Duration,
    /// For a lease operation.
    pub lease_timeout: Duration,
    /// Decisions that wait for it at once at most.
    pub waiting: usize,
}

impl RedisSettings {
    /// For a lease operation unless something else is asked for: a second.
    pub const LEASE_TIMEOUT: Duration = Duration::from_secs(1);
}

/// A region's store in a Redis.
#[derive(Debug)]
pub struct RedisStore {
    link: Arc<Link>,
    batches: Arc<Batches>,
    scripts: Arc<Scripts>,
    keys: Keys,
    wall: StoreWall,
    /// Token and holder of the lock, while this agent holds it.
    ticket: Mutex<Option<(u64, AgentId)>>,
    decision_timeout: Duration,
    lease_timeout: Duration,
}

impl RedisStore {
    /// A store that connects when it is first asked, and again whenever it must: the Redis may
    /// come later than the agent, and go and come back.
    ///
    /// # Errors
    /// If the address is none.
    pub fn new(settings: &RedisSettings) -> Result<Self, StoreError> {
        Self::with_scripts(settings, Scripts::new())
    }

    fn with_scripts(settings: &RedisSettings, scripts: Scripts) -> Result<Self, StoreError> {
        let RedisSettings { decision_timeout, lease_timeout, waiting, .. } = *settings;
        let place = Place::new(&settings.redis, &settings.region)?;
        let scripts = Arc::new(scripts);
        let patience = Patience { probe: decision_timeout, waiting };
        let (link, keys) = (Link::new(place, Arc::clone(&scripts), patience), Keys::new(&settings.region));
        Ok(Self {
            batches: Arc::new(Batches::new(Arc::clone(&link), Arc::clone(&scripts), keys.lease.clone())),
            link,
            scripts,
            keys,
            wall: StoreWall::default(),
            ticket: Mutex::default(),
            decision_timeout,
            lease_timeout,
        })
    }

    /// After this a decision is no decision.
    pub const fn decision_timeout(&self) -> Duration {
        self.decision_timeout
    }

    /// See [`super::Store::is_healthy`].
    pub fn is_healthy(&self) -> bool {
        self.link.is_healthy()
    }

    /// See [`super::Store::failing_for`].
    pub fn failing_for(&self) -> Option<Duration> {
        self.link.failing_for()
    }

    /// How it is.
    pub fn condition(&self) -> Condition {
        self.link.condition()
    }

    /// See [`super::Store::decide`].
    pub async fn decide_showing(&self, question: &Question, keep: &Keep, until: Instant) -> Result<(Said, Option<Sight>), StoreError> {
        let _place = self.link.admit()?;
        debug_assert!(question.budgets_differ(), "two charges on one budget");
        let mut guesses = self.wall.guesses();
        for _ in 0..TELLINGS {
            let Some(asked) = Asked::new(question, keep, &self.keys, guesses.next()) else {
                return Err(StoreError::Refused(format!("{} limits in one question", question.charges.len())));
            };
            let (answer, sight) = self.batches.ask(asked, until).await?;
            match answers::said(question, keep, answer)? {
                Told::Right(said) => return Ok((said, sight)),
                Told::OtherWindow(shown) => guesses.missed(shown),
            }
        }
        Err(never_told())
    }

    /// See [`super::Store::usage`].
    pub async fn usage(&self, charges: &[Charge], drift: Drift) -> Result<Usages, LeaseError> {
        let mut all = Usages::default();
        for part in parts(charges) {
            let of = self.usage_of(part, drift).await?;
            all = Usages { of: [all.of, of.of].concat(), ..of };
        }
        Ok(all)
    }

    async fn usage_of(&self, charges: &[Charge], drift: Drift) -> Result<Usages, LeaseError> {
        let keys = self.keys.lease_and(charges.iter().map(|charge| &charge.budget));
        let mut call = Call { script: &self.scripts.usage, keys, arguments: Vec::new() };
        let mut guesses = self.wall.guesses();
        for _ in 0..TELLINGS {
            let at = guesses.next();
            call.arguments = windows::usage(charges, at, drift);
            match windows::usages(charges, at, self.link.call(&call, self.lease_timeout).await?)? {
                Told::Right(usages) => return Ok(usages),
                Told::OtherWindow(shown) => guesses.missed(shown),
            }
        }
        Err(never_told().into())
    }

    /// See [`super::Store::load`].
    pub async fn load(&self) -> Result<Loaded, StoreError> {
        let store = self.link.identify(self.lease_timeout).await?;
        let trusts: Result<wire::Words, LeaseError> = self.lease(&self.scripts.trust, Vec::new()).await;
        let query: (BTreeMap<String, String>,) = self.link.query(redis::pipe().hgetall(&self.keys.lease), self.lease_timeout).await?;
        let record = record::record(&query.0)?;
        match trusts {
            // it has forgotten something: it is not the one that wrote the record
            Err(LeaseError::Refused(_)) if record.is_some() => Ok(Loaded { record, store: format!("{store} no more") }),
            Ok(_) | Err(LeaseError::Refused(_)) => Ok(Loaded { record, store }),
            Err(LeaseError::NotElected) => Ok(Loaded { record, store }),
            Err(LeaseError::Store(error)) => Err(error),
        }
    }

    /// See [`super::Store::open_session`].
    pub async fn open_session(&self, opening: &Opening) -> Result<(), LeaseError> {
        let keys = vec![self.keys.lease.clone(), self.keys.lock.clone()];
        let mut arguments = wire::opening(opening);
        arguments.push(self.ticket());
        let call = Call { script: &self.scripts.open, keys, arguments };
        wire::done(self.link.call(&call, self.lease_timeout).await?)?;
        self.link.saw_opened(opening.session);
        Ok(())
    }

    /// See [`super::Store::draw_seq`].
    pub async fn draw_seq(&self, session: u64) -> Result<Drawn, LeaseError> {
        self.link.identify_if_due(self.lease_timeout).await?;
        let sent = Instant::now();
        let mut words = self.lease(&self.scripts.draw, vec![session.to_string()]).await?;
        let (seq, shown) = (words.number()?, StoreTime::from_micros(words.number()?));
        self.link.saw_drawn(Number { session, seq });
        self.wall.learn(sent, shown);
        Ok(Drawn { seq, time: Some(shown), excesses: words.excesses()?.by_policy(shown) })
    }

    /// See [`super::Store::take`].
    pub async fn take(&self, number: Number) -> Result<(), LeaseError> {
        self.lease(&self.scripts.take, wire::taken(number)).await.map(drop)
    }

    /// See [`super::Store::write`].
    pub async fn write(&self, change: &HoldingsChange) -> Result<(), LeaseError> {
        // with nothing to write this still says whether the response is superseded
        for part in parts(&change.settlements) {
            let keys = self.keys.lease_and(part.iter().map(|settlement| &settlement.budget));
            let call = Call { script: &self.scripts.write, keys, arguments: wire::holdings(change, part) };
            wire::done(self.link.call(&call, self.lease_timeout).await?)?;
        }
        for part in change.grants.chunks(BUDGETS_AT_ONCE) {
            self.lease(&self.scripts.grant, wire::grants(change.number, part)).await?;
        }
        Ok(())
    }

    /// See [`super::Store::finish`].
    pub async fn finish(&self, finish: &Finish) -> Result<(), LeaseError> {
        self.lease(&self.scripts.finish, wire::finish(finish)?).await.map(drop)
    }

    /// An operation on the record alone.
    async fn lease(&self, script: &Script, arguments: Vec<String>) -> Result<wire::Words, LeaseError> {
        let call = Call { script, keys: vec![self.keys.lease.clone()], arguments };
        wire::done(self.link.call(&call, self.lease_timeout).await?)
    }
}

/// What one script takes at most, time and again; one part of nothing if there is nothing.
fn parts<T>(all: &[T]) -> impl Iterator<Item = &[T]> {
    all.chunks(BUDGETS_AT_ONCE).chain(all.is_empty().then_some(all))
}

/// Until then, from now on.
fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

fn never_told() -> StoreError {
    StoreError::Refused(format!("its windows ended on the way there, {TELLINGS} times"))
}
