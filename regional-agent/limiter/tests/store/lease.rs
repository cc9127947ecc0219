//! What a lease, its lapse, a loss of state and a change of policy do to buckets and record.

use crate::region::*;
use quorate_limiter::bucket::GRACE;
use quorate_limiter::decision::{Charge, Question, Reply};
use quorate_limiter::record::{HoldingsChange, Loaded, Opening, RECORD_LIFE, Refusal, Settlement};
use quorate_shared::heartbeat::{Holding, Number};
use quorate_shared::names::RegionName;
use quorate_shared::time::StoreTime;
use quorate_shared::units::{Capacity, MicroTokens};
use std::collections::BTreeMap;

/// 10/s, burst 10: all of it this region's floor, all of it lendable.
fn limit() -> Charge {
    charge("a", 10, SECOND, 10)
}

/// A region with a lease in which `limit()` has this much of the pool.
fn leased(part: Capacity) -> Region {
    let mut region = Region::new();
    region.view.leased = true;
    region.grant(&limit(), pool(part));
    region
}

impl Region {
    /// Applies a response with one holding: the increase after its end.
    fn grant(&mut self, charge: &Charge, holding: Holding) {
        self.apply(vec![], |_| {});
        self.write(self.view.number, vec![holds(charge, holding)]);
    }

    /// The lease ends, and comes back after `span`.
    fn lapse(&mut self, span: std::time::Duration) {
        self.pass(span);
        self.apply(vec![], |finish| finish.lapsed = true);
    }
}

#[test]
fn a_raise_leaves_the_level_and_a_reduction_clamps_it_at_once() {
    let mut region = leased(capacity(90, 90));
    assert_eq!(region.level(&limit()), tokens(10));
    region.pass(SECOND);
    assert_eq!(region.level(&limit()), tokens(100));
    let number = region.reduce(vec![holds(&limit(), pool(capacity(1, 5)))]);
    region.write(number, vec![holds(&limit(), pool(capacity(90, 90)))]);
    assert_eq!(region.level(&limit()), tokens(15));
}

#[test]
fn a_lapse_between_two_accesses_is_not_leased_time() {
    let mut region = leased(capacity(90, 90));
    region.pass(SECOND);
    assert!(region.check(&limit()).used_lease);
    region.lapse(60 * SECOND);
    assert_eq!(region.level(&limit()), tokens(10));
    region.pass(SECOND / 10);
    // 1 by the own rate from the return on: nobody looked when it came back
    assert_eq!(region.drain(&limit()), 11);
    region.pass(SECOND / 10);
    assert_eq!(region.drain(&limit()), 10);
}

#[test]
fn a_loan_counts_only_while_its_lender_promises() {
    let eu: RegionName = "eu".parse().expect("a name");
    let mut region = Region::new();
    region.view.leased = true;
    region.view.standing_lenders.insert(eu.clone());
    region.grant(&limit(), Holding { borrowed: BTreeMap::from([(eu.clone(), capacity(90, 90))]), ..Holding::default() });
    region.pass(SECOND);
    assert_eq!(region.check(&costing(&limit(), MicroTokens::ZERO)).capacity, capacity(100, 100));
    region.view.standing_lenders.clear();
    let look = region.check(&costing(&limit(), MicroTokens::ZERO));
    assert_eq!((look.capacity, look.remaining, look.used_lease), (capacity(10, 10), tokens(10), false));
}

#[test]
fn the_whole_floor_comes_back_without_the_tokens_that_were_lent() {
    let mut region = leased(Capacity::ZERO);
    region.grant(&limit(), lent(capacity(9, 9)));
    assert_eq!(region.drain(&limit()), 1);
    region.view.leased = false;
    region.pass(100 * SECOND);
    region.view.whole_floor = true;
    assert_eq!(region.drain(&limit()), 1);
    region.pass(SECOND);
    assert_eq!(region.drain(&limit()), 10);
    let unseen = Charge { budget: budget("b"), ..limit() };
    assert_eq!(region.level(&unseen), tokens(10));
}

#[test]
fn a_lost_store_starts_empty_and_leaves_alone_what_may_be_lent() {
    let mut region = Region::lost();
    assert_eq!(region.ask(&[limit()]), Reply::NoRecord);
    region.open(7, false);
    let limit = Charge { lendable: capacity(9, 9), ..limit() };
    assert_eq!(region.level(&limit), tokens(0));
    assert_eq!(region.check(&limit).capacity, capacity(1, 1));
    region.pass(10 * SECOND);
    assert_eq!(region.drain(&limit), 1);
    region.apply(vec![], |_| {});
    assert_eq!(region.check(&limit).capacity, capacity(10, 10));
    let unseen = Charge { budget: budget("b"), ..limit.clone() };
    assert_eq!(region.level(&unseen), tokens(0), "what was lent until the full response nobody knew");
    region.pass(SECOND / 2);
    assert_eq!(region.level(&unseen), tokens(5));
}

#[test]
fn a_burnt_budget_that_is_offered_nothing_has_its_floor() {
    let mut region = Region::lost();
    region.open(1, false);
    let number = region.reduce(vec![holds(&limit(), Holding::default())]);
    let record = region.store.record(region.now).expect("open");
    assert_eq!(record.holdings.get(&limit().budget), Some(&Holding::default()), "nothing lent is news");
    let finish = region.finish(number);
    region.store.finish(region.now, &finish).expect("of the response taken");
    let record = region.store.record(region.now).expect("open");
    assert!(record.holdings.is_empty() && !record.burnt);
}

#[test]
fn where_nothing_was_ever_admitted_buckets_are_full() {
    assert_eq!(Region::new().level(&limit()), tokens(10));
}

#[test]
fn a_record_that_another_store_wrote_is_burnt_whatever_is_said() {
    let mut region = leased(capacity(90, 90));
    region.pass(SECOND);
    assert!(region.check(&limit()).fits);
    let loaded = Loaded { record: region.store.record(region.now).cloned(), store: "b".into() };
    assert!(loaded.lost());
    let opening = Opening { session: 2, nonce: 0, burn: false, policies: policies(4) };
    region.store.open_session(region.now, &opening, "b").expect("greater");
    let record = region.store.record(region.now).expect("open");
    assert!(record.burnt && record.holdings.is_empty());
    assert_eq!((record.session, record.policies, record.store.as_str()), (2, policies(4), "b"));
    region.view.leased = false;
    region.view.policies = policies(4);
    assert_eq!(region.level(&Charge { lendable: Capacity::ZERO, ..limit() }), tokens(0), "its bucket counts as empty");
}

#[test]
fn a_restart_keeps_the_record_but_not_the_echo() {
    let mut region = leased(capacity(90, 90));
    region.open(2, false);
    let record = region.store.record(region.now).expect("open");
    assert_eq!((record.applied, record.seq, record.taken), (None, 0, Number { session: 2, seq: 0 }));
    assert_eq!(record.holding(&limit().budget, Capacity::ZERO), pool(capacity(90, 90)));
    let again = Opening { session: 2, nonce: 0, burn: true, policies: policies(0) };
    let taken = Number { session: 2, seq: 0 };
    assert_eq!(region.store.open_session(region.now, &again, "a"), Err(Refusal::Superseded { taken }));
}

#[test]
fn nothing_of_an_older_response_or_session_is_written() {
    let mut region = leased(capacity(90, 90));
    let old = region.reduce(vec![]);
    let newer = region.reduce(vec![]);
    let superseded = Err(Refusal::Superseded { taken: newer });
    let view = region.view.clone();
    let write = |number| HoldingsChange {
        number,
        view: view.clone(),
        drift: NO_DRIFT,
        settlements: vec![holds(&limit(), lent(capacity(1, 1)))],
        grants: vec![],
    };
    assert_eq!(region.store.write(region.now, &write(old)), superseded);
    assert_eq!(region.store.finish(region.now, &region.finish(old)), superseded);
    assert_eq!(region.store.take(region.now, newer), superseded);
    assert_eq!(region.store.take(region.now, Number { session: 9, seq: 99 }), superseded);
    let now = region.now;
    region.open(2, false);
    let superseded = Refusal::Superseded { taken: Number { session: 2, seq: 0 } };
    assert_eq!(region.store.take(now, Number { session: 1, seq: 99 }), Err(superseded));
    assert_eq!(region.store.write(now, &write(newer)), Err(superseded));
    assert_eq!(region.store.draw_seq(now, 1), Err(superseded));
    assert_eq!(region.store.draw_seq(now, 2), Ok(1));
    let record = region.store.record(now).expect("open");
    assert_eq!(record.holding(&limit().budget, Capacity::ZERO), pool(capacity(90, 90)));
}

#[test]
fn a_question_from_before_the_newest_response_uses_no_lease() {
    let mut region = leased(capacity(90, 90));
    let late = Question { view: region.view.clone(), drift: NO_DRIFT, charges: vec![limit()] };
    region.apply(vec![], |_| {});
    let newest = region.view.number;
    assert_eq!(region.store.decide(region.now, &late), Reply::OtherLease(newest));
    let mut without = late.clone();
    without.view.leased = false;
    assert!(matches!(region.store.decide(region.now, &without), Reply::Decided(d) if d.allowed && !d.limits[0].used_lease));
    let mut whole = without;
    whole.view.whole_floor = true;
    assert_eq!(region.store.decide(region.now, &whole), Reply::OtherLease(newest));
    region.open(2, false);
    assert_eq!(region.store.decide(region.now, &late), Reply::OtherLease(Number { session: 2, seq: 0 }));
}

#[test]
fn a_question_by_other_policies_is_not_decided() {
    let mut region = Region::new();
    let late = Question { view: region.view.clone(), drift: NO_DRIFT, charges: vec![limit()] };
    region.apply(vec![], |finish| finish.policies = policies(2));
    assert_eq!(region.store.decide(region.now, &late), Reply::OtherPolicies(policies(2)));
}

#[test]
fn an_absent_bucket_rises_to_a_greater_limit_only_by_refill() {
    let mut region = Region::new();
    let greater = charge("a", 10, SECOND, 100);
    region.apply(vec![], |finish| finish.changed = changed(capacity(10, 10)));
    assert_eq!(region.level(&greater), tokens(10));
    region.pass(SECOND);
    assert_eq!(region.level(&greater), tokens(20));
    region.pass(GRACE);
    assert_eq!(region.level(&greater), tokens(100));

    let slow = charge("b", 1, 3600 * SECOND, 100);
    region.apply(vec![], |finish| finish.changed = changed(capacity(1, 10)));
    region.pass(GRACE + SECOND);
    assert_eq!(region.level(&slow).tokens_floor(), 10, "one that has gone since was as full as it could be");
}

#[test]
fn a_new_subject_begins_full_however_long_a_lowered_burst_is_pending() {
    let low = charge("new", 1, 3600 * SECOND, 10);
    let lower_burst = |region: &mut Region| region.apply(vec![], |finish| finish.changed = changed(capacity(1, 20)));
    for wait in [SECOND, GRACE + SECOND, 600 * SECOND] {
        let mut region = Region::new();
        lower_burst(&mut region);
        region.pass(wait);
        assert_eq!(region.level(&low), tokens(10), "after {wait:?}");
    }
}

#[test]
fn what_happened_long_before_a_change_empties_no_bucket() {
    let low = charge("new", 1, 3600 * SECOND, 10);
    let day = 24 * 3600 * SECOND;
    let lower_burst = |region: &mut Region| region.apply(vec![], |finish| finish.changed = changed(capacity(1, 20)));

    let mut slowed = Region::new();
    slowed.apply(vec![], |finish| {
        finish.changed = changed(capacity(2, 20));
        finish.changed[0].slows = true;
    });
    slowed.pass(day);
    lower_burst(&mut slowed);
    assert_eq!(slowed.level(&low), tokens(10), "its refill was slowed a day ago");

    let mut lost = Region::lost();
    lost.open(1, false);
    lost.apply(vec![], |_| {});
    lost.pass(day);
    assert!(lost.check(&low).fits);
    lower_burst(&mut lost);
    assert_eq!(lost.level(&low), tokens(9), "the state was lost a day ago");
    let other = charge("other", 1, 3600 * SECOND, 10);
    assert_eq!(lost.level(&other), tokens(10), "the state was lost a day ago");
}

#[test]
fn a_limit_lowered_and_raised_between_two_accesses_has_clamped() {
    let mut region = Region::new();
    let high = charge("a", 1, 3600 * SECOND, 100);
    assert_eq!(region.check(&high).remaining, tokens(99));
    region.apply(vec![], |finish| finish.changed = changed(capacity(10, 100)));
    region.apply(vec![], |finish| finish.changed = changed(capacity(10, 3)));
    assert_eq!(region.level(&high), tokens(3));
}

#[test]
fn a_bucket_that_has_gone_since_the_refill_was_slowed_counts_as_empty_when_that_was() {
    let (fast, slow) = (charge("a", 10, SECOND, 100), charge("a", 1, SECOND, 100));
    for (slows, remaining) in [(false, 100), (true, 33)] {
        let mut region = Region::new();
        assert_eq!(region.drain(&fast), 100);
        let change = |finish: &mut quorate_limiter::record::Finish, slows| {
            finish.changed = changed(capacity(1, 100));
            finish.changed[0].slows = slows;
        };
        // two changes that slow it: the first one tells whether it may have gone, the second since when it refills so slowly
        region.apply(vec![], |finish| change(finish, slows));
        region.pass(40 * SECOND);
        region.apply(vec![], |finish| change(finish, slows));
        region.pass(32 * SECOND);
        region.store.sweep(region.now);
        region.apply(vec![], |finish| change(finish, false));
        region.pass(SECOND);
        assert!(region.store.bucket(&fast.budget).is_none(), "it was kept for 71 seconds");
        assert_eq!(region.level(&slow), tokens(remaining));
    }
}

#[test]
fn a_change_bears_on_the_next_for_a_month() {
    let limit = charge("a", 1, 3600 * SECOND, 100);
    for (days, level) in [(29, 3), (31, 50)] {
        let mut region = Region::new();
        region.apply(vec![], |finish| finish.changed = changed(capacity(1, 3)));
        region.pass(days * 24 * 3600 * SECOND);
        region.apply(vec![], |finish| finish.changed = changed(capacity(1, 50)));
        assert_eq!(region.level(&limit), tokens(level), "after {days} days");
    }
}

#[test]
fn an_override_for_one_leaves_the_others_buckets_as_they_were() {
    let (other, named) = (charge("other", 1, 60 * SECOND, 10), charge("named", 1, 60 * SECOND, 10));
    let mut region = Region::new();
    assert!(region.check(&costing(&other, tokens(3))).fits);
    assert!(region.check(&costing(&named, tokens(6))).fits);
    region.apply(vec![], |finish| finish.changed = changed(capacity(1, 10)));
    assert_eq!(region.level(&other), tokens(7));
    let raised = charge("named", 5, 60 * SECOND, 100);
    assert_eq!(region.level(&raised), tokens(4));
    assert!(region.check(&costing(&raised, tokens(1))).fits);
    region.pass(60 * SECOND);
    assert_eq!((region.level(&other), region.level(&raised)), (tokens(8), tokens(8)));
}

#[test]
fn a_limit_lowered_holds_at_once() {
    let mut region = Region::new();
    assert!(region.check(&charge("a", 10, SECOND, 10)).fits);
    region.apply(vec![], |finish| finish.changed = changed(capacity(10, 10)));
    let low = charge("a", 1, SECOND, 2);
    assert_eq!(region.drain(&low), 2);
    region.pass(SECOND);
    assert_eq!(region.drain(&low), 1);
}

#[test]
fn a_holding_without_a_policy_is_recorded_without_a_bucket() {
    let mut region = Region::new();
    let number = region.reduce(vec![Settlement { standing: None, ..holds(&limit(), lent(capacity(1, 1))) }]);
    assert!(region.store.bucket(&limit().budget).is_none());
    region.write(number, vec![holds(&limit(), Holding::default())]);
    assert!(region.store.record(region.now).expect("open").holdings.is_empty());
    assert!(region.store.bucket(&limit().budget).is_some());
}

#[test]
fn a_region_that_is_cut_off_keeps_its_record_by_its_heartbeats() {
    let mut region = Region::new();
    assert_eq!(region.drain(&charge("a", 1, 30 * 24 * 3600 * SECOND, 10)), 10);
    for seq in 2..=11 {
        region.now = region.now.after(RECORD_LIFE);
        assert_eq!(region.store.draw_seq(region.now, 1), Ok(seq), "after {} weeks", seq - 1);
    }
    assert!(!region.store.record(region.now).expect("kept").burnt);
    // nothing but a heartbeat of the open session keeps it
    assert!(region.store.draw_seq(region.now.after(RECORD_LIFE), 2).is_err());
    region.now = region.now.after(RECORD_LIFE).after(SECOND);
    assert_eq!(region.store.draw_seq(region.now, 1), Err(Refusal::NoRecord));
}

#[test]
fn a_record_that_nobody_renews_is_lost_in_the_end() {
    let mut region = Region::new();
    region.now = region.now.after(RECORD_LIFE).after(SECOND);
    assert_eq!(region.ask(&[limit()]), Reply::NoRecord);
    assert_eq!(region.store.draw_seq(region.now, 1), Err(Refusal::NoRecord));
    let epoch = |region: &Region| region.store.record(region.now).expect("open").epoch;
    region.open(1, false);
    assert!(epoch(&region) >= StoreTime::from_micros(3_600_000_000).as_micros(), "no epoch that a bucket may still bear");
}
