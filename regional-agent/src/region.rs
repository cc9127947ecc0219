//! One region as its agent knows it: the store, the lease book, the policies, the demand.

use crate::clock::LocalClock;
use crate::fallback::{self, Fallbacks};
use crate::metrics::Metrics;
use crate::policy_shelf::PolicyShelf;
use crate::renewal::BeatError;
use crate::seat::OwnSeat;
use crate::store::{LeaseError, Store, StoreError};
use parking_lot::Mutex;
use quorate_limiter::decision::LeaseView;
use quorate_limiter::demand::DemandTracker;
use quorate_limiter::lease_book::LeaseBook;
use quorate_limiter::matching::PolicyTable;
use quorate_limiter::record::Opening;
use quorate_limiter::step_watch::StepWatch;
use quorate_shared::api::{AgentStatus, BudgetStatus, DecisionMode};
use quorate_shared::heartbeat::Number;
use quorate_shared::names::RegionName;
use quorate_shared::time::{Drift, LocalTime};
use std::mem::Discriminant;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// One region as its agent knows it.
#[derive(Debug)]
pub struct Region {
    pub(crate) name: RegionName,
    pub(crate) agent: String,
    pub(crate) store: Store,
    pub(crate) clock: LocalClock,
    pub(crate) metrics: Metrics,
    pub(crate) state: Mutex<State>,
    /// Something happened that the coordinators should hear of before the next period.
    pub(crate) eager: Notify,
    /// Held while a session is opened or a response applied: one at a time.
    pub(crate) lease_gate: tokio::sync::Mutex<()>,
    /// The newest response by which the book dates the lease.
    pub(crate) dated: watch::Sender<Number>,
    /// What this agent may spend by itself. Locked after `state`, if both are.
    pub(crate) seat: Mutex<OwnSeat>,
    /// Other policies are in force: the seat is to be confirmed by these.
    pub(crate) seat_soon: Notify,
    /// Held while the seat is confirmed: one at a time.
    pub(crate) seat_gate: tokio::sync::Mutex<()>,
    /// True while the store cannot be asked and decisions are made without it.
    pub(crate) spends_by_itself: AtomicBool,
    unplugged: AtomicBool,
    /// What is answered without the store.
    pub(crate) fallbacks: Fallbacks,
}

/// What changes.
#[derive(Debug)]
pub(crate) struct State {
    /// `None` until the store was first reached.
    pub book: Option<LeaseBook>,
    pub table: Arc<PolicyTable>,
    /// In force in the store already, while a response is being applied.
    pub upcoming: Option<Arc<PolicyTable>>,
    /// True if the store failed while a response was applied, so that it may hold other than the
    /// book says: a session is to be opened before the next heartbeat.
    pub broken: bool,
    pub drift: Drift,
    pub demand: DemandTracker,
    pub shelf: PolicyShelf,
    pub contact: Contact,
    pub store_clock: StepWatch,
}

/// How the talk with the coordinators goes.
#[derive(Debug, Default)]
pub(crate) struct Contact {
    pub last_renewal: Option<LocalTime>,
    pub last_error: Option<String>,
    /// The kind of that error.
    pub failing: Option<Discriminant<BeatError>>,
    pub coordinator: Option<String>,
    /// The greatest session that any side has spoken of.
    pub greatest_session: u64,
}

/// What a question is asked by.
#[derive(Clone, Debug)]
pub(crate) struct Basis {
    pub view: LeaseView,
    pub table: Arc<PolicyTable>,
    pub drift: Drift,
    /// Until when all of the view holds.
    pub horizon: LocalTime,
    pub session: u64,
}

impl State {
    /// What is in force, or about to be.
    pub fn newest_table(&self) -> &Arc<PolicyTable> {
        self.upcoming.as_ref().unwrap_or(&self.table)
    }
}

impl Region {
    /// A region with nothing but its store and what its disk remembers.
    pub fn new(name: RegionName, agent: String, store: Store, shelf: PolicyShelf, metrics: Metrics) -> Self {
        let state = State {
            book: None,
            table: Arc::new(PolicyTable::empty()),
            upcoming: None,
            broken: false,
            drift: shelf.drift(),
            demand: DemandTracker::default(),
            shelf,
            contact: Contact::default(),
            // without randomness no session is opened, and so nothing is reported under it
            store_clock: StepWatch::new(getrandom::u64().unwrap_or_default()),
        };
        Self {
            name,
            agent,
            store,
            clock: LocalClock::default(),
            metrics,
            state: Mutex::new(state),
            eager: Notify::new(),
            lease_gate: tokio::sync::Mutex::new(()),
            dated: watch::Sender::new(Number::default()),
            // without randomness no session is opened, and so nobody has a seat
            seat: Mutex::new(OwnSeat::new(getrandom::u64().unwrap_or_default())),
            seat_soon: Notify::new(),
            seat_gate: tokio::sync::Mutex::new(()),
            spends_by_itself: AtomicBool::new(false),
            unplugged: AtomicBool::new(false),
            fallbacks: Fallbacks::new(fallback::OPEN_FOR),
        }
    }

    /// The same; without the store, policies that are open let everything pass for so long.
    #[must_use]
    pub fn open_for(mut self, span: Duration) -> Self {
        self.fallbacks = Fallbacks::new(span);
        self
    }

    /// Its name.
    pub fn name(&self) -> &RegionName {
        &self.name
    }

    /// Cuts the region off from the coordinators, or heals the cut. For demonstrations.
    pub fn unplug(&self, unplugged: bool) {
        self.unplugged.store(unplugged, Ordering::Relaxed);
    }

    pub(crate) fn is_unplugged(&self) -> bool {
        self.unplugged.load(Ordering::Relaxed)
    }

    /// Opens a session greater than any before (R5), unless one other than `seen` is open already.
    /// Needs no coordinator: the region serves its floor under it until the first response.
    ///
    /// # Errors
    /// If the store cannot be asked, or keeps another session open.
    pub async fn open_session(&self, seen: Option<u64>) -> Result<(), LeaseError> {
        self.open_session_with(seen, false).await
    }

    /// The same; with `burn`, all state of the store counts as lost.
    pub(crate) async fn open_session_with(&self, seen: Option<u64>, burn: bool) -> Result<(), LeaseError> {
        let _gate = self.lease_gate.lock().await;
        if self.state.lock().book.as_ref().map(LeaseBook::session) != seen {
            return Ok(());
        }
        let loaded = self.store.load().await?;
        let greatest = self.state.lock().contact.greatest_session;
        // a store that lost its state may have a record, but an old one
        let stored = loaded.record.as_ref();
        let trusted = stored.filter(|record| !loaded.lost() && !burn && !record.burnt);
        let session = greatest.max(stored.map_or(0, |r| r.session)).saturating_add(1);
        let remembered = trusted.map_or_else(|| self.state.lock().shelf.in_force(), |record| record.policies);
        let nonce = getrandom::u64().map_err(|e| StoreError::Refused(format!("no randomness for a session: {e}")))?;
        self.store.open_session(&Opening { session, nonce, burn, policies: remembered }).await?;
        // what the store now holds: nothing, if it had lost its state
        let record = self.store.load().await?.record.unwrap_or_default();
        let now = self.clock.now();
        let mut state = self.state.lock();
        state.contact.greatest_session = session;
        let table = state.shelf.table(&self.name, record.policies);
        state.table = Arc::new(table.unwrap_or_else(PolicyTable::empty));
        state.upcoming = None;
        state.broken = false;
        state.demand.restart();
        if record.burnt {
            self.metrics.store_loss();
            state.store_clock.forget_clock();
            self.seat.lock().note_genesis(None);
        }
        let units = record.grants.into_iter().map(|(key, granted)| (key, granted.units));
        let book = LeaseBook::open(self.name.clone(), self.agent.clone(), session, nonce, record.holdings, record.policies, now);
        state.book = Some(book.with_units(units).with_seats());
        self.seat_soon.notify_one();
        self.dated.send_replace(Number { session, seq: 0 });
        tracing::info!(region = %self.name, session, burnt = record.burnt, "opened a session");
        Ok(())
    }

    /// By what to ask the store now; `None` before the first session.
    pub(crate) fn basis(&self) -> Option<Basis> {
        let now = self.clock.now();
        let state = self.state.lock();
        let book = state.book.as_ref()?;
        Some(Basis {
            view: book.view(now),
            table: state.table.clone(),
            drift: state.drift,
            horizon: book.view_horizon(now),
            session: book.session(),
        })
    }

    /// True once a coordinator has answered and its policies are in force.
    ///
    /// # Errors
    /// What is missing.
    pub fn ready(&self) -> Result<(), String> {
        let state = self.state.lock();
        match &state.book {
            None => Err("the region's store has not been reached yet".into()),
            Some(_) if state.table.in_force().active == 0 => Err("no policies have reached this agent yet".into()),
            Some(_) if !self.store.is_healthy() => Err("the region's store does not answer".into()),
            Some(_) => Ok(()),
        }
    }

    /// What `GET /v1/status` says.
    pub fn status(&self) -> AgentStatus {
        let now = self.clock.now();
        let state = self.state.lock();
        let left = |until: LocalTime| millis(until.since(now));
        let book = state.book.as_ref();
        let leased = book.is_some_and(|b| b.view(now).leased);
        let (failing_for, seat) = (self.store.failing_for(), self.seat_status());
        let mode = match book {
            Some(b) if leased && b.is_applied() => "leased",
            Some(_) if state.table.in_force().active > 0 => "floor",
            _ => "starting",
        };
        AgentStatus {
            region: self.name.to_string(),
            agent: self.agent.clone(),
            mode: mode.to_owned(),
            session: book.map_or(0, LeaseBook::session),
            seq: book.map_or(0, |b| b.taken().seq),
            horizon_ms: book.map_or(0, |b| left(b.lease_horizon())),
            floor_horizon_ms: book.map_or(0, |b| left(b.floor_horizon())),
            last_renewal_ms: state.contact.last_renewal.map(|at| millis(now.since(at))),
            last_error: state.contact.last_error.clone(),
            coordinator: state.contact.coordinator.clone(),
            store: self.store.status(),
            fallbacks: failing_for
                .map(|span| fallback::present(&self.fallbacks, state.table.on_store_failure(), span, seat.is_some()))
                .unwrap_or_default(),
            policies: state.table.in_force().active,
            seat,
            budgets: book.map(|b| budgets(b, &state, leased)).unwrap_or_default(),
        }
    }
}

fn budgets(book: &LeaseBook, state: &State, leased: bool) -> Vec<BudgetStatus> {
    let status = |(id, holding): (&quorate_shared::names::BudgetId, &quorate_shared::heartbeat::Holding)| {
        let terms = state.table.terms(id)?;
        Some(BudgetStatus {
            policy: id.policy.to_string(),
            subject: id.subject.to_string(),
            mode: if leased { DecisionMode::Leased } else { DecisionMode::Floor },
            floor: terms.floor.into(),
            pool: holding.pool.into(),
            lent: holding.lent.into(),
            borrowed: holding.borrowed.iter().map(|(lender, loan)| (lender.to_string(), (*loan).into())).collect(),
            demand: state.demand.demand(id).tokens(),
        })
    };
    book.holdings().iter().filter_map(status).collect()
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
