//! The region's store: where buckets and the lease record live, and where decisions are made.
//!
//! Everything that must be atomic is one call. A call that ends in [`StoreError::Timeout`] may
//! have been done nevertheless and is never repeated here.

mod embedded;
mod error;
pub mod keep;
pub mod look;
mod redis;

pub use embedded::Embedded;
pub use error::{LeaseError, StoreError, Unusable};
pub use redis::{Condition, RedisSettings, RedisStore, Warning};

use crate::config::STORE_TIMEOUT;
use keep::{Again, Attempt, Keep, Said};
use look::{Look, Looked};
use quorate_limiter::decision::{Charge, Question};
use quorate_limiter::election::AgentId;
use quorate_limiter::follower::Sight;
use quorate_limiter::hold::{Grounds, HoldId, SettleReply};
use quorate_limiter::record::{CLOCKS_APART, Finish, HoldingsChange, Loaded, Opening};
use quorate_limiter::seats::{SeatAnswer, SeatWord};
use quorate_limiter::store::Usage;
use quorate_shared::api::{StoreStatus, StoreWarning};
use quorate_shared::heartbeat::{Excess, Number};
use quorate_shared::names::BudgetId;
use quorate_shared::time::{Drift, StoreTime};
use quorate_shared::units::MicroTokens;
use std::time::{Duration, Instant};

/// One region's store.
#[derive(Debug)]
pub enum Store {
    /// In this process: lost with it, and so of one agent alone.
    Embedded(Embedded),
    /// In a Redis: shared by the region's agents.
    Redis(RedisStore),
}

/// The number of a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// The number.
    pub seq: u64,
    /// What the store's clock showed; `None` of a clock that nobody sets.
    pub time: Option<StoreTime>,
    /// What was used beyond limits until then.
    pub excesses: Vec<Excess>,
}

/// What budgets come to beside their limits, read for a heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usages {
    /// By this clock the newest windows are open.
    pub clock: StoreTime,
    /// When the state was last lost.
    pub lost_at: Option<StoreTime>,
    /// One for each charge, in its order.
    pub of: Vec<Usage>,
}

impl Usages {
    /// See [`Record::burnt_until`](quorate_limiter::record::Record::burnt_until).
    pub fn burnt_until(&self) -> Option<StoreTime> {
        self.lost_at.map(|lost| lost.after(CLOCKS_APART))
    }
}

impl Store {
    /// An empty store in this process.
    pub fn embedded() -> Self {
        Self::Embedded(Embedded::default())
    }

    /// A store in a Redis; connects when it is first asked.
    ///
    /// # Errors
    /// If the address is none.
    pub fn redis(settings: &RedisSettings) -> Result<Self, StoreError> {
        Ok(Self::Redis(RedisStore::new(settings)?))
    }

    /// `embedded` or `redis`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Embedded(_) => "embedded",
            Self::Redis(_) => "redis",
        }
    }

    /// True if other agents may share it.
    pub const fn is_shared(&self) -> bool {
        matches!(self, Self::Redis(_))
    }

    /// How long after the store decided an admission may be counted here.
    pub const fn counting_lag(&self) -> Duration {
        match self {
            Self::Embedded(_) => embedded::COUNTING_LAG,
            Self::Redis(store) => store.decision_timeout(),
        }
    }

    /// How long a decision may wait for it, whatever happens.
    pub const fn budget(&self) -> Duration {
        match self {
            Self::Embedded(_) => STORE_TIMEOUT,
            Self::Redis(store) => store.decision_timeout(),
        }
    }

    /// For how long it has failed, if it does.
    pub fn failing_for(&self) -> Option<Duration> {
        match self {
            Self::Embedded(_) => None,
            Self::Redis(store) => store.failing_for(),
        }
    }

    /// How it is, for people.
    pub fn status(&self) -> StoreStatus {
        let kind = self.kind().to_owned();
        let condition = match self {
            Self::Embedded(_) => return StoreStatus { kind, healthy: true, ..StoreStatus::default() },
            Self::Redis(store) => store.condition(),
        };
        let failing = condition.failing;
        StoreStatus {
            kind,
            healthy: condition.healthy,
            suspended: condition.suspended,
            failing_ms: failing.as_ref().map(|(span, _)| u64::try_from(span.as_millis()).unwrap_or(u64::MAX)),
            error: failing.map(|(_, error)| error.to_string()),
            warnings: condition.warnings.iter().map(|w| StoreWarning { kind: w.kind().to_owned(), text: w.to_string() }).collect(),
        }
    }

    /// True if it answered the last question put to it, whatever the answer.
    pub fn is_healthy(&self) -> bool {
        match self {
            Self::Embedded(_) => true,
            Self::Redis(store) => store.is_healthy(),
        }
    }

    /// Decides `question`, charges it if it is allowed, and keeps beside it what is asked for. A store in
    /// this process remembers no attempts: whoever asks it does.
    /// What is not answered `until` then is not waited for.
    ///
    /// The answer of a store that agents share also shows what it knows of the lease (R8).
    pub async fn decide(&self, question: &Question, keep: &Keep, until: Instant) -> Result<(Said, Option<Sight>), StoreError> {
        match self {
            Self::Embedded(store) => Ok((Said::First { reply: store.decide(question, &keep.beside), remembered: true }, None)),
            Self::Redis(store) => {
                let (said, sight) = store.decide_showing(question, keep, until).await?;
                match (&said, &keep.attempt) {
                    // of slots that are gone nobody is told once more: the answer is forgotten
                    (Said::Again(Again { slot: Some(slot), .. }), Some(attempt)) if !store.holds(*slot, attempt, until).await? => {
                        store.decide_showing(question, keep, until).await
                    }
                    _ => Ok((said, sight)),
                }
            }
        }
    }

    /// One agent's look: it says what it has to say, and sees who renews, the lease, and the other agents.
    pub async fn look(&self, look: &Look) -> Result<Looked, StoreError> {
        match self {
            Self::Embedded(store) => Ok(store.look(look)),
            Self::Redis(store) => store.look(look).await,
        }
    }

    /// The last word of an agent: its seat and its lock are free at once, its reports stay for a while.
    pub async fn leave(&self, look: &Look) -> Result<(), StoreError> {
        match self {
            Self::Embedded(_) => Ok(()),
            Self::Redis(store) => store.leave(look).await,
        }
    }

    /// What each agent of the region has to report. Those of `forget` are read for the last time.
    pub async fn reports(&self, forget: &[AgentId]) -> Result<Vec<(AgentId, String)>, StoreError> {
        match self {
            Self::Embedded(_) => Ok(Vec::new()),
            Self::Redis(store) => store.reports(forget).await,
        }
    }

    /// Keeps the policy sets that a response goes by, for the region's other agents; `tag` names them.
    pub async fn shelve(&self, response: Number, tag: &str, sets: &str) -> Result<(), LeaseError> {
        match self {
            Self::Embedded(_) => Ok(()),
            Self::Redis(store) => store.shelve(response, tag, sets).await,
        }
    }

    /// The policy sets that were kept last.
    pub async fn shelved(&self) -> Result<Option<String>, StoreError> {
        match self {
            Self::Embedded(_) => Ok(None),
            Self::Redis(store) => store.shelved().await,
        }
    }

    /// Takes an agent's word on its seat.
    pub async fn seat(&self, word: &SeatWord) -> Result<SeatAnswer, LeaseError> {
        match self {
            Self::Embedded(store) => Ok(store.seat(word)?),
            Self::Redis(store) => store.seat(word).await,
        }
    }

    /// An agent gives its seat back.
    pub async fn leave_seat(&self, word: &SeatWord) -> Result<(), LeaseError> {
        match self {
            Self::Embedded(_) => Ok(()), // it ends with its agent
            Self::Redis(store) => store.leave_seat(word).await,
        }
    }

    /// Puts the true `cost` in the place of what a hold was charged; once, however often it is asked. `grounds` says, of
    /// the budgets of the hold, by what to tell what is there to pay for more than the estimate; without any, nothing is.
    pub async fn settle(
        &self,
        hold: HoldId,
        cost: MicroTokens,
        grounds: impl Fn(Vec<BudgetId>) -> Option<Grounds>,
    ) -> Result<SettleReply, StoreError> {
        match self {
            Self::Embedded(store) => Ok(store.settle(hold, cost, grounds)),
            Self::Redis(store) => store.settle(hold, cost, grounds).await,
        }
    }

    /// Gives slots back. False if they have ended, or were given back before.
    pub async fn release(&self, slot: HoldId) -> Result<bool, StoreError> {
        match self {
            Self::Embedded(store) => Ok(store.release(slot)),
            Self::Redis(store) => store.release(slot).await,
        }
    }

    /// True if slots are held yet, so that the answer to an attempt that told of them may be repeated; else the store
    /// forgets that answer.
    pub async fn holds(&self, slot: HoldId, attempt: &Attempt) -> Result<bool, StoreError> {
        match self {
            Self::Embedded(store) => Ok(store.holds(slot)),
            Self::Redis(store) => store.holds(slot, attempt, Instant::now() + store.decision_timeout()).await,
        }
    }

    /// The record as it is, and the store's identity.
    pub async fn load(&self) -> Result<Loaded, StoreError> {
        match self {
            Self::Embedded(store) => Ok(store.load()),
            Self::Redis(store) => store.load().await,
        }
    }

    /// Opens a session greater than any before it; the state counts as lost if the store cannot
    /// vouch for it ([`Loaded::lost`]), whatever `opening` says.
    pub async fn open_session(&self, opening: &Opening) -> Result<(), LeaseError> {
        match self {
            Self::Embedded(store) => Ok(store.open_session(opening)?),
            Self::Redis(store) => store.open_session(opening).await,
        }
    }

    /// Draws the number of the next heartbeat of `session`, before it is sent (R8).
    pub async fn draw_seq(&self, session: u64) -> Result<Drawn, LeaseError> {
        match self {
            Self::Embedded(store) => Ok(store.draw_seq(session)?),
            Self::Redis(store) => store.draw_seq(session).await,
        }
    }

    /// Opens the newest windows, and reads what the budgets of these charges have counting, or have
    /// spent; none of them a flow, and none named twice. To be read after the newest response was applied.
    pub async fn usage(&self, charges: &[Charge], drift: Drift) -> Result<Usages, LeaseError> {
        match self {
            Self::Embedded(store) => Ok(store.usage(charges, drift)?),
            Self::Redis(store) => store.usage(charges, drift).await,
        }
    }

    /// Begins to apply response `number`; refused unless it is greater than all taken.
    pub async fn take(&self, number: Number) -> Result<(), LeaseError> {
        match self {
            Self::Embedded(store) => Ok(store.take(number)?),
            Self::Redis(store) => store.take(number).await,
        }
    }

    /// Changes what is held: reductions before [`Self::finish`], increases after it. May be done in parts;
    /// each part is atomic, and refused once a greater response was taken.
    pub async fn write(&self, change: &HoldingsChange) -> Result<(), LeaseError> {
        match self {
            Self::Embedded(store) => Ok(store.write(change)?),
            Self::Redis(store) => store.write(change).await,
        }
    }

    /// Records a response as applied: it may be echoed from now on.
    pub async fn finish(&self, finish: &Finish) -> Result<(), LeaseError> {
        match self {
            Self::Embedded(store) => Ok(store.finish(finish)?),
            Self::Redis(store) => store.finish(finish).await,
        }
    }
}
