//! This agent's seat: what it may spend by itself, whether or not the region's store answers.
//!
//! The seat is confirmed in the store about once in a second, and at once when other policy sets are in force. What
//! is set aside for it is spent in two cases: where the store alone would refuse, so that nothing of a floor lies
//! idle, and while the store cannot be asked.

use crate::identity::Identity;
use crate::region::{Region, State};
use crate::store::LeaseError;

use quorate_limiter::decision::{Charge, Decision, LimitDecision};
use quorate_limiter::election::AgentId;
use quorate_limiter::hold::HoldId;
use quorate_limiter::reserve::Reserve;
use quorate_limiter::seats::{Given, SeatAnswer, SeatWatch, SeatWord};
use quorate_shared::api::SeatStatus;
use quorate_shared::heartbeat::PoliciesInForce;
use quorate_shared::names::PolicyName;
use quorate_shared::time::{Drift, LocalTime, StoreTime};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Between two confirmations.
const EVERY: Duration = Duration::from_secs(1);

/// What two readings of the time slept may differ by without any sleep.
const JITTER_MICROS: u64 = 1_000;

/// The seat of one agent, and what it knows of the others'.
#[derive(Debug)]
pub(crate) struct OwnSeat {
    me: AgentId,
    /// An earlier life of this agent, which is over, until the store has heard so.
    predecessor: Option<AgentId>,
    reserve: Option<Reserve>,
    /// The number of the seats under which it was last confirmed.
    born: u64,
    watch: SeatWatch,
    /// The first sets by which the region goes, if nobody in it can have had a seat before, and the store was not told yet.
    genesis: Option<PoliciesInForce>,
    slept_micros: u64,
    drift: Drift,
}

impl OwnSeat {
    /// Of an agent that begins: it has none.
    pub fn new(identity: Identity) -> Self {
        let Identity { me, predecessor } = identity;
        Self { me, predecessor, reserve: None, born: 0, watch: SeatWatch::default(), genesis: None, slept_micros: 0, drift: Drift::MAX }
    }

    /// The reserve, if it may be used at `now`. A machine that slept has a new clock (R6).
    fn usable(&mut self, now: LocalTime, slept_micros: u64) -> Option<&mut Reserve> {
        if slept_micros > self.slept_micros.saturating_add(JITTER_MICROS) {
            self.slept_micros = slept_micros;
            self.reserve.as_mut().into_iter().for_each(Reserve::lapse);
        }
        self.reserve.as_mut().filter(|reserve| reserve.is_held(now))
    }

    /// Nothing is known of the seats any more, and none is had: the cluster is another.
    pub fn forget(&mut self) {
        let identity = Identity { me: self.me, predecessor: self.predecessor };
        *self = Self { slept_micros: self.slept_micros, ..Self::new(identity) };
    }

    /// Nothing was ever admitted in this region, says a response that brought these sets. `None`: its store has lost its
    /// state since.
    pub fn note_genesis(&mut self, first: Option<PoliciesInForce>) {
        self.genesis = first;
    }

    /// Which seat each agent of the region has, as far as it is known.
    pub fn by_agent(&self) -> BTreeMap<AgentId, u32> {
        self.watch.by_agent()
    }

    /// Windows that begin up to then may have been used without the store.
    pub fn clock(&self) -> StoreTime {
        self.watch.clock()
    }
}

/// Confirms the seat until cancelled, and gives it back then.
pub(crate) async fn keep_seat(region: &Region, stop: CancellationToken) {
    while !stop.is_cancelled() {
        if let Err(error) = region.hold_seat().await {
            tracing::debug!(region = %region.name, %error, "the agent's seat is not confirmed");
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(EVERY) => {}
            () = region.seat_soon.notified() => {}
        }
    }
    region.leave_seat().await;
}

impl Region {
    /// Goes by the policy sets in force, confirms the seat in the store, and learns who else has one.
    pub(crate) async fn hold_seat(&self) -> Result<(), LeaseError> {
        let _turn = self.seat_gate.lock().await;
        self.go_by_in_seat();
        let Some((asked, call)) = self.seat_call() else { return Ok(()) };
        let answer = self.store.seat(&call).await?;
        let received = self.clock.now();
        self.take_seat(&call, &answer, asked, received);
        Ok(())
    }

    /// What is set aside is spent by the newest sets that are known from now on.
    pub(crate) fn go_by_in_seat(&self) {
        let state = self.state.lock();
        let mut own = self.seat.lock();
        let Some(reserve) = &mut own.reserve else { return };
        let sets = state.newest_table().in_force();
        reserve.hear(state.contact_with_coordinators());
        if reserve.table().in_force() == sets && !state.shelf.has_former() {
            return;
        }
        let Some(table) = state.shelf.seat_table(&self.name, reserve.seat(), sets) else { return };
        let goes_on = table.is_of_cluster_of(reserve.table()) && reserve.go_by(self.clock.now(), Arc::new(table)).is_ok();
        if !goes_on {
            own.reserve = None;
        }
    }

    fn seat_call(&self) -> Option<(LocalTime, SeatWord)> {
        let state = self.state.lock();
        let sets = state.newest_table().in_force();
        if sets == PoliciesInForce::default() {
            return None;
        }
        let seats = state.shelf.seats(&self.name, sets);
        let drift = state.drift;
        drop(state);
        let mut own = self.seat.lock();
        own.drift = drift;
        let asked = self.clock.now();
        let (born, settles, lapsed) = (own.born, own.watch.settles(asked, drift), own.watch.lapsed(asked, drift));
        let (me, predecessor, genesis) = (own.me, own.predecessor, own.genesis == Some(sets));
        let held = own.usable(asked, self.clock.slept_micros());
        let holds = held.as_ref().map(|reserve| (reserve.seat(), born));
        let goes_by = own.reserve.as_ref().map_or(sets, |reserve| reserve.table().in_force());
        let clock = own.reserve.as_ref().map_or(StoreTime::ZERO, |reserve| reserve.clock(asked));
        // without randomness no session is opened either, and so nobody has a seat
        let born = getrandom::u64().unwrap_or_default();
        Some((asked, SeatWord { me, predecessor, goes_by, clock, seats, holds, genesis, born, settles, lapsed }))
    }

    fn take_seat(&self, call: &SeatWord, answer: &SeatAnswer, asked: LocalTime, received: LocalTime) {
        let mut state = self.state.lock();
        let mut own = self.seat.lock();
        let own = &mut *own;
        own.watch.saw(&answer.seats, answer.in_force, received);
        own.genesis = own.genesis.filter(|_| !call.genesis);
        own.predecessor = None;
        own.born = answer.seats.born;
        let goes_on = |reserve: &Reserve| answer.given == Given::Still && Some(reserve.seat()) == answer.seat;
        let had_one = own.reserve.is_some();
        let had = own.reserve.take().filter(goes_on);
        if let Some(seat) = answer.seat {
            let confirmed = had.and_then(|mut reserve| reserve.confirm(asked, received, answer.shown, own.drift).then_some(reserve));
            own.reserve = confirmed.or_else(|| self.begin_seat(&state, seat, answer, (asked, received), own.drift));
        }
        if had_one && own.reserve.is_none() {
            tracing::warn!(region = %self.name, "this agent's seat is another's, or gone: without the store it admits nothing");
        }
        let contact = state.contact_with_coordinators();
        own.reserve.iter_mut().for_each(|reserve| reserve.hear(contact));
        let since = own.watch.all_go_by(answer.in_force);
        if let Some(book) = &mut state.book {
            book.note_seats(answer.in_force, since);
        }
    }

    fn begin_seat(
        &self,
        state: &State,
        seat: u32,
        answer: &SeatAnswer,
        (asked, received): (LocalTime, LocalTime),
        drift: Drift,
    ) -> Option<Reserve> {
        let sets = state.newest_table().in_force();
        let table = state.shelf.seat_table(&self.name, seat, sets)?;
        let fresh = answer.given == Given::Fresh;
        let mut reserve = Reserve::begin(seat, fresh, Arc::new(table), received, answer.shown).ok()?;
        tracing::info!(region = %self.name, seat, fresh, "this agent has a seat: it may spend what is set aside for that without the store");
        reserve.confirm(asked, received, answer.shown, drift).then_some(reserve)
    }

    /// The last word: nothing is spent by this agent any more, and another may have its seat.
    async fn leave_seat(&self) {
        let Some((_, call)) = self.seat_call() else { return };
        self.seat.lock().reserve = None;
        if let Err(error) = self.store.leave_seat(&call).await {
            tracing::warn!(region = %self.name, %error, "the seat of this agent is free only once its right to it has ended");
        }
    }

    /// Decides charges by what is set aside for this agent; `None` if it may not be used, or there is nothing for one
    /// of them. What is taken with `keep` is to be given back or kept.
    pub(crate) fn decide_aside(&self, charges: &[Charge], keep: bool) -> Option<(Decision, HoldId)> {
        let mut own = self.seat.lock();
        let drift = own.drift;
        let now = self.clock.now();
        own.usable(now, self.clock.slept_micros())?.decide(now, charges, drift, keep)
    }

    /// What was taken stays taken.
    pub(crate) fn keep_aside(&self, taken: HoldId) {
        if let Some(reserve) = &mut self.seat.lock().reserve {
            reserve.keep(self.clock.now(), taken);
        }
    }

    /// Gives back what was taken.
    pub(crate) fn give_back_aside(&self, taken: HoldId) {
        if let Some(reserve) = &mut self.seat.lock().reserve {
            reserve.give_back(self.clock.now(), taken);
        }
    }

    /// How one budget stands by what is set aside for this agent; nothing if that may not be used, or there is nothing.
    pub(crate) fn look_aside(&self, charge: &Charge) -> Option<LimitDecision> {
        let mut own = self.seat.lock();
        let drift = own.drift;
        let now = self.clock.now();
        let reserve = own.usable(now, self.clock.slept_micros()).filter(|reserve| reserve.has(&charge.budget))?;
        reserve.look(now, std::slice::from_ref(charge), drift)?.limits.pop()
    }

    /// Policies of which something is set aside for this agent that it may use.
    pub(crate) fn set_aside(&self) -> BTreeSet<PolicyName> {
        let now = self.clock.now();
        let mut own = self.seat.lock();
        let held = own.usable(now, self.clock.slept_micros());
        held.map(|reserve| reserve.table().with_floors().cloned().collect()).unwrap_or_default()
    }

    /// What `GET /v1/status` says of the seat.
    pub(crate) fn seat_status(&self) -> Option<SeatStatus> {
        let now = self.clock.now();
        let mut own = self.seat.lock();
        let reserve = own.usable(now, self.clock.slept_micros())?;
        let PoliciesInForce { active, .. } = reserve.table().in_force();
        let until_ms = u64::try_from(reserve.until().since(now).as_millis()).unwrap_or(u64::MAX);
        let spends = self.spends_by_itself.load(Ordering::Relaxed);
        Some(SeatStatus { seat: reserve.seat(), until_ms, policies: active, spends })
    }
}
