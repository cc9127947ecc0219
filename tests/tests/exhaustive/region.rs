//! One region: the real lease book and the real record, and every step between them.

mod past_use;
mod steps;

use super::setting::{self, Setting};
use quorate_limiter::decision::LeaseView;
use quorate_limiter::follower::Follower;
use quorate_limiter::lease_book::{Account, LeaseBook};
use quorate_limiter::matching::PolicyTable;
use quorate_limiter::record::{FloorTerms, Opening, Record};
use quorate_limiter::store::MemoryStore;
use quorate_shared::heartbeat::{Answer, ClockReport, Heartbeat, Holding, Number, Report, Response, Spent, StoreReport};
use quorate_shared::mistake::{self, Mistake};
use quorate_shared::policy::{Limit, Shape};
use quorate_shared::time::{Drift, LocalTime, StoreTime};
use quorate_shared::units::{Capacity, MicroTokens};
use quorate_tests::simulation::disk::Disk;
use std::sync::Arc;
use steps::Applying;

/// When the store was set up: some time after a window of the length of a lease began.
const SET_UP: StoreTime = StoreTime::from_micros(10 * WINDOW + 1_000_000);
/// In microseconds.
const WINDOW: u64 = 60_000_000;

/// A region whose agent runs.
#[derive(Clone, Debug)]
pub struct Region {
    which: usize,
    limit: Limit,
    drift: Drift,
    store: MemoryStore,
    /// The run of the store.
    run: u64,
    book: LeaseBook,
    applying: Option<Applying>,
    /// Arrived while another was being applied.
    waiting: Option<(Response, LocalTime)>,
    disk: Disk,
    /// By which the agent decides.
    table: Arc<PolicyTable>,
    /// What `table` says of the budget.
    terms: FloorTerms,
    /// Another agent of the region, which renews nothing.
    second: Option<Follower>,
    greatest_session: u64,
    /// Stand for random numbers: never the same twice.
    nonces: u64,
    /// How many windows later the store's clock is.
    turned: u64,
    /// Units ever spent of each window.
    spent: [MicroTokens; 2],
    /// What the heartbeat before could have said of them.
    told: Vec<Spent>,
}

/// What a region may use of the budget at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Of its own floor.
    pub own: Capacity,
    /// Of the pool.
    pub pool: Capacity,
    /// Of the other region's floor.
    pub loan: Capacity,
}

impl Use {
    /// The entitlement.
    pub fn total(self) -> Capacity {
        self.own.plus(self.pool).plus(self.loan)
    }

    /// What may be used on either ground, of one store.
    fn or(self, other: Self) -> Self {
        Self { own: self.own.max(other.own), pool: self.pool.max(other.pool), loan: self.loan.max(other.loan) }
    }
}

impl Region {
    /// A region that starts for the first time.
    pub fn new(which: usize, setting: &Setting, now: LocalTime) -> Self {
        let nobody = LeaseBook::open(setting::name(which), String::new(), 0, 0, Default::default(), Default::default(), now);
        let mut region = Self {
            which,
            limit: setting.limit,
            drift: setting.drift,
            store: MemoryStore::default(),
            run: 1,
            book: nobody,
            applying: None,
            waiting: None,
            disk: Disk::default(),
            table: Arc::new(PolicyTable::empty()),
            terms: no_terms(setting.limit),
            second: (which == 0 && setting.left.looks > 0).then(|| Follower::new(now)),
            greatest_session: 0,
            nonces: 0,
            turned: 0,
            spent: [MicroTokens::ZERO; 2],
            told: Vec::new(),
        };
        region.restart(now);
        region
    }

    /// The agent dies, wherever it is, and starts again. That it is down for a while adds nothing:
    /// until its first response an agent that has started may use less than any other.
    pub fn restart(&mut self, now: LocalTime) {
        self.nonces += 1;
        self.applying = None;
        self.waiting = None;
        let run = self.run.to_string();
        let stored = self.store.record(SET_UP);
        let session = self.greatest_session.max(stored.map_or(0, |r| r.session)) + 1;
        let trusted = stored.filter(|r| r.store == run && !r.burnt);
        let policies = trusted.map_or(self.disk.in_force(), |r| r.policies);
        let opened = self.store.open_session(self.store_time(now), &Opening { session, nonce: self.nonces, burn: false, policies }, &run);
        assert!(opened.is_ok(), "a greater session is never refused");
        let record = self.record().clone();
        let table = self.disk.table(&setting::name(self.which), record.policies).unwrap_or_else(PolicyTable::empty);
        self.go_by(Arc::new(table));
        let units = record.grants.into_iter().map(|(window, granted)| (window, granted.units));
        let book = LeaseBook::open(setting::name(self.which), String::new(), session, self.nonces, record.holdings, record.policies, now);
        self.book = book.with_units(units);
    }

    fn go_by(&mut self, table: Arc<PolicyTable>) {
        self.terms = table.terms(&setting::budget()).unwrap_or_else(|| no_terms(self.limit));
        self.table = table;
    }

    /// The second agent asks the store something, and is shown the lease.
    pub fn look(&mut self, now: LocalTime) {
        let record = self.record().clone();
        if let Some(second) = &mut self.second
            && second.saw(record.sight(), now)
        {
            second.learn(&record, now);
        }
    }

    /// True if the second agent may use leased parts.
    pub fn second_is_leased(&self, now: LocalTime) -> bool {
        self.second_view(now).is_some_and(|view| view.leased && self.record().is_known_by(view.number, view.nonce))
    }

    fn second_view(&self, now: LocalTime) -> Option<LeaseView> {
        Some(self.second.as_ref()?.view(now, self.record().policies))
    }

    /// The store's clock comes to show the next window.
    pub fn turn(&mut self) {
        self.turned += 1;
    }

    /// The store loses everything, and with it the agent what it remembers of sessions.
    pub fn lose_store(&mut self, now: LocalTime) {
        self.run += 1;
        self.store = MemoryStore::default();
        self.restart(now);
    }

    /// What the store's clock shows. Where no past use counts it only matters which window that is in, and it may be
    /// in any, whatever the time.
    pub fn store_time(&self, now: LocalTime) -> StoreTime {
        match self.limit.drain().is_zero() {
            true => StoreTime::from_micros(SET_UP.as_micros() + self.turned * WINDOW),
            false => StoreTime::from_micros(SET_UP.as_micros() + now.as_micros()),
        }
    }

    fn has_windows(&self) -> bool {
        self.limit.shape() == Shape::Allowance
    }

    fn record(&self) -> &Record {
        self.store.record(SET_UP).expect("a session is open")
    }

    /// The next heartbeat.
    pub fn beat(&mut self, now: LocalTime) -> Heartbeat {
        let seq = self.store.draw_seq(self.store_time(now), self.book.session()).expect("the session is open");
        let all = Report {
            budget: setting::budget(),
            demand: self.limit.capacity().burst,
            admitted: MicroTokens::ZERO,
            refused: MicroTokens::ZERO,
            estimated: MicroTokens::ZERO,
            largest: MicroTokens::ZERO,
        };
        let store = StoreReport::new("", true);
        self.note_count(now);
        let (windows, spent) = self.windows(now);
        let account = Account { policies_read: self.disk.newest(), reports: vec![all], windows, spent, store };
        let beat = self.book.beat(seq, now, account);
        // only dates the reports, for the measured overshoot
        let beat = Heartbeat { clock: ClockReport::default(), ..beat };
        match &self.applying {
            Some(Applying { application, .. }) if mistake::made(Mistake::EchoBeforeReductions) => {
                Heartbeat { echo: Some(application.stamp), ..beat }
            }
            _ => beat,
        }
    }

    /// Units spent of the first window, or of the next.
    pub const fn spent(&self, window: usize) -> MicroTokens {
        self.spent[window]
    }

    /// False if an answer would change nothing now, and so never again.
    pub fn heeds(&self, answer: &Answer) -> bool {
        match answer {
            Answer::Renewed(response) => self.book.clone().receive(response, LocalTime::ZERO).is_ok() && !self.is_waiting_for(response),
            Answer::Stale { newest } => self.is_overtaken(*newest),
            Answer::UnknownRegion | Answer::Restoring { .. } => false,
        }
    }

    /// True of the heartbeat that was sent last.
    pub fn awaits(&self, beat: &Heartbeat) -> bool {
        let record = self.record();
        beat.number == Number { session: record.session, seq: record.seq } && beat.nonce == self.nonces
    }

    fn is_waiting_for(&self, response: &Response) -> bool {
        self.waiting.as_ref().is_some_and(|(waiting, _)| waiting.stamp.number >= response.stamp.number)
    }

    /// True if another session of this region is known to the coordinators, under a number as great.
    fn is_overtaken(&self, newest: Number) -> bool {
        let session = self.book.session();
        newest.session > session || (newest.session == session && !self.book.is_applied())
    }

    /// An answer arrives.
    pub fn receive(&mut self, answer: &Answer, now: LocalTime) {
        match answer {
            Answer::Stale { newest } if self.is_overtaken(*newest) => {
                self.greatest_session = newest.session;
                self.restart(now);
            }
            Answer::Renewed(response) if self.applying.is_some() => self.waiting = Some((response.as_ref().clone(), now)),
            Answer::Renewed(response) => self.begin(response, now),
            _ => {}
        }
    }

    /// What it holds of the budget by its record.
    pub fn holding(&self) -> Holding {
        self.record().holding(&setting::budget(), self.terms.lendable)
    }

    /// True if it has applied a response of its session and the lease has not ended.
    pub fn is_leased(&self, now: LocalTime) -> bool {
        self.book.view(now).leased && self.knows(now)
    }

    /// True if it may use its whole floor whatever it has lent.
    pub fn has_whole_floor(&self, now: LocalTime) -> bool {
        self.book.view(now).allows_whole_floor(self.limit.drain(), self.drift) && self.knows(now)
    }

    fn knows(&self, now: LocalTime) -> bool {
        let view = self.book.view(now);
        self.record().is_known_by(view.number, view.nonce)
    }

    /// What it may use of the budget now, by either of its agents.
    pub fn uses(&self, now: LocalTime) -> Use {
        let uses = self.uses_by(&self.book.view(now));
        self.second_view(now).map_or(uses, |view| uses.or(self.uses_by(&view)))
    }

    fn uses_by(&self, view: &LeaseView) -> Use {
        if view.policies.active == 0 || self.record().policies != view.policies {
            return Use::default();
        }
        let holding = self.holding();
        let known = self.record().is_known_by(view.number, view.nonce);
        let (leased, whole) = (view.leased && known, view.allows_whole_floor(self.limit.drain(), self.drift) && known);
        let part = |holding: Holding, floor| {
            holding.entitlement(floor, whole, leased, |l| view.promises(&setting::budget(), self.limit.drain(), l))
        };
        let own = Holding { lent: holding.lent, ..Holding::default() };
        let pool = Holding { pool: holding.pool, ..Holding::default() };
        let loan = Holding { borrowed: holding.borrowed, ..Holding::default() };
        Use { own: part(own, self.terms.floor), pool: part(pool, Capacity::ZERO), loan: part(loan, Capacity::ZERO) }
    }

    /// All that its future depends on.
    pub fn text(&self) -> String {
        let Self { which, limit, drift: _, store, run, book, applying, waiting, disk, table, terms: _, .. } = self;
        let Self { second, greatest_session, nonces, turned, spent, told, .. } = self;
        // when buckets were settled, and when the last answer came, only bears on what is measured
        let lost_at = self.record().lost_at.filter(|_| limit.shape() != Shape::Flow);
        let clock = if self.has_windows() { self.record().clock } else { StoreTime::ZERO };
        let record = Record { epoch: 0, renewed_at: None, emptied_at: None, lost_at, clock, ..self.record().clone() };
        let (book, store) = (format!("{book:?}"), format!("{store:?}"));
        let (before, _, after) = around(&book, "received: ", "horizons: ");
        let (_, past_use, _) = around(&store, ", logs: ", if self.has_windows() { ", holds: " } else { ", units: " });
        let applying = applying.as_ref().map(|a| (&a.application, a.table.in_force(), &a.changed, a.step));
        // when a coordinator was heard only bears on floors that end
        let second = second.as_ref().map(|second| format!("{second:?}").split(", contact: ").next().map(str::to_owned));
        let policies = (disk.newest(), disk.in_force(), disk.former(), table.in_force());
        format!(
            "{which} {record:?} {past_use} {run} {before} horizons: {after} {applying:?} {waiting:?} {policies:?} {second:?} {greatest_session} {nonces} {turned} {spent:?} {told:?}"
        )
    }
}

/// Of a region without policies.
fn no_terms(limit: Limit) -> FloorTerms {
    FloorTerms { limit, floor: Capacity::ZERO, lendable: Capacity::ZERO }
}

/// What comes before a field, from there to the next, and after that.
fn around<'a>(text: &'a str, field: &str, next: &str) -> (&'a str, &'a str, &'a str) {
    let (before, rest) = text.split_once(field).expect("a field");
    let (between, after) = rest.split_once(next).expect("the next field");
    (before, between, after)
}
