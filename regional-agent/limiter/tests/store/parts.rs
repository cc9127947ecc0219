//! Parts that gateways spend by themselves, drawn from two regions between which capacity moves: what all of it comes to
//! over any interval, against the limit and the term of the bound.

use crate::region::*;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use quorate_limiter::decision::{Charge, Question, Reply};
use quorate_limiter::hold::{Beside, HoldId, NewHold};
use quorate_limiter::quota::{self, Next, Over, Spender, TIME_TO_LIVE, Told};
use quorate_shared::time::LocalTime;
use quorate_shared::units::{Capacity, MicroTokens};
use std::time::Duration;

const RATE: u64 = 20;
const BURST: u64 = 20;

/// All of it is in the pool.
fn limit() -> Charge {
    Charge { floor: Capacity::ZERO, lendable: Capacity::ZERO, ..charge("a", RATE, SECOND, BURST) }
}

/// What its gateway knows.
#[derive(Default)]
struct Gateway {
    has: u64,
    until: u64,
    serial: u32,
    unheard: Option<(u64, Told)>,
    passed: u64,
}

/// A region, its gateway, and what the agent between them knows of it.
struct Side {
    region: Region,
    spender: Spender<u128>,
    gateway: Gateway,
}

struct World {
    now: u64,
    sides: [Side; 2],
    holds: u128,
    /// When, and how much.
    spent: Vec<(u64, u64)>,
}

fn at(millis: u64) -> LocalTime {
    LocalTime::from_micros(millis * 1_000)
}

impl World {
    /// Two regions, of which the first holds everything.
    fn new() -> Self {
        let side = |_| {
            let mut region = Region::new();
            region.view.leased = true;
            Side { region, spender: Spender::new(at(0)), gateway: Gateway::default() }
        };
        let mut world = Self { now: 0, sides: [0, 1].map(side), holds: 0, spent: Vec::new() };
        world.hold(0, capacity(RATE, BURST));
        world
    }

    fn hold(&mut self, side: usize, part: Capacity) {
        self.sides[side].region.apply(vec![holds(&limit(), pool(part))], |_| {});
    }

    fn pass(&mut self, millis: u64) {
        self.now += millis;
        self.sides.iter_mut().for_each(|side| side.region.pass(Duration::from_millis(millis)));
    }

    /// So many twentieths of the pool are the first region's, the rest the other's: reductions first.
    fn divide(&mut self, first: u64) {
        let part = |twentieths: u64| capacity(twentieths, twentieths);
        for side in if first < 10 { [0, 1] } else { [1, 0] } {
            self.hold(side, part(if side == 0 { first } else { 20 - first }));
        }
    }

    /// Requests that are decided by the region itself.
    fn ask(&mut self, side: usize, requests: u64) {
        let fit = (0..requests).filter(|_| self.sides[side].region.check(&limit()).fits).count();
        self.spent.push((self.now, fit as u64));
    }

    /// Requests at the gateway, which may have heard of what it was told last.
    fn pass_requests(&mut self, side: usize, wanted: u64, hears: bool) {
        let gateway = &mut self.sides[side].gateway;
        if let Some((sent, told)) = gateway.unheard.take_if(|_| hears)
            && self.now - sent <= quota::TRANSIT.as_millis() as u64
        {
            if told.serial != gateway.serial {
                (gateway.has, gateway.serial) = (told.requests, told.serial);
            }
            gateway.until = self.now + TIME_TO_LIVE.as_millis() as u64;
        }
        let passed = if self.now < gateway.until { wanted.min(gateway.has) } else { 0 };
        gateway.has -= passed;
        gateway.passed += passed;
        self.spent.push((self.now, passed));
    }

    /// The gateway reports, and is told what there is for it.
    fn report(&mut self, side: usize, refused: u64) {
        let (now, left) = (at(self.now), self.sides[side].region.level(&limit()).tokens_floor());
        let passed = std::mem::take(&mut self.sides[side].gateway.passed);
        let spender = &mut self.sides[side].spender;
        spender.reported(now, passed, refused);
        let over = spender.over(now);
        self.settle(side, over);
        let told = match self.sides[side].spender.next(now) {
            Next::Nothing => None,
            Next::Again(told) => Some(told),
            Next::Draw { claim, beside } => {
                let [share] = quota::divide(left.saturating_sub(beside), &[claim], 0)[..] else { panic!("one claim") };
                self.draw(side, share, beside)
            }
        };
        self.sides[side].gateway.unheard = told.map(|told| (self.now, told)).or(self.sides[side].gateway.unheard.take());
    }

    fn draw(&mut self, side: usize, share: u64, beside: u64) -> Option<Told> {
        let now = at(self.now);
        let requests = share + beside;
        self.holds += 1;
        if share == 0 || !self.reserve(side, requests) {
            return self.sides[side].spender.again(now);
        }
        let end = now.after(Duration::from_secs(3_600));
        let (told, before) = self.sides[side].spender.given(now, self.holds, requests, beside, end);
        self.settle(side, before);
        Some(told)
    }

    fn reserve(&mut self, side: usize, requests: u64) -> bool {
        let hold = NewHold { id: HoldId::from_bits(self.holds), life: quota::LONGEST, most: tokens(requests) };
        let region = &mut self.sides[side].region;
        let question = Question { view: region.view.clone(), drift: region.drift, charges: vec![costing(&limit(), tokens(requests))] };
        match region.store.decide_beside(region.now, &question, &Beside { hold: Some(hold), slot: None }) {
            Reply::Decided(decision) => decision.allowed,
            other => panic!("not decided: {other:?}"),
        }
    }

    fn settle(&mut self, side: usize, over: Option<Over<u128>>) {
        let Some(over) = over else { return };
        let region = &mut self.sides[side].region;
        region.store.settle_hold(region.now, HoldId::from_bits(over.hold), tokens(over.used), None);
    }

    /// By how much the worst interval exceeds the limit, in micro-tokens.
    fn worst(&self) -> u64 {
        let begins = (0..self.spent.len()).map(|first| {
            let (mut sum, mut worst) = (0_u64, 0);
            for (when, units) in &self.spent[first..] {
                sum += units * 1_000_000;
                let may = BURST * 1_000_000 + RATE * 1_000 * (when - self.spent[first].0);
                worst = worst.max(sum.saturating_sub(may));
            }
            worst
        });
        begins.max().unwrap_or_default()
    }
}

fn term() -> MicroTokens {
    quota::refilled_beside(limit().limit).expect("a bucket")
}

#[derive(Clone, Debug)]
enum Event {
    Wait(u64),
    Divide(u64),
    Ask { side: usize, requests: u64 },
    Gateway { side: usize, wanted: u64, hears: bool },
    Report { side: usize, refused: u64 },
    Lapse(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let side = || 0..2_usize;
    prop_oneof![
        6 => prop_oneof![Just(500_u64), 0..1_000_u64, 0..4_000_u64].prop_map(Event::Wait),
        3 => prop_oneof![Just(0_u64), Just(20), 0..=20_u64].prop_map(Event::Divide),
        3 => (side(), 1..30_u64).prop_map(|(side, requests)| Event::Ask { side, requests }),
        6 => (side(), 0..30_u64, any::<bool>()).prop_map(|(side, wanted, hears)| Event::Gateway { side, wanted, hears }),
        6 => (side(), prop_oneof![Just(0_u64), 0..30_u64]).prop_map(|(side, refused)| Event::Report { side, refused }),
        1 => side().prop_map(Event::Lapse),
    ]
}

fn play(events: &[Event]) -> TestCaseResult {
    let mut world = World::new();
    for event in events {
        match *event {
            Event::Wait(millis) => world.pass(millis),
            Event::Divide(first) => world.divide(first),
            Event::Ask { side, requests } => world.ask(side, requests),
            Event::Gateway { side, wanted, hears } => world.pass_requests(side, wanted, hears),
            Event::Report { side, refused } => world.report(side, refused),
            Event::Lapse(side) => world.sides[side].region.apply(vec![], |finish| finish.lapsed = true),
        }
    }
    prop_assert!(world.worst() <= term().0, "{} beyond the limit, and the bound has {}", world.worst(), term().0);
    Ok(())
}

proptest! {
    #![proptest_config(seeded(1_500))]

    #[test]
    fn what_gateways_and_regions_let_pass_is_within_the_limit_and_the_term_for_parts(
        events in prop::collection::vec(event(), 1..80)
    ) {
        play(&events)?;
    }
}

/// Without the term no bound is true: a part is out while its room is another region's.
#[test]
fn a_part_that_outlives_the_capacity_it_was_drawn_from_exceeds_the_limit() {
    let mut world = World::new();
    world.pass(2_000);
    world.report(0, 20);
    world.pass_requests(0, 0, true);
    world.divide(0);
    world.pass(2_000);
    world.ask(1, 30);
    world.pass_requests(0, 30, false);
    assert_eq!(world.spent.iter().map(|(_, units)| units).sum::<u64>(), 2 * BURST);
    assert!(world.worst() == BURST * 1_000_000 && world.worst() <= term().0, "{} of {}", world.worst(), term().0);
}

#[test]
fn the_term_is_what_refills_while_a_part_is_out() {
    assert_eq!(term(), MicroTokens(RATE * 14_300_000 + 1));
    let window = quorate_shared::policy::Limit::SlidingLog { units: tokens(5), window: SECOND };
    assert_eq!(quota::refilled_beside(window), None);
}
