//! One region: an agent that may die at any step, its disk, its clock, and the store beside it.

use super::Micros;
use super::agent::Agent;
use super::chance::Chance;
use super::clock::Clock;
use super::disk::Disk;
use super::policies::{ATTRIBUTE, Place};
use super::store::Store;
use quorate_limiter::decision::Charge;
use quorate_limiter::matching::PolicyTable;
use quorate_shared::heartbeat::{Holding, PoliciesInForce};
use quorate_shared::mistake::{self, Mistake};
use quorate_shared::names::{BudgetId, RegionName};
use quorate_shared::time::{Drift, LocalTime};
use quorate_shared::units::{Capacity, MicroTokens};
use std::time::Duration;

/// Regions in a world at most.
pub const MOST_REGIONS: usize = 3;

/// One region.
#[derive(Debug)]
pub struct Region {
    /// Its name.
    pub name: RegionName,
    /// The names of all regions.
    pub all: Vec<RegionName>,
    /// Its store.
    pub store: Store,
    /// Its agent's disk.
    pub disk: Disk,
    /// Its agent, while that runs.
    pub agent: Option<Agent>,
    /// Its agent stands still until then.
    pub paused_until: Micros,
    /// Its agent's machine slept, and the agent has not noticed yet (R6).
    pub slept: bool,
    /// The operator keeps its agent down.
    pub stopped: bool,
    /// Its store's clock was put forward.
    pub stepped: bool,
    /// Nobody can have seen all forward steps of its store's clock: no agent looked, or it ended since.
    pub missed_steps: bool,
    /// Its agent has something to say at once.
    pub eager: bool,
    pub(super) clock: Clock,
    pub(super) drift: Drift,
    pub(super) places: Vec<Place>,
    pub(super) tickets: u64,
}

/// What a region could admit of one budget at one instant, and on what grounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usable {
    /// The session of its record.
    pub session: u64,
    /// Another number each time that something happened to all buckets.
    pub epoch: u64,
    /// The policy sets by which it goes.
    pub policies: PoliciesInForce,
    /// The generation by which it goes; 0: it goes by none.
    pub generation: u64,
    /// Of the limit by which it goes.
    pub period: Duration,
    /// `f`, by the policies that it goes by.
    pub floor: Capacity,
    /// `λ`, likewise.
    pub lendable: Capacity,
    /// The part of its own floor that it may use.
    pub own: Capacity,
    /// The part of the pool.
    pub pool: Capacity,
    /// The parts of others' floors.
    pub loans: [Capacity; MOST_REGIONS],
    /// What its record says that it leaves alone.
    pub lent: Capacity,
    /// True if it may use the whole floor in spite of that.
    pub whole: bool,
    /// True after a loss of state.
    pub burnt: bool,
    /// True if it has applied a response in this session, and is not about to write what it holds.
    pub settled: bool,
}

impl Usable {
    /// All of it.
    pub fn total(&self) -> Capacity {
        self.loans.iter().copied().fold(self.own.plus(self.pool), Capacity::plus)
    }

    /// True if it is more than the region's own.
    pub fn is_leased(&self) -> bool {
        !self.pool.is_zero() || self.loans.iter().any(|loan| !loan.is_zero())
    }
}

impl Region {
    /// A region that never ran.
    pub fn new(name: RegionName, all: &[RegionName], places: &[Place], drift: Drift, chance: &mut Chance) -> Self {
        Self {
            name,
            all: all.to_vec(),
            store: Store::new(drift, chance),
            disk: Disk::default(),
            agent: None,
            paused_until: 0,
            slept: false,
            stopped: false,
            stepped: false,
            missed_steps: false,
            eager: false,
            clock: Clock::new(chance.below(100 * super::SECOND), drift, chance),
            drift,
            places: places.to_vec(),
            tickets: 0,
        }
    }

    pub(super) fn local(&self, now: Micros) -> LocalTime {
        LocalTime::from_micros(self.clock.read(now))
    }

    /// The agent's process begins, unless it runs, or is kept down.
    pub fn start(&mut self, observer: u64) {
        if self.agent.is_none() && !self.stopped {
            self.agent = Some(Agent::new(observer));
        }
    }

    /// The agent dies, wherever it was.
    pub fn crash(&mut self) {
        self.missed_steps |= self.stepped;
        self.agent = None;
        self.paused_until = 0;
        self.slept = false;
    }

    /// The agent's machine is off for a moment: its clock begins anew.
    pub fn reboot(&mut self, now: Micros) {
        self.clock.restart(now, 0);
        if !mistake::made(Mistake::HorizonsKeptOverReboot) {
            self.crash();
        }
    }

    /// The operator takes the region out of service, with all that it remembers.
    pub fn wipe(&mut self) {
        self.crash();
        self.store.lose();
        self.disk = Disk::default();
    }

    /// Its store's clock is put forward.
    pub fn step_forward(&mut self, now: Micros, span: u64) {
        self.stepped = true;
        self.missed_steps |= self.agent.as_ref().is_none_or(|agent| !agent.watches);
        self.store.step_forward(now, span);
    }

    /// Its store's clock is put back, which hides a step forward.
    pub fn step_back(&mut self, now: Micros, span: u64) {
        self.missed_steps = true;
        self.store.step_back(now, span);
    }

    /// True while its agent may use leased parts.
    pub fn is_leased(&self, now: Micros) -> bool {
        let book = self.agent.as_ref().and_then(|agent| agent.book.as_ref());
        book.is_some_and(|book| book.view(self.local(now)).leased)
    }

    /// What it could admit of each place now. Nothing while its agent is down: nobody else decides.
    pub fn usable(&self, now: Micros) -> Vec<Usable> {
        self.find_usable(now).unwrap_or_else(|| vec![Usable::default(); self.places.len()])
    }

    fn find_usable(&self, now: Micros) -> Option<Vec<Usable>> {
        let agent = self.agent.as_ref()?;
        let book = agent.book.as_ref()?;
        let record = self.store.record(now)?;
        let view = book.view(self.local(now));
        let known = record.is_known_by(view.number);
        let (charges, current) = agent.charges_by(record.policies)?;
        let (leased, whole) = (view.leased && known && current, view.whole_floor && known && current);
        let usable = |charge: &Option<Charge>| {
            let Some(charge) = charge else { return Usable::default() };
            let held = record.holdings.get(&charge.budget);
            let lent = match held {
                Some(holding) => holding.lent,
                None if record.burnt => charge.lendable,
                None => Capacity::ZERO,
            };
            let loan = |lender: &RegionName| match held {
                Some(holding) if leased && !view.lapsed_lenders.contains(lender) => holding.borrowed_from(lender),
                _ => Capacity::ZERO,
            };
            let mut loans = [Capacity::ZERO; MOST_REGIONS];
            loans.iter_mut().zip(&self.all).for_each(|(part, lender)| *part = loan(lender));
            Usable {
                session: record.session,
                epoch: record.epoch,
                policies: record.policies,
                generation: charge.budget.generation,
                period: charge.limit.period(),
                floor: charge.floor,
                lendable: charge.lendable,
                own: if whole { charge.floor } else { charge.floor.minus(lent) },
                pool: held.filter(|_| leased).map(|holding| holding.pool).unwrap_or_default(),
                loans,
                lent,
                whole,
                burnt: record.burnt,
                settled: book.is_applied() && !agent.is_busy(),
            }
        };
        Some(charges.iter().map(usable).collect())
    }

    /// When one of its horizons passes next: until then [`Self::usable`] stays as it is, unless
    /// something happens.
    pub fn next_horizon(&self, now: Micros) -> Option<Micros> {
        let book = self.agent.as_ref()?.book.as_ref()?;
        let local = self.local(now);
        let horizons = [book.view_horizon(local), book.lease_horizon(), book.floor_horizon()];
        horizons.into_iter().filter_map(|horizon| self.clock.shows(horizon.as_micros(), now)).min()
    }

    /// What its record says of a budget; nothing if it has none.
    pub fn holding(&self, budget: &BudgetId, now: Micros) -> Holding {
        self.store.record(now).and_then(|record| record.holdings.get(budget)).cloned().unwrap_or_default()
    }

    /// What a policy table says of each place.
    pub(super) fn charges(places: &[Place], table: &PolicyTable) -> Vec<Option<Charge>> {
        let charge = |place: &Place| {
            let subject = |name: &str| (name == ATTRIBUTE).then_some(place.name);
            let matched = table.matches(subject, Some(MicroTokens::ZERO)).into_iter().find(|matched| matched.policy == place.policy);
            matched.map(|matched| matched.charge)
        };
        places.iter().map(charge).collect()
    }
}
