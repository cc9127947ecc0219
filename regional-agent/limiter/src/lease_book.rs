//! The lease book: what one region holds, until when, and what it may promise.
//!
//! Per heartbeat, in this order (R2, R3):
//!
//! 1. the caller draws a `seq` from the store, then calls [`LeaseBook::beat`] with its clock, then sends;
//! 2. [`LeaseBook::receive`] turns the response into an [`Application`], or refuses it;
//! 3. the caller has the store take the number, write the application's reductions, then its
//!    stamp (telling it whether the lease had [`lapsed`](LeaseBook::lapsed) meanwhile); then calls
//!    [`LeaseBook::applied`], which alone moves the horizons; then writes the increases.
//!
//! If the store fails on the way, book and store may differ: open another session.
//!
//! What is given up is timed from before the request was sent, what is taken back from after
//! the response arrived.

mod application;
#[cfg(test)]
mod tests;

pub use self::application::Application;

use self::application::Difference;
use crate::contact::Contact;
use crate::decision::LeaseView;
use crate::draining::Draining;
use crate::horizons::Horizons;
use crate::record::Renewal;
use crate::unit_grants::UnitGrants;
use quorate_shared::heartbeat::{
    ClockReport, Heartbeat, Holding, Number, OpenWindow, PoliciesInForce, Reading, Report, Response, Spent, Stamp, StoreReport,
};
use quorate_shared::mistake::{self, Mistake};
use quorate_shared::names::{BudgetId, RegionName};
use quorate_shared::time::{Drift, LocalTime, WindowLabel};
use quorate_shared::units::{Capacity, MicroTokens};
use std::collections::BTreeMap;
use std::time::Duration;

/// How many heartbeats may be under way at once; older ones are given up.
const OUTSTANDING: usize = 16;

/// What one region holds, until when, and what it may promise: one session of its renewing agent.
#[derive(Clone, Debug)]
pub struct LeaseBook {
    region: RegionName,
    agent: String,
    session: u64,
    nonce: u64,
    /// `s` of each heartbeat under way.
    sent: BTreeMap<u64, LocalTime>,
    taken: Number,
    /// The newest response of this session that is in force: the echo.
    applied: Option<Stamp>,
    /// When that one arrived.
    received: LocalTime,
    horizons: Horizons,
    contact: Contact,
    holdings: BTreeMap<BudgetId, Holding>,
    policies: PoliciesInForce,
    draining: Draining,
    units: UnitGrants,
    /// The newest window of each allowance.
    windows: Vec<OpenWindow>,
    drift: Drift,
}

/// What a heartbeat says beside what the book knows.
#[derive(Clone, Debug)]
pub struct Account {
    /// The newest version of the policy set whose text the agent has.
    pub policies_read: Option<u64>,
    /// Demand and use.
    pub reports: Vec<Report>,
    /// The newest window of each allowance in force, by the store's clock.
    pub windows: Vec<OpenWindow>,
    /// Units spent, of [`LeaseBook::granted_windows`] and of every allowance reported.
    pub spent: Vec<Spent>,
    /// The region's store.
    pub store: StoreReport,
}

/// What a budget of [`LeaseBook::draining_budgets`] has counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Read after the newest response was applied.
    pub units: MicroTokens,
    /// The region's floor, by the policies in force.
    pub floor: Capacity,
    /// `d`.
    pub drain: Duration,
}

/// Why a response is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Another session's, or of a heartbeat that is not under way.
    #[error("response {0} answers no heartbeat of this session that is under way")]
    Unexpected(Number),
    /// R3: one at least as new was taken.
    #[error("response {0} is not newer than the one taken")]
    Late(Number),
}

impl LeaseBook {
    /// Opens the book for a new session (R5), greater than any before, at `now`, with what the
    /// region's store says that it holds. `nonce` was drawn at random. No horizon survives a
    /// restart (R6).
    pub fn open(
        region: RegionName,
        agent: String,
        session: u64,
        nonce: u64,
        holdings: BTreeMap<BudgetId, Holding>,
        policies: PoliciesInForce,
        now: LocalTime,
    ) -> Self {
        Self {
            region,
            agent,
            session,
            nonce,
            sent: BTreeMap::new(),
            taken: Number { session, seq: 0 },
            applied: None,
            received: now,
            horizons: Horizons::start(now),
            contact: Contact::default(),
            holdings,
            policies,
            draining: Draining::open(now),
            units: UnitGrants::default(),
            windows: Vec::new(),
            drift: Drift::MAX,
        }
    }

    /// The same, with the units that the region's store says it was granted.
    #[must_use]
    pub fn with_units(mut self, stored: impl IntoIterator<Item = ((BudgetId, WindowLabel), MicroTokens)>) -> Self {
        self.units = UnitGrants::open(stored);
        self
    }

    /// The same, with what the same process knows of its last contact: floors hold over a new session. It says nothing
    /// of other policy sets.
    #[must_use]
    pub fn with_contact(mut self, contact: Contact) -> Self {
        self.contact = contact;
        self
    }

    /// The same of a region whose agents may have seats: its floors are confirmed only once [`Self::note_seats`] says
    /// that all of them go by these.
    #[must_use]
    pub fn with_seats(mut self) -> Self {
        self.draining.note_seats(None);
        self
    }

    /// Since when, if at all, every agent that has a seat goes by these policies. Nothing is noted of others than
    /// those in force.
    pub fn note_seats(&mut self, policies: PoliciesInForce, since: Option<LocalTime>) {
        if policies == self.policies {
            self.draining.note_seats(since);
        }
    }

    /// Budgets whose count is to be known for the next heartbeat: see [`Self::note_count`].
    pub fn draining_budgets(&self) -> impl Iterator<Item = &BudgetId> {
        self.draining.budgets()
    }

    /// Windows of which the next heartbeat says what was spent.
    pub fn granted_windows(&self) -> impl Iterator<Item = &(BudgetId, WindowLabel)> {
        self.units.windows()
    }

    /// What a budget has counting at `now`. Once that is within what the region may use without the
    /// parts that it gave up, and those whose horizon has passed at this moment, it has drained; or once
    /// all that was taken before it gave them up counts no more.
    pub fn note_count(&mut self, budget: &BudgetId, count: Count, now: LocalTime) {
        let Some(applied) = self.applied else { return };
        let view = self.view(now);
        let holding = self.holdings.get(budget).cloned().unwrap_or_default();
        let nominal = mistake::made(Mistake::DrainedByNominalShare);
        let promised = |lender: &_| nominal || view.promises(budget, count.drain, lender);
        match count.units <= holding.entitlement(count.floor, false, view.leased || nominal, promised).burst {
            true => self.draining.note_drained(budget, applied),
            false => self.draining.note_undrained(budget, applied, now, self.drift.stretch(count.drain)),
        }
    }

    /// The heartbeat of this `seq`, about to be sent at `now`. `seq` was drawn before `now` was
    /// read, and the account made after the newest response was applied and not before `now`.
    pub fn beat(&mut self, seq: u64, now: LocalTime, account: Account) -> Heartbeat {
        self.sent.insert(seq, now);
        let spent = self.units.tell(seq, account.spent, &account.reports);
        self.windows.clone_from(&account.windows);
        while self.sent.len() > OUTSTANDING {
            self.sent.pop_first();
        }
        Heartbeat {
            echo: self.applied,
            drained: self.draining.report(seq),
            floors_drained: self.draining.floors_drained(now, self.applied, self.drift),
            windows: account.windows,
            policies: account.policies_read,
            reports: account.reports,
            spent,
            clock: ClockReport {
                shown: None,
                read: self.applied.map(|_| Reading { after: now.since(self.received), lag: Duration::ZERO }),
                steps: None,
            },
            ..Heartbeat::silent(self.region.clone(), self.agent.clone(), Number { session: self.session, seq }, self.nonce, account.store)
        }
    }

    /// Takes up a response that arrived at `now` (R3).
    ///
    /// # Errors
    /// If it is not of this session, or not newer than every one taken; it is then to be dropped.
    pub fn receive(&mut self, response: &Response, now: LocalTime) -> Result<Application, Refused> {
        let number = response.stamp.number;
        let accepted = mistake::made(Mistake::OlderResponseAccepted);
        if number <= self.taken && response.nonce == self.nonce && !accepted {
            return Err(Refused::Late(number));
        }
        let sent = match self.sent.get(&number.seq) {
            Some(sent) if number.session == self.session && response.nonce == self.nonce => *sent,
            _ => return Err(Refused::Unexpected(number)),
        };
        self.taken = number;
        self.sent.retain(|seq, _| *seq > number.seq || accepted);
        let offered = self.offered(response, now);
        let Difference { reductions, increases } = Difference::between(&self.holdings, &offered);
        let (fewer_units, more_units) = self.units.compare(&response.grants, response.full, &self.windows);
        Ok(Application {
            stamp: response.stamp,
            reductions,
            increases,
            fewer_units,
            more_units,
            holdings: offered.into_iter().filter(|(_, holding)| !holding.is_zero()).collect(),
            full: response.full,
            genesis: response.genesis,
            policies: response.policies,
            sent,
            received: now,
            renewal: Renewal {
                lease: response.lease,
                drift: response.drift,
                lenders: response.lenders.clone(),
                drained_lenders: response.drained_lenders.clone(),
            },
            longest_lease: response.longest_lease.max(response.lease),
            offers: response.offers.clone(),
            grants: response.grants.clone(),
            clock_at_least: response.clock_at_least,
        })
    }

    /// What the region would hold by a response, and what it names as nothing.
    fn offered(&self, response: &Response, now: LocalTime) -> BTreeMap<BudgetId, Holding> {
        let mut offered = if response.full { BTreeMap::new() } else { self.holdings.clone() };
        if mistake::made(Mistake::LentForgotten) && now >= self.horizons.floor() {
            offered.values_mut().for_each(|holding| holding.lent = Capacity::ZERO);
        }
        offered.extend(response.offers.iter().map(|offer| (offer.budget.clone(), offer.holding.clone())));
        offered
    }

    /// True if part of what `application` renews had lapsed by `now`, so that the time since is
    /// not leased time.
    pub fn lapsed(&self, application: &Application, now: LocalTime) -> bool {
        let revived = |lender: &RegionName| self.borrows_from(lender) && !self.promises(lender, now);
        now >= self.horizons.lease() || application.renewal.lenders.keys().any(revived)
    }

    /// The response is in force and its stamp stored at `now`: the horizons move. Never backwards, but for
    /// one thing: the first response of a session says how long `L` ever was. No promise of an
    /// earlier session ends later than one of that length made now, and the longest `L` that
    /// there may be need not be reckoned with any more.
    ///
    /// `longest_drain` is that of the policies in force before and after.
    pub fn applied(&mut self, application: Application, now: LocalTime, longest_drain: Duration) {
        let from = |mistaken, right, wrong| if mistake::made(mistaken) { wrong } else { right };
        let (sent, received, renewal) = (application.sent, application.received, &application.renewal);
        self.horizons.extend_lease(from(Mistake::LeaseHorizonFromReceipt, sent, received), renewal);
        self.horizons.extend_promises(from(Mistake::LenderHorizonFromReceipt, sent, received), renewal);
        self.contact.renew(application.policies, from(Mistake::FloorTtlFromReceipt, sent, received));
        let promised = from(Mistake::FloorHorizonFromSending, received, sent);
        match self.applied {
            None => self.horizons.set_floor(promised.after(renewal.drift.stretch(application.longest_lease))),
            Some(_) => self.horizons.extend_floor(promised, renewal),
        }
        self.drift = renewal.drift;
        self.applied = Some(application.stamp);
        self.draining.floors_applied(now, self.policies != application.policies, longest_drain);
        self.received = application.received;
        self.policies = application.policies;
        self.holdings = application.holdings;
        self.horizons.keep_loans(|budget| self.holdings.get(budget).is_some_and(|h| !h.borrowed.is_empty()));
        let held = |budget: &BudgetId| self.holdings.contains_key(budget);
        self.draining.applied(application.stamp, now, &application.offers, application.full, held);
        let written = [application.fewer_units, application.grants].concat();
        self.units.applied(&written, application.stamp.number.seq, &self.windows);
    }

    /// What holds at `now`.
    pub fn view(&self, now: LocalTime) -> LeaseView {
        let number = Number { session: self.session, seq: self.applied.map_or(0, |stamp| stamp.number.seq) };
        let unheard_for = self.contact.unheard_for(self.policies, now);
        let view = LeaseView { number, nonce: self.nonce, policies: self.policies, unheard_for, ..self.horizons.view(now) };
        match mistake::made(Mistake::BorrowedUntilLease) {
            true => LeaseView { standing_lenders: self.holdings.values().flat_map(|h| h.borrowed.keys()).cloned().collect(), ..view },
            false => view,
        }
    }

    /// Until when all that [`view`](Self::view) at `now` says may be used holds: the earliest end of the lease and
    /// of the promises that stand.
    pub fn view_horizon(&self, now: LocalTime) -> LocalTime {
        self.horizons.view_horizon(now, |lender| self.borrows_from(lender))
    }

    fn promises(&self, lender: &RegionName, now: LocalTime) -> bool {
        mistake::made(Mistake::BorrowedUntilLease) || self.horizons.promises(lender, now)
    }

    fn borrows_from(&self, lender: &RegionName) -> bool {
        self.holdings.values().any(|h| h.borrowed.contains_key(lender))
    }

    /// What the region holds beyond its floors.
    pub fn holdings(&self) -> &BTreeMap<BudgetId, Holding> {
        &self.holdings
    }

    /// The policy sets in force in the store.
    pub fn policies(&self) -> PoliciesInForce {
        self.policies
    }

    /// The session.
    pub fn session(&self) -> u64 {
        self.session
    }

    /// The newest response taken.
    pub fn taken(&self) -> Number {
        self.taken
    }

    /// When a coordinator was last heard.
    pub fn contact(&self) -> Contact {
        self.contact
    }

    /// A new clock (R6): nobody knows any more when that was.
    pub fn forget_contact(&mut self) {
        self.contact = Contact::default();
    }

    /// `D`: until then pool and loans may be used.
    pub fn lease_horizon(&self) -> LocalTime {
        self.horizons.lease()
    }

    /// `U`: until then what is lent is left alone.
    pub fn floor_horizon(&self) -> LocalTime {
        self.horizons.floor()
    }

    /// True once a response of this session is in force.
    pub fn is_applied(&self) -> bool {
        self.applied.is_some()
    }
}
