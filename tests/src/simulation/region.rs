//! One region: a store, an agent that may die at any step, a clock of its own.

use super::Micros;
use super::chance::Chance;
use quorate_limiter::decision::{Charge, Question, Reply};
use quorate_limiter::demand::DemandTracker;
use quorate_limiter::lease_book::{Account, Application, LeaseBook};
use quorate_limiter::matching::PolicyTable;
use quorate_limiter::record::{Finish, HoldingsChange, Opening, Settlement};
use quorate_limiter::store::MemoryStore;
use quorate_shared::heartbeat::{Answer, Heartbeat, Holding, Number, PoliciesInForce, StoreReport};
use quorate_shared::names::{BudgetId, PolicyName, RegionName, SubjectKey};
use quorate_shared::policy::PolicySet;
use quorate_shared::time::{Drift, LocalTime, StoreTime};
use quorate_shared::units::{Capacity, MicroTokens};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One region.
#[derive(Debug)]
pub struct Region {
    /// Its name.
    pub name: RegionName,
    /// How fast its agent's clock runs, in millionths of true time.
    rate: u64,
    /// How fast its store's clock runs.
    store_rate: u64,
    store: MemoryStore,
    backup: Option<MemoryStore>,
    run: u64,
    agent: Option<Agent>,
    /// What the agent's disk remembers.
    sets: BTreeMap<u64, Arc<PolicySet>>,
    in_force: PoliciesInForce,
    key: Option<SubjectKey>,
    greatest_session: u64,
    /// Stand for random numbers: never the same twice.
    nonces: u64,
    drift: Drift,
}

/// What dies with the agent's process.
#[derive(Debug)]
struct Agent {
    book: LeaseBook,
    table: PolicyTable,
    demand: DemandTracker,
    applying: Option<(Application, PolicyTable, Step)>,
}

/// How far the application of a response has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Take,
    Reduce,
    Finish,
}

impl Region {
    /// A region that never ran.
    pub fn new(name: RegionName, drift: Drift, chance: &mut Chance) -> Self {
        let ppm = u64::from(drift.ppm());
        let mut rate = || chance.between(1_000_000 - ppm / 2, 1_000_000 + ppm / 2);
        Self {
            name,
            rate: rate(),
            store_rate: rate(),
            store: MemoryStore::default(),
            backup: None,
            run: 1,
            agent: None,
            sets: BTreeMap::new(),
            in_force: PoliciesInForce::default(),
            key: None,
            greatest_session: 0,
            nonces: 0,
            drift,
        }
    }

    fn local(&self, now: Micros) -> LocalTime {
        LocalTime::from_micros(scale(now, self.rate))
    }

    fn store_time(&self, now: Micros) -> StoreTime {
        StoreTime::from_micros(1_000_000 * super::SECOND + scale(now, self.store_rate))
    }

    /// True while its agent runs.
    pub fn is_up(&self) -> bool {
        self.agent.is_some()
    }

    /// The agent dies, wherever it was.
    pub fn crash(&mut self) {
        self.agent = None;
    }

    /// The store is saved, to be restored some time.
    pub fn back_up(&mut self) {
        self.backup = Some(self.store.clone());
    }

    /// The store is restored from its backup, if it has one: another run of it, with an old record.
    pub fn restore(&mut self) {
        if let Some(backup) = self.backup.clone() {
            self.run += 1;
            self.store = backup;
        }
    }

    /// The store loses everything.
    pub fn lose_store(&mut self) {
        self.run += 1;
        self.store = MemoryStore::default();
    }

    /// The agent starts and opens a session (R5).
    pub fn start(&mut self, now: Micros) {
        self.nonces += 1;
        let store_now = self.store_time(now);
        let stored = self.store.record(store_now);
        let session = self.greatest_session.max(stored.map_or(0, |r| r.session)) + 1;
        let trusted = stored.filter(|r| r.store == self.run.to_string());
        let policies = trusted.map_or(self.in_force, |r| r.policies);
        let opening = Opening { session, burn: false, policies };
        if self.store.open_session(store_now, &opening, &self.run.to_string()).is_err() {
            return;
        }
        let record = self.store.record(store_now).cloned().unwrap_or_default();
        let local = self.local(now);
        let mut demand = DemandTracker::default();
        demand.restart(local);
        let book = LeaseBook::open(self.name.clone(), "agent".into(), session, self.nonces, record.holdings, record.policies, local);
        let table = self.table(record.policies).unwrap_or_else(PolicyTable::empty);
        // an agent whose disk and store were both lost learns from the coordinator how far its sessions had come
        self.agent = Some(Agent { book, table, demand, applying: None });
    }

    fn table(&self, in_force: PoliciesInForce) -> Option<PolicyTable> {
        let active = self.sets.get(&in_force.active)?;
        let next = match in_force.next {
            Some(version) => Some(self.sets.get(&version)?),
            None => None,
        };
        Some(PolicyTable::new(&self.name, active, next, self.key.clone()?))
    }

    /// The next heartbeat.
    pub fn beat(&mut self, now: Micros) -> Option<Heartbeat> {
        let (local, store_now) = (self.local(now), self.store_time(now));
        let newest = self.sets.keys().next_back().copied();
        let agent = self.agent.as_mut()?;
        let Ok(seq) = self.store.draw_seq(store_now, agent.book.session()) else {
            self.agent = None;
            return None;
        };
        let table = &agent.table;
        let holdings = agent.book.holdings();
        let reports = agent.demand.reports(
            local,
            |budget| table.terms(budget).map(|t| t.limit.period()),
            |budget| match holdings.contains_key(budget) {
                true => None,
                false => table.terms(budget).map(|t| t.floor.rate.saturating_sub(t.lendable.rate)),
            },
        );
        let store = StoreReport { kind: "memory".into(), healthy: true };
        let account = Account { policies_read: newest, reports, windows: vec![], spent: vec![], store };
        Some(agent.book.beat(seq, local, account))
    }

    /// An answer arrives. What it says is applied step by step, by [`Self::step`].
    pub fn receive(&mut self, answer: &Answer, now: Micros) {
        let local = self.local(now);
        let response = match answer {
            Answer::Renewed(response) => response,
            Answer::Stale { newest } => {
                if self.agent.as_ref().is_some_and(|a| newest.session >= a.book.session()) {
                    self.greatest_session = newest.session;
                    self.start(now);
                }
                return;
            }
            Answer::UnknownRegion => return,
        };
        self.sets.extend(response.sets.iter().map(|set| (set.version, set.clone())));
        self.key = Some(response.subject_key.clone());
        let Some(table) = self.table(response.policies) else { return };
        let Some(agent) = self.agent.as_mut() else { return };
        // a response may overtake the application of an earlier one, which the store then refuses
        if let Ok(application) = agent.book.receive(response, local) {
            self.in_force = response.policies;
            agent.applying = Some((application, table, Step::Take));
        }
    }

    /// One step of the application of a response, if one is under way. True if more are to come.
    pub fn step(&mut self, now: Micros) -> bool {
        let (local, store_now) = (self.local(now), self.store_time(now));
        let Some(agent) = self.agent.as_mut() else { return false };
        let Some((application, table, step)) = agent.applying.take() else { return false };
        let number = application.stamp.number;
        match step {
            Step::Take => {
                let taken = self.store.take(store_now, number).is_ok();
                agent.applying = taken.then_some((application, table, Step::Reduce));
                taken
            }
            Step::Reduce => {
                let done = self.store.write(store_now, &change(agent, number, &application.reductions, self.drift, local));
                agent.applying = done.is_ok().then_some((application, table, Step::Finish));
                done.is_ok()
            }
            Step::Finish => {
                self.finish(application, table, now);
                false
            }
        }
    }

    fn finish(&mut self, application: Application, table: PolicyTable, now: Micros) {
        let (local, store_now) = (self.local(now), self.store_time(now));
        let Some(agent) = self.agent.as_mut() else { return };
        let before = agent.book.policies();
        let changed = match before == application.policies || before.active == 0 {
            true => Vec::new(),
            false => table.changed_since((agent.table.in_force() == before).then_some(&agent.table)),
        };
        let finish = Finish {
            stamp: application.stamp,
            renewal: application.renewal(),
            policies: application.policies,
            full: application.full,
            genesis: application.genesis,
            lapsed: agent.book.lapsed(&application, local),
            changed,
        };
        if self.store.finish(store_now, &finish).is_err() {
            return;
        }
        let (number, increases) = (application.stamp.number, application.increases.clone());
        agent.book.applied(application, local, agent.table.longest_drain().max(table.longest_drain()));
        agent.table = table;
        let change = change(agent, number, &increases, self.drift, local);
        let _ = self.store.write(store_now, &change);
    }

    /// One request. What was admitted, if it was.
    pub fn ask(&mut self, subject: &str, cost: MicroTokens, now: Micros) -> Option<(BudgetId, MicroTokens)> {
        let (local, store_now) = (self.local(now), self.store_time(now));
        let agent = self.agent.as_mut()?;
        if agent.table.in_force().active == 0 {
            return None;
        }
        let matched = agent.table.matches(|name| (name == "tenant").then_some(subject), Some(cost));
        let charges: Vec<Charge> = matched.into_iter().map(|m| m.charge).collect();
        let budget = charges.first()?.budget.clone();
        let question = Question { view: agent.book.view(local), drift: self.drift, charges };
        match self.store.decide(store_now, &question) {
            Reply::Decided(decision) => {
                if let Some(limit) = decision.limits.first() {
                    agent.demand.count(&budget, cost, decision.allowed, limit);
                }
                decision.allowed.then_some((budget, cost))
            }
            Reply::NoRecord => {
                self.greatest_session = self.greatest_session.max(agent.book.session());
                self.start(now);
                None
            }
            _ => None,
        }
    }

    /// What the region could admit of a budget now: nothing while its agent is down, since nobody
    /// else decides.
    pub fn entitlement(&self, budget: &BudgetId, now: Micros) -> Capacity {
        let Some(agent) = &self.agent else { return Capacity::ZERO };
        let view = agent.book.view(self.local(now));
        let Some(record) = self.store.record(self.store_time(now)) else { return Capacity::ZERO };
        let Some(terms) = agent.table.terms(budget).filter(|_| record.policies == view.policies) else { return Capacity::ZERO };
        let holding = record.holding(budget, terms.lendable);
        let may_use = record.is_known_by(view.number);
        holding.entitlement(terms.floor, view.whole_floor && may_use, view.leased && may_use, |l| !view.lapsed_lenders.contains(l))
    }

    /// Of the policies that its agent goes by.
    pub fn floor(&self, policy: &PolicyName, budget: &BudgetId) -> Capacity {
        debug_assert_eq!(*policy, budget.policy);
        self.agent.as_ref().and_then(|a| a.table.terms(budget)).map(|t| t.floor).unwrap_or_default()
    }

    /// True while its agent may use leased parts.
    pub fn is_leased(&self, now: Micros) -> bool {
        self.agent.as_ref().is_some_and(|a| a.book.view(self.local(now)).leased)
    }
}

fn change(agent: &Agent, number: Number, holdings: &[(BudgetId, Holding)], drift: Drift, local: LocalTime) -> HoldingsChange {
    let settle = |(budget, holding): &(BudgetId, Holding)| Settlement {
        budget: budget.clone(),
        holding: holding.clone(),
        standing: agent.table.terms(budget),
    };
    HoldingsChange { number, view: agent.book.view(local), drift, settlements: holdings.iter().map(settle).collect(), grants: vec![] }
}

fn scale(now: Micros, rate: u64) -> u64 {
    u64::try_from(u128::from(now) * u128::from(rate) / 1_000_000).unwrap_or(u64::MAX)
}
