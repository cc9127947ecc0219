//! Units of windows: what a region spends of each, and what a change of policies does to them.

use crate::region::{Region, SECOND, budget, charge, costing, tokens};
use quorate_limiter::decision::Charge;
use quorate_limiter::record::{ChangedPolicy, HoldingsChange};
use quorate_shared::heartbeat::Grant;
use quorate_shared::policy::{Limit, Window};
use quorate_shared::time::WindowLabel;
use quorate_shared::units::{Capacity, MicroTokens};

const LENGTH: std::time::Duration = SECOND.saturating_mul(60);

/// A charge of one of ten units a minute, all of them this region's floor.
fn minute() -> Charge {
    let limit = Limit::FixedWindow { units: tokens(10), window: Window::Every(LENGTH) };
    Charge { limit, floor: limit.capacity(), lendable: Capacity::ZERO, ..charge("a", 0, SECOND, 0) }
}

/// A response under which a policy's floors changed.
fn change(region: &mut Region, anew: bool) {
    let id = budget("");
    let changed = ChangedPolicy { policy: id.policy, generation: id.generation, former: Capacity::ZERO, slows: false, anew };
    region.apply(vec![], |finish| finish.changed = vec![changed]);
}

#[test]
fn each_window_gives_its_units_once_and_two_may_be_spent_around_a_boundary() {
    let mut region = Region::new();
    region.pass(LENGTH - SECOND);
    assert_eq!(region.drain(&minute()), 10);
    let refused = region.check(&minute());
    assert_eq!((refused.retry_after, refused.reset_after), (Some(SECOND), Some(SECOND)));
    region.pass(SECOND);
    assert_eq!(region.drain(&minute()), 10, "the next window has units of its own");
}

#[test]
fn a_window_that_was_used_stays_open_if_the_clock_is_put_back() {
    let mut region = Region::new();
    let before = region.now;
    region.pass(LENGTH);
    assert!(region.check(&costing(&minute(), tokens(8))).fits);
    region.now = before;
    let left = region.check(&minute());
    assert_eq!((left.remaining, left.reset_after), (tokens(1), Some(2 * LENGTH)));
    assert_eq!(region.drain(&minute()), 1);
}

#[test]
fn a_former_floor_holds_up_to_its_last_window() {
    let mut region = Region::new();
    let former = vec![(WindowLabel::beginning_at(region.now), tokens(3))];
    let charge = Charge { former_floors: former, ..minute() };
    assert_eq!(region.drain(&charge), 3);
    region.pass(LENGTH);
    assert_eq!(region.drain(&charge), 10);
}

#[test]
fn the_window_in_which_budgets_begin_anew_counts_as_used() {
    let mut region = Region::new();
    change(&mut region, true);
    assert_eq!(region.drain(&minute()), 0);
    // a later change of the same policy does not bring it back
    region.pass(SECOND);
    change(&mut region, false);
    assert_eq!(region.drain(&minute()), 0);
    region.pass(LENGTH);
    assert_eq!(region.drain(&minute()), 10);
}

#[test]
fn a_change_of_what_goes_on_takes_no_units() {
    let mut region = Region::new();
    assert!(region.check(&costing(&minute(), tokens(4))).fits);
    change(&mut region, false);
    assert_eq!(region.level(&minute()), tokens(6));
    assert_eq!(region.level(&Charge { budget: budget("b"), ..minute() }), tokens(10));
}

#[test]
fn a_cost_that_the_region_may_not_spend_has_no_time_and_takes_nothing() {
    let mut region = Region::new();
    let large = region.check(&costing(&minute(), MicroTokens(10_000_001)));
    assert_eq!((large.fits, large.retry_after, large.remaining), (false, None, tokens(10)));
}

#[test]
fn of_a_window_that_was_lost_only_what_is_granted_beyond_its_use_may_be_spent() {
    let mut region = Region::lost();
    region.open(1, false);
    region.apply(vec![], |_| {});
    assert_eq!(region.drain(&minute()), 0, "all of the floor may have been used");
    // each response says more: what it can have come to by now, with what was granted since
    for (granted, used_at_most, fit) in [(25, 20, 5), (32, 25, 7), (32, 32, 0)] {
        grant(&mut region, granted, used_at_most);
        assert_eq!(region.drain(&minute()), fit, "granted {granted}");
    }
}

#[test]
fn what_a_window_came_to_is_told_once_though_its_grant_came_to_nothing_meanwhile() {
    let begun_anew = |region: &mut Region| change(region, true);
    let lost = |region: &mut Region| {
        *region = Region::lost();
        region.open(1, false);
        region.apply(vec![], |_| {});
    };
    for begin in [&begun_anew as &dyn Fn(&mut Region), &lost] {
        let mut region = Region::new();
        begin(&mut region);
        for (granted, used_at_most) in [(25, 20), (0, 25), (32, 25)] {
            grant(&mut region, granted, used_at_most);
        }
        assert_eq!(region.drain(&minute()), 12, "it reported 20 of what is granted as spent, and not 25");
    }
}

/// Units of the present window, as a response grants them.
fn grant(region: &mut Region, granted: u64, used_at_most: u64) {
    let label = minute().limit.window_at(region.now).expect("a window");
    let number = region.reduce(vec![]);
    let grant = Grant { budget: minute().budget, label, granted: tokens(granted), used_at_most: tokens(used_at_most) };
    let (view, drift) = (region.view.clone(), region.drift);
    let change = HoldingsChange { number, view, drift, settlements: vec![], grants: vec![grant] };
    region.store.write(region.now, &change).expect("of the response taken");
}
