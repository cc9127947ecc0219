//! One region as its agent knows it: the store, the lease book, the policies, the demand.

use crate::clock::LocalClock;
use crate::conflict::Claims;
use crate::fallback::{self, Fallbacks};
use crate::following::Followed;
use crate::identity::Identity;
use crate::metrics::Metrics;
use crate::policy_shelf::PolicyShelf;
use crate::presence::Presence;
use crate::renewal::BeatError;
use crate::seat::OwnSeat;
use crate::store::Store;
use parking_lot::Mutex;
use quorate_limiter::announced::Announcements;
use quorate_limiter::decision::LeaseView;
use quorate_limiter::demand::DemandTracker;
use quorate_limiter::hot_keys::HotKeys;
use quorate_limiter::lease_book::LeaseBook;
use quorate_limiter::matching::PolicyTable;
use quorate_limiter::record::Opening;
use quorate_limiter::step_watch::StepWatch;
use quorate_shared::heartbeat::Number;
use quorate_shared::names::RegionName;
use quorate_shared::time::{Drift, LocalTime, StoreTime};
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
    /// True while another agent renews, or nobody does yet.
    pub(crate) follows: AtomicBool,
    /// This agent is now the one that renews.
    pub(crate) elected: Notify,
    /// What the store has in force is news.
    pub(crate) look_soon: Notify,
    /// One look at a time.
    pub(crate) look_gate: tokio::sync::Mutex<()>,
    unplugged: AtomicBool,
    /// True while floors have ended that hold for so long without a coordinator.
    pub(crate) floors_ended: AtomicBool,
    /// What is answered without the store.
    pub(crate) fallbacks: Fallbacks,
}

/// What changes.
#[derive(Debug)]
pub(crate) struct State {
    /// Of an agent that renews; `None` until its first session, and while another agent renews.
    pub book: Option<LeaseBook>,
    /// What is known of the lease while another agent renews.
    pub followed: Option<Followed>,
    pub presence: Presence,
    /// A session that was asked for, of which nobody knows yet whether the store has it.
    pub opening: Option<Opening>,
    /// The session that what was admitted and refused is counted in.
    pub counting_in: u64,
    /// The policy sets that the store keeps for the region's agents, by their name.
    pub shelved: Option<String>,
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
    pub hot: HotKeys,
    pub claims: Claims,
    /// Of which policies gateways may be given parts.
    pub announcements: Announcements,
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
    /// When it was made: before the question is put.
    pub asked: LocalTime,
}

impl State {
    /// What is in force, or about to be.
    pub fn newest_table(&self) -> &Arc<PolicyTable> {
        self.upcoming.as_ref().unwrap_or(&self.table)
    }
}

impl Region {
    /// A region with nothing but its store and what its disk remembers.
    pub fn new(name: RegionName, agent: String, identity: Identity, store: Store, shelf: PolicyShelf, metrics: Metrics) -> Self {
        let state = State {
            book: None,
            followed: None,
            opening: None,
            presence: Presence::new(identity.me, identity.predecessor),
            counting_in: 0,
            shelved: None,
            table: Arc::new(PolicyTable::empty()),
            upcoming: None,
            broken: false,
            drift: shelf.drift(),
            demand: DemandTracker::default(),
            shelf,
            contact: Contact::default(),
            // without randomness no session is opened, and so nothing is reported under it
            store_clock: StepWatch::new(getrandom::u64().unwrap_or_default()),
            hot: HotKeys::default(),
            claims: Claims::default(),
            announcements: Announcements::default(),
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
            seat: Mutex::new(OwnSeat::new(identity)),
            seat_soon: Notify::new(),
            seat_gate: tokio::sync::Mutex::new(()),
            spends_by_itself: AtomicBool::new(false),
            follows: AtomicBool::new(true),
            elected: Notify::new(),
            look_soon: Notify::new(),
            look_gate: tokio::sync::Mutex::new(()),
            unplugged: AtomicBool::new(false),
            floors_ended: AtomicBool::new(false),
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

    /// By what to ask the store now; `None` before the first session, and while nothing may be admitted.
    pub(crate) fn basis(&self) -> Option<Basis> {
        let now = self.clock.now();
        let state = self.state.lock();
        if state.claims.conflict() {
            return None;
        }
        let (view, horizon, session) = match (&state.book, &state.followed) {
            (Some(book), _) => (book.view(now), book.view_horizon(now), book.session()),
            (None, Some(followed)) => {
                let follower = &followed.follower;
                (follower.view(now, state.table.in_force()), follower.view_horizon(now), followed.session()?)
            }
            (None, None) => return None,
        };
        Some(Basis { view, table: state.table.clone(), drift: state.drift, horizon, session, asked: now })
    }

    /// A forward step of the store's clock refills buckets: the coordinators count it in the bound.
    pub(crate) fn watch_store_clock(&self, asked: LocalTime, answered: LocalTime, shown: StoreTime) {
        let mut state = self.state.lock();
        let drift = state.drift;
        if let Some(step) = state.store_clock.observe(asked, answered, shown, drift) {
            let millis = u64::try_from(step.as_millis()).unwrap_or(u64::MAX);
            tracing::warn!(region = %self.name, millis, "the clock of the region's store stepped forward by at most this: each bucket may have gained its refill");
            self.metrics.store_clock_step(step);
        }
    }

    /// True once a coordinator has answered and its policies are in force.
    ///
    /// # Errors
    /// What is missing.
    pub fn ready(&self) -> Result<(), String> {
        let state = self.state.lock();
        let in_session = state.book.is_some() || state.followed.as_ref().is_some_and(|followed| followed.sight.is_some());
        match in_session {
            _ if state.claims.conflict() => Err("another store serves a region of this name".into()),
            _ if state.presence.leaves => Err("this agent is about to end".into()),
            false => Err("the region's store has not been reached yet".into()),
            true if state.table.in_force().active == 0 => Err("no policies have reached this agent yet".into()),
            true if !self.store.is_healthy() => Err("the region's store does not answer".into()),
            true => Ok(()),
        }
    }
}
