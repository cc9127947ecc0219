//! [`Ledger::apply`] is total: whatever is in the log, it neither panics nor lets R4 be broken.
#![allow(clippy::expect_used, clippy::panic, reason = "a test")]

use proptest::prelude::*;
use quorate_ledger::{Author, Command, Ledger, MemberOrder, Outcome, Plan, StampedHeartbeat, UnitPlan};
use quorate_shared::bound::Steps;
use quorate_shared::heartbeat::{
    Answer, ClockReport, Heartbeat, Holding, Number, ObservedSteps, Office, OpenWindow, PROTOCOL, Parts, Reading, Report, Spent, Stamp,
    StoreReport,
};
use quorate_shared::names::{BudgetId, PolicyName, RegionName, SubjectHash, SubjectKey};
use quorate_shared::policy::{CostRule, FloorRule, Limit, Mode, OnStoreFailure, Policy, PolicySet, Region, Window};
use quorate_shared::time::{Drift, LeaderTime, StoreTime, WindowLabel};
use quorate_shared::units::{Capacity, MicroTokens, PartsPerMillion};
use std::collections::BTreeMap;
use std::time::Duration;

/// Always the same for the same seed (SplitMix64).
struct Draws {
    seed: u64,
    /// True if regions say that they have spent what they were not granted: they are believed, and R4 is seen to be broken.
    lies: bool,
    beats: u64,
}

impl Draws {
    fn any(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.seed ^ (self.seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.any() % bound
    }

    fn number(&mut self) -> u64 {
        let any = self.any();
        [0, 1, 2, 3, 1_000_000, 4_000_000, u64::MAX / 2, u64::MAX - 1, u64::MAX, any][(any >> 32) as usize % 10]
    }

    fn few(&mut self) -> u64 {
        [1, 1, 1, 2, 2, 3, 0, u64::MAX][self.below(8) as usize]
    }

    fn tokens(&mut self) -> MicroTokens {
        MicroTokens(self.number())
    }

    fn capacity(&mut self) -> Capacity {
        Capacity::new(self.tokens(), self.tokens())
    }

    fn span(&mut self) -> Duration {
        [
            Duration::ZERO,
            Duration::from_micros(1),
            Duration::from_secs(4),
            Duration::from_secs(60),
            Duration::from_secs(u64::MAX),
            Duration::MAX,
        ][self.below(6) as usize]
    }

    fn parts(&mut self) -> PartsPerMillion {
        PartsPerMillion([0, 1, 500_000, 1_000_000][self.below(4) as usize])
    }

    fn region(&mut self) -> RegionName {
        ["eu", "us", "ap"][self.below(3) as usize].parse().expect("a name")
    }

    fn policy(&mut self) -> PolicyName {
        ["p", "q"][self.below(2) as usize].parse().expect("a name")
    }

    fn budget(&mut self) -> BudgetId {
        let policy = self.policy();
        let generation = if self.below(4) == 0 { self.few() } else { 1 };
        BudgetId { subject: SubjectHash::of(&SubjectKey::new([0; 32]), &policy, []), policy, generation }
    }

    fn label(&mut self) -> WindowLabel {
        WindowLabel::beginning_at(StoreTime::from_micros(self.number()))
    }

    fn holding(&mut self) -> Holding {
        let borrowed = (0..self.below(3)).map(|_| (self.region(), self.capacity())).collect();
        Holding { pool: self.capacity(), lent: self.capacity(), borrowed }
    }

    /// Mostly the same: one of the last term there may be ends all others.
    fn office(&mut self) -> Office {
        match self.below(100) {
            0 => Office { term: self.few(), process: self.few() },
            _ => Office { term: 1, process: 1 },
        }
    }

    /// Mostly greater than those before.
    fn greater(&mut self) -> Number {
        self.beats += 1;
        match self.below(50) {
            0 => Number { session: self.few(), seq: self.number() },
            _ => Number { session: 1 + self.beats / 20, seq: self.beats },
        }
    }

    fn at(&mut self) -> LeaderTime {
        LeaderTime::from_micros(self.number())
    }

    fn stamp(&mut self) -> Stamp {
        Stamp { number: Number { session: self.few(), seq: self.few() }, office: self.office(), at: self.at() }
    }

    fn maybe<T>(&mut self, thing: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.below(3) > 0).then(|| thing(self))
    }

    fn up_to<T>(&mut self, most: u64, thing: impl Fn(&mut Self) -> T) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| thing(self)).collect()
    }

    fn heartbeat(&mut self) -> Heartbeat {
        Heartbeat {
            protocol: PROTOCOL,
            region: self.region(),
            agent: "a".into(),
            others: vec![],
            number: self.greater(),
            nonce: 0,
            echo: self.maybe(Self::stamp),
            drained: self.up_to(2, |d| (d.budget(), d.stamp())),
            floors_drained: self.maybe(Self::stamp),
            windows: self.up_to(2, |d| OpenWindow { policy: d.policy(), generation: d.few(), label: d.label(), last: d.label() }),
            policies: self.maybe(Self::few),
            reports: self.up_to(3, |d| Report {
                budget: d.budget(),
                demand: d.tokens(),
                admitted: d.tokens(),
                refused: d.tokens(),
                estimated: MicroTokens::ZERO,
                largest: d.tokens(),
            }),
            spent: self.up_to(2, |d| Spent {
                budget: d.budget(),
                label: d.label(),
                units: if d.lies { d.tokens() } else { MicroTokens::ZERO },
            }),
            parts: self.up_to(2, |d| Parts { policy: d.policy(), most: d.tokens() }),
            store: StoreReport { kind: "k".into(), healthy: true, excesses: Vec::new() },
            clock: ClockReport {
                shown: None,
                read: self.maybe(|d| Reading { after: d.span(), lag: d.span() }),
                steps: self.maybe(|d| ObservedSteps { observer: d.few(), steps: Steps { count: d.number(), total: d.span() } }),
            },
        }
    }

    fn entry(&mut self) -> StampedHeartbeat {
        StampedHeartbeat {
            heartbeat: self.heartbeat(),
            office: self.office(),
            at: self.at(),
            plans: self.up_to(2, |d| Plan { budget: d.budget(), targets: d.up_to(3, |d| (d.region(), d.holding())).into_iter().collect() }),
            unit_plans: self.up_to(2, |d| UnitPlan {
                budget: d.budget(),
                label: d.label(),
                targets: d.up_to(3, |d| (d.region(), d.tokens())).into_iter().collect(),
            }),
        }
    }

    fn set(&mut self) -> PolicySet {
        let regions = (0..6)
            .map(|_| (self.region(), Region { weight: self.number() as u32, priority: self.number() as u32, agents: self.number() as u32 }))
            .collect();
        let policies = (0..4).map(|_| self.policy_terms()).map(|policy| (policy.name.clone(), policy)).collect::<BTreeMap<_, _>>();
        let policies = policies.into_values().collect();
        PolicySet { version: self.few(), regions, policies }
    }

    fn policy_terms(&mut self) -> Policy {
        Policy {
            name: self.policy(),
            generation: self.few(),
            matches: BTreeMap::new(),
            no_other_attributes: false,
            replaces: Vec::new(),
            per: vec![],
            limit: match self.below(3) {
                0 => Limit::TokenBucket { rate: self.tokens(), period: self.span(), burst: self.tokens() },
                1 => Limit::FixedWindow { units: self.tokens(), window: Window::Every(self.span()) },
                _ => Limit::SlidingLog { units: self.tokens(), window: self.span() },
            },
            floor: match self.maybe(Self::parts) {
                Some(parts) => FloorRule::Together(parts),
                None => FloorRule::Each(self.up_to(3, |d| (d.region(), d.parts())).into_iter().collect()),
            },
            lendable: self.parts(),
            allow_overcommit: false,
            cost: CostRule::Fixed(self.tokens()),
            overrides: vec![],
            on_store_failure: OnStoreFailure::Emergency,
            emergency: self.parts(),
            floor_ttl: None,
            mode: Mode::Enforce,
        }
    }

    fn author(&mut self) -> Author {
        Author { who: "t".into(), when_ms: self.number(), why: None }
    }

    fn command(&mut self, newest: u64) -> Command {
        let by = self.author();
        match self.below(100) {
            6 => Command::Members { order: MemberOrder::Remove { node: self.number() }, by },
            0 => Command::Fence { region: self.region(), by },
            1 => Command::Lease { lease: self.span(), by },
            2 => Command::ClearAlarm { policy: self.maybe(Self::policy), subject: None, by },
            3 => Command::Found { subject_key: SubjectKey::new([0; 32]), lease: self.span(), drift: Drift::MAX },
            4 | 5 => Command::Policies { replaces: self.maybe(|_| newest).unwrap_or_default(), set: Box::new(self.set()), by },
            _ => Command::Heartbeat(Box::new(self.entry())),
        }
    }
}

fn found(lease: Duration) -> Ledger {
    let mut ledger = Ledger::default();
    ledger.apply(1, &Command::Found { subject_key: SubjectKey::new([0; 32]), lease, drift: Drift::MAX });
    ledger
}

fn look_at(ledger: &Ledger, draws: &mut Draws) {
    let now = Some((draws.office(), draws.at()));
    ledger.regions(now);
    ledger.bounds(now);
    ledger.budgets(None).count();
    ledger.stamp(draws.heartbeat(), draws.office(), draws.at());
}

/// Applies entries of one seed; gives how many of the answers offered or granted anything.
fn apply_all(seed: u64, lies: bool) -> Result<usize, TestCaseError> {
    let mut draws = Draws { seed, lies, beats: 0 };
    let (mut ledger, mut given) = (found(draws.span()), 0);
    for entry in 0..200 {
        let command = match entry {
            0 => Command::Policies { replaces: 0, set: Box::new(draws.set()), by: draws.author() },
            _ => draws.command(ledger.newest_policies().version),
        };
        let term = if draws.below(50) == 0 { draws.few() } else { 1 };
        if let Outcome::Heartbeat(Answer::Renewed(response)) = ledger.apply(term, &command) {
            given += usize::from(!response.grants.is_empty() || response.offers.iter().any(|offer| !offer.holding.is_zero()));
        }
        let alarms: Vec<_> = ledger.alarms().collect();
        let sound = lies || (ledger.check().is_ok() && alarms.is_empty());
        prop_assert!(sound, "{:?}, {:?} after entry {}: {:?}", ledger.check(), alarms, entry, command);
        look_at(&ledger, &mut draws);
    }
    Ok(given)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_in_the_log_is_applied(seed in any::<u64>(), lies in any::<bool>()) {
        apply_all(seed, lies)?;
    }
}

#[test]
fn not_all_of_it_comes_to_nothing() {
    let given: usize = (0..20).map(|seed| apply_all(seed, false).expect("sound")).sum();
    assert!(given > 100, "{given} answers gave anything");
}
