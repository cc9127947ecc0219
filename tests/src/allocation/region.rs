//! One region: a store, an agent and its clients. Clocks are true and nothing fails here.

use super::Micros;
use quorate_limiter::decision::{Charge, Question, Reply};
use quorate_limiter::demand::DemandTracker;
use quorate_limiter::lease_book::{Account, LeaseBook};
use quorate_limiter::matching::PolicyTable;
use quorate_limiter::pace::{self, Hurry, Outcome};
use quorate_limiter::record::{Finish, HoldingsChange, Opening, Settlement};
use quorate_limiter::store::MemoryStore;
use quorate_shared::heartbeat::{Heartbeat, Holding, Number, PoliciesInForce, Response, StoreReport};
use quorate_shared::names::{BudgetId, RegionName};
use quorate_shared::time::{Drift, LocalTime, StoreTime};
use quorate_shared::units::{Capacity, MicroTokens};
use std::collections::BTreeMap;
use std::time::Duration;

/// The span between two heartbeats where nobody is in a hurry.
const PERIOD: Duration = Duration::from_secs(1);

/// One region.
#[derive(Debug)]
pub struct Region {
    store: MemoryStore,
    book: LeaseBook,
    table: PolicyTable,
    demand: DemandTracker,
    name: RegionName,
    drift: Drift,
    /// Beginning, end and outcome of the last heartbeat; no end while it is under way.
    started: Micros,
    ended: Option<(Micros, Outcome)>,
    hurry: Hurry,
    /// Heartbeats sent.
    pub beats: u64,
}

fn local(now: Micros) -> LocalTime {
    LocalTime::from_micros(now)
}

fn store_time(now: Micros) -> StoreTime {
    StoreTime::from_micros(now)
}

impl Region {
    /// A region that has opened its first session.
    pub fn new(name: RegionName, drift: Drift) -> Self {
        let mut store = MemoryStore::default();
        let opening = Opening { session: 1, nonce: 1, burn: false, policies: PoliciesInForce::default() };
        // the first session of an empty store is never refused
        let _ = store.open_session(store_time(0), &opening, "1");
        let book = LeaseBook::open(name.clone(), "agent".into(), 1, 1, BTreeMap::new(), PoliciesInForce::default(), local(0));
        Self {
            store,
            book,
            table: PolicyTable::empty(),
            demand: DemandTracker::default(),
            name,
            drift,
            started: 0,
            ended: Some((0, Outcome::GaveUp)),
            hurry: Hurry::None,
            beats: 0,
        }
    }

    /// When the next heartbeat is due; `None` while one is under way.
    pub fn next_beat(&self) -> Option<Micros> {
        let (ended, outcome) = self.ended?;
        Some(pace::next(local(self.started), local(ended), outcome, PERIOD, self.hurry).as_micros())
    }

    /// Looks, as the agent does now and then, whether the coordinators should hear of the demand.
    pub fn look(&mut self, now: Micros) {
        let table = &self.table;
        let period = |budget: &BudgetId| table.terms(budget).map(|t| t.limit.period());
        self.hurry = self.hurry.max(self.demand.hurry(local(now), period, self.book.holdings().keys()));
    }

    /// The next heartbeat.
    pub fn beat(&mut self, now: Micros) -> Option<Heartbeat> {
        let seq = self.store.draw_seq(store_time(now), self.book.session()).ok()?;
        (self.started, self.ended, self.hurry) = (now, None, Hurry::None);
        self.beats += 1;
        let (table, holdings) = (&self.table, self.book.holdings());
        let reports = self.demand.reports(
            local(now),
            |budget| table.terms(budget).map(|t| t.limit.period()),
            |budget| match holdings.contains_key(budget) {
                true => None,
                false => table.terms(budget).map(|t| t.floor.rate.saturating_sub(t.lendable.rate)),
            },
        );
        let read = Some(self.table.in_force().active).filter(|v| *v > 0);
        let store = StoreReport::new("memory", true);
        let account = Account { policies_read: read, reports, windows: vec![], spent: vec![], store };
        Some(self.book.beat(seq, local(now), account))
    }

    /// The heartbeat came back without an answer.
    pub fn fail(&mut self, now: Micros) {
        self.ended = Some((now, Outcome::Failed));
    }

    /// Applies a response (R3).
    pub fn receive(&mut self, response: &Response, now: Micros) {
        self.ended = Some((now, Outcome::Renewed));
        if let Some(set) = response.sets.first() {
            self.table = PolicyTable::new(&self.name, set, None, response.subject_key.clone());
        }
        let Ok(application) = self.book.receive(response, local(now)) else { return };
        let number = application.stamp.number;
        if application.gives_up() {
            self.ended = Some((now, Outcome::GaveUp));
        }
        let finish = Finish {
            clock_at_least: application.clock_at_least,
            stamp: application.stamp,
            renewal: application.renewal(),
            policies: application.policies,
            full: application.full,
            genesis: application.genesis,
            lapsed: self.book.lapsed(&application, local(now)),
            changed: Vec::new(),
            named: None,
        };
        let at = store_time(now);
        let increases = application.increases.clone();
        let written = self.store.take(at, number).is_ok()
            && self.store.write(at, &self.change(number, &application.reductions, now)).is_ok()
            && self.store.finish(at, &finish).is_ok();
        if written {
            self.book.applied(application, local(now), Duration::ZERO);
            let _ = self.store.write(at, &self.change(number, &increases, now));
        }
    }

    fn change(&self, number: Number, holdings: &[(BudgetId, Holding)], now: Micros) -> HoldingsChange {
        let settle = |(budget, holding): &(BudgetId, Holding)| Settlement {
            budget: budget.clone(),
            holding: holding.clone(),
            standing: self.table.terms(budget),
        };
        HoldingsChange {
            number,
            view: self.book.view(local(now)),
            drift: self.drift,
            settlements: holdings.iter().map(settle).collect(),
            grants: vec![],
        }
    }

    /// One request. True if it is admitted.
    pub fn ask(&mut self, cost: MicroTokens, now: Micros) -> bool {
        let matched = self.table.matches(|_| None, 0, Some(cost));
        let charges: Vec<Charge> = matched.into_iter().map(|m| m.charge).collect();
        let question = Question { view: self.book.view(local(now)), drift: self.drift, charges };
        let Reply::Decided(decision) = self.store.decide(store_time(now), &question) else { return false };
        for (charge, limit) in question.charges.iter().zip(&decision.limits) {
            if self.demand.count(local(now), charge, decision.allowed, limit) {
                self.hurry = self.hurry.max(Hurry::Wanting);
            }
        }
        decision.allowed
    }

    /// What the region may use now.
    pub fn entitlement(&self, budget: &BudgetId, now: Micros) -> Capacity {
        let view = self.book.view(local(now));
        let Some(terms) = self.table.terms(budget) else { return Capacity::ZERO };
        let holding = self.book.holdings().get(budget).cloned().unwrap_or_default();
        holding.entitlement(terms.floor, view.whole_floor, view.leased, |l| view.standing_lenders.contains(l))
    }
}
