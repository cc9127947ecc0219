//! The agent's process: it renews the region's lease, as the real one does around the lease book.

use super::Micros;
use super::call::{Call, Outcome};
use super::region::Region;
use super::seat::Seat;
use super::store::Store;
use quorate_limiter::decision::Charge;
use quorate_limiter::demand::DemandTracker;
use quorate_limiter::election::AgentId;
use quorate_limiter::lease_book::{Account, Application, Count, LeaseBook};
use quorate_limiter::matching::PolicyTable;
use quorate_limiter::record::{ChangedPolicy, Finish, HoldingsChange, Opening, Record, Refusal, Settlement};
use quorate_limiter::step_watch::StepWatch;
use quorate_limiter::store::Usage;
use quorate_shared::heartbeat::{Answer, Grant, Heartbeat, Holding, Number, PoliciesInForce, Response, Spent, StoreReport};
use quorate_shared::mistake::{self, Mistake};
use quorate_shared::names::BudgetId;
use quorate_shared::time::{Drift, LocalTime, StoreTime};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// What dies with the agent's process.
#[derive(Debug)]
pub struct Agent {
    pub(super) book: Option<LeaseBook>,
    pub(super) table: Arc<PolicyTable>,
    /// What `table` says of each place.
    pub(super) charges: Vec<Option<Charge>>,
    /// In force in the store already, while a response is being applied.
    pub(super) upcoming: Option<Upcoming>,
    pub(super) demand: DemandTracker,
    store_clock: StepWatch,
    /// True once it has read the store's clock.
    pub(super) watches: bool,
    /// The store failed on the way: a session is to be opened before the next heartbeat.
    broken: bool,
    greatest_session: u64,
    work: Option<Work>,
    /// The call that it waits for.
    awaited: u64,
    /// What the heartbeat before could have said of units spent.
    spent: Vec<Spent>,
    /// What it may spend by itself.
    pub(super) seat: Seat,
    /// Responses that wait until the one before is applied.
    inbox: VecDeque<(Box<Response>, LocalTime)>,
}

/// A policy table with what it says of each place.
pub(super) type Upcoming = (Arc<PolicyTable>, Vec<Option<Charge>>);

/// One at a time.
#[derive(Debug)]
enum Work {
    Opening,
    Applying(Box<Applying>),
}

#[derive(Debug)]
struct Applying {
    application: Application,
    table: Arc<PolicyTable>,
    changed: Vec<ChangedPolicy>,
    step: Step,
    lapsed: bool,
}

/// How far the application of a response has come: the call that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Take,
    Reduce,
    Finish,
    Increase,
}

impl Agent {
    pub(super) fn new(observer: u64, predecessor: Option<AgentId>) -> Self {
        Self {
            seat: Seat::new(AgentId(observer), predecessor),
            book: None,
            table: Arc::new(PolicyTable::empty()),
            charges: Vec::new(),
            upcoming: None,
            demand: DemandTracker::default(),
            store_clock: StepWatch::new(observer),
            watches: false,
            broken: false,
            greatest_session: 0,
            work: None,
            awaited: 0,
            spent: Vec::new(),
            inbox: VecDeque::new(),
        }
    }

    /// The charges by which a store with these policies in force decides, and whether the lease
    /// may be used with them.
    pub(super) fn charges_by(&self, in_force: PoliciesInForce) -> Option<(&[Option<Charge>], bool)> {
        if self.table.in_force() == in_force {
            return Some((&self.charges, true));
        }
        let upcoming = self.upcoming.as_ref().filter(|(table, _)| table.in_force() == in_force);
        upcoming.map(|(_, charges)| (charges.as_slice(), false))
    }

    /// The newest sets that it goes by, in force or about to be; `None` while it knows none.
    pub(super) fn newest_sets(&self) -> Option<PoliciesInForce> {
        let newest = self.upcoming.as_ref().map_or(&self.table, |(table, _)| table).in_force();
        (newest != PoliciesInForce::default()).then_some(newest)
    }

    /// True while it applies a response, or opens a session.
    pub(super) fn is_busy(&self) -> bool {
        self.work.is_some() || self.broken
    }

    fn has_lapsed(&self, application: &Application, now: LocalTime) -> bool {
        self.book.as_ref().is_none_or(|book| book.lapsed(application, now))
    }

    fn change(&self, region: &Region, number: Number, holdings: &[(BudgetId, Holding)], grants: &[Grant], now: LocalTime) -> Option<Call> {
        let settle = |(budget, holding): &(BudgetId, Holding)| Settlement {
            budget: budget.clone(),
            holding: holding.clone(),
            standing: self.table.terms(budget),
        };
        let view = self.book.as_ref()?.view(now);
        let settlements = holdings.iter().map(settle).collect();
        Some(Call::Write(Box::new(HoldingsChange { number, view, drift: region.drift, settlements, grants: grants.to_vec() })))
    }
}

impl Region {
    /// True if the agent runs and needs a session before its next heartbeat.
    pub fn needs_session(&self) -> bool {
        self.agent.as_ref().is_some_and(|agent| agent.work.is_none() && (agent.book.is_none() || agent.broken || self.slept))
    }

    /// True while the agent waits for its store.
    pub fn is_busy(&self) -> bool {
        self.agent.as_ref().is_some_and(|agent| agent.work.is_some())
    }

    /// The call that the agent waits for.
    pub fn awaits(&self, ticket: u64) -> bool {
        self.agent.as_ref().is_some_and(|agent| agent.awaited == ticket)
    }

    /// Numbers a call that the agent makes now.
    pub fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        if let Some(agent) = &mut self.agent {
            agent.awaited = self.tickets;
        }
        self.tickets
    }

    /// Begins to open a session greater than any before (R5).
    pub fn open(&mut self, now: Micros) -> Option<Call> {
        let greatest = self.agent.as_ref()?.greatest_session;
        let stored = self.store.found(now);
        let session = greatest.max(stored.map_or(0, |record| record.session)) + 1;
        // a store that lost its state may have a record, but an old one
        let trusted = self.store.record(now).filter(|record| !record.burnt);
        let policies = trusted.map_or(self.disk.in_force(), |record| record.policies);
        if std::mem::take(&mut self.slept)
            && let Some(agent) = &mut self.agent
        {
            agent.seat.lapse();
            agent.book.iter_mut().for_each(LeaseBook::forget_contact);
        }
        // stands for a random number: never the same twice
        let nonce = self.tickets + 1;
        let agent = self.agent.as_mut()?;
        agent.work = Some(Work::Opening);
        agent.inbox.clear();
        Some(Call::Open(Opening { session, nonce, burn: false, policies }))
    }

    /// The next heartbeat. `Err`: the store has another session, or none.
    pub fn beat(&mut self, now: Micros) -> Result<Option<Heartbeat>, Refusal> {
        let local = self.local(now);
        let Some(agent) = self.agent.as_mut() else { return Ok(None) };
        let Some(book) = agent.book.as_mut() else { return Ok(None) };
        // R2: the number first, then the clock, then the sending
        let seq = self.store.draw_seq(now, book.session())?;
        agent.store_clock.observe(local, local, StoreTime::from_micros(self.store.clock_micros(now)), self.drift);
        agent.watches = true;
        let record = self.store.open_windows(now)?;
        let used_aside = Some(agent.seat.watch.clock()).filter(|clock| *clock > StoreTime::ZERO);
        let windows = agent.table.open_windows(record.clock, record.burnt_until().max(used_aside));
        let counting: Vec<BudgetId> = book.draining_budgets().cloned().collect();
        for budget in counting {
            let Some(charge) = agent.table.look(&budget) else { continue };
            if let Some(Usage::Counted(units)) = self.store.usage(now, &charge, self.drift) {
                book.note_count(&budget, Count { units, floor: charge.floor, drain: charge.limit.drain() }, local);
            }
        }
        let (table, holdings) = (&agent.table, book.holdings());
        let granted: BTreeSet<&BudgetId> = book.granted_windows().map(|(budget, _)| budget).collect();
        let reports = agent.demand.reports(
            local,
            |budget| table.terms(budget).map(|t| t.limit.period()),
            |budget| match holdings.contains_key(budget) || granted.contains(budget) {
                true => None,
                false => table.terms(budget).map(|t| t.limit.amount(t.floor).saturating_sub(t.limit.amount(t.lendable))),
            },
        );
        let spent = spent(&self.store, table, granted.into_iter().chain(reports.iter().map(|r| &r.budget)), self.drift, now);
        let spent = if mistake::made(Mistake::SpentReadEarly) { std::mem::replace(&mut agent.spent, spent) } else { spent };
        let store = StoreReport { excesses: self.store.excesses(now), ..StoreReport::new("redis", true) };
        let account = Account { policies_read: self.disk.newest(), reports, windows, spent, store };
        let mut beat = book.beat(seq, local, account);
        beat.clock.steps = agent.store_clock.observed();
        if mistake::made(Mistake::EchoBeforeReductions)
            && let Some(Work::Applying(applying)) = &agent.work
        {
            beat.echo = Some(applying.application.stamp);
        }
        Ok(Some(beat))
    }

    /// An answer to the heartbeat `sent` arrives.
    pub fn receive(&mut self, sent: (Number, u64), answer: Answer, now: Micros) -> Option<Call> {
        let local = self.local(now);
        let agent = self.agent.as_mut()?;
        match answer {
            Answer::UnknownRegion | Answer::Restoring { .. } => None,
            Answer::Stale { newest } => {
                agent.greatest_session = agent.greatest_session.max(newest.session);
                let open = agent.book.as_ref().is_some_and(|book| book.session() == sent.0.session);
                if open && agent.work.is_none() { self.open(now) } else { None }
            }
            Answer::Renewed(response) if agent.work.is_some() => {
                agent.inbox.push_back((response, local));
                None
            }
            Answer::Renewed(response) => self.begin(&response, local),
        }
    }

    /// Takes up a response that arrived at `received` (R3).
    fn begin(&mut self, response: &Response, received: LocalTime) -> Option<Call> {
        let agent = self.agent.as_mut()?;
        let book = agent.book.as_mut()?;
        let before = book.policies();
        let view = book.view(received);
        let policies = response.policies.in_a_region_with(before);
        let response = &Response { policies, ..response.clone() };
        let application = book.receive(response, received).ok()?;
        self.disk.add(response);
        let table = match response.policies == agent.table.in_force() && response.former.is_empty() {
            true => agent.table.clone(),
            false => Arc::new(self.disk.table(&self.name, response.policies)?),
        };
        let changed = match before == response.policies || before == PoliciesInForce::default() {
            true => Vec::new(),
            false => {
                let ended = |ttl| !view.floor_holds(Some(ttl), self.drift, Duration::ZERO);
                table.changed_since(before, (before.active > 0 && agent.table.in_force() == before).then_some(&*agent.table), ended)
            }
        };
        if mistake::made(Mistake::HorizonsBeforeReductions) {
            book.applied(application.clone(), received, Duration::ZERO);
        }
        let number = application.stamp.number;
        agent.work = Some(Work::Applying(Box::new(Applying { application, table, changed, step: Step::Take, lapsed: false })));
        Some(Call::Take(number))
    }

    /// The call that the agent waited for has ended; gives the next one.
    pub fn proceed(&mut self, outcome: Outcome, now: Micros) -> Option<Call> {
        let work = self.agent.as_mut()?.work.take()?;
        let next = match (work, outcome) {
            (Work::Opening, Outcome::Done(record)) => {
                self.opened(*record.unwrap_or_default(), now);
                None
            }
            (Work::Opening, _) => {
                // tried again at the next heartbeat
                self.agent.as_mut()?.broken = true;
                None
            }
            (Work::Applying(applying), Outcome::Done(_)) => self.advance(*applying, now),
            (Work::Applying(_), _) => {
                let agent = self.agent.as_mut()?;
                (agent.broken, agent.upcoming) = (true, None);
                self.open(now)
            }
        };
        if next.is_some() {
            return next;
        }
        while self.agent.as_ref()?.work.is_none() {
            let (response, received) = self.agent.as_mut()?.inbox.pop_front()?;
            let call = self.begin(&response, received);
            if call.is_some() {
                return call;
            }
        }
        None
    }

    fn opened(&mut self, record: Record, now: Micros) {
        let local = self.local(now);
        let table = Arc::new(self.disk.table(&self.name, record.policies).unwrap_or_else(PolicyTable::empty));
        let charges = Self::charges(&self.places, &table);
        let Some(agent) = self.agent.as_mut() else { return };
        agent.greatest_session = record.session;
        agent.demand.restart();
        if record.burnt {
            agent.store_clock.forget_clock();
            agent.watches = false;
            agent.seat.genesis = None;
            self.missed_steps |= self.stepped;
        }
        let (name, session) = (self.name.clone(), record.session);
        let units = record.grants.into_iter().map(|(key, granted)| (key, granted.units));
        let book = LeaseBook::open(name, "agent".into(), session, record.nonce, record.holdings, record.policies, local);
        let contact = agent.book.as_ref().map(LeaseBook::contact).unwrap_or_default();
        let book = book.with_units(units).with_contact(contact);
        agent.book = Some(if self.has_seats { book.with_seats() } else { book });
        (agent.table, agent.charges, agent.upcoming, agent.broken) = (table, charges, None, false);
        self.eager = true;
    }

    /// The step that was under way is done; gives the call of the next one.
    fn advance(&mut self, mut applying: Applying, now: Micros) -> Option<Call> {
        let local = self.local(now);
        let number = applying.application.stamp.number;
        let mut agent = self.agent.take()?;
        if applying.step == Step::Take {
            applying.step = Step::Reduce;
            let (reductions, fewer) = (&applying.application.reductions, &applying.application.fewer_units);
            if !reductions.is_empty() || !fewer.is_empty() {
                let call = agent.change(self, number, reductions, fewer, local);
                agent.work = Some(Work::Applying(Box::new(applying)));
                self.agent = Some(agent);
                return call;
            }
        }
        let lapsed = agent.has_lapsed(&applying.application, local);
        let call = match applying.step {
            Step::Take | Step::Reduce => {
                agent.upcoming = match Arc::ptr_eq(&applying.table, &agent.table) {
                    true => None,
                    false => Some((applying.table.clone(), Self::charges(&self.places, &applying.table))),
                };
                (applying.step, applying.lapsed) = (Step::Finish, lapsed);
                Some(Call::Finish(Box::new(finish(&applying))))
            }
            Step::Finish if lapsed && !applying.lapsed => {
                // the lease ran out while the stamp was on its way
                (applying.lapsed, applying.changed) = (true, Vec::new());
                Some(Call::Finish(Box::new(finish(&applying))))
            }
            Step::Finish => {
                applying.step = Step::Increase;
                self.put_in_force(&mut agent, &applying, now);
                let (increases, more) = (&applying.application.increases, &applying.application.more_units);
                if increases.is_empty() && more.is_empty() { None } else { agent.change(self, number, increases, more, local) }
            }
            Step::Increase => None,
        };
        match call.is_some() {
            true => agent.work = Some(Work::Applying(Box::new(applying))),
            false => {
                agent.upcoming = None;
                self.eager |= applying.application.gives_up();
            }
        }
        self.agent = Some(agent);
        call
    }

    /// The stamp is stored: the horizons move.
    fn put_in_force(&self, agent: &mut Agent, applying: &Applying, now: Micros) {
        if let Some(book) = agent.book.as_mut() {
            let longest_drain = agent.table.longest_drain().max(applying.table.longest_drain());
            book.applied(applying.application.clone(), self.local(now), longest_drain);
        }
        if let Some((_, charges)) = agent.upcoming.take() {
            agent.charges = charges;
        }
        agent.table = applying.table.clone();
        if applying.application.genesis {
            agent.seat.genesis = Some(applying.application.policies);
        }
    }
}

/// Units spent of each of these budgets that is an allowance.
fn spent<'a>(store: &Store, table: &PolicyTable, budgets: impl Iterator<Item = &'a BudgetId>, drift: Drift, now: Micros) -> Vec<Spent> {
    let of = |budget: &BudgetId| match store.usage(now, &table.look(budget)?, drift)? {
        Usage::Spent(units) => Some(Spent { budget: budget.clone(), label: units.label, units: units.spent }),
        Usage::Counted(_) => None,
    };
    budgets.collect::<BTreeSet<_>>().into_iter().filter_map(of).collect()
}

fn finish(applying: &Applying) -> Finish {
    let application = &applying.application;
    Finish {
        stamp: application.stamp,
        renewal: application.renewal(),
        clock_at_least: application.clock_at_least,
        policies: application.policies,
        full: application.full,
        genesis: application.genesis,
        lapsed: applying.lapsed,
        changed: applying.changed.clone(),
        named: Some(applying.table.kinds()),
    }
}
