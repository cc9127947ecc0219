use super::*;
use crate::matching::Holder;
use quorate_shared::heartbeat::PoliciesInForce;
use quorate_shared::names::{RegionName, SubjectHash, SubjectKey};
use quorate_shared::policy::{CostRule, Limit, OnStoreFailure, Policy, PolicySet, Region, Window};
use quorate_shared::testing;
use quorate_shared::units::PartsPerMillion;

const SECOND: Duration = Duration::from_secs(1);
const DRIFT: Drift = Drift::DEFAULT;

fn tokens(n: u64) -> MicroTokens {
    MicroTokens::from_tokens(n).expect("few")
}

fn local(ms: u64) -> LocalTime {
    LocalTime::from_micros(ms * 1_000)
}

/// A Wednesday noon.
fn shown() -> StoreTime {
    StoreTime::from_micros(1_700_000_000_000_000)
}

fn bucket(n: u64) -> Limit {
    Limit::TokenBucket { rate: tokens(n), period: SECOND, burst: tokens(n) }
}

/// One region with so many agents; of the limit a tenth is theirs.
fn set(version: u64, agents: u32, limit: Limit) -> Arc<PolicySet> {
    let policy = testing::policy("p".parse().expect("a name"), limit, PartsPerMillion::WHOLE);
    let policy = Policy { generation: 1, on_store_failure: OnStoreFailure::Emergency, emergency: PartsPerMillion(100_000), ..policy };
    let regions = BTreeMap::from([(region(), Region { agents, ..Region::default() })]);
    Arc::new(PolicySet { version, regions, policies: vec![policy] })
}

fn region() -> RegionName {
    "eu".parse().expect("a name")
}

fn table_of(holder: Holder<'_>, active: &Arc<PolicySet>, next: Option<&Arc<PolicySet>>) -> Arc<PolicyTable> {
    Arc::new(PolicyTable::new(holder, active, next, SubjectKey::new([0; 32])))
}

fn table(seat: u32, active: &Arc<PolicySet>, next: Option<&Arc<PolicySet>>) -> Arc<PolicyTable> {
    table_of(Holder::Seat(&region(), seat), active, next)
}

/// What the region charges for a request of this cost.
fn charges(set: &Arc<PolicySet>, cost: u64) -> Vec<Charge> {
    let matched = table_of(Holder::Region(&region()), set, None).matches(|_| None, 0, Some(tokens(cost)));
    matched.into_iter().map(|matched| matched.charge).collect()
}

/// Seat 1 as fresh, confirmed at 0.
fn fresh(set: &Arc<PolicySet>) -> Reserve {
    given(set, 1, true)
}

fn given(set: &Arc<PolicySet>, seat: u32, fresh: bool) -> Reserve {
    let mut reserve = Reserve::begin(seat, fresh, table(seat, set, None), local(0), shown()).expect("its store is new");
    assert!(!reserve.is_held(local(0)), "not before it is confirmed");
    assert!(reserve.confirm(local(0), local(0), shown(), DRIFT));
    reserve
}

/// How many requests of one token each it admits at once.
fn admits(reserve: &mut Reserve, ms: u64, set: &Arc<PolicySet>) -> usize {
    let ask = |_: &usize| reserve.decide(local(ms), &charges(set, 1), DRIFT, false).is_some_and(|(decision, _)| decision.allowed);
    (0..1_000).take_while(ask).count()
}

#[test]
fn a_seat_admits_its_share_and_no_more_by_every_algorithm() {
    let window = Duration::from_secs(10);
    let limits = [
        bucket(100),
        Limit::FixedWindow { units: tokens(100), window: Window::Every(window) },
        Limit::SlidingWindow { units: tokens(100), window },
        Limit::SlidingLog { units: tokens(100), window },
    ];
    for limit in limits {
        for (agents, share) in [(1, 10), (3, 3), (11, 0)] {
            let set = set(1, agents, limit);
            let whole = set.shares(&set.policies[0], limit)[&region()];
            assert_eq!(whole.floor.burst, tokens(100 - share * u64::from(agents)), "the rest is the floor");
            assert_eq!(admits(&mut fresh(&set), 0, &set), share as usize, "{agents} agents, {limit}");
            assert_eq!(admits(&mut given(&set, agents + 1, true), 0, &set), 0, "there is no such seat");
        }
    }
}

#[test]
fn a_seat_that_somebody_had_begins_as_after_a_loss_of_state() {
    let window = Duration::from_secs(10);
    let empty = [
        (bucket(100), 0, 5, 500),
        // what was taken in windows up to a minute ahead nobody knows
        (Limit::FixedWindow { units: tokens(100), window: Window::Every(window) }, 50_000, 10, 80_000),
        (Limit::SlidingLog { units: tokens(100), window }, 10_000, 10, 10_100),
        (Limit::SlidingWindow { units: tokens(100), window }, 20_000, 10, 20_100),
    ];
    for (limit, nothing_until, later, at) in empty {
        let set = set(1, 1, limit);
        let mut reserve = given(&set, 1, false);
        assert_eq!(admits(&mut reserve, nothing_until, &set), 0, "{limit}");
        // of a bucket half of its refill is there after half a second, less the drift
        let admitted = admits(&mut reserve, at, &set);
        assert!(admitted == later || admitted + 1 == later, "{admitted} of {limit}");
    }
}

#[test]
fn a_seat_is_used_no_longer_than_its_life_after_the_question_that_confirmed_it() {
    let set = set(1, 1, bucket(100));
    let mut reserve = fresh(&set);
    let life = u64::try_from(DRIFT.shrink(SEAT_LIFE).as_millis()).expect("short");
    assert!(reserve.is_held(local(life - 1)) && !reserve.is_held(local(life)));
    assert_eq!(admits(&mut reserve, life, &set), 0);
    // the answer came late: what counts is when it was asked
    assert!(reserve.confirm(local(5_000), local(life), shown(), DRIFT));
    assert!(reserve.is_held(local(life + 4_999)) && !reserve.is_held(local(life + 5_000)));
    assert_eq!(admits(&mut reserve, life, &set), 10);
    reserve.lapse();
    assert_eq!(admits(&mut reserve, life + 1_000, &set), 0);
    assert!(reserve.confirm(local(life + 1_000), local(life + 1_000), shown(), DRIFT));
    assert!(admits(&mut reserve, life + 1_000, &set) >= 9, "its state went on");
}

#[test]
fn what_is_given_back_is_there_again() {
    let window = Duration::from_secs(10);
    for limit in [
        bucket(100),
        Limit::FixedWindow { units: tokens(100), window: Window::Every(window) },
        Limit::SlidingLog { units: tokens(100), window },
    ] {
        let set = set(1, 1, limit);
        let mut reserve = fresh(&set);
        let (decision, taken) = reserve.decide(local(0), &charges(&set, 7), DRIFT, true).expect("it is held");
        assert!(decision.allowed);
        let left = |reserve: &mut Reserve| reserve.look(local(0), &charges(&set, 7), DRIFT).expect("it is held").limits[0].remaining;
        assert_eq!(left(&mut reserve), tokens(3));
        reserve.give_back(local(0), taken);
        assert_eq!(left(&mut reserve), tokens(10), "{limit}");
        reserve.give_back(local(0), taken);
        assert_eq!(left(&mut reserve), tokens(10), "once");
    }
}

#[test]
fn what_is_kept_stays_taken_and_takes_no_room_from_what_refills() {
    let set = set(1, 1, bucket(100));
    let mut reserve = fresh(&set);
    for ms in [0, 1_100, 2_200] {
        let mut kept = Vec::new();
        while let Some((_, taken)) = reserve.decide(local(ms), &charges(&set, 1), DRIFT, true).filter(|(decision, _)| decision.allowed) {
            reserve.keep(local(ms), taken);
            kept.push(taken);
        }
        assert_eq!(kept.len(), 10, "after {ms} ms");
        kept.into_iter().for_each(|taken| reserve.give_back(local(ms), taken));
        assert_eq!(admits(&mut reserve, ms, &set), 0, "it is not given back any more");
    }
}

#[test]
fn while_a_change_is_pending_the_smaller_share_holds_and_older_sets_are_not_gone_back_to() {
    let (before, after) = (set(1, 1, bucket(100)), set(2, 1, bucket(40)));
    let mut reserve = fresh(&before);
    reserve.go_by(local(0), table(1, &before, Some(&after))).expect("it has a record");
    assert_eq!(admits(&mut reserve, 0, &before), 4, "a smaller bucket spills at once");
    reserve.go_by(local(0), table(1, &before, None)).expect("it has a record");
    assert_eq!(reserve.table().in_force().next, Some(2));
    reserve.go_by(local(0), table(1, &after, None)).expect("it has a record");
    let raised = set(3, 1, bucket(100));
    reserve.go_by(local(0), table(1, &raised, None)).expect("it has a record");
    assert_eq!(admits(&mut reserve, 0, &raised), 0, "a raise fills nothing");
    assert_eq!(admits(&mut reserve, 2_000, &raised), 10);
}

#[test]
fn a_request_that_meets_a_budget_without_a_share_is_not_decided() {
    let set = set(1, 1, bucket(100));
    let mut reserve = fresh(&set);
    let mut other = charges(&set, 1);
    other[0].budget.subject = SubjectHash::of(&SubjectKey::new([1; 32]), &"p".parse().expect("a name"), ["x"]);
    assert!(reserve.decide(local(0), &other, DRIFT, false).is_some(), "another subject of the policy has a share of its own");
    other[0].budget.generation = 9;
    assert_eq!(reserve.decide(local(0), &other, DRIFT, false), None);
    assert!(!reserve.has(&other[0].budget) && reserve.has(&charges(&set, 1)[0].budget));
    let dear =
        PolicySet { policies: vec![Policy { cost: CostRule::Fixed(tokens(11)), ..set.policies[0].clone() }], ..PolicySet::clone(&set) };
    assert_eq!(admits(&mut fresh(&Arc::new(dear)), 0, &set), 0, "too little for one request: nothing was set aside");
}

#[test]
fn a_seat_ends_with_the_floor_and_only_a_response_that_said_its_sets_renews_it() {
    let ending = |version, tokens| {
        let mut set = PolicySet::clone(&set(version, 1, bucket(tokens)));
        set.policies[0].floor_ttl = Some(60 * SECOND);
        Arc::new(set)
    };
    let (before, after) = (ending(1, 100), ending(2, 40));
    let heard = |set: &Arc<PolicySet>, ms| {
        let mut contact = Contact::default();
        contact.renew(PoliciesInForce { active: set.version, next: None, also: None }, local(ms));
        contact
    };
    let mut reserve = fresh(&before);
    assert_eq!(admits(&mut reserve, 0, &before), 0, "nobody knows when a coordinator was heard");
    reserve.hear(heard(&before, 0));
    assert_eq!(admits(&mut reserve, 1_000, &before), 10);
    assert_eq!((admits(&mut reserve, 59_900, &before), admits(&mut reserve, 60_000, &before)), (10, 0));
    reserve.hear(heard(&after, 60_000));
    assert_eq!(admits(&mut reserve, 60_000, &before), 0, "others may go by the new set, and this one does not yet");
    reserve.go_by(local(60_000), table(1, &after, None)).expect("it has a record");
    reserve.hear(heard(&after, 60_000));
    assert_eq!(admits(&mut reserve, 60_000, &after), 0, "what was saved up others may have had");
    assert_eq!(admits(&mut reserve, 62_000, &after), 4);
    reserve.lapse();
    assert!(reserve.confirm(local(62_000), local(62_000), shown(), DRIFT));
    assert_eq!(admits(&mut reserve, 63_000, &after), 0, "a new clock");
}
