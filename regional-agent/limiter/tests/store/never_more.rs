//! Whatever happens between two accesses: a region never admits what an eager bucket would not.
//!
//! The eager bucket is told of every change the moment it happens. The store is asked only now
//! and then, and must not have counted in its favour what it did not see.

use crate::region::*;
use proptest::prelude::*;
use quorate_limiter::decision::Charge;
use quorate_limiter::record::Opening;
use quorate_shared::heartbeat::{Holding, Number};
use quorate_shared::names::RegionName;
use quorate_shared::units::{Capacity, MicroTokens};
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Clone, Debug)]
enum Event {
    Wait(u64),
    Charge(u64),
    Look,
    LeaseEnds,
    LenderLapses,
    FloorComesBack,
    Renew { pool: Capacity, lent: Capacity, loan: Capacity },
    Restart,
    LoseState,
    Change { floor: Capacity },
}

fn amount() -> impl Strategy<Value = MicroTokens> {
    prop_oneof![Just(0), 0..20u64, 0..2_000u64].prop_map(|n| MicroTokens(n * 500_000))
}

fn part() -> impl Strategy<Value = Capacity> {
    (amount(), amount()).prop_map(|(rate, burst)| Capacity::new(rate, burst))
}

fn floor() -> impl Strategy<Value = Capacity> {
    (1..200u64, 1..200u64).prop_map(|(rate, burst)| capacity(rate, burst))
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        5 => prop_oneof![0..2_000u64, 0..2_000_000u64, 0..90_000_000u64, 0..10_000_000_000u64].prop_map(Event::Wait),
        6 => (1..300_000_000u64).prop_map(Event::Charge),
        2 => Just(Event::Look),
        1 => Just(Event::LeaseEnds),
        1 => Just(Event::LenderLapses),
        1 => Just(Event::FloorComesBack),
        3 => (part(), part(), part()).prop_map(|(pool, lent, loan)| Event::Renew { pool, lent, loan }),
        1 => Just(Event::Restart),
        1 => Just(Event::LoseState),
        1 => floor().prop_map(|floor| Event::Change { floor }),
    ]
}

/// The bucket that is told everything at once. Levels are micro-tokens times the period.
struct Eager {
    level: u128,
    entitlement: Capacity,
    period: u128,
}

impl Eager {
    fn pass(&mut self, micros: u64) {
        let cap = u128::from(self.entitlement.burst.0) * self.period;
        self.level = cap.min(self.level + u128::from(micros) * u128::from(self.entitlement.rate.0));
    }

    /// Parts end, then parts begin: the level survives only in what is in both.
    fn become_entitled(&mut self, meanwhile: Capacity, entitlement: Capacity) {
        for step in [meanwhile, entitlement] {
            self.entitlement = step;
            self.level = self.level.min(u128::from(step.burst.0) * self.period);
        }
    }
}

struct Both {
    region: Region,
    eager: Eager,
    charge: Charge,
    holding: Holding,
    lender_promises: bool,
    session: u64,
    burnt: bool,
    /// The lent part is this region's again, even if a restarted agent does not know.
    whole: bool,
}

impl Both {
    fn new(charge: Charge) -> Self {
        let mut region = Region::new();
        region.view.leased = true;
        let period = charge.limit.period().as_micros();
        let eager = Eager { level: u128::from(charge.floor.burst.0) * period, entitlement: charge.floor, period };
        Self { region, eager, charge, holding: Holding::default(), lender_promises: true, session: 1, burnt: false, whole: false }
    }

    fn entitled(&self) -> Capacity {
        let view = &self.region.view;
        self.holding.entitlement(self.charge.floor, view.whole_floor, view.leased, |_| self.lender_promises)
    }

    fn own(&self) -> Capacity {
        self.holding.entitlement(self.charge.floor, false, false, |_| false)
    }

    fn charge(&mut self, cost: u64) -> Result<(), TestCaseError> {
        let got = self.region.check(&costing(&self.charge, MicroTokens(cost)));
        let due = u128::from(cost) * self.eager.period;
        prop_assert!(u128::from(got.remaining.0) * self.eager.period <= self.eager.level, "{got:?} beyond {}", self.eager.level);
        if got.fits {
            prop_assert!(self.eager.level >= due, "admitted {cost} of {}", self.eager.level);
            self.eager.level -= due;
        }
        Ok(())
    }

    fn lenders(&self) -> Vec<RegionName> {
        self.holding.borrowed.keys().cloned().collect()
    }

    /// Horizons that passed: only the view knows.
    fn parts_end(&mut self) {
        self.region.view.standing_lenders = if self.lender_promises { self.lenders() } else { vec![] }.into_iter().collect();
        let now = if self.whole { self.charge.floor } else { self.entitled() };
        self.eager.become_entitled(now.min(self.eager.entitlement), now);
    }

    /// Reductions, then the horizons with the floors, then increases (R3).
    fn renew(&mut self, holding: Holding, changed_floor: Option<Capacity>) {
        let lapsed = !self.region.view.leased || !self.lender_promises;
        let number = self.region.reduce(vec![]);
        self.hold(number, smaller(&self.holding, &holding));
        self.parts_end();

        let mut finish = self.region.finish(number);
        finish.lapsed = lapsed;
        if let Some(floor) = changed_floor {
            finish.changed = changed(self.charge.floor);
            finish.changed[0].slows = floor.rate < self.charge.floor.rate;
            self.charge.floor = floor;
        }
        self.region.store.finish(self.region.now, &finish).expect("of the response taken");
        (self.burnt, self.whole) = (false, false);
        let survives = self.holding.entitlement(self.charge.floor, false, self.region.view.leased, |_| self.lender_promises);
        self.region.view.number = number;
        self.region.view.leased = true;
        self.region.view.whole_floor = false;
        self.region.view.standing_lenders = self.lenders().into_iter().chain(holding.borrowed.keys().cloned()).collect();
        self.lender_promises = true;
        self.eager.become_entitled(survives.min(self.eager.entitlement), self.entitled());

        self.hold(number, holding);
        self.eager.become_entitled(self.eager.entitlement, self.entitled());
    }

    /// Only what changes is written, or what the store cannot know.
    fn hold(&mut self, number: Number, holding: Holding) {
        if holding != self.holding || self.burnt {
            self.region.write(number, vec![holds(&self.charge, holding.clone())]);
            self.holding = holding;
        }
    }

    fn open(&mut self, burn: bool) {
        self.session += 1;
        let opening = Opening { session: self.session, nonce: 0, burn, policies: self.region.view.policies };
        self.region.store.open_session(self.region.now, &opening, "a").expect("greater");
        self.region.view.number.session = self.session;
        self.region.view.number.seq = 0;
        self.region.view.leased = false;
        self.region.view.whole_floor = false;
        self.burnt |= burn;
        if burn {
            self.whole = false;
            self.holding = lent(self.charge.lendable.min(self.charge.floor));
            self.eager.level = 0;
        }
        self.parts_end();
    }

    fn handle(&mut self, event: &Event) -> Result<(), TestCaseError> {
        match event {
            Event::Wait(micros) => {
                self.region.now = self.region.now.after(Duration::from_micros(*micros));
                self.eager.pass(*micros);
            }
            Event::Charge(cost) => self.charge(*cost)?,
            Event::Look => self.charge(0)?,
            Event::LeaseEnds => {
                self.region.view.leased = false;
                self.parts_end();
            }
            Event::LenderLapses => {
                self.lender_promises = false;
                self.parts_end();
            }
            Event::FloorComesBack if !self.region.view.leased && !self.region.view.whole_floor => {
                self.region.view.whole_floor = true;
                let common = if self.whole { self.charge.floor } else { self.own() };
                self.eager.become_entitled(common, self.charge.floor);
                self.whole = true;
            }
            Event::FloorComesBack => {}
            Event::Renew { pool, lent, loan } => {
                let eu: RegionName = "eu".parse().expect("a name");
                self.renew(Holding { pool: *pool, lent: *lent, borrowed: BTreeMap::from([(eu, *loan)]) }, None);
            }
            Event::Restart => self.open(false),
            Event::LoseState => self.open(true),
            Event::Change { floor } => self.renew(self.holding.clone(), Some(*floor)),
        }
        Ok(())
    }
}

fn smaller(a: &Holding, b: &Holding) -> Holding {
    let loans = a.borrowed.iter().map(|(lender, loan)| (lender.clone(), loan.min(b.borrowed_from(lender))));
    Holding { pool: a.pool.min(b.pool), lent: a.lent.max(b.lent), borrowed: loans.collect() }
}

proptest! {
    #![proptest_config(seeded(1000))]

    #[test]
    fn a_region_admits_no_more_than_an_eager_bucket(
        floor in floor(),
        period in prop_oneof![Just(1_000u64), Just(1_000_000), Just(30_000_000), Just(3_600_000_000)],
        events in prop::collection::vec(event(), 1..60),
    ) {
        let charge = charge("a", floor.rate.tokens_floor(), Duration::from_micros(period), floor.burst.tokens_floor());
        let mut both = Both::new(charge);
        for event in &events {
            both.handle(event)?;
        }
    }
}
