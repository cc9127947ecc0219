//! The world: regions, a leader, round trips, and clients whose requests go to the regions and to
//! the yardsticks alike.

use super::region::Region;
use super::workload::{Rates, Workload};
use super::yardstick::{AllowedBuckets, Excess, IdealBucket};
use super::{Micros, SECOND};
use crate::simulation::chance::Chance;
use quorate_ledger::{Author, Command, Ledger, Outcome};
use quorate_shared::heartbeat::{Answer, Heartbeat, Office};
use quorate_shared::names::{BudgetId, RegionName, SubjectHash, SubjectKey};
use quorate_shared::policy::{CostRule, FloorRule, Limit, Mode, OnStoreFailure, Policy, PolicySet};
use quorate_shared::time::{Drift, LeaderTime};
use quorate_shared::units::{Capacity, MicroTokens, PartsPerMillion};
use std::collections::BTreeMap;
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(5);
const OFFICE: Office = Office { term: 1, process: 1 };
/// Between two looks at the demand, where the agent looks without being asked.
const LOOK: Micros = SECOND / 20;
/// Requests are drawn for at most so long ahead, since rates change.
const AHEAD: Micros = SECOND / 50;
/// What is admitted is added up over so long, for curves.
pub const BIN: Micros = SECOND / 10;

/// What a run came to, within the span that is counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests.
    pub asked: u64,
    /// Admitted by the regions.
    pub admitted: u64,
    /// Admitted by one bucket for all regions.
    pub ideal: u64,
    /// Admitted by one bucket that keeps at home what the policy does.
    pub allowed: u64,
    /// Admitted by one bucket for each region, of its floor.
    pub fixed: u64,
    /// The most that any interval of the whole run saw beyond the limit.
    pub overshoot: MicroTokens,
    /// Heartbeats of all regions in the whole run.
    pub beats: u64,
    /// Plans made by the leader in the whole run that changed something.
    pub plans: u64,
    /// By region and [`BIN`]: asked and admitted.
    pub bins: Vec<Vec<(u64, u64)>>,
}

/// Everything, at one instant.
pub struct World {
    now: Micros,
    workload: Workload,
    chance: Chance,
    rates: Rates,
    ledger: Ledger,
    regions: Vec<Region>,
    names: Vec<RegionName>,
    one_way: Vec<Micros>,
    ideal: IdealBucket,
    allowed: AllowedBuckets,
    fixed: Vec<IdealBucket>,
    excess: Excess,
    budget: BudgetId,
    events: BTreeMap<(Micros, u64), Event>,
    scheduled: u64,
    tally: Tally,
}

#[derive(Clone, Debug)]
enum Event {
    /// A heartbeat is due, unless another came first: it then is of a former plan.
    Beat(usize),
    Arrive(usize, Heartbeat),
    Answer(usize, Option<Answer>),
    Ask(usize),
    Draw(usize),
    Look(usize),
}

impl World {
    /// A world under this workload.
    pub fn new(workload: Workload, seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let rates = Rates::new(&workload, &mut chance);
        let names: Vec<RegionName> = (0..workload.regions).filter_map(|n| format!("r{n:02}").parse().ok()).collect();
        let (least, most) = workload.round_trip;
        let one_way = names.iter().map(|_| chance.between(least, most) / 2).collect();
        let set = policies(&names, &workload);
        let policy = set.policies[0].clone();
        let shares = set.shares(&policy, policy.limit);
        let share_of = |n: &RegionName| shares.get(n).copied().unwrap_or_default();
        let floor_of = |n: &RegionName| share_of(n).floor;
        let kept: Vec<Capacity> = names.iter().map(|n| floor_of(n).minus(share_of(n).lendable)).collect();
        let subject = SubjectHash::of(&SubjectKey::new([1; 32]), &policy.name, []);
        let mut world = Self {
            now: 0,
            chance,
            rates,
            ledger: found(set),
            regions: names.iter().map(|name| Region::new(name.clone(), Drift::DEFAULT)).collect(),
            one_way,
            ideal: IdealBucket::new(workload.limit),
            allowed: AllowedBuckets::new(workload.limit, &kept, workload.cost),
            fixed: names.iter().map(|n| IdealBucket::new(floor_of(n))).collect(),
            excess: Excess::new(workload.limit),
            budget: BudgetId { policy: policy.name, generation: 1, subject },
            events: BTreeMap::new(),
            scheduled: 0,
            tally: Tally { bins: vec![Vec::new(); names.len()], ..Tally::default() },
            names,
            workload,
        };
        for region in 0..world.regions.len() {
            let phase = world.chance.below(SECOND);
            world.schedule(phase, Event::Beat(region));
            world.schedule(phase, Event::Look(region));
            world.schedule(2 * SECOND, Event::Draw(region));
        }
        world
    }

    /// Runs to the end of what is counted.
    pub fn run(mut self) -> Tally {
        while let Some(((at, _), event)) = self.events.pop_first() {
            if at >= self.workload.counted.1 {
                break;
            }
            self.now = at;
            self.happen(event);
        }
        self.tally.overshoot = self.excess.worst();
        self.tally.beats = self.regions.iter().map(|r| r.beats).sum();
        self.tally
    }

    fn schedule(&mut self, at: Micros, event: Event) {
        self.scheduled += 1;
        self.events.insert((at.max(self.now), self.scheduled), event);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Beat(r) => self.beat(r),
            Event::Arrive(r, beat) => self.arrive(r, beat),
            Event::Answer(r, answer) => {
                match answer {
                    Some(Answer::Renewed(response)) => self.regions[r].receive(&response, self.now),
                    _ => self.regions[r].fail(self.now),
                }
                self.schedule_beat(r);
            }
            Event::Ask(r) => self.ask(r),
            Event::Draw(r) => self.draw(r),
            Event::Look(r) => {
                self.regions[r].look(self.now);
                self.schedule_beat(r);
                self.schedule(self.now + LOOK, Event::Look(r));
            }
        }
    }

    fn schedule_beat(&mut self, r: usize) {
        if let Some(at) = self.regions[r].next_beat() {
            self.schedule(at, Event::Beat(r));
        }
    }

    fn beat(&mut self, r: usize) {
        if self.regions[r].next_beat().is_none_or(|due| due > self.now) {
            return;
        }
        let Some(beat) = self.regions[r].beat(self.now) else { return };
        let arrival = match self.is_cut(r) {
            true => Event::Answer(r, None),
            false => Event::Arrive(r, beat),
        };
        self.schedule(self.now + self.one_way[r], arrival);
    }

    fn is_cut(&self, r: usize) -> bool {
        self.workload.cut.is_some_and(|(cut, from, until)| cut == r && (from..until).contains(&self.now))
    }

    fn arrive(&mut self, r: usize, heartbeat: Heartbeat) {
        let entry = self.ledger.stamp(heartbeat, OFFICE, LeaderTime::from_micros(self.now));
        self.tally.plans += entry.plans.len() as u64;
        let answer = match self.ledger.apply(OFFICE.term, &Command::Heartbeat(Box::new(entry))) {
            Outcome::Heartbeat(answer) => Some(answer),
            _ => None,
        };
        self.schedule(self.now + self.one_way[r], Event::Answer(r, answer));
    }

    /// Requests come independently of each other (Poisson), at a rate that holds for a moment.
    fn draw(&mut self, r: usize) {
        let mut until = self.now + AHEAD;
        if let Some(jump) = self.rates.next_jump(r, self.now) {
            until = until.min(jump);
        }
        let rate = self.rates.of(r, self.now);
        let mut at = self.now as f64 + self.gap(rate);
        while at < until as f64 {
            self.schedule(at as Micros, Event::Ask(r));
            at += self.gap(rate);
        }
        self.schedule(until, Event::Draw(r));
    }

    /// Microseconds to the next request, at so many a second.
    fn gap(&mut self, rate: f64) -> f64 {
        // in (0, 1], so that the logarithm is finite
        let uniform = (self.chance.below(1 << 53) + 1) as f64 / (1_u64 << 53) as f64;
        -uniform.ln() / rate * SECOND as f64
    }

    fn ask(&mut self, r: usize) {
        let (now, cost) = (self.now, self.workload.cost);
        let admitted = self.regions[r].ask(cost, now);
        if admitted {
            self.excess.admit(now, cost);
        }
        let ideal = self.ideal.admits(now, cost);
        let allowed = self.allowed.admits(r, now, cost);
        let fixed = self.fixed[r].admits(now, cost);
        let bin = (now / BIN) as usize;
        let bins = &mut self.tally.bins[r];
        bins.resize(bins.len().max(bin + 1), (0, 0));
        bins[bin].0 += 1;
        bins[bin].1 += u64::from(admitted);
        if now >= self.workload.counted.0 {
            self.tally.asked += 1;
            self.tally.admitted += u64::from(admitted);
            self.tally.ideal += u64::from(ideal);
            self.tally.allowed += u64::from(allowed);
            self.tally.fixed += u64::from(fixed);
        }
        self.schedule_beat(r);
    }

    /// What each region may use now, for tests.
    pub fn entitlements(&self) -> Vec<(RegionName, Capacity)> {
        let entitled = |(name, region): (&RegionName, &Region)| (name.clone(), region.entitlement(&self.budget, self.now));
        self.names.iter().zip(&self.regions).map(entitled).collect()
    }
}

fn found(set: PolicySet) -> Ledger {
    let mut ledger = Ledger::default();
    ledger.apply(1, &Command::Found { subject_key: SubjectKey::new([1; 32]), lease: LEASE, drift: Drift::DEFAULT });
    let by = Author { who: "measurement".into(), when_ms: 0, why: None };
    ledger.apply(1, &Command::Policies { replaces: 0, set: Box::new(set), by });
    ledger
}

/// One policy, all of its limit in floors.
fn policies(names: &[RegionName], workload: &Workload) -> PolicySet {
    let limit = workload.limit;
    let policy = Policy {
        name: "p".parse().unwrap_or_else(|_| unreachable!("a name")),
        generation: 0,
        matches: BTreeMap::new(),
        no_other_attributes: false,
        replaces: Vec::new(),
        per: Vec::new(),
        limit: Limit::TokenBucket { rate: limit.rate, period: Duration::from_secs(1), burst: limit.burst },
        floor: FloorRule::Together(PartsPerMillion::WHOLE),
        lendable: workload.lendable,
        allow_overcommit: false,
        cost: CostRule::Fixed(MicroTokens::TOKEN),
        overrides: Vec::new(),
        on_store_failure: OnStoreFailure::Closed,
        emergency: PartsPerMillion(0),
        floor_ttl: None,
        mode: Mode::Enforce,
    };
    let regions = names.iter().map(|name| (name.clone(), quorate_shared::policy::Region::default())).collect();
    PolicySet { version: 0, regions, policies: vec![policy] }
}
