//! A request id is charged once in a region, whichever agent is asked and whatever happens to the answer.

use super::*;
use crate::store::Store;
use crate::store::keep::{Again, MOST_ATTEMPTS};
use quorate_limiter::decision::LimitDecision;
use quorate_limiter::hold::{Beside, HoldId, NewHold};
use quorate_limiter::record::Finish;
use rustix::process::Signal;

const HOUR: Duration = Duration::from_secs(3_600);

fn limit() -> Charge {
    charge("a", tokens(1), HOUR, tokens(10))
}

fn attempt(key: u8, content: u8) -> Keep {
    Keep { beside: Beside::default(), attempt: Some(Attempt { key: [key; 16], content: [content; 16] }) }
}

async fn ask(store: &RedisStore, charge: &Charge, keep: &Keep) -> Said {
    store.ask(&question(std::slice::from_ref(charge)), keep).await.expect("it answers")
}

/// The decision of an attempt that was not made before.
fn first(said: Said) -> Decision {
    match said {
        Said::First { reply: Reply::Decided(decision), remembered: true } => decision,
        other => panic!("not the first: {other:?}"),
    }
}

async fn left(store: &RedisStore) -> u64 {
    let look = Charge { cost: MicroTokens(0), ..limit() };
    decide(store, &[look]).await.limits[0].remaining.tokens_floor()
}

#[tokio::test]
async fn two_agents_of_a_region_charge_an_id_once() {
    let server = Server::start();
    let (one, two) = (store(&server), store(&server));
    begin(&one).await.expect("begun");
    let decision = first(ask(&one, &limit(), &attempt(1, 1)).await);
    let again = Said::Again(Again { hold: None, slot: None, allowed: true, decision: Some(decision.clone()) });
    assert_eq!(ask(&two, &limit(), &attempt(1, 1)).await, again);
    assert_eq!(ask(&one, &limit(), &attempt(1, 1)).await, again);
    assert_eq!((left(&two).await, decision.limits[0].remaining), (9, tokens(9)));
    assert_eq!(ask(&two, &limit(), &attempt(1, 2)).await, Said::OtherContent);
    first(ask(&two, &limit(), &attempt(2, 1)).await);
    assert_eq!(left(&one).await, 8);
}

#[tokio::test]
async fn a_refusal_is_the_answer_too() {
    let server = Server::start();
    let store = store(&server);
    begin(&store).await.expect("begun");
    let all = Charge { cost: tokens(10), ..limit() };
    assert!(decide(&store, std::slice::from_ref(&all)).await.allowed);
    let refused = first(ask(&store, &all, &attempt(1, 1)).await);
    assert!(!refused.allowed && refused.limits[0].retry_after.is_some());
    let again = Again { hold: None, slot: None, allowed: false, decision: Some(refused) };
    assert_eq!(ask(&store, &all, &attempt(1, 1)).await, Said::Again(again));
}

#[tokio::test]
async fn the_reservation_of_the_first_answer_is_part_of_it() {
    let server = Server::start();
    let store = store(&server);
    begin(&store).await.expect("begun");
    let hold =
        |bits| Beside { hold: Some(NewHold { id: HoldId::from_bits(bits), life: HOUR / 60, most: MicroTokens(u64::MAX) }), slot: None };
    first(ask(&store, &limit(), &Keep { beside: hold(7), ..attempt(1, 1) }).await);
    let Said::Again(again) = ask(&store, &limit(), &Keep { beside: hold(8), ..attempt(1, 1) }).await else { panic!("not again") };
    assert_eq!(again.hold, Some(HoldId::from_bits(7)));
}

#[tokio::test]
async fn a_decision_whose_answer_was_lost_is_charged_once() {
    let server = Server::start();
    let patient = store(&server);
    begin(&patient).await.expect("begun");
    let mut hasty = settings(&server.url);
    hasty.decision_timeout = Duration::from_millis(50);
    let hasty = RedisStore::new(&hasty).expect("an address");
    // connected, so that the question is on its way when nobody answers
    while hasty.decide(&question(&[Charge { cost: MicroTokens(0), ..limit() }])).await.is_err() {}

    server.signal(Signal::STOP);
    let lost = hasty.ask(&question(&[limit()]), &attempt(1, 1)).await;
    assert_eq!(lost, Err(StoreError::Timeout));
    server.signal(Signal::CONT);
    let retried = ask(&patient, &limit(), &attempt(1, 1)).await;
    assert!(matches!(retried, Said::First { .. } | Said::Again(_)), "{retried:?}");
    // on the connection of the lost question, and so after it
    values::poll_async(async || matches!(ask(&hasty, &limit(), &attempt(1, 1)).await, Said::Again(_))).await;
    assert_eq!(left(&patient).await, 9);
}

#[tokio::test]
async fn after_a_change_of_policies_the_verdict_stands_without_its_details() {
    let server = Server::start();
    let store = store(&server);
    begin(&store).await.expect("begun");
    first(ask(&store, &limit(), &attempt(1, 1)).await);
    let changed = Charge { cost: tokens(2), ..limit() };
    assert_eq!(ask(&store, &changed, &attempt(1, 1)).await, Said::Again(Again { hold: None, slot: None, allowed: true, decision: None }));
    assert_eq!(left(&store).await, 9);
}

/// The lease is renewed by response `seq`; `lapsed`: it had ended before.
async fn renew(store: &RedisStore, seq: u64, lapsed: bool) {
    let number = Number { session: 1, seq };
    store.take(number).await.expect("newer");
    let finish = Finish { genesis: false, lapsed, ..genesis(number) };
    store.finish(&finish).await.expect("of the response taken");
}

#[tokio::test]
async fn what_rested_on_a_lease_is_repeated_under_that_lease_only() {
    let server = Server::start();
    let (store, mut connection) = (store_on_test_clock(&server), server.connect());
    set_now(&mut connection, 1_790_000_000_000_000);
    begin(&store).await.expect("begun");
    let pool = quorate_shared::heartbeat::Holding { pool: limit().floor, ..Default::default() };
    let settlement = quorate_limiter::record::Settlement { budget: limit().budget, holding: pool, standing: None };
    let change = quorate_limiter::record::HoldingsChange {
        number: Number { session: 1, seq: 1 },
        view: LeaseView::default(),
        drift: NO_DRIFT,
        settlements: vec![settlement],
        grants: vec![],
    };
    store.write(&change).await.expect("of the response taken");
    let ask = async |seq, leased| {
        let mut question = question(&[limit()]);
        (question.view.leased, question.view.nonce, question.view.number) = (leased, 7, Number { session: 1, seq });
        store.ask(&question, &attempt(1, 1)).await.expect("it answers")
    };
    assert!(first(ask(1, true).await).limits[0].used_lease);
    assert!(matches!(ask(1, true).await, Said::Again(_)));
    renew(&store, 2, false).await;
    assert!(matches!(ask(2, true).await, Said::Again(_)), "the same lease, renewed in time");
    set_now(&mut connection, 1_790_000_001_000_000);
    renew(&store, 3, true).await;
    first(ask(3, true).await);
    assert!(matches!(ask(3, true).await, Said::Again(_)), "of the lease that came back");
    assert!(!first(ask(3, false).await).limits[0].used_lease, "the lease is over: decided anew, by the floor");
    assert!(matches!(ask(3, false).await, Said::Again(_)));
}

#[tokio::test]
async fn what_rested_on_a_floor_that_ends_by_itself_is_repeated_only_while_it_holds() {
    let server = Server::start();
    let (store, mut connection) = (store_on_test_clock(&server), server.connect());
    set_now(&mut connection, 1_790_000_000_000_000);
    begin(&store).await.expect("begun");
    let ending = Charge { floor_ttl: Some(HOUR), ..limit() };
    let ask = async |unheard_for| {
        let mut question = question(std::slice::from_ref(&ending));
        question.view.unheard_for = unheard_for;
        store.ask(&question, &attempt(1, 1)).await.expect("it answers")
    };
    assert!(first(ask(Duration::ZERO).await).allowed);
    assert!(matches!(ask(HOUR / 2).await, Said::Again(again) if again.allowed), "without a lease too");
    let refused = first(ask(HOUR).await);
    assert!(!refused.allowed && refused.limits == [LimitDecision::ended(MicroTokens::TOKEN)], "{refused:?}");
    let again = Again { hold: None, slot: None, allowed: false, decision: Some(refused) };
    assert_eq!(ask(2 * HOUR).await, Said::Again(again));
    let again = Again { hold: None, slot: None, allowed: false, decision: None };
    assert_eq!(ask(Duration::ZERO).await, Said::Again(again), "the answer to the id, though it holds again");
    assert_eq!(left(&store).await, 9);

    let ask_other = async || store.ask(&question(std::slice::from_ref(&ending)), &attempt(2, 1)).await.expect("it answers");
    assert!(first(ask_other().await).allowed);
    set_now(&mut connection, 1_790_000_001_000_000);
    renew(&store, 2, true).await;
    assert!(first(ask_other().await).allowed, "nobody knows whether its answer came in time, since the floor may have ended");
}

#[tokio::test]
async fn no_more_ids_are_remembered_than_may_be_and_each_for_a_minute() {
    let server = Server::start();
    let (store, mut connection) = (store_on_test_clock(&server), server.connect());
    let minute = 60_000_000;
    set_now(&mut connection, 100 * minute);
    begin(&store).await.expect("begun");
    first(ask(&store, &limit(), &attempt(1, 1)).await);
    let life: i64 = redis::cmd("PTTL").arg(store.keys.attempt(&[1; 16])).query(&mut connection).expect("it answers");
    assert!((50_000..=60_000).contains(&life), "{life} ms");
    let mut tally = |text: &str| redis::cmd("SET").arg(store.keys.tally()).arg(text).exec(&mut connection).expect("set");
    tally(&format!("100 {} 1", MOST_ATTEMPTS - 1));
    let forgotten = |said: &Said| matches!(said, Said::First { reply: Reply::Decided(d), remembered: false } if d.allowed);
    let unremembered = ask(&store, &limit(), &attempt(2, 1)).await;
    assert!(forgotten(&unremembered), "{unremembered:?}");
    assert!(matches!(ask(&store, &limit(), &attempt(1, 1)).await, Said::Again(_)), "those that are there stay");
    set_now(&mut server.connect(), 101 * minute);
    first(ask(&store, &limit(), &attempt(2, 1)).await);
    let text: String = redis::cmd("GET").arg(store.keys.tally()).query(&mut server.connect()).expect("there");
    assert_eq!(text, format!("101 1 {}", MOST_ATTEMPTS - 1));
}

/// One slot of a kind of requests, and a token of another limit.
fn slot_and_token() -> Vec<Charge> {
    let slots = quorate_shared::policy::Limit::Concurrency { slots: tokens(2), max_hold: HOUR };
    let slots = Charge { limit: slots, floor: slots.capacity(), lendable: slots.capacity(), ..charge("slots", tokens(1), HOUR, tokens(1)) };
    vec![slots, limit()]
}

/// The slots that an attempt was told of, drawn as `drawn` if it was decided now.
async fn told(store: &Store, drawn: u128) -> (bool, Option<HoldId>) {
    let hold = NewHold { id: HoldId::from_bits(drawn + 100), life: HOUR / 60, most: MicroTokens(u64::MAX) };
    let beside = Beside { hold: Some(hold), slot: Some(HoldId::from_bits(drawn)) };
    let (keep, until) = (Keep { beside, ..attempt(1, 1) }, Instant::now() + Duration::from_secs(10));
    match store.decide(&question(&slot_and_token()), &keep, until).await.expect("it answers").0 {
        Said::First { reply: Reply::Decided(decision), remembered: true } => (true, decision.allowed.then_some(HoldId::from_bits(drawn))),
        Said::Again(again) => (false, again.slot),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn of_slots_that_are_held_no_more_a_retry_is_not_told() {
    let server = Server::start();
    let direct = store(&server);
    begin(&direct).await.expect("begun");
    let (one, two) = (Store::Redis(store(&server)), Store::Redis(store(&server)));
    let id = |bits| Some(HoldId::from_bits(bits));
    assert_eq!([told(&one, 1).await, told(&two, 2).await, told(&one, 3).await], [(true, id(1)), (false, id(1)), (false, id(1))]);
    assert_eq!(left(&direct).await, 9, "charged once");

    assert!(two.release(HoldId::from_bits(1)).await.expect("it answers"));
    assert_eq!([told(&one, 4).await, told(&two, 5).await], [(true, id(4)), (false, id(4))], "it is a new request, which has a retry again");
    assert_eq!(left(&direct).await, 8);

    // settling gives the slots back too
    two.settle(HoldId::from_bits(104), tokens(0), |_| None).await.expect("it answers");
    assert!(!one.holds(HoldId::from_bits(4), &attempt(1, 1).attempt.expect("one")).await.expect("it answers"));
    assert_eq!(told(&one, 6).await, (true, id(6)));
}
