//! The world: what happens when, and to whom.

mod messages;
mod requests;
mod reservations;
pub mod script;
mod trouble;

use super::call::{InFlight, Outcome};
use super::chance::Chance;
use super::cluster::Cluster;
use super::fault::{Fault, Faults};
use super::invariants::reservations::Reserved;
use super::invariants::{Violation, Watch, bound, healing};
use super::kinds::{self, Kind};
use super::network::Network;
use super::policies::Catalogue;
use super::profile::Profile;
use super::queue::Queue;
use super::region::Region;
use super::request::Asked;
use super::trace::{Line, Tell};
use super::{Micros, SECOND};
use quorate_ledger::StampedHeartbeat;
use quorate_shared::heartbeat::{Answer, Heartbeat, Number};
use quorate_shared::names::SubjectKey;
use quorate_shared::units::MicroTokens;

/// An agent's period.
const PERIOD: Micros = SECOND;
/// After so long nothing fails any more.
pub const TROUBLE: Micros = 18 * SECOND;
/// No schedule is longer.
const END: Micros = 60 * SECOND;

/// What a schedule came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Faults by kind.
    pub faults: Faults,
    /// Requests asked and admitted.
    pub requests: (u64, u64),
    /// Instants at which some region could use more than its own.
    pub leased_instants: u64,
    /// The heartbeats of each region, at least, that it took until all was well.
    pub healing: u64,
    /// A fold of everything that happened: equal for equal runs.
    pub fingerprint: u64,
}

/// Everything, at one instant.
pub struct World {
    now: Micros,
    chance: Chance,
    profile: Profile,
    catalogue: Catalogue,
    queue: Queue<Event>,
    cluster: Cluster,
    network: Network,
    regions: Vec<Region>,
    watch: Watch,
    /// By region: its heartbeats.
    pulses: Vec<Pulse>,
    /// By region: how eager its clients are.
    moods: Vec<requests::Mood>,
    /// The region that plays the first role of a script.
    first_role: usize,
    /// What a script has the leader propose.
    proposed: Option<&'static [script::Wish; 3]>,
    /// The region that wants everything, once nothing fails any more.
    hot: Option<usize>,
    /// The region that stays cut off then.
    cut_off: Option<usize>,
    faults: Faults,
    requests: (u64, u64),
    /// Regions that are to be looked at.
    touched: Vec<bool>,
    ledger_changed: bool,
    tell: Option<Tell>,
}

/// When a region's agent sends.
#[derive(Clone, Copy, Debug, Default)]
struct Pulse {
    /// Of all that were scheduled only this one happens.
    turn: u64,
    next: Micros,
    last: Micros,
    /// Sent since nothing fails any more.
    healing: u64,
}

#[derive(Debug)]
enum Event {
    Beat { r: usize, turn: u64, early: bool },
    Arrive { r: usize, node: usize, beat: Box<Heartbeat> },
    Commit { r: usize, node: usize, entry: Box<StampedHeartbeat> },
    Answer { r: usize, sent: (Number, u64), answer: Box<Answer> },
    Effect { r: usize, call: Box<InFlight>, answer_after: Micros },
    Done { r: usize, ticket: u64, outcome: Outcome },
    TimedOut { r: usize, ticket: u64 },
    Ask { r: usize },
    Decide { r: usize, asked: Box<Asked>, cost: MicroTokens, heard: Micros },
    Settle { r: usize, reserved: Box<Reserved> },
    Moods,
    Act { script: script::Script, next: usize },
    Start { r: usize },
    Elect { restarted: bool },
    Rejoin,
    Fence { r: usize },
    Replicate { r: usize },
    BackUp { r: usize },
    Trouble,
    Heal,
    Complete,
}

impl World {
    /// The world of this seed.
    pub fn new(seed: u64) -> Self {
        Self::of(kinds::of(seed), seed)
    }

    /// The world that this seed draws of a kind, which may be another than its own.
    pub fn of(kind: Kind, seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let profile = Profile::of(kind, seed, &mut chance);
        let key = SubjectKey::new([1; 32]);
        let catalogue = Catalogue::new(&profile, &key);
        let set = catalogue.first(&profile, &mut chance);
        let cluster = Cluster::found(set, key, profile.lease, profile.drift);
        let names = &catalogue.regions;
        let region =
            |name: &quorate_shared::names::RegionName| Region::new(name.clone(), names, &catalogue.places, profile.drift, &mut chance);
        let mut regions: Vec<Region> = names.iter().map(region).collect();
        regions.iter_mut().for_each(|region| region.has_seats = profile.seats);
        let count = regions.len();
        let mut world = Self {
            now: 0,
            chance,
            queue: Queue::default(),
            network: Network::new(count),
            watch: match profile.kind.reserves {
                true => Watch::new(&catalogue, &cluster.ledger).with_regional(),
                false => Watch::new(&catalogue, &cluster.ledger),
            },
            cluster,
            regions,
            pulses: vec![Pulse::default(); count],
            moods: vec![requests::Mood::Idle; count],
            first_role: 0,
            proposed: None,
            hot: None,
            cut_off: None,
            faults: Faults::default(),
            requests: (0, 0),
            touched: vec![false; count],
            ledger_changed: false,
            tell: None,
            profile,
            catalogue,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        self.schedule(0, Event::Elect { restarted: false });
        for r in 0..self.regions.len() {
            self.schedule(1, Event::Start { r });
            if self.profile.kind.several {
                self.regions[r].start_follower(0, &mut self.chance);
            }
            self.schedule(10, Event::Ask { r });
            self.schedule(2 * SECOND, Event::Replicate { r });
            self.schedule(3 * SECOND, Event::BackUp { r });
        }
        if let Some(script) = self.profile.script {
            self.first_role = self.chance.below(self.regions.len() as u64) as usize;
            self.schedule(SECOND / 2, Event::Act { script, next: 0 });
        } else {
            self.schedule(2, Event::Moods);
            self.schedule(SECOND, Event::Trouble);
        }
        self.schedule(TROUBLE, Event::Heal);
    }

    /// The same, telling what happens.
    #[must_use]
    pub fn telling(mut self, tell: impl FnMut(Line) + 'static) -> Self {
        self.tell = Some(Box::new(tell));
        self
    }

    /// Which kind of schedule it is.
    pub fn kind(&self) -> &'static str {
        self.profile.kind.name
    }

    /// Runs the schedule to its end.
    ///
    /// # Errors
    /// The first promise that was broken.
    pub fn run(mut self) -> Result<Report, Violation> {
        while let Some(at) = self.queue.next_at().filter(|at| *at < END) {
            self.pass_horizons(at)?;
            self.now = at;
            if let Some(event) = self.queue.pop() {
                self.happen(event)?;
            }
            self.check()?;
            if let Some(hot) = self.hot
                && self.heals(hot)?
            {
                break;
            }
        }
        let steps_seen = self.regions.iter().all(|region| !region.missed_steps);
        let stores_kept = self.regions.iter().all(|region| region.store.run() == 1);
        bound::check(self.now, &self.watch, &self.cluster.ledger, steps_seen, stores_kept)?;
        Ok(Report {
            faults: self.faults,
            requests: self.requests,
            leased_instants: self.watch.leased_instants,
            healing: self.pulses.iter().map(|pulse| pulse.healing).min().unwrap_or_default(),
            fingerprint: self.watch.fingerprint,
        })
    }

    /// Horizons pass in between: what may be used then changes though nothing happens.
    fn pass_horizons(&mut self, until: Micros) -> Result<(), Violation> {
        while let Some(at) = self.watch.next_horizon().filter(|at| *at <= until) {
            self.now = at;
            for r in self.watch.passed(at) {
                self.tell(Some(r), || "a horizon passes".to_owned());
                self.watch.look_at(r, &self.regions[r], at);
            }
            self.watch.check(at, &self.cluster.ledger)?;
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), Violation> {
        let mut changed = false;
        if std::mem::take(&mut self.ledger_changed) {
            self.watch.check_ledger(self.now, &self.cluster.ledger)?;
            changed = true;
        }
        for r in 0..self.touched.len() {
            if std::mem::take(&mut self.touched[r]) {
                self.watch.look_at(r, &self.regions[r], self.now);
                changed = true;
            }
        }
        if changed { self.watch.check(self.now, &self.cluster.ledger) } else { Ok(()) }
    }

    /// True once all is well again.
    fn heals(&self, hot: usize) -> Result<bool, Violation> {
        let Some(what) = healing::unwell(self.now, &self.watch, &self.cluster.ledger, &self.regions, (hot, self.cut_off)) else {
            return Ok(true);
        };
        let drain = self.profile.longest_drain();
        let quiet = if self.profile.has(Fault::CoordinatorsRestored) { healing::after_restore(drain) } else { 0 };
        let most = healing::heartbeats(drain) + quiet;
        let too_long = match self.cut_off {
            None => self.pulses.iter().all(|pulse| pulse.healing >= most),
            // of those that must do without one nobody counts the heartbeats
            Some(_) => self.now >= TROUBLE + healing::WITHOUT_ONE,
        };
        if too_long { Err(healing::too_long(self.now, most, what)) } else { Ok(false) }
    }

    fn happen(&mut self, event: Event) -> Result<(), Violation> {
        match event {
            Event::Beat { r, turn, early } => self.beat(r, turn, early),
            Event::Arrive { r, node, beat } => self.arrive(r, node, *beat),
            Event::Commit { r, node, entry } => self.commit(r, node, *entry),
            Event::Answer { r, sent, answer } => self.answer(r, sent, *answer),
            Event::Effect { r, call, answer_after } => self.take_effect(r, *call, answer_after),
            Event::Done { r, ticket, outcome } => self.done(r, ticket, outcome),
            Event::TimedOut { r, ticket } => self.done(r, ticket, Outcome::Unknown),
            Event::Ask { r } => return self.ask(r),
            Event::Decide { r, asked, cost, heard } => return self.decide(r, *asked, cost, heard),
            Event::Settle { r, reserved } => return self.settle(r, *reserved),
            Event::Moods => self.change_moods(),
            Event::Act { script, next } => self.act(script, next),
            Event::Start { r } => self.start(r),
            Event::Elect { restarted } => self.elect(restarted),
            Event::Rejoin => self.cluster.rejoin(),
            Event::Fence { r } => self.fence(r),
            Event::Replicate { r } => {
                if self.regions[r].store.found(self.now).is_some() {
                    self.regions[r].store.replicate();
                }
                self.schedule(4 * SECOND, Event::Replicate { r });
            }
            Event::BackUp { r } => {
                if self.regions[r].store.found(self.now).is_some() {
                    self.regions[r].store.back_up();
                }
                self.schedule(7 * SECOND, Event::BackUp { r });
            }
            Event::Trouble => self.trouble(),
            Event::Heal => self.heal(),
            Event::Complete => self.complete(),
        }
        Ok(())
    }

    fn schedule(&mut self, after: Micros, event: Event) {
        self.queue.schedule(self.now + after, event);
    }

    /// Something happened that concerns what this region can use.
    fn touch(&mut self, r: usize) {
        self.touched[r] = true;
    }

    /// True if this happens to one message or call.
    fn hazard(&mut self, fault: Fault) -> bool {
        let odds = if self.hot.is_some() { 0 } else { self.profile.hazard(fault) };
        let happens = odds > 0 && self.chance.per_mille(odds);
        if happens {
            self.faults.count(fault);
        }
        happens
    }

    fn tell(&mut self, region: Option<usize>, text: impl FnOnce() -> String) {
        if let Some(tell) = &mut self.tell {
            tell(Line { at: self.now, region: region.map(|r| self.regions[r].name.clone()), text: text() });
        }
    }
}
