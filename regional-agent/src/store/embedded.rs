//! A store in this process.

use parking_lot::Mutex;
use quorate_limiter::decision::{Question, Reply};
use quorate_limiter::record::{Finish, HoldingsChange, Loaded, Opening, Refusal};
use quorate_limiter::store::MemoryStore;
use quorate_shared::heartbeat::Number;
use quorate_shared::time::StoreTime;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// What the record names as its store: the state ends with the process, so it is always this one.
const IDENTITY: &str = "embedded";

/// A task may be held up between a decision and its count.
pub const COUNTING_LAG: Duration = Duration::from_millis(10);

/// A [`MemoryStore`] behind a lock, on this host's monotonic clock.
#[derive(Debug, Default)]
pub struct Embedded {
    state: Mutex<MemoryStore>,
}

impl Embedded {
    /// See [`super::Store::decide`].
    pub fn decide(&self, question: &Question) -> Reply {
        self.state.lock().decide(now(), question)
    }

    /// See [`super::Store::load`].
    pub fn load(&self) -> Loaded {
        Loaded { record: self.state.lock().record(now()).cloned(), store: IDENTITY.to_owned() }
    }

    /// See [`super::Store::open_session`].
    pub fn open_session(&self, opening: &Opening) -> Result<(), Refusal> {
        self.state.lock().open_session(now(), opening, IDENTITY)
    }

    /// See [`super::Store::draw_seq`].
    pub fn draw_seq(&self, session: u64) -> Result<u64, Refusal> {
        self.state.lock().draw_seq(now(), session)
    }

    /// See [`super::Store::take`].
    pub fn take(&self, number: Number) -> Result<(), Refusal> {
        self.state.lock().take(now(), number)
    }

    /// See [`super::Store::write`].
    pub fn write(&self, change: &HoldingsChange) -> Result<(), Refusal> {
        self.state.lock().write(now(), change)
    }

    /// See [`super::Store::finish`].
    pub fn finish(&self, finish: &Finish) -> Result<(), Refusal> {
        self.state.lock().finish(now(), finish)
    }
}

/// `CLOCK_MONOTONIC_RAW`: not slewed, and never stepped. Its zero is the boot, long ago enough
/// that no instant of it is zero.
fn now() -> StoreTime {
    let time = clock_gettime(ClockId::MonotonicRaw);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000;
    StoreTime::from_micros(seconds.saturating_mul(1_000_000).saturating_add(micros))
}
