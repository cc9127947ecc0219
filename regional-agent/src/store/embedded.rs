//! A store in this process.

use super::look::{Look, Looked};
use super::{Drawn, Usages};
use crate::clock::LocalClock;
use parking_lot::Mutex;
use quorate_limiter::decision::{Charge, Question, Reply};
use quorate_limiter::election::Lock;
use quorate_limiter::hold::{Beside, Grounds, HoldId, SettleReply};
use quorate_limiter::record::{Finish, HoldingsChange, Loaded, Opening, Refusal};
use quorate_limiter::seats::{SeatAnswer, SeatKeeper, SeatWord};
use quorate_limiter::store::MemoryStore;
use quorate_shared::heartbeat::Number;
use quorate_shared::names::BudgetId;
use quorate_shared::time::{Drift, LocalTime, StoreTime};
use quorate_shared::units::MicroTokens;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What the record names as its store: the state ends with the process, so it is always this one.
const IDENTITY: &str = "embedded";

/// A task may be held up between a decision and its count.
pub const COUNTING_LAG: Duration = Duration::from_millis(10);

/// A [`MemoryStore`] behind a lock, on a clock of its own: what the host's wall clock showed when the
/// store was made, and the monotonic time since. So the windows of the calendar are where people expect
/// them, and whoever sets the wall clock later neither refills a bucket nor opens a window.
#[derive(Debug)]
pub struct Embedded {
    state: Mutex<MemoryStore>,
    seats: Mutex<SeatKeeper>,
    monotonic: LocalClock,
    made_at: LocalTime,
    wall_then: StoreTime,
}

impl Default for Embedded {
    fn default() -> Self {
        let monotonic = LocalClock::default();
        let made_at = monotonic.now();
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        // a host whose clock was never set: an instant of zero would not be told from none
        let wall_then = StoreTime::ZERO.after(since_1970.max(Duration::from_secs(1)));
        Self { state: Mutex::default(), seats: Mutex::default(), monotonic, made_at, wall_then }
    }
}

impl Embedded {
    /// See [`super::Store::decide`].
    pub fn decide(&self, question: &Question, beside: &Beside) -> Reply {
        self.state.lock().decide_beside(self.now(), question, beside)
    }

    /// See [`super::Store::seat`].
    pub fn seat(&self, word: &SeatWord) -> Result<SeatAnswer, Refusal> {
        let state = self.state.lock();
        let now = self.now();
        self.seats.lock().take(now, state.record(now), word)
    }

    /// See [`super::Store::settle`].
    pub fn settle(&self, hold: HoldId, cost: MicroTokens, grounds: impl Fn(Vec<BudgetId>) -> Option<Grounds>) -> SettleReply {
        let (read, budgets) = {
            let state = self.state.lock();
            let parts = state.hold(hold).map(|(hold, _)| &hold.parts[..]).unwrap_or_default();
            (self.now(), parts.iter().map(|part| part.budget.clone()).collect())
        };
        let grounds = grounds(budgets);
        let mut state = self.state.lock();
        let now = self.now();
        let question = grounds.filter(|grounds| now.since(read) < grounds.holds_for()).map(|grounds| grounds.question);
        state.settle_hold(now, hold, cost, question.as_ref())
    }

    /// See [`super::Store::release`].
    pub fn release(&self, slot: HoldId) -> bool {
        self.state.lock().release(self.now(), slot)
    }

    /// See [`super::Store::holds`].
    pub fn holds(&self, slot: HoldId) -> bool {
        self.state.lock().holds_slots(self.now(), slot)
    }

    /// See [`super::Store::load`].
    pub fn load(&self) -> Loaded {
        Loaded { record: self.state.lock().record(self.now()).cloned(), store: IDENTITY.to_owned() }
    }

    /// See [`super::Store::open_session`].
    pub fn open_session(&self, opening: &Opening) -> Result<(), Refusal> {
        self.state.lock().open_session(self.now(), opening, IDENTITY)
    }

    /// See [`super::Store::look`]. Nobody else is there.
    pub fn look(&self, look: &Look) -> Looked {
        let lock = Lock { token: 1, holder: Some(look.me), beats: 0 };
        Looked { lock: Some(lock), ..Looked::default() }
    }

    /// See [`super::Store::draw_seq`].
    pub fn draw_seq(&self, session: u64) -> Result<Drawn, Refusal> {
        let mut state = self.state.lock();
        let now = self.now();
        let seq = state.draw_seq(now, session)?;
        Ok(Drawn { seq, time: None, excesses: state.excesses().by_policy(now) })
    }

    /// See [`super::Store::take`].
    pub fn take(&self, number: Number) -> Result<(), Refusal> {
        self.state.lock().take(self.now(), number)
    }

    /// See [`super::Store::write`].
    pub fn write(&self, change: &HoldingsChange) -> Result<(), Refusal> {
        self.state.lock().write(self.now(), change)
    }

    /// See [`super::Store::finish`].
    pub fn finish(&self, finish: &Finish) -> Result<(), Refusal> {
        self.state.lock().finish(self.now(), finish)
    }

    /// See [`super::Store::usage`].
    pub fn usage(&self, charges: &[Charge], drift: Drift) -> Result<Usages, Refusal> {
        let mut state = self.state.lock();
        let now = self.now();
        let record = state.open_windows(now)?;
        let (clock, lost_at) = (record.clock, record.lost_at);
        let of = charges.iter().filter_map(|charge| state.usage(now, charge, drift)).collect();
        Ok(Usages { clock, lost_at, of })
    }

    fn now(&self) -> StoreTime {
        self.wall_then.after(self.monotonic.now().since(self.made_at))
    }
}
