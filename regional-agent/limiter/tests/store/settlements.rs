//! Settling what windows and logs were charged, by plain expectations and against a plain list.

use crate::region::*;
use proptest::prelude::*;
use quorate_limiter::decision::{Charge, Question, Reply};
use quorate_limiter::hold::{Beside, HoldId, NewHold, SettleReply, Settled};
use quorate_limiter::record::HoldingsChange;
use quorate_limiter::store::Usage;
use quorate_shared::heartbeat::Grant;
use quorate_shared::policy::{Limit, MAX_LOG_ENTRIES, Window};
use quorate_shared::units::{Capacity, MAX_EXACT, MicroTokens};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
const LIFE: Duration = Duration::from_secs(600);

fn of(limit: Limit) -> Charge {
    let floor = limit.capacity();
    Charge { limit, floor, lendable: Capacity::ZERO, ..charge("a", 1, 60 * MINUTE, 10) }
}

fn fixed(window: Duration) -> Charge {
    of(Limit::FixedWindow { units: tokens(10), window: Window::Every(window) })
}

fn sliding(window: Duration) -> Charge {
    of(Limit::SlidingWindow { units: tokens(10), window })
}

fn log(window: Duration) -> Charge {
    of(Limit::SlidingLog { units: tokens(10), window })
}

/// Ten an hour, however counted.
fn kinds() -> [Charge; 4] {
    let hour = 60 * MINUTE;
    [charge("a", 1, hour, 10), fixed(hour), sliding(hour), log(hour)]
}

fn reserve(region: &mut Region, charge: &Charge, id: u128, estimate: u64, life: Duration) -> bool {
    let charges = vec![costing(charge, MicroTokens(estimate))];
    let question = Question { view: region.view.clone(), drift: region.drift, charges };
    let beside = Beside { hold: Some(NewHold { id: HoldId::from_bits(id), life, most: MicroTokens(u64::MAX) }), slot: None };
    match region.store.decide_beside(region.now, &question, &beside) {
        Reply::Decided(decision) => decision.allowed,
        other => panic!("not decided: {other:?}"),
    }
}

/// By the lease and the floor of the moment.
fn settle(region: &mut Region, charge: &Charge, id: u128, cost: u64) -> SettleReply {
    let grounds = Question { view: region.view.clone(), drift: region.drift, charges: vec![charge.clone()] };
    region.store.settle_hold(region.now, HoldId::from_bits(id), MicroTokens(cost), Some(&grounds))
}

fn settled(cost: u64, returned: u64, owed: u64) -> SettleReply {
    SettleReply::Settled(Settled { cost: MicroTokens(cost), returned: MicroTokens(returned), owed: MicroTokens(owed) })
}

const TOKEN: u64 = 1_000_000;

#[test]
fn who_only_looks_is_let_through_however_much_counts() {
    for limit in kinds() {
        let mut region = Region::new();
        assert!(reserve(&mut region, &limit, 1, 10 * TOKEN, LIFE));
        settle(&mut region, &limit, 1, 25 * TOKEN);
        let look = region.check(&costing(&limit, tokens(0)));
        assert_eq!((look.fits, look.remaining, look.retry_after), (true, tokens(0), None), "{limit:?}");
        assert!(!region.check(&limit).fits, "{limit:?}");
    }
}

#[test]
fn a_true_cost_beyond_what_a_reservation_may_come_to_changes_nothing() {
    for limit in kinds() {
        let mut region = Region::new();
        let question = Question { view: region.view.clone(), drift: region.drift, charges: vec![costing(&limit, tokens(2))] };
        let hold = NewHold { id: HoldId::from_bits(1), life: LIFE, most: tokens(10) };
        let reply = region.store.decide_beside(region.now, &question, &Beside { hold: Some(hold), slot: None });
        assert!(matches!(reply, Reply::Decided(decision) if decision.allowed));
        assert_eq!(settle(&mut region, &limit, 1, 10 * TOKEN + 1), SettleReply::Beyond(tokens(10)), "{limit:?}");
        assert_eq!(region.level(&limit), tokens(8), "{limit:?}");
        assert_eq!(settle(&mut region, &limit, 1, 10 * TOKEN), settled(10 * TOKEN, 0, 0), "{limit:?}");
        assert_eq!(settle(&mut region, &limit, 1, 99 * TOKEN), settled(10 * TOKEN, 0, 0), "what it came to is said again");
    }
}

#[test]
fn what_was_estimated_too_high_comes_back_once() {
    for limit in kinds() {
        let mut region = Region::new();
        assert!(reserve(&mut region, &limit, 1, 8 * TOKEN, LIFE));
        for _ in 0..2 {
            assert_eq!(settle(&mut region, &limit, 1, 3 * TOKEN), settled(3 * TOKEN, 5 * TOKEN, 0), "{limit:?}");
            assert_eq!(region.level(&limit), tokens(7), "{limit:?}");
        }
        assert!(!region.check(&costing(&limit, MicroTokens(7 * TOKEN + 1))).fits);
        assert!(region.check(&costing(&limit, tokens(7))).fits);
    }
}

#[test]
fn what_costs_nothing_leaves_what_was_there() {
    for limit in kinds() {
        let mut region = Region::new();
        assert!(reserve(&mut region, &limit, 1, 10 * TOKEN, LIFE));
        assert_eq!(settle(&mut region, &limit, 1, 0), settled(0, 10 * TOKEN, 0), "{limit:?}");
        assert_eq!(region.level(&limit), tokens(10));
        assert!(region.check(&costing(&limit, tokens(10))).fits, "{limit:?}");
    }
}

#[test]
fn what_was_estimated_too_low_leaves_nothing_and_says_what_was_not_there() {
    for limit in kinds() {
        let mut region = Region::new();
        assert!(reserve(&mut region, &limit, 1, 8 * TOKEN, LIFE));
        for _ in 0..2 {
            assert_eq!(settle(&mut region, &limit, 1, 12 * TOKEN), settled(12 * TOKEN, 0, 2 * TOKEN), "{limit:?}");
            let refused = region.check(&costing(&limit, MicroTokens(1)));
            assert_eq!((refused.fits, refused.remaining), (false, MicroTokens::ZERO), "{limit:?}");
            assert!(refused.retry_after.is_some());
        }
    }
}

#[test]
fn a_cost_beyond_all_numbers_is_kept_within_them() {
    for limit in kinds() {
        let mut region = Region::new();
        for id in 1..=2 {
            assert!(reserve(&mut region, &limit, id, 5 * TOKEN, LIFE));
        }
        for id in 1..=2 {
            let SettleReply::Settled(settled) = settle(&mut region, &limit, id, MAX_EXACT) else { panic!("in time") };
            assert_eq!(settled.owed, MicroTokens(MAX_EXACT - 5 * TOKEN), "{limit:?}");
            assert_eq!(region.level(&limit), MicroTokens::ZERO);
        }
    }
}

#[test]
fn an_estimate_stays_once_its_life_is_over() {
    for limit in kinds() {
        let mut region = Region::new();
        assert!(reserve(&mut region, &limit, 1, 8 * TOKEN, SECOND));
        region.pass(SECOND + Duration::from_micros(1));
        for cost in [0, 12 * TOKEN] {
            assert_eq!(settle(&mut region, &limit, 1, cost), SettleReply::Ended);
        }
        assert_eq!(region.level(&limit).tokens_floor(), 2, "{limit:?}");
    }
}

#[test]
fn nothing_is_corrected_that_was_charged_before_a_loss_of_state() {
    for limit in kinds() {
        let mut region = Region::new();
        assert!(reserve(&mut region, &limit, 1, 8 * TOKEN, LIFE));
        region.open(2, true);
        let before = region.level(&limit);
        assert_eq!(settle(&mut region, &limit, 1, 3 * TOKEN), settled(3 * TOKEN, 0, 0), "{limit:?}");
        assert_eq!(region.level(&limit), before);
    }
}

#[test]
fn a_window_that_is_over_gives_nothing_to_the_next_and_takes_nothing_from_it() {
    for cost in [3, 12] {
        let (mut region, limit) = (Region::new(), fixed(MINUTE));
        assert!(reserve(&mut region, &limit, 1, 8 * TOKEN, LIFE));
        region.pass(MINUTE);
        assert!(region.check(&costing(&limit, tokens(4))).fits);
        let owed = cost.max(8) - 8;
        assert_eq!(settle(&mut region, &limit, 1, cost * TOKEN), settled(cost * TOKEN, 0, owed * TOKEN));
        assert_eq!(region.level(&limit), tokens(6));
    }
}

/// More units of the open window are granted.
fn grant(region: &mut Region, limit: &Charge, granted: u64) {
    let number = region.reduce(vec![]);
    let label = limit.limit.window_at(region.now).expect("it has windows");
    let grant = Grant { budget: limit.budget.clone(), label, granted: tokens(granted), used_at_most: MicroTokens::ZERO };
    let (view, drift) = (region.view.clone(), region.drift);
    let change = HoldingsChange { number, view, drift, settlements: vec![], grants: vec![grant] };
    region.store.write(region.now, &change).expect("of the response taken");
    region.store.finish(region.now, &region.finish(number)).expect("of the response taken");
}

/// What a heartbeat would say was spent.
fn spent(region: &Region, limit: &Charge) -> MicroTokens {
    match region.store.usage(region.now, limit, region.drift) {
        Some(Usage::Spent(units)) => units.spent,
        other => panic!("no units: {other:?}"),
    }
}

#[test]
fn an_excess_is_paid_for_by_what_the_region_has_when_it_is_settled() {
    // four of its own and six of the pool; three are reserved, and come to nine
    let owed = |change: fn(&mut Region), known: bool| {
        [sliding(60 * MINUTE), log(60 * MINUTE)].map(|limit| {
            let (mut region, limit) = (Region::new(), Charge { floor: capacity(0, 4), ..limit });
            region.apply(vec![holds(&limit, pool(capacity(0, 6)))], |_| {});
            region.view.leased = true;
            assert!(reserve(&mut region, &limit, 1, 3 * TOKEN, LIFE));
            change(&mut region);
            let grounds = Question { view: region.view.clone(), drift: region.drift, charges: vec![limit] };
            let cost = MicroTokens(9 * TOKEN);
            match region.store.settle_hold(region.now, HoldId::from_bits(1), cost, known.then_some(&grounds)) {
                SettleReply::Settled(settled) => settled.owed.tokens_floor(),
                other => panic!("{other:?}"),
            }
        })
    };
    assert_eq!(owed(|_| {}, true), [0; 2]);
    assert_eq!(owed(|region| region.view.leased = false, true), [5; 2], "the lease has ended");
    let newer = |region: &mut Region| {
        let view = region.view.clone();
        region.apply(vec![], |_| {});
        region.view = view;
    };
    assert_eq!(owed(newer, true), [5; 2], "of a newer response nobody knows until when");
    assert_eq!(owed(|region| region.view.policies = policies(9), true), [6; 2], "floors of another set");
    assert_eq!(owed(|_| {}, false), [6; 2]);
}

#[test]
fn what_was_used_beyond_a_window_is_not_reported_as_spent_and_counts_against_a_later_grant() {
    let (mut region, limit) = (Region::new(), fixed(60 * MINUTE));
    assert!(reserve(&mut region, &limit, 1, 8 * TOKEN, LIFE) && reserve(&mut region, &limit, 2, 2 * TOKEN, LIFE));
    assert_eq!(settle(&mut region, &limit, 1, 12 * TOKEN), settled(12 * TOKEN, 0, 4 * TOKEN));
    assert_eq!(spent(&region, &limit), tokens(10));
    grant(&mut region, &limit, 17);
    assert_eq!(region.level(&limit), tokens(3));
    assert!(region.check(&costing(&limit, tokens(2))).fits);
    assert_eq!(settle(&mut region, &limit, 2, TOKEN), settled(TOKEN, TOKEN, 0));
    assert_eq!((spent(&region, &limit), region.level(&limit)), (tokens(15), tokens(2)), "what came back pays for it");
}

#[test]
fn what_sliding_windows_counted_is_corrected_in_the_window_in_which_it_was_taken() {
    let (mut region, limit) = (Region::new(), sliding(MINUTE));
    assert!(reserve(&mut region, &limit, 1, 8 * TOKEN, LIFE) && reserve(&mut region, &limit, 2, 2 * TOKEN, LIFE));
    region.pass(MINUTE + MINUTE / 2);
    assert_eq!(region.level(&limit), tokens(5));
    assert_eq!(settle(&mut region, &limit, 1, 4 * TOKEN), settled(4 * TOKEN, 4 * TOKEN, 0));
    assert_eq!(region.level(&limit), tokens(7));
    assert_eq!(settle(&mut region, &limit, 2, 3 * TOKEN), settled(3 * TOKEN, 0, 0));
    assert_eq!(region.level(&limit), tokens(6), "one more in the present one");
}

#[test]
fn what_a_log_counts_beyond_an_estimate_counts_from_then_on() {
    let (mut region, limit) = (Region::new(), log(MINUTE));
    assert!(reserve(&mut region, &limit, 1, 4 * TOKEN, LIFE));
    region.pass(MINUTE / 2);
    settle(&mut region, &limit, 1, 6 * TOKEN);
    assert_eq!(region.level(&limit), tokens(4));
    region.pass(MINUTE / 2 + Duration::from_micros(1));
    assert_eq!(region.level(&limit), tokens(8));
    region.pass(MINUTE / 2);
    assert_eq!(region.level(&limit), tokens(10));
}

#[test]
fn an_entry_of_a_log_that_is_part_of_another_by_now_stays_as_it_is() {
    // merged with later ones
    let mut region = Region::new();
    let many = Limit::SlidingLog { units: tokens(20_000), window: 60 * MINUTE };
    let limit = of(many);
    assert!(reserve(&mut region, &limit, 1, 5 * TOKEN, LIFE));
    for _ in 0..MAX_LOG_ENTRIES {
        region.pass(Duration::from_micros(1));
        assert!(region.check(&limit).fits);
    }
    assert_eq!(settle(&mut region, &limit, 1, 0), settled(0, 0, 0));
    // dated anew by a clock that stepped back, and another of its first date
    let (mut region, limit) = (Region::new(), log(60 * MINUTE));
    let first = region.now;
    assert!(reserve(&mut region, &limit, 1, 5 * TOKEN, LIFE));
    region.now = quorate_shared::time::StoreTime::from_micros(first.as_micros() - 7);
    assert!(region.check(&limit).fits);
    region.now = first;
    assert!(region.check(&limit).fits);
    assert_eq!(settle(&mut region, &limit, 1, 0), settled(0, 0, 0));
    assert_eq!(region.level(&limit), tokens(3));
}

#[derive(Clone, Debug)]
enum Event {
    Wait(u64),
    Take(u64),
    Reserve(u64),
    Settle { which: prop::sample::Index, permille: u64 },
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => prop_oneof![Just(1u64), 0..2_000_000u64, 0..90_000_000u64, Just(60_000_000u64)].prop_map(Event::Wait),
        3 => (1..8_000_000u64).prop_map(Event::Take),
        5 => (1..8_000_000u64).prop_map(Event::Reserve),
        5 => (any::<prop::sample::Index>(), 0..2_000u64).prop_map(|(which, permille)| Event::Settle { which, permille }),
    ]
}

/// What was used when: a plain list.
#[derive(Default)]
struct Plain(Vec<(u64, u64)>);

impl Plain {
    fn between(&self, first: u64, last: u64) -> u64 {
        self.0.iter().filter(|(at, _)| (first..=last).contains(at)).map(|(_, units)| units).sum()
    }

    /// What counts at `now`, over minutes.
    fn counted(&self, limit: Limit, now: u64) -> u64 {
        let minute = MINUTE.as_micros() as u64;
        let (begin, left) = (now / minute * minute, minute - now % minute);
        match limit {
            Limit::SlidingLog { .. } => self.between(now - minute, now),
            Limit::SlidingWindow { .. } => self.between(begin, now) + (self.between(begin - minute, begin - 1) * left).div_ceil(minute),
            _ => self.between(begin, now),
        }
    }

    /// True if what was taken then can be corrected now.
    fn is_open(limit: Limit, at: u64, now: u64) -> bool {
        let minute = MINUTE.as_micros() as u64;
        match limit {
            Limit::SlidingLog { .. } => now - at <= minute,
            Limit::SlidingWindow { .. } => now / minute - at / minute <= 1,
            _ => now / minute == at / minute,
        }
    }
}

/// Plays `events`, and compares what is left with what a plain list leaves.
fn play(limit: &Charge, events: &[Event]) -> Result<(), TestCaseError> {
    let (mut region, mut plain, mut holds) = (Region::new(), Plain::default(), Vec::new());
    for (n, event) in events.iter().enumerate() {
        let now = region.now.as_micros();
        let left = (10 * TOKEN).saturating_sub(plain.counted(limit.limit, now));
        match event {
            Event::Wait(micros) => region.pass(Duration::from_micros(*micros)),
            Event::Take(cost) => {
                let fits = region.check(&costing(limit, MicroTokens(*cost))).fits;
                prop_assert_eq!(fits, *cost <= left);
                plain.0.extend(fits.then_some((now, *cost)));
            }
            Event::Reserve(estimate) => {
                let fits = reserve(&mut region, limit, n as u128, *estimate, LIFE);
                prop_assert_eq!(fits, *estimate <= left);
                if fits {
                    holds.push((n as u128, plain.0.len(), region.now));
                    plain.0.push((now, *estimate));
                }
            }
            Event::Settle { which, permille } if !holds.is_empty() => {
                let (id, entry, since) = holds.swap_remove(which.index(holds.len()));
                let (at, estimate) = plain.0[entry];
                let cost = estimate * permille / 1_000;
                let (lower, excess) = (estimate.saturating_sub(cost), cost.saturating_sub(estimate));
                let expected = match (region.now.since(since) <= LIFE, Plain::is_open(limit.limit, at, now)) {
                    (false, _) => SettleReply::Ended,
                    (true, true) => settled(cost, lower, excess.saturating_sub(left)),
                    (true, false) if matches!(limit.limit, Limit::FixedWindow { .. }) => settled(cost, 0, excess),
                    (true, false) => settled(cost, 0, excess.saturating_sub(left)),
                };
                prop_assert_eq!(settle(&mut region, limit, id, cost), expected);
                if let SettleReply::Settled(Settled { returned, .. }) = expected {
                    plain.0[entry].1 -= returned.0;
                    let counts = Plain::is_open(limit.limit, at, now) || !matches!(limit.limit, Limit::FixedWindow { .. });
                    plain.0.extend(counts.then_some((now, excess)));
                }
            }
            Event::Settle { .. } => {}
        }
        let now = region.now.as_micros();
        prop_assert_eq!(region.level(limit).0, (10 * TOKEN).saturating_sub(plain.counted(limit.limit, now)));
    }
    Ok(())
}

proptest! {
    #![proptest_config(seeded(1_000))]

    #[test]
    fn windows_and_logs_count_true_costs_as_a_plain_list_does(kind in 0..3usize, events in prop::collection::vec(event(), 1..60)) {
        play(&[fixed(MINUTE), sliding(MINUTE), log(MINUTE)][kind], &events)?;
    }
}
