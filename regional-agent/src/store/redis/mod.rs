//! A region's Redis: every operation is one script, atomic in Redis, on the clock of its host.

mod link;
mod record;
mod script;
mod shares;
#[cfg(test)]
mod tests;
mod wire;

use super::{Drawn, LeaseError, StoreError};
use link::{Call, Link};
use quorate_limiter::decision::{Question, Reply};
use quorate_limiter::record::{Finish, HoldingsChange, Loaded, Opening};
use quorate_shared::heartbeat::Number;
use quorate_shared::names::RegionName;
use quorate_shared::policy::Limit;
use quorate_shared::time::StoreTime;
use script::{Script, Scripts};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use wire::Keys;

/// Settlements written by one script at most: a longer one would keep Redis from its questions.
const SETTLEMENTS_AT_ONCE: usize = 128;

/// Which Redis, and how long to wait for it.
#[derive(Clone)]
pub struct RedisSettings {
    /// `redis://[user:password@]host:port[/database]`, or `unix:///path`. Not shown, for it may hold a password.
    pub url: String,
    /// Whose record and buckets.
    pub region: RegionName,
    /// For a decision; an answer that takes longer is no answer.
    pub decision_timeout: Duration,
    /// For a lease operation.
    pub lease_timeout: Duration,
}

impl std::fmt::Debug for RedisSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let timeouts = (self.decision_timeout, self.lease_timeout);
        f.debug_struct("RedisSettings").field("region", &self.region).field("timeouts", &timeouts).finish_non_exhaustive()
    }
}

impl RedisSettings {
    /// For a decision unless something else is asked for: 50 ms.
    pub const DECISION_TIMEOUT: Duration = Duration::from_millis(50);
    /// For a lease operation unless something else is asked for: a second.
    pub const LEASE_TIMEOUT: Duration = Duration::from_secs(1);
}

/// A region's store in a Redis.
#[derive(Debug)]
pub struct RedisStore {
    link: Link,
    scripts: Arc<Scripts>,
    keys: Keys,
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
        let client = redis::Client::open(settings.url.as_str()).map_err(|error| StoreError::Refused(error.to_string()))?;
        let scripts = Arc::new(scripts);
        Ok(Self {
            link: Link::new(client, Arc::clone(&scripts)),
            scripts,
            keys: Keys::new(&settings.region),
            decision_timeout: settings.decision_timeout,
            lease_timeout: settings.lease_timeout,
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

    /// See [`super::Store::decide`].
    pub async fn decide(&self, question: &Question) -> Result<Reply, StoreError> {
        debug_assert!(question.budgets_differ(), "two charges on one budget");
        let counts = |limit: Limit| matches!(limit, Limit::TokenBucket { .. } | Limit::SlidingLog { .. } | Limit::SlidingWindow { .. });
        if let Some(other) = question.charges.iter().find(|charge| !counts(charge.limit)) {
            return Err(StoreError::Refused(format!("it does not count by {}", other.limit.algorithm())));
        }
        let keys = self.keys.lease_and(question.charges.iter().map(|charge| &charge.budget));
        let call = Call { script: &self.scripts.decide, keys, arguments: wire::question(question) };
        wire::reply(question, self.link.call(&call, self.decision_timeout).await?)
    }

    /// See [`super::Store::load`].
    pub async fn load(&self) -> Result<Loaded, StoreError> {
        let store = self.link.identify(self.lease_timeout).await?;
        let query: (BTreeMap<String, String>,) = self.link.query(redis::pipe().hgetall(&self.keys.lease), self.lease_timeout).await?;
        Ok(Loaded { record: record::record(&query.0)?, store })
    }

    /// See [`super::Store::open_session`].
    pub async fn open_session(&self, opening: &Opening) -> Result<(), LeaseError> {
        self.lease(&self.scripts.open, wire::opening(opening)).await.map(drop)
    }

    /// See [`super::Store::draw_seq`].
    pub async fn draw_seq(&self, session: u64) -> Result<Drawn, LeaseError> {
        let mut words = self.lease(&self.scripts.draw, vec![session.to_string()]).await?;
        Ok(Drawn { seq: words.number()?, time: Some(StoreTime::from_micros(words.number()?)) })
    }

    /// See [`super::Store::take`].
    pub async fn take(&self, number: Number) -> Result<(), LeaseError> {
        self.lease(&self.scripts.take, wire::taken(number)).await.map(drop)
    }

    /// See [`super::Store::write`].
    pub async fn write(&self, change: &HoldingsChange) -> Result<(), LeaseError> {
        // with nothing to write this still says whether the response is superseded
        let parts = change.settlements.chunks(SETTLEMENTS_AT_ONCE).chain(change.settlements.is_empty().then_some(&[][..]));
        for part in parts {
            let keys = self.keys.lease_and(part.iter().map(|settlement| &settlement.budget));
            let call = Call { script: &self.scripts.write, keys, arguments: wire::holdings(change, part) };
            wire::done(self.link.call(&call, self.lease_timeout).await?)?;
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
