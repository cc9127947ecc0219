//! Reservations in Redis: what they leave there, and who may settle them.

use super::*;
use crate::store::keep::Keep;
use quorate_limiter::hold::{Beside, Grounds, HoldId, NewHold, SettleReply, Settled};
use quorate_limiter::store::MemoryStore;
use quorate_shared::policy::Shape;

const HOUR: Duration = Duration::from_secs(3_600);

fn limit(name: &str) -> Charge {
    charge(name, tokens(1), HOUR, tokens(10))
}

async fn reserve(store: &RedisStore, id: u128, charges: &[Charge]) -> Decision {
    let hold = NewHold { id: HoldId::from_bits(id), life: Duration::from_secs(60), most: MicroTokens(u64::MAX) };
    match store.ask(&question(charges), &Keep { beside: Beside { hold: Some(hold), slot: None }, attempt: None }).await {
        Ok(Said::First { reply: Reply::Decided(decision), .. }) => decision,
        other => panic!("not decided: {other:?}"),
    }
}

async fn settle(store: &RedisStore, id: u128, cost: u64) -> SettleReply {
    let grounds = |budgets: Vec<BudgetId>| {
        let charges: Vec<Charge> = kinds().into_iter().filter(|charge| budgets.contains(&charge.budget)).collect();
        Some(Grounds::new(question(&charges), HOUR))
    };
    store.settle(HoldId::from_bits(id), tokens(cost), grounds).await.expect("it answers")
}

fn settled(cost: u64, returned: u64, owed: u64) -> SettleReply {
    SettleReply::Settled(Settled { cost: tokens(cost), returned: tokens(returned), owed: tokens(owed) })
}

async fn left(store: &RedisStore, name: &str) -> u64 {
    decide(store, &[Charge { cost: MicroTokens(0), ..limit(name) }]).await.limits[0].remaining.tokens_floor()
}

#[tokio::test]
async fn a_reservation_gives_back_once_through_any_agent() {
    let server = Server::start();
    let (one, two) = (store(&server), store(&server));
    begin(&one).await.expect("begun");
    let five = ["a", "b"].map(|name| Charge { cost: tokens(5), ..limit(name) });
    assert!(reserve(&one, 1, &five).await.allowed);
    assert_eq!((left(&one, "a").await, left(&one, "b").await), (5, 5));
    assert_eq!(settle(&two, 1, 2).await, settled(2, 3, 0));
    assert_eq!(settle(&one, 1, 2).await, settled(2, 3, 0), "the first answer, and no more given back");
    assert_eq!(settle(&one, 1, 0).await, settled(2, 3, 0), "whatever is said later");
    assert_eq!((left(&one, "a").await, left(&one, "b").await), (8, 8));
}

#[tokio::test]
async fn a_reservation_that_has_ended_or_never_was_changes_nothing() {
    let server = Server::start();
    let store = store(&server);
    begin(&store).await.expect("begun");
    assert_eq!(settle(&store, 9, 0).await, SettleReply::Ended);
    assert!(reserve(&store, 1, &[Charge { cost: tokens(5), ..limit("a") }]).await.allowed);
    let key = store.keys.hold(HoldId::from_bits(1));
    let mut connection = server.connect();
    let life: i64 = redis::cmd("PTTL").arg(&key).query(&mut connection).expect("it answers");
    assert!((50_000..=60_000).contains(&life), "{life} ms");
    redis::cmd("PEXPIRE").arg(&key).arg(0).exec(&mut connection).expect("expired");
    assert_eq!(settle(&store, 1, 0).await, SettleReply::Ended);
    assert_eq!(left(&store, "a").await, 5, "kept at its estimate");
    assert!(!reserve(&store, 2, &[Charge { cost: tokens(6), ..limit("a") }]).await.allowed);
    assert_eq!(settle(&store, 2, 0).await, SettleReply::Ended, "what was refused is not held");
}

#[tokio::test]
async fn a_true_cost_beyond_what_a_reservation_may_come_to_changes_nothing() {
    let server = Server::start();
    let store = store(&server);
    begin(&store).await.expect("begun");
    let hold = NewHold { id: HoldId::from_bits(1), life: Duration::from_secs(60), most: tokens(10) };
    let keep = Keep { beside: Beside { hold: Some(hold), slot: None }, attempt: None };
    store.ask(&question(&[Charge { cost: tokens(5), ..limit("a") }]), &keep).await.expect("decided");
    assert_eq!(settle(&store, 1, 11).await, SettleReply::Beyond(tokens(10)));
    assert_eq!(left(&store, "a").await, 5);
    assert_eq!(settle(&store, 1, 10).await, settled(10, 0, 0));
}

#[tokio::test]
async fn what_settles_ends_when_the_reservation_would() {
    let server = Server::start();
    let store = store(&server);
    begin(&store).await.expect("begun");
    assert!(reserve(&store, 1, &[Charge { cost: tokens(5), ..limit("a") }]).await.allowed);
    assert_eq!(settle(&store, 1, 9).await, settled(9, 0, 0), "what lay in the bucket pays for more than was estimated");
    assert_eq!((left(&store, "a").await, excess(&store).await), (1, (0, 0)));
    let mut connection = server.connect();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).expect("it answers");
    for key in keys {
        let life: i64 = redis::cmd("PTTL").arg(&key).query(&mut connection).expect("it answers");
        assert!(life > 0, "{key} has no end");
        assert!(!key.contains(":hold:") || life <= 60_000, "{key} ends in {life} ms");
    }
}

#[tokio::test]
async fn a_bucket_is_as_small_as_ever_once_everything_is_settled() {
    let server = Server::start();
    let store = store(&server);
    begin(&store).await.expect("begun");
    let words = || -> usize {
        let text = shown(redis::cmd("GET").arg(store.keys.bucket(&limit("a").budget)).query(&mut server.connect()).expect("there"));
        text.split(' ').count()
    };
    for id in 1..=2 {
        assert!(reserve(&store, id, &[Charge { cost: tokens(2), ..limit("a") }]).await.allowed);
    }
    assert!(words() > 6);
    assert_eq!(settle(&store, 1, 2).await, settled(2, 0, 0));
    assert!(words() > 6);
    assert_eq!(settle(&store, 2, 1).await, settled(1, 1, 0));
    assert_eq!(words(), 6);
}

#[tokio::test]
async fn fifty_reservations_that_nobody_settles_stall_a_share_of_fifty_no_longer_than_they_were_for() {
    let server = Server::start();
    let (store, mut connection) = (store_on_test_clock(&server), server.connect());
    let start = 1_790_000_000_123_456;
    set_now(&mut connection, start);
    begin(&store).await.expect("begun");
    let limit = charge("a", tokens(50), Duration::from_secs(1), tokens(50));
    let ask = async || decide(&store, std::slice::from_ref(&limit)).await;
    for id in 1..=50 {
        let hold = NewHold { id: HoldId::from_bits(id), life: Duration::from_secs(30), most: MicroTokens(u64::MAX) };
        let keep = Keep { beside: Beside { hold: Some(hold), slot: None }, attempt: None };
        let said = store.ask(&question(std::slice::from_ref(&limit)), &keep).await;
        assert!(matches!(said, Ok(Said::First { reply: Reply::Decided(Decision { allowed: true, .. }), .. })), "{said:?}");
    }
    set_now(&mut connection, start + 29_999_999);
    let refused = ask().await;
    assert!(!refused.allowed);
    let wait = refused.limits[0].retry_after.expect("it fits the burst");
    assert!(wait <= Duration::from_secs(2) + Duration::from_millis(30), "{wait:?}");
    set_now(&mut connection, start + 29_999_999 + wait.as_micros() as u64);
    assert!(ask().await.allowed);
    set_now(&mut connection, start + 33_000_000);
    for _ in 0..49 {
        assert!(ask().await.allowed);
    }
    assert_eq!(settle(&store, 1, 0).await, settled(0, 0, 0), "it lived no longer: only this test's clock says so");
}

#[tokio::test]
async fn after_a_loss_of_state_nothing_is_given_back() {
    let server = Server::start();
    let store = store(&server);
    begin(&store).await.expect("begun");
    assert!(reserve(&store, 1, &[Charge { cost: tokens(5), ..limit("a") }]).await.allowed);
    store.open_session(&Opening { burn: true, ..opening(2) }).await.expect("greater");
    assert_eq!(settle(&store, 1, 0).await, settled(0, 0, 0));
}

/// So many slots that end by themselves after `max_hold`.
fn slots(slots: u64, max_hold: Duration) -> Charge {
    let limit = quorate_shared::policy::Limit::Concurrency { slots: tokens(slots), max_hold };
    Charge { limit, floor: limit.capacity(), lendable: limit.capacity(), ..self::limit("slots") }
}

async fn take(store: &RedisStore, id: u128, hold: Option<NewHold>, charges: &[Charge]) -> Decision {
    let keep = Keep { beside: Beside { hold, slot: Some(HoldId::from_bits(id)) }, attempt: None };
    match store.ask(&question(charges), &keep).await {
        Ok(Said::First { reply: Reply::Decided(decision), .. }) => decision,
        other => panic!("not decided: {other:?}"),
    }
}

/// What one budget used beyond its limit: settled beyond estimates, and slots that ended.
async fn excess(store: &RedisStore) -> (u64, u64) {
    let excesses = store.draw_seq(1).await.expect("the open session").excesses;
    assert!(excesses.len() <= 1, "there is one policy: {excesses:?}");
    excesses.first().map_or((0, 0), |excess| (excess.settled.tokens_floor(), excess.outlived.tokens_floor()))
}

async fn release(store: &RedisStore, id: u128) -> bool {
    store.release(HoldId::from_bits(id)).await.expect("it answers")
}

#[tokio::test]
async fn a_slot_is_given_back_once_by_its_id_through_any_agent() {
    let server = Server::start();
    let (one, two) = (store(&server), store(&server));
    begin(&one).await.expect("begun");
    let limit = slots(2, HOUR);
    for (id, allowed) in [(1, true), (2, true), (3, false)] {
        assert_eq!(take(&one, id, None, std::slice::from_ref(&limit)).await.allowed, allowed);
    }
    assert!(!release(&two, 3).await, "what was refused has no slot");
    assert!(release(&two, 1).await);
    assert!(!release(&one, 1).await, "twice changes nothing");
    assert!(take(&one, 4, None, std::slice::from_ref(&limit)).await.allowed);
    assert!(!take(&one, 5, None, std::slice::from_ref(&limit)).await.allowed, "the second return freed nothing");
    for id in [2, 4] {
        assert!(release(&one, id).await);
    }
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut server.connect()).expect("it answers");
    assert_eq!(keys, std::slice::from_ref(&one.keys.lease), "nothing is left of them");
}

#[tokio::test]
async fn the_slot_of_a_holder_that_crashed_ends_and_its_late_return_frees_nobody_elses() {
    let server = Server::start();
    let (store, mut connection) = (store_on_test_clock(&server), server.connect());
    let start = 1_790_000_000_000_000;
    set_now(&mut connection, start);
    begin(&store).await.expect("begun");
    let limit = slots(1, Duration::from_secs(60));
    assert!(take(&store, 1, None, std::slice::from_ref(&limit)).await.allowed);
    set_now(&mut connection, start + 60_000_000);
    let refused = take(&store, 2, None, std::slice::from_ref(&limit)).await;
    assert_eq!((refused.allowed, refused.limits[0].retry_after), (false, Some(Duration::from_micros(1))));
    set_now(&mut connection, start + 60_000_001);
    assert_eq!(excess(&store).await, (0, 0));
    assert!(take(&store, 3, None, std::slice::from_ref(&limit)).await.allowed, "the crashed one is freed");
    assert_eq!(excess(&store).await, (0, 1), "its request may run on");
    assert!(!release(&store, 1).await, "too late");
    assert!(!take(&store, 4, None, std::slice::from_ref(&limit)).await.allowed, "and the other one is not freed by it");
    for key in redis::cmd("KEYS").arg("quorate*").query::<Vec<String>>(&mut connection).expect("it answers") {
        let life: i64 = redis::cmd("PTTL").arg(&key).query(&mut connection).expect("it answers");
        assert!(life > 0, "{key} has no end");
    }
}

/// A store in memory in which nothing was ever admitted.
fn memory_at(now: StoreTime) -> MemoryStore {
    let mut memory = MemoryStore::default();
    memory.open_session(now, &opening(1), "memory").expect("the first");
    let number = Number { session: 1, seq: 1 };
    memory.take(now, number).expect("newer");
    memory.finish(now, &genesis(number)).expect("taken");
    memory
}

#[tokio::test]
async fn a_slot_that_had_ended_is_given_back_once_the_clock_says_that_it_has_not() {
    let server = Server::start();
    let (store, mut connection) = (store_on_test_clock(&server), server.connect());
    let start = 1_790_000_000_000_000;
    set_now(&mut connection, start);
    begin(&store).await.expect("begun");
    let mut memory = memory_at(StoreTime::from_micros(start));
    let (limit, beside) = ([slots(1, HOUR)], Beside { hold: None, slot: Some(HoldId::from_bits(1)) });
    assert!(take(&store, 1, None, &limit).await.allowed);
    memory.decide_beside(StoreTime::from_micros(start), &question(&limit), &beside);
    // an hour and a second later, then two seconds before that
    for (seconds, released) in [(3_601, false), (3_601, false), (3_599, true), (3_599, false)] {
        let now = start + seconds * 1_000_000;
        set_now(&mut connection, now);
        assert_eq!(release(&store, 1).await, released, "after {seconds} s");
        assert_eq!(memory.release(StoreTime::from_micros(now), HoldId::from_bits(1)), released, "after {seconds} s");
    }
}

#[tokio::test]
async fn a_reservation_is_not_released_and_a_slot_is_not_settled() {
    let server = Server::start();
    let store = store(&server);
    begin(&store).await.expect("begun");
    let now = StoreTime::from_micros(1_790_000_000_000_000);
    let mut memory = memory_at(now);
    let all = [Charge { cost: tokens(5), ..limit("a") }, slots(1, HOUR)];
    let question = question(&all);
    let hold = NewHold { id: HoldId::from_bits(1), life: Duration::from_secs(60), most: MicroTokens(u64::MAX) };
    let beside = Beside { hold: Some(hold), slot: Some(HoldId::from_bits(2)) };
    assert!(take(&store, 2, Some(hold), &all).await.allowed);
    assert!(matches!(memory.decide_beside(now, &question, &beside), Reply::Decided(Decision { allowed: true, .. })));
    assert!(!release(&store, 1).await && !memory.release(now, HoldId::from_bits(1)), "it is no slot");
    assert_eq!(settle(&store, 2, 0).await, SettleReply::Ended, "it is no reservation");
    assert_eq!(memory.settle_hold(now, HoldId::from_bits(2), tokens(0), None), SettleReply::Ended);
    assert!(!take(&store, 3, None, &[slots(1, HOUR)]).await.allowed, "the slot is taken yet");
    assert_eq!(settle(&store, 1, 2).await, settled(2, 3, 0), "and the reservation is there");
    assert!(take(&store, 3, None, &[slots(1, HOUR)]).await.allowed);
}

#[tokio::test]
async fn settling_gives_the_slots_back_too() {
    let server = Server::start();
    let store = store(&server);
    begin(&store).await.expect("begun");
    let both = [Charge { cost: tokens(5), ..limit("a") }, slots(1, HOUR)];
    let hold = NewHold { id: HoldId::from_bits(1), life: Duration::from_secs(60), most: MicroTokens(u64::MAX) };
    assert!(take(&store, 2, Some(hold), &both).await.allowed);
    assert!(!take(&store, 3, None, &[slots(1, HOUR)]).await.allowed);
    assert_eq!(settle(&store, 1, 2).await, settled(2, 3, 0), "slots are no part of what is returned");
    assert!(take(&store, 4, None, &[slots(1, HOUR)]).await.allowed);
    assert!(!release(&store, 2).await, "it was given back before");
}

/// Ten an hour, however counted.
fn kinds() -> Vec<Charge> {
    let (units, window) = (tokens(10), HOUR);
    let fixed = Limit::FixedWindow { units, window: quorate_shared::policy::Window::Every(HOUR) };
    let limits = [limit("a").limit, fixed, Limit::SlidingWindow { units, window }, Limit::SlidingLog { units, window }];
    let named = |(limit, name): (Limit, &&str)| Charge { limit, floor: limit.capacity(), ..self::limit(name) };
    limits.into_iter().zip(&["bucket", "fixed", "sliding", "log"]).map(named).collect()
}

#[tokio::test]
async fn every_kind_of_limit_is_corrected_once_and_ends_when_it_would() {
    let server = Server::start();
    let (store, mut connection) = (store_on_test_clock(&server), server.connect());
    set_now(&mut connection, 1_790_000_000_000_000);
    begin(&store).await.expect("begun");
    for (low, limit) in (1..).step_by(3).zip(kinds()) {
        let left = async || decide(&store, &[Charge { cost: MicroTokens(0), ..limit.clone() }]).await.limits[0].remaining;
        let costing = |cost| [Charge { cost: tokens(cost), ..limit.clone() }];
        assert!(reserve(&store, low, &costing(8)).await.allowed);
        for _ in 0..2 {
            assert_eq!(settle(&store, low, 3).await, settled(3, 5, 0), "{limit:?}");
            assert_eq!(left().await, tokens(7), "{limit:?}");
        }
        assert!(reserve(&store, low + 1, &costing(5)).await.allowed);
        for _ in 0..2 {
            assert_eq!(settle(&store, low + 1, 9).await, settled(9, 0, 2), "{limit:?}");
            assert_eq!(left().await, MicroTokens(0), "{limit:?}");
            assert_eq!(excess(&store).await, (2, 0), "once, and of each budget by itself");
        }
        assert!(!decide(&store, &costing(1)).await.allowed);
        let key = store.keys.bucket(&limit.budget);
        let life: i64 = redis::cmd("PTTL").arg(&key).query(&mut connection).expect("it answers");
        assert!(life > 60_000, "{key} ends in {life} ms");
    }
}

#[tokio::test]
async fn what_costs_nothing_leaves_nothing_of_a_log_and_little_of_the_others() {
    let server = Server::start();
    let (store, mut connection) = (store_on_test_clock(&server), server.connect());
    set_now(&mut connection, 1_790_000_000_000_000);
    begin(&store).await.expect("begun");
    for (id, limit) in (1..).zip(kinds()) {
        assert!(reserve(&store, id, &[Charge { cost: tokens(10), ..limit.clone() }]).await.allowed);
        assert_eq!(settle(&store, id, 0).await, settled(0, 10, 0), "{limit:?}");
        let there: bool = redis::cmd("EXISTS").arg(store.keys.bucket(&limit.budget)).query(&mut connection).expect("it answers");
        assert_eq!(there, matches!(limit.limit, Limit::TokenBucket { .. } | Limit::FixedWindow { .. }), "{limit:?}");
        assert!(reserve(&store, id + 100, &[Charge { cost: tokens(10), ..limit.clone() }]).await.allowed);
    }
}

#[tokio::test]
async fn a_settlement_that_comes_when_its_lease_may_be_over_finds_nothing_there() {
    let server = Server::start();
    let store = store(&server);
    begin(&store).await.expect("begun");
    for (low, limit) in (1..).step_by(3).zip(kinds().into_iter().filter(|charge| charge.limit.shape() == Shape::Share)) {
        let leased = |charges: &[Charge]| {
            let Question { view, drift, charges } = question(charges);
            Question {
                view: LeaseView { leased: true, number: Number { session: 1, seq: 1 }, nonce: opening(1).nonce, ..view },
                drift,
                charges,
            }
        };
        let costing = [Charge { cost: tokens(2), ..limit.clone() }];
        let mut owed = Vec::new();
        for (id, lease_for) in [(low, HOUR), (low + 1, Duration::ZERO)] {
            assert!(reserve(&store, id, &costing).await.allowed);
            let grounds = |_| Some(Grounds::new(leased(&costing), lease_for));
            let SettleReply::Settled(settled) = store.settle(HoldId::from_bits(id), tokens(4), grounds).await.expect("it answers") else {
                panic!("not settled")
            };
            owed.push(settled.owed);
        }
        assert_eq!(owed, [tokens(0), tokens(2)], "{limit:?}");
    }
}
