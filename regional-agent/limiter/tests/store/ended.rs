//! Floors that end by themselves.

use crate::region::*;
use quorate_limiter::decision::Charge;
use quorate_shared::policy::Limit;
use quorate_shared::units::{Capacity, MicroTokens};
use std::time::Duration;

const TTL: Duration = Duration::from_secs(60);

fn ending(charge: Charge) -> Charge {
    Charge { floor_ttl: Some(TTL), ..charge }
}

/// A second passes in which no coordinator is heard, as in so many before.
fn unheard_for(region: &mut Region, span: Duration) {
    region.view.unheard_for = span;
}

#[test]
fn a_floor_that_has_ended_admits_nothing_and_its_counts_are_left_as_they_are() {
    let limits = [
        Limit::TokenBucket { rate: tokens(1), period: 3_600 * SECOND, burst: tokens(10) },
        Limit::SlidingLog { units: tokens(10), window: 3_600 * SECOND },
        Limit::SlidingWindow { units: tokens(10), window: 3_600 * SECOND },
        Limit::Concurrency { slots: tokens(10), max_hold: 3_600 * SECOND },
    ];
    for limit in limits {
        let all = ending(Charge { limit, floor: limit.capacity(), ..charge("a", 1, SECOND, 1) });
        let mut region = Region::new();
        unheard_for(&mut region, TTL - Duration::from_micros(1));
        assert!(region.check(&costing(&all, tokens(4))).fits, "{limit}");
        for span in [TTL, Duration::MAX] {
            unheard_for(&mut region, span);
            let refused = region.decide(std::slice::from_ref(&all));
            let limit = refused.limits[0];
            assert!(!refused.allowed && !limit.fits, "{limit:?}");
            assert_eq!((limit.capacity, limit.remaining, limit.retry_after), (Capacity::ZERO, MicroTokens::ZERO, None));
        }
        unheard_for(&mut region, Duration::ZERO);
        assert_eq!(region.level(&all), tokens(6), "{limit}");
    }
}

#[test]
fn where_a_floor_has_ended_that_is_only_observed_the_others_decide() {
    let (observed, other) = (Charge { enforced: false, ..ending(charge("a", 10, SECOND, 10)) }, charge("b", 1, 3_600 * SECOND, 2));
    let mut region = Region::new();
    unheard_for(&mut region, TTL);
    let admitted: Vec<bool> = (0..3).map(|_| region.decide(&[observed.clone(), other.clone()]).allowed).collect();
    assert_eq!(admitted, [true, true, false]);
    unheard_for(&mut region, Duration::ZERO);
    assert_eq!(region.level(&observed), tokens(10), "nothing was taken of it");
}

#[test]
fn what_others_may_have_had_meanwhile_is_not_there_when_a_floor_is_back() {
    let all = ending(charge("a", 10, SECOND, 10));
    let mut region = Region::new();
    assert!(region.check(&all).fits);
    region.pass(90 * SECOND);
    region.apply(vec![], |finish| (finish.lapsed, finish.changed) = (true, changed(Capacity::ZERO)));
    assert_eq!(region.level(&all), tokens(0));
    assert_eq!(region.level(&ending(charge("never seen", 10, SECOND, 10))), tokens(0));
    region.check(&all);
    region.pass(SECOND / 2);
    assert_eq!(region.level(&all), tokens(5));
}
