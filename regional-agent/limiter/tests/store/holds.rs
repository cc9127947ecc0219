//! Estimates and their settlement: nothing is given back twice, and what is owed is repaid.

use crate::region::*;
use proptest::prelude::*;
use quorate_limiter::decision::{Charge, Question, Reply};
use quorate_limiter::estimates::{grain, half};
use quorate_limiter::hold::{Beside, HoldId, NewHold, SettleReply, Settled};
use quorate_shared::units::MicroTokens;
use std::time::Duration;

/// Reserves on a region; true if it was admitted.
fn reserve(region: &mut Region, charge: &Charge, id: u128, life: Duration) -> bool {
    let question = Question { view: region.view.clone(), drift: region.drift, charges: vec![charge.clone()] };
    let hold = NewHold { id: HoldId::from_bits(id), life, most: MicroTokens(u64::MAX) };
    match region.store.decide_beside(region.now, &question, &Beside { hold: Some(hold), slot: None }) {
        Reply::Decided(decision) => decision.allowed,
        other => panic!("not decided: {other:?}"),
    }
}

fn settle(region: &mut Region, id: u128, cost: MicroTokens) -> Option<Settled> {
    match region.store.settle_hold(region.now, HoldId::from_bits(id), cost, None) {
        SettleReply::Settled(settled) => Some(settled),
        SettleReply::Ended => None,
        other => panic!("{other:?}"),
    }
}

/// Ten tokens, refilled at `rate` a second; all of it the region's.
fn region(rate: u64) -> (Region, Charge) {
    (Region::new(), charge("a", rate, SECOND, 10))
}

#[test]
fn what_is_given_back_to_an_empty_bucket_is_there() {
    let (mut region, limit) = region(1);
    assert!(reserve(&mut region, &costing(&limit, tokens(10)), 1, 60 * SECOND));
    assert_eq!(settle(&mut region, 1, tokens(7)), Some(Settled { cost: tokens(7), returned: tokens(3), owed: tokens(0) }));
    assert_eq!(region.level(&limit), tokens(3));
    assert!(region.check(&costing(&limit, tokens(3))).fits);
}

#[test]
fn nothing_is_given_back_that_has_refilled_meanwhile() {
    let (mut region, limit) = region(1);
    assert!(reserve(&mut region, &costing(&limit, tokens(5)), 1, 60 * SECOND));
    region.pass(30 * SECOND);
    assert_eq!(region.level(&limit), tokens(5), "the estimate takes room");
    assert!(region.check(&costing(&limit, tokens(4))).fits);
    settle(&mut region, 1, tokens(0));
    assert_eq!(region.level(&limit), tokens(6));
    region.pass(30 * SECOND);
    assert_eq!(region.level(&limit), tokens(10), "never more than the burst");
}

#[test]
fn a_bucket_is_full_again_once_the_estimates_that_are_out_have_ended() {
    let (mut region, limit) = region(1);
    assert!(reserve(&mut region, &costing(&limit, tokens(6)), 1, 60 * SECOND));
    region.pass(20 * SECOND);
    let look = region.check(&costing(&limit, tokens(0)));
    assert_eq!(look.remaining, tokens(4), "as much as there is room for");
    let told = look.reset_after.expect("it refills");
    assert!(told >= 46 * SECOND && told <= 50 * SECOND, "{told:?}");
    region.pass(told);
    assert_eq!(region.level(&limit), tokens(10));
}

#[test]
fn an_unsettled_estimate_takes_room_until_it_ends_and_a_grain_at_most() {
    for seconds in [1, 5, 60, 600] {
        let life = seconds * SECOND;
        let (mut region, limit) = region(1);
        assert!(reserve(&mut region, &costing(&limit, tokens(8)), 1, life));
        region.pass(life - Duration::from_micros(1));
        assert_eq!(region.level(&limit), tokens(2), "not before: {life:?}");
        region.pass(grain(life) + Duration::from_micros(1));
        let whole = tokens(u64::from(seconds + 2).min(10));
        assert!(region.level(&limit) >= whole, "{life:?}");
        assert_eq!(settle(&mut region, 1, tokens(0)), None, "it ended before");
    }
}

#[test]
fn a_share_of_fifty_with_fifty_estimates_out_stalls_for_their_ttl_and_not_for_longer() {
    let mut region = Region::new();
    let limit = charge("a", 50, SECOND, 50);
    for id in 1..=50 {
        assert!(reserve(&mut region, &limit, id, 5 * SECOND));
        region.pass(Duration::from_millis(10));
    }
    assert!(!region.check(&limit).fits);
    region.pass(6 * SECOND);
    assert_eq!(region.drain(&limit), 50);
}

#[test]
fn whoever_waits_for_room_is_told_a_time_at_which_it_is_there_whoever_asked_meanwhile() {
    for asked in [0, 1, 7] {
        let (mut region, limit) = region(1);
        assert!(reserve(&mut region, &costing(&limit, tokens(8)), 1, 60 * SECOND));
        let large = costing(&limit, tokens(5));
        let refused = region.check(&large);
        let wait = refused.retry_after.expect("it fits the burst");
        assert!(!refused.fits && (63 * SECOND..=67 * SECOND).contains(&wait), "{wait:?}");
        for _ in 0..asked {
            region.pass(wait / (asked + 1));
            assert!(!region.check(&large).fits);
        }
        region.now = region.now.after(wait - wait / (asked + 1) * asked);
        assert!(region.check(&large).fits, "asked {asked} times");
    }
}

#[test]
fn a_debt_slows_the_refill_by_half_until_it_is_repaid_and_stalls_nothing() {
    let (mut region, limit) = region(2);
    assert!(reserve(&mut region, &costing(&limit, tokens(6)), 1, 60 * SECOND));
    let settled = settle(&mut region, 1, tokens(15)).expect("in time");
    assert_eq!((settled.returned, settled.owed), (tokens(0), tokens(5)), "four lay in the bucket");
    assert_eq!(region.level(&limit), tokens(0));
    let wait = region.check(&costing(&limit, tokens(3))).retry_after.expect("it fits the burst");
    assert_eq!(wait, 3 * SECOND);
    region.pass(5 * SECOND);
    assert!((4_999_999..=5_000_000).contains(&region.level(&limit).0), "one a second");
    region.pass(SECOND);
    assert!((6_999_998..=7_000_000).contains(&region.level(&limit).0), "and two again");
}

#[test]
fn a_debt_is_at_most_one_burst() {
    let (mut region, limit) = region(2);
    for id in 1..=5 {
        assert!(reserve(&mut region, &costing(&limit, tokens(1)), id, 60 * SECOND));
    }
    for id in 1..=5 {
        assert!(settle(&mut region, id, tokens(1_000)).expect("in time").owed >= tokens(990));
    }
    region.pass(10 * SECOND);
    assert!((9_999_990..=10_000_000).contains(&region.level(&limit).0), "half of the rate for one burst");
}

#[test]
fn a_capacity_that_went_and_came_back_brings_no_estimate_with_it() {
    let (mut region, limit) = region(1);
    let limit = Charge { floor: capacity(1, 5), lendable: capacity(0, 0), ..limit };
    region.view.leased = true;
    region.apply(vec![holds(&limit, pool(capacity(0, 5)))], |_| {});
    region.pass(100 * SECOND);
    assert!(reserve(&mut region, &costing(&limit, tokens(10)), 1, 600 * SECOND));
    region.apply(vec![holds(&limit, pool(capacity(0, 0)))], |_| {});
    region.apply(vec![holds(&limit, pool(capacity(0, 5)))], |_| {});
    let settled = settle(&mut region, 1, tokens(0)).expect("in time");
    assert_eq!((settled.returned, region.level(&limit)), (tokens(0), tokens(0)), "the part that went may be used elsewhere");
}

#[derive(Clone, Debug)]
enum Event {
    Wait(u64),
    Take(u64),
    Reserve { estimate: u64, life: u64 },
    Settle { which: prop::sample::Index, permille: u64 },
    StepBack(u64),
}

fn event(most: u64) -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => prop_oneof![0..2_000u64, 0..2_000_000u64, 0..90_000_000u64, 0..900_000_000u64].prop_map(Event::Wait),
        3 => (1..12_000_000u64).prop_map(Event::Take),
        5 => (1..12_000_000u64, 1..=600u64).prop_map(|(estimate, life)| Event::Reserve { estimate, life }),
        5 => (any::<prop::sample::Index>(), 0..=most).prop_map(|(which, permille)| Event::Settle { which, permille }),
        1 => (0..900_000_000u64).prop_map(Event::StepBack),
    ]
}

/// What was admitted at one instant that only runs forward, with its true cost so far.
#[derive(Clone, Copy, Debug)]
struct Admitted {
    at: u64,
    estimate: u64,
    cost: u64,
}

/// Plays `events`, and checks every interval against the plain limit of ten tokens and `rate` a second.
fn play(rate: u64, events: &[Event]) -> Result<(), TestCaseError> {
    let (mut region, limit) = region(rate);
    let (mut admitted, mut holds): (Vec<Admitted>, Vec<(u128, usize)>) = (Vec::new(), Vec::new());
    // what the clock has shown in all, steps back left out: by that the bucket refills
    let mut shown = 0;
    for (n, event) in events.iter().enumerate() {
        match event {
            Event::Wait(micros) => {
                region.pass(Duration::from_micros(*micros));
                shown += micros;
            }
            Event::StepBack(micros) => {
                region.now = quorate_shared::time::StoreTime::from_micros(region.now.as_micros().saturating_sub(*micros).max(1));
            }
            Event::Take(cost) => {
                if region.check(&costing(&limit, MicroTokens(*cost))).fits {
                    admitted.push(Admitted { at: shown, estimate: *cost, cost: *cost });
                }
            }
            Event::Reserve { estimate, life } => {
                let id = n as u128 + 1;
                if reserve(&mut region, &costing(&limit, MicroTokens(*estimate)), id, Duration::from_secs(*life)) {
                    holds.push((id, admitted.len()));
                    admitted.push(Admitted { at: shown, estimate: *estimate, cost: *estimate });
                }
            }
            Event::Settle { which, permille } if !holds.is_empty() => {
                let (id, index) = *which.get(&holds);
                let cost = admitted[index].estimate * permille / 1_000;
                if let Some(settled) = settle(&mut region, id, MicroTokens(cost)) {
                    prop_assert!(settled.returned.0 <= admitted[index].estimate.saturating_sub(settled.cost.0));
                    admitted[index].cost = settled.cost.0.max(admitted[index].estimate - settled.returned.0);
                }
            }
            Event::Settle { .. } => {}
        }
        prop_assert!(region.level(&limit) <= tokens(10));
    }
    for (i, first) in admitted.iter().enumerate() {
        let (mut cost, mut excess) = (0, 0);
        for last in &admitted[i..] {
            cost += u128::from(last.cost);
            excess += u128::from(last.cost.saturating_sub(last.estimate));
            let bound = 10_000_000 + u128::from(last.at - first.at) * u128::from(rate) + excess;
            prop_assert!(cost <= bound, "{} in {} us, {} over estimates", cost, last.at - first.at, excess);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(seeded(2_000))]

    #[test]
    fn true_costs_below_their_estimates_stay_within_the_limit(rate in 1..20u64, events in prop::collection::vec(event(1_000), 1..60)) {
        play(rate, &events)?;
    }

    #[test]
    fn true_costs_exceed_the_limit_by_no_more_than_their_estimates_were_short(
        rate in 1..20u64, events in prop::collection::vec(event(3_000), 1..60)
    ) {
        play(rate, &events)?;
    }
}

#[test]
fn half_a_rate_never_repays_less_than_the_other_half() {
    assert_eq!([half(MicroTokens(0)), half(MicroTokens(1)), half(MicroTokens(7))], [0, 0, 3].map(MicroTokens));
}
