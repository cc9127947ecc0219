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

use crate::decision::LeaseView;
use crate::draining::Draining;
use crate::record::Renewal;
use crate::unit_grants::{UnitGrants, is_over};
use quorate_shared::heartbeat::{
    ClockReport, Grant, Heartbeat, Holding, LONGEST_LEASE, Number, Offer, OpenWindow, PROTOCOL, PoliciesInForce, Reading, Report, Response,
    Spent, Stamp, StoreReport,
};
use quorate_shared::mistake::{self, Mistake};
use quorate_shared::names::{BudgetId, RegionName};
use quorate_shared::time::{Drift, LocalTime, StoreTime, WindowLabel};
use quorate_shared::units::{Capacity, MicroTokens};
use std::collections::{BTreeMap, BTreeSet};
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
    /// `D`.
    lease_horizon: LocalTime,
    /// `U`.
    floor_horizon: LocalTime,
    /// `D_j`.
    lender_horizons: BTreeMap<RegionName, LocalTime>,
    holdings: BTreeMap<BudgetId, Holding>,
    policies: PoliciesInForce,
    /// `D_j` of each budget with a drain.
    loan_horizons: BTreeMap<BudgetId, BTreeMap<RegionName, LocalTime>>,
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

/// A response on its way into the store.
#[derive(Clone, Debug, PartialEq)]
pub struct Application {
    /// Of the response.
    pub stamp: Stamp,
    /// What to write before the stamp.
    pub reductions: Vec<(BudgetId, Holding)>,
    /// What to write after the stamp.
    pub increases: Vec<(BudgetId, Holding)>,
    /// Units of allowances to write before the stamp.
    pub fewer_units: Vec<Grant>,
    /// Units to write after the stamp.
    pub more_units: Vec<Grant>,
    /// What holds once it is applied.
    pub holdings: BTreeMap<BudgetId, Holding>,
    /// True if budgets that it does not name have nothing.
    pub full: bool,
    /// True if nothing was ever admitted in this region.
    pub genesis: bool,
    /// The policy sets that hold from the stamp on.
    pub policies: PoliciesInForce,
    sent: LocalTime,
    received: LocalTime,
    lease: Duration,
    longest_lease: Duration,
    drift: Drift,
    promises: BTreeMap<RegionName, Duration>,
    loan_promises: Vec<(BudgetId, BTreeMap<RegionName, Duration>)>,
    offers: Vec<Offer>,
    grants: Vec<Grant>,
    /// See [`Response::clock_at_least`].
    pub clock_at_least: StoreTime,
}

impl Application {
    /// True if the coordinators should hear of it at once: capacity that others wait for is free.
    pub fn gives_up(&self) -> bool {
        !self.reductions.is_empty() || !self.fewer_units.is_empty()
    }

    /// By what it renews the lease.
    pub fn renewal(&self) -> Renewal {
        Renewal { lease: self.lease, drift: self.drift, lenders: self.promises.clone(), drained_lenders: self.loan_promises.clone() }
    }

    /// `D`, once applied.
    fn lease_horizon(&self) -> LocalTime {
        let from = if mistake::made(Mistake::LeaseHorizonFromReceipt) { self.received } else { self.sent };
        from.after(self.drift.shrink(self.lease))
    }
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
    /// region's store says that it holds. `nonce` was drawn at random.
    ///
    /// No horizon survives a restart: the lease is over, and the floor that was lent is left
    /// alone for as long as any earlier promise can last (R6).
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
            lease_horizon: LocalTime::ZERO,
            floor_horizon: now.after(Drift::MAX.stretch(LONGEST_LEASE)),
            lender_horizons: BTreeMap::new(),
            holdings,
            policies,
            loan_horizons: BTreeMap::new(),
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

    /// Budgets whose count is to be known for the next heartbeat: see [`Self::note_count`].
    pub fn draining_budgets(&self) -> impl Iterator<Item = &BudgetId> {
        self.draining.budgets()
    }

    /// Windows of which the next heartbeat says what was spent.
    pub fn granted_windows(&self) -> impl Iterator<Item = &(BudgetId, WindowLabel)> {
        self.units.windows()
    }

    /// What a budget has counting at `now`. Once that is within what the region may use without the
    /// parts that it gave up, and those whose horizon has passed at this moment, it has drained.
    pub fn note_count(&mut self, budget: &BudgetId, count: Count, now: LocalTime) {
        let Some(applied) = self.applied else { return };
        let view = self.view(now);
        let holding = self.holdings.get(budget).cloned().unwrap_or_default();
        let nominal = mistake::made(Mistake::DrainedByNominalShare);
        let promised = |lender: &_| nominal || view.promises(budget, count.drain, lender);
        if count.units <= holding.entitlement(count.floor, false, view.leased || nominal, promised).burst {
            self.draining.note_drained(budget, applied);
        }
    }

    /// The heartbeat of this `seq`, about to be sent at `now`. `seq` was drawn before `now` was
    /// read, and the account made after the newest response was applied and not before `now`.
    pub fn beat(&mut self, seq: u64, now: LocalTime, account: Account) -> Heartbeat {
        self.sent.insert(seq, now);
        self.units.tell(seq);
        self.windows.clone_from(&account.windows);
        while self.sent.len() > OUTSTANDING {
            self.sent.pop_first();
        }
        Heartbeat {
            protocol: PROTOCOL,
            region: self.region.clone(),
            agent: self.agent.clone(),
            number: Number { session: self.session, seq },
            nonce: self.nonce,
            echo: self.applied,
            drained: self.draining.report(seq),
            floors_drained: self.draining.floors_drained(now, self.applied, self.drift),
            windows: account.windows,
            policies: account.policies_read,
            reports: account.reports,
            spent: account.spent,
            store: account.store,
            clock: ClockReport {
                read: self.applied.map(|_| Reading { after: now.since(self.received), lag: Duration::ZERO }),
                steps: None,
            },
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
        let (reductions, increases, holdings) = self.compare(response, now);
        let (fewer_units, more_units) = self.units.compare(&response.grants, response.full, |id, label| self.is_over(id, label));
        Ok(Application {
            stamp: response.stamp,
            reductions,
            increases,
            fewer_units,
            more_units,
            holdings,
            full: response.full,
            genesis: response.genesis,
            policies: response.policies,
            sent,
            received: now,
            lease: response.lease,
            longest_lease: response.longest_lease.max(response.lease),
            drift: response.drift,
            promises: response.lenders.clone(),
            loan_promises: response.drained_lenders.clone(),
            offers: response.offers.clone(),
            grants: response.grants.clone(),
            clock_at_least: response.clock_at_least,
        })
    }

    fn is_over(&self, budget: &BudgetId, label: WindowLabel) -> bool {
        is_over(&self.windows, budget, label)
    }

    /// Splits the way from what is held to what is offered into a first part that only gives up
    /// and a second that only takes.
    #[allow(clippy::type_complexity)]
    fn compare(
        &self,
        response: &Response,
        now: LocalTime,
    ) -> (Vec<(BudgetId, Holding)>, Vec<(BudgetId, Holding)>, BTreeMap<BudgetId, Holding>) {
        let mut after = if response.full { BTreeMap::new() } else { self.holdings.clone() };
        if mistake::made(Mistake::LentForgotten) && now >= self.floor_horizon {
            after.values_mut().for_each(|holding| holding.lent = Capacity::ZERO);
        }
        for offer in &response.offers {
            after.insert(offer.budget.clone(), offer.holding.clone());
        }
        let named: BTreeSet<&BudgetId> = self.holdings.keys().chain(after.keys()).collect();
        let (mut reductions, mut increases) = (Vec::new(), Vec::new());
        for id in named {
            let held = self.holdings.get(id).cloned().unwrap_or_default();
            let offered = after.get(id).cloned().unwrap_or_default();
            let between = smaller(&held, &offered);
            if between != held {
                reductions.push((id.clone(), between.clone()));
            }
            if between != offered {
                increases.push((id.clone(), offered));
            }
        }
        after.retain(|_, holding| !holding.is_zero());
        (reductions, increases, after)
    }

    /// True if part of what `application` renews had lapsed by `now`, so that the time since is
    /// not leased time.
    pub fn lapsed(&self, application: &Application, now: LocalTime) -> bool {
        let revived = |lender: &RegionName| self.borrows_from(lender) && !self.promises(lender, now);
        now >= self.lease_horizon || application.promises.keys().any(revived)
    }

    /// The response is in force and its stamp stored at `now`: the horizons move. Never backwards, but for
    /// one thing: the first response of a session says how long `L` ever was. No promise of an
    /// earlier session ends later than one of that length made now, and the longest `L` that
    /// there may be need not be reckoned with any more.
    ///
    /// `longest_drain` is that of the policies in force before and after.
    pub fn applied(&mut self, application: Application, now: LocalTime, longest_drain: Duration) {
        let lender_dated = if mistake::made(Mistake::LenderHorizonFromReceipt) { application.received } else { application.sent };
        let until = |span: Duration| lender_dated.after(application.drift.shrink(span));
        self.lease_horizon = self.lease_horizon.max(application.lease_horizon());
        let promised = if mistake::made(Mistake::FloorHorizonFromSending) { application.sent } else { application.received };
        let taken_back = |lease| promised.after(application.drift.stretch(lease));
        self.floor_horizon = match self.applied {
            None => taken_back(application.longest_lease),
            Some(_) => self.floor_horizon.max(taken_back(application.lease)),
        };
        for (lender, remaining) in &application.promises {
            let horizon = self.lender_horizons.entry(lender.clone()).or_default();
            *horizon = (*horizon).max(until(*remaining));
        }
        for (budget, promises) in &application.loan_promises {
            let horizons = self.loan_horizons.entry(budget.clone()).or_default();
            for (lender, remaining) in promises {
                let horizon = horizons.entry(lender.clone()).or_default();
                *horizon = (*horizon).max(until(*remaining));
            }
        }
        self.drift = application.drift;
        self.applied = Some(application.stamp);
        self.draining.floors_applied(now, self.policies != application.policies, longest_drain);
        self.received = application.received;
        self.policies = application.policies;
        self.holdings = application.holdings;
        self.loan_horizons.retain(|budget, _| self.holdings.get(budget).is_some_and(|h| !h.borrowed.is_empty()));
        let held = |budget: &BudgetId| self.holdings.contains_key(budget);
        self.draining.applied(application.stamp, &application.offers, application.full, held);
        let written = [application.grants, application.fewer_units].concat();
        self.units.applied(&written, application.stamp.number.seq, |id, label| is_over(&self.windows, id, label));
    }

    /// What holds at `now`.
    pub fn view(&self, now: LocalTime) -> LeaseView {
        LeaseView {
            leased: now < self.lease_horizon,
            whole_floor: now >= self.floor_horizon,
            floor_passed: now.since(self.floor_horizon),
            standing_loans: self.loan_horizons.iter().map(|(id, lenders)| (id.clone(), standing(lenders, now))).collect(),
            standing_lenders: self.standing_lenders(now),
            number: Number { session: self.session, seq: self.applied.map_or(0, |stamp| stamp.number.seq) },
            nonce: self.nonce,
            policies: self.policies,
        }
    }

    fn standing_lenders(&self, now: LocalTime) -> BTreeSet<RegionName> {
        match mistake::made(Mistake::BorrowedUntilLease) {
            true => self.holdings.values().flat_map(|h| h.borrowed.keys()).cloned().collect(),
            false => standing(&self.lender_horizons, now),
        }
    }

    /// Until when all that [`view`](Self::view) at `now` says may be used holds: the earliest end of the lease and
    /// of the promises that stand.
    pub fn view_horizon(&self, now: LocalTime) -> LocalTime {
        let lenders = self.holdings.values().flat_map(|h| h.borrowed.keys());
        let of_loans = self.loan_horizons.values().flat_map(BTreeMap::values);
        let standing = lenders.filter_map(|l| self.lender_horizons.get(l)).chain(of_loans).filter(|horizon| now < **horizon);
        standing.copied().fold(self.lease_horizon, LocalTime::min)
    }

    fn promises(&self, lender: &RegionName, now: LocalTime) -> bool {
        mistake::made(Mistake::BorrowedUntilLease) || self.lender_horizons.get(lender).is_some_and(|horizon| now < *horizon)
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

    /// `D`: until then pool and loans may be used.
    pub fn lease_horizon(&self) -> LocalTime {
        self.lease_horizon
    }

    /// `U`: until then what is lent is left alone.
    pub fn floor_horizon(&self) -> LocalTime {
        self.floor_horizon
    }

    /// True once a response of this session is in force.
    pub fn is_applied(&self) -> bool {
        self.applied.is_some()
    }
}

fn standing(lenders: &BTreeMap<RegionName, LocalTime>, now: LocalTime) -> BTreeSet<RegionName> {
    lenders.iter().filter(|(_, horizon)| now < **horizon).map(|(name, _)| name.clone()).collect()
}

/// What both allow: the smaller pool and loans, the larger part lent.
fn smaller(a: &Holding, b: &Holding) -> Holding {
    let loans = a.borrowed.iter().map(|(lender, loan)| (lender.clone(), loan.min(b.borrowed_from(lender))));
    Holding { pool: a.pool.min(b.pool), lent: a.lent.max(b.lent), borrowed: loans.filter(|(_, loan)| !loan.is_zero()).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_shared::heartbeat::Office;
    use quorate_shared::names::SubjectKey;
    use quorate_shared::time::LeaderTime;

    const LEASE: Duration = Duration::from_secs(5);

    fn second(n: u64) -> LocalTime {
        LocalTime::ZERO.after(Duration::from_secs(n))
    }

    fn open(session: u64, now: LocalTime) -> LeaseBook {
        let region = "eu".parse().expect("a name");
        LeaseBook::open(region, "agent".into(), session, 7, BTreeMap::new(), PoliciesInForce::default(), now)
    }

    /// A heartbeat at `sent`, answered at `received`, and the answer applied.
    fn renew(book: &mut LeaseBook, seq: u64, sent: LocalTime, received: LocalTime) {
        let store = StoreReport { kind: "memory".into(), healthy: true };
        let account = Account { policies_read: None, reports: vec![], windows: vec![], spent: vec![], store };
        let beat = book.beat(seq, sent, account);
        let response = Response {
            stamp: Stamp { number: beat.number, office: Office::default(), at: LeaderTime::ZERO },
            nonce: beat.nonce,
            lease: LEASE,
            longest_lease: LEASE,
            drift: Drift::DEFAULT,
            full: true,
            genesis: false,
            offers: Vec::new(),
            lenders: BTreeMap::new(),
            drained_lenders: Vec::new(),
            grants: Vec::new(),
            former: Vec::new(),
            clock_at_least: StoreTime::ZERO,
            policies: PoliciesInForce::default(),
            sets: Vec::new(),
            subject_key: SubjectKey::new([0; 32]),
        };
        let application = book.receive(&response, received).expect("newer than any");
        book.applied(application, received, Duration::ZERO);
    }

    #[test]
    fn the_lease_is_dated_from_the_sending_and_the_floor_from_the_receipt() {
        let mut book = open(1, second(0));
        renew(&mut book, 1, second(10), second(12));
        assert_eq!(book.lease_horizon(), second(10).after(Drift::DEFAULT.shrink(LEASE)));
        assert_eq!(book.floor_horizon(), second(12).after(Drift::DEFAULT.stretch(LEASE)));
    }

    #[test]
    fn an_agent_that_knows_no_lease_reckons_with_the_longest_until_it_is_told() {
        let mut book = open(2, second(100));
        assert!(!book.view(second(100)).leased);
        assert_eq!(book.floor_horizon(), second(100).after(Drift::MAX.stretch(LONGEST_LEASE)));
        renew(&mut book, 1, second(101), second(102));
        assert_eq!(book.floor_horizon(), second(102).after(Drift::DEFAULT.stretch(LEASE)));
        assert!(!book.view(second(107)).whole_floor && book.view(second(108)).whole_floor);
    }
}
