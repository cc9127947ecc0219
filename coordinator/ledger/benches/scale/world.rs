//! A ledger in which every region holds a part of every budget.

use quorate_ledger::level::LEVEL;
use quorate_ledger::{Author, Command, Ledger, Outcome, Plan, StampedHeartbeat};
use quorate_shared::heartbeat::{Answer, Heartbeat, Holding, Number, Office, Report, Response, Stamp, StoreReport};
use quorate_shared::names::{BudgetId, RegionName, SubjectHash, SubjectKey};
use quorate_shared::policy::{Limit, Policy, PolicySet};
use quorate_shared::testing;
use quorate_shared::time::{Drift, LeaderTime};
use quorate_shared::units::{Capacity, MicroTokens, PartsPerMillion};
use std::time::{Duration, Instant};

/// How many regions there are.
pub const REGIONS: usize = 10;

const LEASE: Duration = Duration::from_secs(4);
const KEY: [u8; 32] = [7; 32];
/// Budgets in one heartbeat while the ledger is filled.
const AT_ONCE: usize = 1_000;

fn tokens(n: u64) -> MicroTokens {
    MicroTokens::from_tokens(n).expect("few")
}

/// A ledger, and what its regions know.
pub struct World {
    pub ledger: Ledger,
    office: Office,
    now: Duration,
    regions: Vec<Region>,
    budgets: Vec<BudgetId>,
    turn: usize,
}

struct Region {
    name: RegionName,
    number: Number,
    echo: Option<Stamp>,
}

impl World {
    /// A ledger of so many budgets.
    pub fn new(size: usize) -> Self {
        let names = (0..REGIONS).map(|n| format!("region-{n}").parse::<RegionName>().expect("a name"));
        let regions: Vec<Region> = names.map(|name| Region { name, number: Number { session: 1, seq: 0 }, echo: None }).collect();
        let mut world = Self {
            ledger: Ledger::default(),
            office: Office { term: 1, process: 1 },
            now: Duration::from_secs(1),
            regions,
            budgets: (0..size).map(budget).collect(),
            turn: 0,
        };
        world.found();
        world.fill();
        world
    }

    fn found(&mut self) {
        self.ledger.apply(1, &Command::Level { to: LEVEL });
        self.ledger.apply(1, &Command::Found { subject_key: SubjectKey::new(KEY), lease: LEASE, drift: Drift::default() });
        let limit = Limit::TokenBucket { rate: tokens(1_000), period: Duration::from_secs(1), burst: tokens(1_000) };
        let policy = testing::policy("requests".parse().expect("a name"), limit, PartsPerMillion(500_000));
        let policy = Policy { per: vec!["user".into()], lendable: PartsPerMillion(900_000), ..policy };
        let set: PolicySet = testing::policy_set(self.regions.iter().map(|region| region.name.clone()), policy);
        let by = Author { who: "bench".into(), when_ms: 0, why: None };
        self.ledger.apply(1, &Command::Policies { replaces: 0, set: Box::new(set), by });
        for _ in 0..3 {
            self.all_quiet();
        }
    }

    /// Every region asks for more than its floor of every budget, and is given a part of the pool.
    fn fill(&mut self) {
        let budgets = std::mem::take(&mut self.budgets);
        for some in budgets.chunks(AT_ONCE) {
            for place in 0..REGIONS {
                let reports = some.iter().map(|id| report(id, 60 + place as u64, 1_000)).collect();
                let plans = if place == 0 { some.iter().map(|id| self.plan(id)).collect() } else { Vec::new() };
                self.send(place, reports, Some(plans));
            }
            self.now += Duration::from_millis(100);
        }
        self.budgets = budgets;
        for _ in 0..3 {
            self.all_quiet();
        }
        self.now += Duration::from_secs(1);
    }

    /// Everybody's part of the pool.
    fn plan(&self, id: &BudgetId) -> Plan {
        let part = |place: usize| Capacity::new(tokens(30 + place as u64), tokens(40));
        let targets = self.regions.iter().enumerate();
        let targets = targets.map(|(place, region)| (region.name.clone(), Holding { pool: part(place), ..Holding::default() }));
        Plan { budget: id.clone(), targets: targets.collect() }
    }

    fn all_quiet(&mut self) {
        (0..REGIONS).for_each(|place| {
            self.send(place, Vec::new(), Some(Vec::new()));
        });
    }

    fn heartbeat(&mut self, place: usize, reports: Vec<Report>) -> Heartbeat {
        let region = &mut self.regions[place];
        region.number.seq += 1;
        let silent = Heartbeat::silent(region.name.clone(), "agent".into(), region.number, 1, StoreReport::new("redis", true));
        Heartbeat { echo: region.echo, floors_drained: region.echo, reports, policies: Some(1), ..silent }
    }

    /// One heartbeat, stamped with the allocator's plans or with these, and applied.
    fn send(&mut self, place: usize, reports: Vec<Report>, plans: Option<Vec<Plan>>) -> Duration {
        let heartbeat = self.heartbeat(place, reports);
        let at = LeaderTime::ZERO.after(self.now);
        let start = Instant::now();
        let stamped = match plans {
            None => self.ledger.stamp(heartbeat, self.office, at),
            Some(plans) => StampedHeartbeat { heartbeat, office: self.office, at, plans, unit_plans: Vec::new() },
        };
        let planned = start.elapsed();
        let command = logged(&Command::Heartbeat(Box::new(stamped)));
        let start = Instant::now();
        let outcome = self.ledger.apply(self.office.term, &command);
        let took = planned + start.elapsed();
        self.take(place, outcome);
        took
    }

    fn take(&mut self, place: usize, outcome: Outcome) {
        let Outcome::Heartbeat(Answer::Renewed(response)) = outcome else { panic!("not renewed: {outcome:?}") };
        let Response { stamp, .. } = *response;
        self.regions[place].echo = Some(stamp);
    }

    /// The next region has nothing new to say.
    pub fn quiet(&mut self) -> Duration {
        self.turn += 1;
        self.now += Duration::from_millis(10);
        self.send(self.turn % REGIONS, Vec::new(), None)
    }

    /// The next region wants more of one budget.
    pub fn change(&mut self) -> Duration {
        self.turn += 1;
        self.now += Duration::from_millis(10);
        let id = &self.budgets[self.turn * 7_919 % self.budgets.len()];
        let report = report(id, 100 + self.turn as u64, 2_000);
        self.send(self.turn % REGIONS, vec![report], None)
    }

    /// What planning takes for a heartbeat with one changed demand.
    pub fn plan_one(&mut self) -> Duration {
        self.turn += 1;
        let id = self.budgets[self.turn * 7_919 % self.budgets.len()].clone();
        self.planning(vec![report(&id, 100 + self.turn as u64, 2_000)])
    }

    /// What planning takes if everything has changed, in heartbeats of so many reports.
    pub fn plan_all(&mut self, at_once: usize) -> Duration {
        let budgets = std::mem::take(&mut self.budgets);
        let all = budgets.chunks(at_once).map(|some| self.planning(some.iter().map(|id| report(id, 90, 3_000)).collect())).sum();
        self.budgets = budgets;
        all
    }

    fn planning(&mut self, reports: Vec<Report>) -> Duration {
        let heartbeat = self.heartbeat(0, reports);
        let at = LeaderTime::ZERO.after(self.now);
        let start = Instant::now();
        let stamped = self.ledger.stamp(heartbeat, self.office, at);
        let took = start.elapsed();
        assert!(!stamped.heartbeat.reports.is_empty());
        took
    }

    /// Another leader takes office, and a region with nothing new is the first to be heard.
    pub fn first_of_office(&mut self) -> Duration {
        self.office = Office { term: self.office.term + 1, process: self.office.process + 1 };
        self.now = Duration::from_secs(1);
        let took = self.quiet();
        self.all_quiet();
        took
    }

    /// One region is not heard of until its lease has ended: the heartbeat by which the ledger notes it.
    pub fn expire(&mut self) -> Duration {
        self.all_quiet();
        self.now += LEASE * 3 / 4;
        for place in 1..REGIONS {
            self.send(place, Vec::new(), Some(Vec::new()));
        }
        self.now += LEASE / 2;
        self.send(1, Vec::new(), Some(Vec::new()))
    }
}

/// As it comes back from the log: with names of its own.
fn logged(command: &Command) -> Command {
    rmp_serde::from_slice(&rmp_serde::to_vec_named(command).expect("encodes")).expect("decodes")
}

fn budget(n: usize) -> BudgetId {
    let policy = "requests".parse().expect("a name");
    let subject = SubjectHash::of(&SubjectKey::new(KEY), &policy, [format!("user-{n}").as_str()]);
    BudgetId { policy, generation: 1, subject }
}

fn report(id: &BudgetId, demand: u64, admitted: u64) -> Report {
    Report {
        budget: id.clone(),
        demand: tokens(demand),
        admitted: tokens(admitted),
        refused: tokens(admitted / 100),
        estimated: MicroTokens::ZERO,
        largest: MicroTokens::ZERO,
    }
}
