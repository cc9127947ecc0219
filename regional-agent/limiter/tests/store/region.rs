//! A region for tests: a store, what it holds, and short words for questions.

use proptest::test_runner::{Config as ProptestConfig, RngSeed};
use quorate_limiter::decision::{Charge, Decision, LeaseView, LimitDecision, Question, Reply};
use quorate_limiter::record::{ChangedPolicy, Finish, FloorTerms, HoldingsChange, Opening, RECORD_LIFE, Renewal, Settlement};
use quorate_limiter::store::MemoryStore;
use quorate_shared::heartbeat::{Holding, Number, Office, PoliciesInForce, Stamp};
use quorate_shared::names::{BudgetId, SubjectHash, SubjectKey};
use quorate_shared::policy::Limit;
use quorate_shared::time::{Drift, LeaderTime, StoreTime};
use quorate_shared::units::{Capacity, MicroTokens};
use std::time::Duration;

pub const NO_DRIFT: Drift = Drift::from_ppm(0).expect("in range");
pub const SECOND: Duration = Duration::from_secs(1);

pub fn tokens(n: u64) -> MicroTokens {
    MicroTokens::from_tokens(n).expect("a small amount")
}

pub fn capacity(rate: u64, burst: u64) -> Capacity {
    Capacity::new(tokens(rate), tokens(burst))
}

pub fn budget(subject: &str) -> BudgetId {
    let policy = "write-api".parse().expect("a name");
    let subject = SubjectHash::of(&SubjectKey::new([1; 32]), &policy, [subject]);
    BudgetId { policy, generation: 1, subject }
}

/// So many cases, the same in each run; `PROPTEST_CASES` and `PROPTEST_RNG_SEED` ask for more and for others.
pub fn seeded(cases: u32) -> ProptestConfig {
    let asked = ProptestConfig::default();
    let rng_seed = match asked.rng_seed {
        RngSeed::Random => RngSeed::Fixed(2_026),
        fixed => fixed,
    };
    ProptestConfig { cases: asked.cases.max(cases), rng_seed, failure_persistence: None, ..asked }
}

/// A charge of one token on `subject`, with a floor of all of `rate` per `period` and `burst`.
pub fn charge(subject: &str, rate: u64, period: Duration, burst: u64) -> Charge {
    let limit = Limit::TokenBucket { rate: tokens(rate), period, burst: tokens(burst) };
    let floor = limit.capacity();
    Charge {
        budget: budget(subject),
        limit,
        floor,
        lendable: floor,
        former_floors: vec![],
        floor_ttl: None,
        cost: MicroTokens::TOKEN,
        enforced: true,
    }
}

pub fn costing(charge: &Charge, cost: MicroTokens) -> Charge {
    Charge { cost, ..charge.clone() }
}

/// One region: its store, its clock and its lease.
pub struct Region {
    pub store: MemoryStore,
    pub now: StoreTime,
    renewed: StoreTime,
    pub view: LeaseView,
    pub drift: Drift,
}

impl Region {
    /// A region that has had its first answer from the coordinator, with empty hands and no lease.
    pub fn new() -> Self {
        let mut region = Self::lost();
        region.open(1, false);
        region.apply(vec![], |finish| finish.genesis = true);
        region
    }

    /// A region whose store is empty, an hour after the clock began.
    pub fn lost() -> Self {
        let now = StoreTime::from_micros(3_600_000_000);
        Self { store: MemoryStore::default(), now, renewed: now, view: LeaseView::default(), drift: NO_DRIFT }
    }

    /// Lets time pass, and renews the record so that it is not lost meanwhile.
    pub fn pass(&mut self, span: Duration) {
        let end = self.now.after(span);
        while end.since(self.renewed) > RECORD_LIFE / 2 {
            self.now = self.now.max(self.renewed.after(RECORD_LIFE / 2));
            self.apply(vec![], |_| {});
        }
        self.now = end;
    }

    pub fn open(&mut self, session: u64, burn: bool) {
        let opening = Opening { session, nonce: 0, burn, policies: self.view.policies };
        self.store.open_session(self.now, &opening, "a").expect("a new session");
        self.view.number = Number { session, seq: 0 };
    }

    pub fn stamp(number: Number) -> Stamp {
        Stamp { number, office: Office { term: 1, process: u64::MAX }, at: LeaderTime::from_micros(7) }
    }

    /// A finish of the response that was taken, with nothing special.
    pub fn finish(&self, number: Number) -> Finish {
        let policies = self.view.policies;
        let renewal = Renewal { lease: SECOND, drift: NO_DRIFT, lenders: Default::default(), drained_lenders: vec![] };
        Finish {
            stamp: Self::stamp(number),
            renewal,
            clock_at_least: StoreTime::ZERO,
            policies,
            full: true,
            genesis: false,
            lapsed: false,
            changed: vec![],
            named: None,
        }
    }

    /// Begins the next response and writes its holdings.
    pub fn reduce(&mut self, settlements: Vec<Settlement>) -> Number {
        let seq = self.store.draw_seq(self.now, self.view.number.session).expect("the open session");
        let number = Number { session: self.view.number.session, seq };
        self.store.take(self.now, number).expect("newer");
        self.write(number, settlements);
        number
    }

    pub fn write(&mut self, number: Number, settlements: Vec<Settlement>) {
        let change = HoldingsChange { number, view: self.view.clone(), drift: self.drift, settlements, grants: vec![] };
        self.store.write(self.now, &change).expect("of the response taken");
    }

    /// Applies one response: what it holds, and how it ends.
    pub fn apply(&mut self, settlements: Vec<Settlement>, end: impl FnOnce(&mut Finish)) {
        let number = self.reduce(settlements);
        let mut finish = self.finish(number);
        end(&mut finish);
        self.store.finish(self.now, &finish).expect("of the response taken");
        self.renewed = self.now;
        self.view.number = number;
        self.view.policies = finish.policies;
    }

    pub fn ask(&mut self, charges: &[Charge]) -> Reply {
        let question = Question { view: self.view.clone(), drift: self.drift, charges: charges.to_vec() };
        self.store.decide(self.now, &question)
    }

    pub fn decide(&mut self, charges: &[Charge]) -> Decision {
        match self.ask(charges) {
            Reply::Decided(decision) => decision,
            other => panic!("not decided: {other:?}"),
        }
    }

    pub fn check(&mut self, charge: &Charge) -> LimitDecision {
        self.decide(std::slice::from_ref(charge)).limits[0]
    }

    /// What is there, without a trace.
    pub fn level(&mut self, charge: &Charge) -> MicroTokens {
        self.check(&costing(charge, MicroTokens::ZERO)).remaining
    }

    /// How many charges of this kind are admitted until one is refused.
    pub fn drain(&mut self, charge: &Charge) -> u64 {
        (0..).take_while(|_| self.check(charge).fits).count() as u64
    }
}

/// What a budget is to hold.
pub fn holds(charge: &Charge, holding: Holding) -> Settlement {
    let standing = FloorTerms { limit: charge.limit, floor: charge.floor, lendable: charge.lendable };
    Settlement { budget: charge.budget.clone(), holding, standing: Some(standing) }
}

pub fn pool(part: Capacity) -> Holding {
    Holding { pool: part, ..Holding::default() }
}

pub fn lent(part: Capacity) -> Holding {
    Holding { lent: part, ..Holding::default() }
}

pub fn policies(active: u64) -> PoliciesInForce {
    PoliciesInForce { active, next: None, also: None }
}

pub fn changed(former: Capacity) -> Vec<ChangedPolicy> {
    let budget = budget("");
    vec![ChangedPolicy { policy: budget.policy, generation: budget.generation, former, slows: false, anew: false }]
}
