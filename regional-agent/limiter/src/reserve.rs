//! What one agent may spend by itself, whether or not its region's store answers.
//!
//! A seat is a tiny region inside the region: its share ([`Holder::Seat`](crate::matching::Holder::Seat)) is
//! in no floor, no lease and no other seat. So what is taken here is within the limit whenever it is taken, and
//! however wrong the guess was that the store is gone. The arithmetic is that of a region's store
//! ([`MemoryStore`]), on a floor and never a lease.
//!
//! Three things make it so, and whoever gives out seats sees to them:
//!
//! - one agent has a seat at a time: it may use it for [`SEAT_LIFE`] from the asking of the last question by
//!   which it was confirmed, and no other is given it before that is over on any clock;
//! - the state of a seat is that of all who ever had it: one that was had before begins as a store that lost its
//!   state (R7);
//! - a set that gives a seat less is confirmed only when every seat goes by it (R9).

use crate::contact::{Contact, unheard_for};
use crate::decision::{Charge, Decision, LeaseView, Question, Reply};
use crate::hold::{Beside, HoldId, NewHold};
use crate::matching::PolicyTable;
use crate::record::{Finish, Opening, Refusal, Renewal};
use crate::store::MemoryStore;
use quorate_shared::heartbeat::{Number, Office, PoliciesInForce, Stamp};
use quorate_shared::names::BudgetId;
use quorate_shared::time::{Drift, LeaderTime, LocalTime, StoreTime};
use quorate_shared::units::{Capacity, MicroTokens};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long a seat may be used without being confirmed.
pub const SEAT_LIFE: Duration = Duration::from_secs(3_600);

/// For so long a charge can be given back.
const GIVEN_BACK: Duration = Duration::from_secs(60);

/// The one session of a seat's own store.
const SESSION: u64 = 1;

/// One agent's seat.
#[derive(Clone, Debug)]
pub struct Reserve {
    seat: u32,
    store: MemoryStore,
    table: Arc<PolicyTable>,
    /// Of the policy sets gone by, and of the charges that can be given back.
    counted: (u64, u128),
    clock: SeatClock,
    /// How long it may be used without being confirmed.
    life: Duration,
    until: LocalTime,
    /// An instant before the sending of the last heartbeat whose response said the sets gone by, or older ones.
    heard: Option<LocalTime>,
}

/// What a seat's own store takes for the time: the clock of the region's store when it was last seen, and the
/// agent's monotonic clock since. It never goes back.
#[derive(Clone, Copy, Debug)]
struct SeatClock {
    at: LocalTime,
    shown: StoreTime,
}

impl SeatClock {
    fn now(&self, now: LocalTime) -> StoreTime {
        self.shown.after(now.since(self.at))
    }
}

impl Reserve {
    /// A seat that was given at `now`, while the clock of the region's store showed `shown`; `fresh` if nobody
    /// ever had it. It cannot be used before it is [confirmed](Self::confirm).
    ///
    /// # Errors
    /// None is known: its own store is new.
    pub fn begin(seat: u32, fresh: bool, table: Arc<PolicyTable>, now: LocalTime, shown: StoreTime) -> Result<Self, Refusal> {
        let mut store = MemoryStore::default();
        let policies = table.in_force();
        store.open_session(shown, &Opening { session: SESSION, nonce: 0, burn: false, policies }, "")?;
        let (clock, until) = (SeatClock { at: now, shown }, LocalTime::ZERO);
        let mut reserve = Self { seat, store, table, counted: (0, 0), clock, life: SEAT_LIFE, until, heard: None };
        reserve.put_in_force(now, |finish| Finish { genesis: fresh, ..finish })?;
        Ok(reserve)
    }

    /// The same, to be used for `life` without being confirmed.
    #[must_use]
    pub fn living(mut self, life: Duration) -> Self {
        self.life = life;
        self
    }

    /// Which seat.
    pub fn seat(&self) -> u32 {
        self.seat
    }

    /// By which sets it goes.
    pub fn table(&self) -> &Arc<PolicyTable> {
        &self.table
    }

    /// Until when it may be used.
    pub fn until(&self) -> LocalTime {
        self.until
    }

    /// True if it may be used at `now`.
    pub fn is_held(&self, now: LocalTime) -> bool {
        now < self.until
    }

    /// True if something of a budget is set aside for it.
    pub fn has(&self, budget: &BudgetId) -> bool {
        self.share(budget).is_some_and(|share| !share.is_zero())
    }

    /// What of a budget is set aside for it.
    pub fn share(&self, budget: &BudgetId) -> Option<Capacity> {
        self.table.terms(budget).map(|terms| terms.floor)
    }

    /// An answer to a question that was asked at `asked` says that the agent has the seat still, and that the
    /// clock of the region's store showed `shown` before `now`. False if its own state is gone: begin anew, and
    /// not as fresh.
    pub fn confirm(&mut self, asked: LocalTime, now: LocalTime, shown: StoreTime, drift: Drift) -> bool {
        if shown > self.clock.now(now) {
            self.clock = SeatClock { at: now, shown };
        }
        self.until = self.until.max(asked.after(drift.shrink(self.life)));
        // its record lives on by this
        self.store.draw_seq(self.clock.now(now), SESSION).is_ok()
    }

    /// The coordinators were heard so. What is set aside of floors that end by themselves ends with them: a response renews
    /// it only if it said the sets that are gone by.
    pub fn hear(&mut self, contact: Contact) {
        self.heard = self.heard.max(contact.heard_by(self.table.in_force()));
    }

    /// The right to it ends at once, until it is confirmed again: a new clock (R6).
    pub fn lapse(&mut self) {
        (self.until, self.heard) = (LocalTime::ZERO, None);
    }

    /// When what is set aside of floors that hold for so long ends.
    pub fn end_of(&self, ttl: Duration, drift: Drift) -> Option<LocalTime> {
        self.heard.map(|heard| heard.after(drift.shrink(ttl)))
    }

    /// Windows that began up to then may have been used.
    pub fn clock(&self, now: LocalTime) -> StoreTime {
        self.clock.now(now)
    }

    /// Goes by this table from now on, unless that is of older sets than the present one.
    ///
    /// # Errors
    /// If its own state is gone.
    pub fn go_by(&mut self, now: LocalTime, table: Arc<PolicyTable>) -> Result<(), Refusal> {
        let before = self.table.in_force();
        if table.in_force().recency() < before.recency() {
            return Ok(());
        }
        let ended = |ttl| unheard_for(self.heard, now) >= Drift::MAX.shrink(ttl);
        let changed = match table.in_force() == before || before == PoliciesInForce::default() {
            true => Vec::new(),
            false => table.changed_since(before, (before.active > 0).then_some(&*self.table), ended),
        };
        let named = (table.in_force() != before).then(|| table.kinds());
        self.table = table;
        self.put_in_force(now, |finish| Finish { changed, named, ..finish })
    }

    /// Decides charges, all or nothing over those that are enforced, by what is set aside for this seat. `None` if
    /// it may not be used now, or nothing of one of these budgets is set aside. What is taken with `keep` can be
    /// [given back](Self::give_back) or [kept](Self::keep), soon.
    pub fn decide(&mut self, now: LocalTime, charges: &[Charge], drift: Drift, keep: bool) -> Option<(Decision, HoldId)> {
        if !self.is_held(now) || charges.is_empty() {
            return None;
        }
        let own = |charge: &Charge| {
            let own = self.table.charge(&charge.budget, charge.cost).filter(|own| !own.floor.is_zero())?;
            Some(Charge { enforced: charge.enforced, ..own })
        };
        let charges = charges.iter().map(own).collect::<Option<Vec<Charge>>>()?;
        let unheard_for = unheard_for(self.heard, now);
        let view = LeaseView { policies: self.table.in_force(), unheard_for, ..LeaseView::default() };
        let hold = keep.then(|| self.next_hold());
        let question = Question { view, drift, charges };
        match self.store.decide_beside(self.clock.now(now), &question, &Beside { hold, slot: None }) {
            Reply::Decided(decision) => Some((decision, hold.map_or(HoldId::NOTHING, |hold| hold.id))),
            Reply::OtherPolicies(_) | Reply::OtherLease(_) | Reply::NoRecord => None,
        }
    }

    /// How charges stand, as [`Self::decide`] says it, with nothing taken.
    pub fn look(&mut self, now: LocalTime, charges: &[Charge], drift: Drift) -> Option<Decision> {
        let free: Vec<Charge> = charges.iter().map(|charge| Charge { cost: MicroTokens::ZERO, ..charge.clone() }).collect();
        self.decide(now, &free, drift, false).map(|(decision, _)| decision)
    }

    /// What was taken stays taken, since the request was admitted: it must not take room until it could be given back
    /// no more, or the seat would not refill.
    pub fn keep(&mut self, now: LocalTime, taken: HoldId) {
        self.store.close_hold(self.clock.now(now), taken);
    }

    /// Gives back what was taken, since the request was refused after all.
    pub fn give_back(&mut self, now: LocalTime, taken: HoldId) {
        // one that has ended stays charged
        let _ = self.store.settle_hold(self.clock.now(now), taken, MicroTokens::ZERO, None);
    }

    fn next_hold(&mut self) -> NewHold {
        self.counted.1 += 1;
        NewHold { id: HoldId::from_bits(self.counted.1), life: GIVEN_BACK, most: MicroTokens(u64::MAX) }
    }

    /// Its own store applies what a region's store applies by a response.
    fn put_in_force(&mut self, now: LocalTime, with: impl FnOnce(Finish) -> Finish) -> Result<(), Refusal> {
        self.counted.0 += 1;
        let number = Number { session: SESSION, seq: self.counted.0 };
        let now = self.clock.now(now);
        self.store.take(now, number)?;
        let renewal = Renewal { lease: Duration::ZERO, drift: Drift::default(), lenders: BTreeMap::new(), drained_lenders: Vec::new() };
        let finish = Finish {
            stamp: Stamp { number, office: Office::default(), at: LeaderTime::ZERO },
            renewal,
            policies: self.table.in_force(),
            full: true,
            genesis: false,
            lapsed: false,
            clock_at_least: StoreTime::ZERO,
            changed: Vec::new(),
            named: None,
        };
        self.store.finish(now, &with(finish))
    }
}

#[cfg(test)]
mod tests;
