//! One region: an agent that may die at any step, its disk, its clock, and the store beside it.

use super::Micros;
use super::agent::Agent;
use super::chance::Chance;
use super::clock::Clock;
use super::disk::Disk;
use super::follower::FollowingAgent;
use super::policies::{ATTRIBUTE, Place};
use super::store::Store;
use quorate_limiter::decision::Charge;
use quorate_limiter::decision::LeaseView;
use quorate_limiter::election::AgentId;
use quorate_limiter::matching::PolicyTable;
use quorate_limiter::record::Record;
use quorate_limiter::store::Usage;
use quorate_shared::heartbeat::{Holding, PoliciesInForce};
use quorate_shared::mistake::{self, Mistake};
use quorate_shared::names::{BudgetId, RegionName};
use quorate_shared::policy::Shape;
use quorate_shared::time::{Drift, LocalTime, WindowLabel};
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
    /// A second agent, which follows the first.
    pub follower: Option<FollowingAgent>,
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
    /// Its agents may spend something by themselves.
    pub has_seats: bool,
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
    /// What its agent may spend by itself.
    pub seat: Capacity,
    /// True after a loss of state.
    pub burnt: bool,
    /// True if it has applied a response in this session, and is not about to write what it holds.
    pub settled: bool,
    /// True if its floor has ended by itself, so that it may use nothing.
    pub ended: bool,
    /// True while its lease stands.
    pub leased: bool,
}

impl Usable {
    /// All of it.
    pub fn total(&self) -> Capacity {
        self.loans.iter().copied().fold(self.own.plus(self.pool), Capacity::plus).plus(self.seat)
    }

    /// What another agent of the region could admit too: the same store decides for both.
    fn include(&mut self, other: &Self) {
        if self.generation == 0 {
            *self = *other;
        } else if other.generation == self.generation {
            self.own = self.own.max(other.own);
            self.pool = self.pool.max(other.pool);
            self.loans.iter_mut().zip(other.loans).for_each(|(loan, more)| *loan = loan.max(more));
            self.whole |= other.whole;
        }
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
            follower: None,
            paused_until: 0,
            slept: false,
            stopped: false,
            stepped: false,
            missed_steps: false,
            eager: false,
            has_seats: false,
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
            let predecessor = self.disk.begin(AgentId(observer));
            self.agent = Some(Agent::new(observer, predecessor));
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
        self.follower = None;
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

    /// Stands for a random number: never the same twice.
    pub(super) fn new_number(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    /// What it could admit of each place now, by any of its agents. Nothing while they are down:
    /// nobody else decides.
    pub fn usable(&self, now: Micros) -> Vec<Usable> {
        let mut usable = self.find_usable(now).unwrap_or_else(|| vec![Usable::default(); self.places.len()]);
        for (own, other) in usable.iter_mut().zip(self.usable_by_follower(now).unwrap_or_default()) {
            own.include(&other);
        }
        self.include_seat(&mut usable, now);
        usable
    }

    fn find_usable(&self, now: Micros) -> Option<Vec<Usable>> {
        let agent = self.agent.as_ref()?;
        let book = agent.book.as_ref()?;
        let record = self.store.record(now)?;
        let view = book.view(self.local(now));
        let (charges, current) = agent.charges_by(record.policies)?;
        let settled = book.is_applied() && !agent.is_busy();
        let view = LeaseView { leased: view.leased && current, whole_floor: view.whole_floor && current, ..view };
        Some(self.usable_by(record, &view, charges, settled))
    }

    /// What an agent with this view could admit.
    pub(super) fn usable_by(&self, record: &Record, view: &LeaseView, charges: &[Option<Charge>], settled: bool) -> Vec<Usable> {
        let known = record.is_known_by(view.number, view.nonce);
        let leased = view.leased && known;
        let usable = |charge: &Option<Charge>| {
            let ended = charge.as_ref().is_some_and(|c| !view.floor_holds(c.floor_ttl, self.drift, Duration::ZERO));
            // units of a window are checked where they are spent
            let Some(charge) = charge.as_ref().filter(|c| c.limit.shape() != Shape::Allowance) else { return Usable::default() };
            let drain = charge.limit.drain();
            let whole = view.allows_whole_floor(drain, self.drift) && known;
            let held = record.holdings.get(&charge.budget);
            let lent = match held {
                Some(holding) => holding.lent,
                None if record.burnt => charge.lendable,
                None => Capacity::ZERO,
            };
            let loan = |lender: &RegionName| match held {
                Some(holding) if leased && !ended && view.promises(&charge.budget, drain, lender) => holding.borrowed_from(lender),
                _ => Capacity::ZERO,
            };
            let mut loans = [Capacity::ZERO; MOST_REGIONS];
            let (floor, leased) = if ended { (Capacity::ZERO, false) } else { (charge.floor, leased) };
            loans.iter_mut().zip(&self.all).for_each(|(part, lender)| *part = loan(lender));
            Usable {
                session: record.session,
                epoch: record.epoch,
                policies: record.policies,
                generation: charge.budget.generation,
                period: charge.limit.period(),
                floor,
                lendable: charge.lendable,
                own: if whole { floor } else { floor.minus(lent) },
                pool: held.filter(|_| leased).map(|holding| holding.pool).unwrap_or_default(),
                loans,
                lent,
                whole,
                seat: Capacity::ZERO,
                burnt: record.burnt,
                settled,
                ended,
                leased: view.leased && known,
            }
        };
        charges.iter().map(usable).collect()
    }

    /// When one of its horizons passes next: until then [`Self::usable`] stays as it is, unless
    /// something happens.
    pub fn next_horizon(&self, now: Micros) -> Option<Micros> {
        let horizons = [self.next_horizon_of_agent(now), self.next_horizon_of_follower(now), self.next_horizon_of_seat(now)];
        horizons.into_iter().flatten().min()
    }

    fn next_horizon_of_agent(&self, now: Micros) -> Option<Micros> {
        let agent = self.agent.as_ref()?;
        let book = agent.book.as_ref()?;
        let local = self.local(now);
        let drain = agent.table.longest_drain();
        let whole = book.floor_horizon().after(self.drift.stretch(drain));
        let upcoming = agent.upcoming.as_ref().map_or(&[][..], |(_, charges)| charges);
        let horizons = [book.view_horizon(local), book.lease_horizon(), book.floor_horizon(), whole];
        let heard = book.contact().heard_by(book.policies());
        let ends = self.ends_of_floors(&agent.charges, heard).chain(self.ends_of_floors(upcoming, heard));
        horizons.into_iter().chain(ends).filter_map(|horizon| self.clock.shows(horizon.as_micros(), now)).min()
    }

    /// When floors end by which an agent decides that last heard so of the coordinators.
    pub(super) fn ends_of_floors<'a>(
        &self,
        charges: &'a [Option<Charge>],
        heard: Option<LocalTime>,
    ) -> impl Iterator<Item = LocalTime> + use<'a> {
        let (drift, ttls) = (self.drift, charges.iter().flatten().filter_map(|charge| charge.floor_ttl));
        ttls.filter_map(move |ttl| Some(heard?.after(drift.shrink(ttl))))
    }

    /// The version of the set by which its agent decides; 0 while it knows none.
    pub fn goes_by(&self) -> u64 {
        self.agent.as_ref().map_or(0, |agent| agent.table.in_force().active)
    }

    /// True if its agent decides by a set that limits nothing of this place.
    pub fn goes_without(&self, place: usize) -> bool {
        self.goes_by() > 0 && self.agent.as_ref().is_some_and(|agent| agent.charges.get(place).is_none_or(Option::is_none))
    }

    /// The window of an allowance that it is in.
    pub fn window(&self, charge: &Charge, now: Micros) -> Option<WindowLabel> {
        match self.store.usage(now, charge, self.drift)? {
            Usage::Spent(units) => Some(units.label),
            Usage::Counted(_) => None,
        }
    }

    /// What its record says of a budget; nothing if it has none.
    pub fn holding(&self, budget: &BudgetId, now: Micros) -> Holding {
        self.store.record(now).and_then(|record| record.holdings.get(budget)).cloned().unwrap_or_default()
    }

    /// What a policy table says of each place.
    pub(super) fn charges(places: &[Place], table: &PolicyTable) -> Vec<Option<Charge>> {
        let charge = |place: &Place| {
            let subject = |name: &str| (name == ATTRIBUTE).then_some(place.name);
            let matched = table.matches(subject, 1, Some(MicroTokens::ZERO)).into_iter().find(|matched| matched.policy == place.policy);
            matched.map(|matched| matched.charge)
        };
        places.iter().map(charge).collect()
    }
}
