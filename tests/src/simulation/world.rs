//! The world: what happens when, and to whom.

use super::chance::Chance;
use super::check::{self, AdmissionMeter, Violation};
use super::cluster::Cluster;
use super::region::Region;
use super::{Micros, SECOND};
use quorate_ledger::StampedHeartbeat;
use quorate_shared::heartbeat::{Answer, Heartbeat};
use quorate_shared::names::{BudgetId, SubjectHash, SubjectKey};
use quorate_shared::policy::{CostRule, FloorRule, Limit, Mode, OnStoreFailure, Policy, PolicySet};
use quorate_shared::time::Drift;
use quorate_shared::units::{Capacity, MicroTokens, PartsPerMillion};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(4);
const PERIOD: Micros = SECOND;
/// After so long, everything heals, and must be well again.
const TROUBLE: Micros = 60 * SECOND;
/// Time to become well again in.
const HEALING: Micros = 90 * SECOND;
const SUBJECT: &str = "acme";

/// What a schedule came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Faults by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Requests asked and admitted.
    pub requests: (u64, u64),
    /// Instants at which some region held more than its floor.
    pub leased_instants: u64,
    /// A fold of everything that happened: equal for equal runs.
    pub fingerprint: u64,
}

type Tell = Box<dyn FnMut(Micros, &str)>;

/// Everything, at one instant.
pub struct World {
    now: Micros,
    chance: Chance,
    cluster: Cluster,
    regions: Vec<Region>,
    /// By region: cut off from the coordinators until then.
    cut_until: Vec<Micros>,
    /// By region: how eager its clients are, in requests per second.
    appetite: Vec<u64>,
    events: BTreeMap<(Micros, u64), Event>,
    scheduled: u64,
    meter: AdmissionMeter,
    budget: BudgetId,
    drift: Drift,
    report: Report,
    tell: Option<Tell>,
}

#[derive(Clone, Debug)]
enum Event {
    Beat(usize),
    Arrive(Heartbeat),
    Commit(usize, StampedHeartbeat),
    Answer(usize, Answer),
    Step(usize),
    Ask(usize),
    Appetite(usize),
    Crash(usize),
    Start(usize),
    LoseLeader,
    Elect,
    ChangePolicies,
}

impl World {
    /// The world of this seed.
    pub fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let drift = Drift::from_ppm([0, 1_000, 50_000][chance.below(3) as usize]).unwrap_or_default();
        let names: Vec<_> = ["ap", "eu", "us"].iter().filter_map(|n| n.parse().ok()).collect();
        let regions: Vec<Region> = names.into_iter().map(|name| Region::new(name, drift, &mut chance)).collect();
        let set = policies(&regions, true, &mut chance);
        let policy = set.policies[0].clone();
        let cluster = Cluster::found(set, LEASE, drift);
        let subject = SubjectHash::of(&SubjectKey::new([1; 32]), &policy.name, [SUBJECT]);
        let budget = BudgetId { policy: policy.name, generation: 1, subject };
        let mut world = Self {
            now: 0,
            chance,
            cluster,
            cut_until: vec![0; regions.len()],
            appetite: vec![0; regions.len()],
            regions,
            events: BTreeMap::new(),
            scheduled: 0,
            meter: AdmissionMeter::default(),
            budget,
            drift,
            report: Report::default(),
            tell: None,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        self.schedule(0, Event::Elect);
        self.schedule(7 * SECOND, Event::ChangePolicies);
        for region in 0..self.regions.len() {
            self.schedule(1, Event::Start(region));
            self.schedule(2, Event::Beat(region));
            self.schedule(3, Event::Appetite(region));
            self.schedule(4, Event::Ask(region));
        }
    }

    /// The same, telling each event, with its time, before it happens.
    #[must_use]
    pub fn telling(mut self, tell: impl FnMut(Micros, &str) + 'static) -> Self {
        self.tell = Some(Box::new(tell));
        self
    }

    /// Runs the schedule to its end.
    ///
    /// # Errors
    /// The first promise that was broken.
    pub fn run(mut self) -> Result<Report, Violation> {
        while let Some(((at, _), event)) = self.events.pop_first() {
            if at > TROUBLE + HEALING {
                break;
            }
            self.now = at;
            if let Some(tell) = &mut self.tell {
                tell(at, &format!("{event:?}"));
            }
            self.happen(event)?;
            self.check()?;
        }
        self.check_healed()?;
        Ok(self.report)
    }

    fn schedule(&mut self, after: Micros, event: Event) {
        self.scheduled += 1;
        self.events.insert((self.now + after, self.scheduled), event);
    }

    fn troubled(&self) -> bool {
        self.now < TROUBLE
    }

    fn fault(&mut self, kind: &'static str, per_mille: u64) -> bool {
        let happens = self.troubled() && self.chance.per_mille(per_mille);
        if happens {
            *self.report.faults.entry(kind).or_default() += 1;
        }
        happens
    }

    fn happen(&mut self, event: Event) -> Result<(), Violation> {
        match event {
            Event::Beat(r) => self.beat(r),
            Event::Arrive(beat) => self.arrive(beat),
            Event::Commit(r, entry) => self.commit(r, entry),
            Event::Answer(r, answer) => {
                self.regions[r].receive(&answer, self.now);
                self.schedule_step(r);
            }
            Event::Step(r) => {
                if self.regions[r].step(self.now) {
                    self.schedule_step(r);
                }
            }
            Event::Ask(r) => return self.ask(r),
            Event::Appetite(r) => {
                self.appetite[r] = [0, 0, 3, 20, 60][self.chance.below(5) as usize];
                let span = self.chance.between(SECOND, 15 * SECOND);
                self.schedule(span, Event::Appetite(r));
            }
            Event::Crash(r) => {
                self.regions[r].crash();
                if self.fault("store lost", 200) {
                    self.regions[r].lose_store();
                } else if self.fault("store restored", 200) {
                    self.regions[r].restore();
                } else if self.chance.per_mille(300) {
                    self.regions[r].back_up();
                }
                let down = self.chance.between(1_000, 8 * SECOND);
                self.schedule(down, Event::Start(r));
            }
            Event::Start(r) => {
                if !self.regions[r].is_up() {
                    self.regions[r].start(self.now);
                }
            }
            Event::LoseLeader => {
                self.cluster.lose_leader();
                let vacancy = self.chance.between(1_000, 7 * SECOND);
                self.schedule(vacancy, Event::Elect);
            }
            Event::Elect => {
                let same_term = self.fault("leader restarted in its term", 300);
                self.cluster.elect(self.now, same_term, self.drift, &mut self.chance);
            }
            Event::ChangePolicies => {
                if self.fault("policies changed", 500) {
                    self.cluster.change_policies(policies(&self.regions, false, &mut self.chance));
                }
                if self.now >= TROUBLE && !self.everywhere_named() {
                    self.cluster.change_policies(policies(&self.regions, true, &mut self.chance));
                }
                self.schedule(7 * SECOND, Event::ChangePolicies);
            }
        }
        Ok(())
    }

    fn beat(&mut self, r: usize) {
        if self.fault("agent killed", 10) {
            self.schedule(0, Event::Crash(r));
        }
        if self.fault("region cut off", 15) {
            self.cut_until[r] = self.now + self.chance.between(SECOND, 12 * SECOND);
        }
        if self.cluster.has_leader() && self.fault("leader lost", 12) {
            self.schedule(0, Event::LoseLeader);
        }
        if !self.regions[r].is_up() && !self.troubled() {
            self.regions[r].start(self.now);
        }
        if let Some(beat) = self.regions[r].beat(self.now)
            && self.now >= self.cut_until[r]
        {
            if self.fault("heartbeat doubled", 30) {
                self.send(Event::Arrive(beat.clone()));
            }
            self.send(Event::Arrive(beat));
        }
        let pause = self.chance.between(PERIOD / 4, PERIOD);
        self.schedule(pause, Event::Beat(r));
    }

    /// A message on its way: late, very late or lost.
    fn send(&mut self, message: Event) {
        if self.fault("message lost", 50) {
            return;
        }
        let delay = match self.fault("message late", 60) {
            true => self.chance.between(SECOND, 9 * SECOND),
            false => self.chance.between(100, 200_000),
        };
        self.schedule(delay, message);
    }

    fn arrive(&mut self, beat: Heartbeat) {
        let Some(r) = self.regions.iter().position(|region| region.name == beat.region) else { return };
        if let Some(entry) = self.cluster.stamp(beat, self.now) {
            let delay = match self.fault("commit late", 60) {
                true => self.chance.between(100_000, 6 * SECOND),
                false => self.chance.between(100, 20_000),
            };
            self.schedule(delay, Event::Commit(r, entry));
        }
    }

    fn commit(&mut self, r: usize, entry: StampedHeartbeat) {
        if let Some(answer) = self.cluster.commit(entry)
            && self.now >= self.cut_until[r]
        {
            if self.fault("answer doubled", 30) {
                self.send(Event::Answer(r, answer.clone()));
            }
            self.send(Event::Answer(r, answer));
        }
    }

    fn schedule_step(&mut self, r: usize) {
        if self.fault("agent killed while applying", 10) {
            self.schedule(0, Event::Crash(r));
        }
        let pause = match self.fault("store slow", 30) {
            true => self.chance.between(SECOND, 6 * SECOND),
            false => self.chance.between(10, 2_000),
        };
        self.schedule(pause, Event::Step(r));
    }

    fn ask(&mut self, r: usize) -> Result<(), Violation> {
        let appetite = self.appetite[r];
        let pause = match appetite {
            0 => self.chance.between(SECOND / 2, SECOND),
            n => self.chance.between(1, 2 * SECOND / n),
        };
        self.schedule(pause, Event::Ask(r));
        if appetite == 0 {
            return Ok(());
        }
        self.report.requests.0 += 1;
        let cost = MicroTokens(self.chance.between(1, 4) * MicroTokens::TOKEN.0);
        match self.regions[r].ask(SUBJECT, cost, self.now) {
            None => Ok(()),
            Some((budget, cost)) => {
                self.report.requests.1 += 1;
                self.meter.admit(self.now, &budget, cost, self.limit(), self.cluster.ledger.active_policies().version)
            }
        }
    }

    fn check(&mut self) -> Result<(), Violation> {
        let each: Vec<Capacity> = self.regions.iter().map(|r| r.entitlement(&self.budget, self.now)).collect();
        let floors = self.regions.iter().map(|r| r.floor(&self.budget.policy, &self.budget));
        if each.iter().zip(floors).any(|(e, floor)| !e.fits(floor)) {
            self.report.leased_instants += 1;
        }
        self.report.fingerprint = each.iter().fold(self.report.fingerprint ^ self.now, |fold, c| {
            fold.rotate_left(7).wrapping_mul(0x100_0000_01b3) ^ c.rate.0 ^ c.burst.0.rotate_left(32)
        });
        check::entitlements(self.now, &self.budget, self.limit(), &each)?;
        self.cluster.ledger.check().map_err(|v| Violation { at: self.now, what: v.to_string() })
    }

    fn everywhere_named(&self) -> bool {
        self.cluster.ledger.newest_policies().regions.len() == self.regions.len()
    }

    /// The limit in force: the old one until every region has confirmed its successor (R9).
    fn limit(&self) -> Limit {
        self.cluster.ledger.active_policies().policies[0].limit
    }

    /// After the trouble every region is leased again, and holds at least the floor that it wants.
    fn check_healed(&self) -> Result<(), Violation> {
        let unwell: BTreeSet<String> = self.regions.iter().filter(|r| !r.is_leased(self.now)).map(|r| r.name.to_string()).collect();
        if let Some(alarm) = self.cluster.ledger.alarm() {
            return Err(Violation { at: self.now, what: format!("the ledger's own check failed: {alarm}") });
        }
        if self.cluster.ledger.pending_policies().is_some() {
            return Err(Violation { at: self.now, what: "a change of policies is pending long after everything healed".into() });
        }
        match unwell.is_empty() {
            true => Ok(()),
            false => Err(Violation { at: self.now, what: format!("not leased long after everything healed: {unwell:?}") }),
        }
    }
}

/// Any policy set; with `everywhere` it names all regions.
fn policies(regions: &[Region], everywhere: bool, chance: &mut Chance) -> PolicySet {
    let tokens = |n: u64| MicroTokens(n * MicroTokens::TOKEN.0);
    let limit =
        Limit::TokenBucket { rate: tokens(chance.between(1, 60)), period: Duration::from_secs(1), burst: tokens(chance.between(1, 120)) };
    let floor = [1_000_000, 600_000, 0][chance.below(3) as usize];
    let policy = Policy {
        name: "p".parse().unwrap_or_else(|_| unreachable!("a name")),
        generation: 0,
        matches: BTreeMap::new(),
        per: vec!["tenant".into()],
        limit,
        floor: FloorRule::Together(PartsPerMillion(floor)),
        lendable: PartsPerMillion([900_000, 1_000_000, 500_000][chance.below(3) as usize]),
        allow_overcommit: false,
        cost: CostRule::Fixed(MicroTokens::TOKEN),
        overrides: Vec::new(),
        on_store_failure: OnStoreFailure::Closed,
        mode: Mode::Enforce,
    };
    let weight = |chance: &mut Chance| quorate_shared::policy::Region { weight: u32::try_from(chance.between(1, 3)).unwrap_or(1) };
    let removed = (!everywhere && chance.per_mille(250)).then(|| chance.below(regions.len() as u64) as usize);
    let kept = regions.iter().enumerate().filter(|(i, _)| Some(*i) != removed);
    let regions = kept.map(|(_, r)| (r.name.clone(), weight(chance))).collect();
    PolicySet { version: 0, regions, policies: vec![policy] }
}
