//! One region: the real lease book and the real record, and every step between them.

use super::setting::{self, Setting};
use quorate_limiter::decision::{Charge, Decision, Question, Reply};
use quorate_limiter::lease_book::{Account, Application, Count, LeaseBook};
use quorate_limiter::record::{Finish, HoldingsChange, Opening, Record, Refusal, Settlement};
use quorate_limiter::store::{MemoryStore, Usage};
use quorate_shared::heartbeat::{Answer, ClockReport, Heartbeat, Holding, Number, PoliciesInForce, Report, Response, StoreReport};
use quorate_shared::mistake::{self, Mistake};
use quorate_shared::names::BudgetId;
use quorate_shared::policy::Limit;
use quorate_shared::time::{Drift, LocalTime, StoreTime};
use quorate_shared::units::{Capacity, MicroTokens};

/// When the store was set up.
const SET_UP: StoreTime = StoreTime::from_micros(1_000_000);

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
    applying: Option<(Application, Step)>,
    /// Arrived while another was being applied.
    waiting: Option<(Response, LocalTime)>,
    /// What the agent's disk remembers.
    in_force: PoliciesInForce,
    greatest_session: u64,
    /// Stand for random numbers: never the same twice.
    nonces: u64,
}

/// What comes next in the application of a response. It was taken by the store when it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Reduce,
    Finish,
    Increase,
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
            in_force: PoliciesInForce::default(),
            greatest_session: 0,
            nonces: 0,
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
        let policies = trusted.map_or(self.in_force, |r| r.policies);
        let opened = self.store.open_session(self.store_time(now), &Opening { session, nonce: self.nonces, burn: false, policies }, &run);
        assert!(opened.is_ok(), "a greater session is never refused");
        let record = self.record().clone();
        self.book = LeaseBook::open(setting::name(self.which), String::new(), session, self.nonces, record.holdings, record.policies, now);
    }

    /// The store loses everything, and with it the agent what it remembers of sessions.
    pub fn lose_store(&mut self, now: LocalTime) {
        self.run += 1;
        self.store = MemoryStore::default();
        self.restart(now);
    }

    /// What the store's clock shows. Where no past use counts nothing asks for it.
    pub fn store_time(&self, now: LocalTime) -> StoreTime {
        match self.limit.drain().is_zero() {
            true => SET_UP,
            false => StoreTime::from_micros(SET_UP.as_micros() + now.as_micros()),
        }
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
        let store = StoreReport { kind: String::new(), healthy: true, excesses: Vec::new() };
        self.note_count(now);
        let account = Account { policies_read: Some(1), reports: vec![all], windows: vec![], spent: vec![], store };
        let beat = self.book.beat(seq, now, account);
        // only dates the reports, for the measured overshoot
        let beat = Heartbeat { clock: ClockReport::default(), ..beat };
        match &self.applying {
            Some((application, _)) if mistake::made(Mistake::EchoBeforeReductions) => Heartbeat { echo: Some(application.stamp), ..beat },
            _ => beat,
        }
    }

    fn note_count(&mut self, now: LocalTime) {
        let drained: Vec<BudgetId> = self.book.draining_budgets().cloned().collect();
        for budget in drained {
            let count = Count { units: self.counted(now), floor: setting::floor(self.limit), drain: self.limit.drain() };
            self.book.note_count(&budget, count, now);
        }
    }

    /// What counts of the budget now.
    pub fn counted(&self, now: LocalTime) -> MicroTokens {
        match self.store.usage(self.store_time(now), &self.charge(), self.drift) {
            Some(Usage::Counted(units)) => units,
            _ => MicroTokens::ZERO,
        }
    }

    fn charge(&self) -> Charge {
        Charge {
            budget: setting::budget(),
            limit: self.limit,
            floor: setting::floor(self.limit),
            lendable: setting::floor(self.limit),
            former_floors: Vec::new(),
            cost: MicroTokens::TOKEN,
            enforced: true,
        }
    }

    /// Takes all that it may of the budget, if past use of it counts: nobody could have more counting.
    pub fn use_all(&mut self, now: LocalTime) {
        if self.limit.drain().is_zero() {
            return;
        }
        let question = Question { view: self.book.view(now), drift: self.drift, charges: vec![self.charge()] };
        while self.book.policies().active > 0
            && matches!(self.store.decide(self.store_time(now), &question), Reply::Decided(Decision { allowed: true, .. }))
        {}
    }

    /// False if an answer would change nothing now, and so never again.
    pub fn heeds(&self, answer: &Answer) -> bool {
        match answer {
            Answer::Renewed(response) => self.book.clone().receive(response, LocalTime::ZERO).is_ok() && !self.is_waiting_for(response),
            Answer::Stale { newest } => self.is_overtaken(*newest),
            Answer::UnknownRegion => false,
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

    fn begin(&mut self, response: &Response, received: LocalTime) {
        let Ok(application) = self.book.receive(response, received) else { return };
        self.in_force = response.policies;
        if mistake::made(Mistake::HorizonsBeforeReductions) {
            self.book.applied(application.clone(), received, self.limit.drain());
        }
        let taken = self.store.take(self.store_time(received), application.stamp.number);
        let first = if application.reductions.is_empty() { Step::Finish } else { Step::Reduce };
        self.applying = taken.ok().map(|()| (application, first));
    }

    /// True while a response is being applied.
    pub fn is_applying(&self) -> bool {
        self.applying.is_some()
    }

    /// The next step of the application. If the store refuses, book and store may differ: another session.
    pub fn step(&mut self, now: LocalTime) {
        let Some((application, step)) = self.applying.take() else { return };
        let number = application.stamp.number;
        let done = match step {
            Step::Reduce => self.write(number, &application.reductions, now),
            Step::Finish => self.finish(&application, now),
            Step::Increase => self.write(number, &application.increases, now),
        };
        if done.is_err() {
            return self.restart(now);
        }
        match step {
            Step::Reduce => self.applying = Some((application, Step::Finish)),
            Step::Finish if !application.increases.is_empty() => self.applying = Some((application, Step::Increase)),
            Step::Finish | Step::Increase => {
                if let Some((response, received)) = self.waiting.take() {
                    self.begin(&response, received);
                }
            }
        }
    }

    fn finish(&mut self, application: &Application, now: LocalTime) -> Result<(), Refusal> {
        let finish = Finish {
            stamp: application.stamp,
            policies: application.policies,
            full: application.full,
            genesis: application.genesis,
            lapsed: self.book.lapsed(application, now),
            changed: Vec::new(),
            renewal: application.renewal(),
            clock_at_least: application.clock_at_least,
        };
        self.store.finish(self.store_time(now), &finish)?;
        self.book.applied(application.clone(), now, self.limit.drain());
        Ok(())
    }

    fn write(&mut self, number: Number, holdings: &[(BudgetId, Holding)], now: LocalTime) -> Result<(), Refusal> {
        let settle =
            |(budget, holding): &(BudgetId, Holding)| Settlement { budget: budget.clone(), holding: holding.clone(), standing: None };
        let settlements = holdings.iter().map(settle).collect();
        self.store.write(
            self.store_time(now),
            &HoldingsChange { number, view: self.book.view(now), drift: self.drift, settlements, grants: vec![] },
        )
    }

    /// What it holds of the budget by its record.
    pub fn holding(&self) -> Holding {
        self.record().holding(&setting::budget(), setting::floor(self.limit))
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

    /// What it may use of the budget now.
    pub fn uses(&self, now: LocalTime) -> Use {
        let view = self.book.view(now);
        if view.policies.active == 0 || self.record().policies != view.policies {
            return Use::default();
        }
        let holding = self.holding();
        let (leased, whole) = (self.is_leased(now), self.has_whole_floor(now));
        let part = |holding: Holding, floor| {
            holding.entitlement(floor, whole, leased, |l| view.promises(&setting::budget(), self.limit.drain(), l))
        };
        let own = Holding { lent: holding.lent, ..Holding::default() };
        let pool = Holding { pool: holding.pool, ..Holding::default() };
        let loan = Holding { borrowed: holding.borrowed, ..Holding::default() };
        Use { own: part(own, setting::floor(self.limit)), pool: part(pool, Capacity::ZERO), loan: part(loan, Capacity::ZERO) }
    }

    /// All that its future depends on.
    pub fn text(&self) -> String {
        let Self { which, limit, drift: _, store, run, book, applying, waiting, in_force, greatest_session, nonces } = self;
        // when buckets were settled, and when the last answer came, only bears on what is measured
        let lost_at = self.record().lost_at.filter(|_| !limit.drain().is_zero());
        let record = Record { epoch: 0, renewed_at: None, emptied_at: None, lost_at, clock: StoreTime::ZERO, ..self.record().clone() };
        let (book, store) = (format!("{book:?}"), format!("{store:?}"));
        let (before, _, after) = around(&book, "received: ", "horizons: ");
        let (_, past_use, _) = around(&store, ", logs: ", ", units: ");
        format!(
            "{which} {record:?} {past_use} {run} {before} horizons: {after} {applying:?} {waiting:?} {in_force:?} {greatest_session} {nonces}"
        )
    }
}

/// What comes before a field, from there to the next, and after that.
fn around<'a>(text: &'a str, field: &str, next: &str) -> (&'a str, &'a str, &'a str) {
    let (before, rest) = text.split_once(field).expect("a field");
    let (between, after) = rest.split_once(next).expect("the next field");
    (before, between, after)
}
