//! Seats in Redis, against those in memory.

use super::*;
use quorate_limiter::election::AgentId;
use quorate_limiter::record::Refusal;
use quorate_limiter::seats::{Given, SeatAnswer, SeatEntry, SeatKeeper, SeatWord};

/// Numbers that look random, the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

fn word(me: u64) -> SeatWord {
    SeatWord {
        me: AgentId(me),
        predecessor: None,
        goes_by: PoliciesInForce::default(),
        clock: StoreTime::from_micros(me),
        seats: 1,
        holds: None,
        genesis: false,
        born: 77,
        settles: None,
        lapsed: vec![],
    }
}

/// Any word after `last` was heard.
fn any_word(numbers: &mut Numbers, last: &SeatAnswer, n: u64) -> SeatWord {
    let known: Vec<(AgentId, SeatEntry)> = last.seats.entries.iter().map(|(id, entry)| (*id, *entry)).collect();
    let mut lapsed = Vec::new();
    for (id, entry) in known {
        if numbers.once_in(6) {
            lapsed.push((id, SeatEntry { beats: entry.beats - numbers.below(2), ..entry }));
        }
    }
    let next = numbers.once_in(2).then_some(8);
    SeatWord {
        predecessor: numbers.once_in(20).then(|| AgentId(numbers.below(5))),
        goes_by: if numbers.once_in(4) { PoliciesInForce { active: 7, next, also: None } } else { PoliciesInForce::default() },
        clock: StoreTime::from_micros(n),
        seats: u32::try_from(numbers.below(4)).expect("few"),
        holds: numbers.once_in(3).then(|| (1 + u32::try_from(numbers.below(3)).expect("few"), numbers.below(n + 1))),
        genesis: numbers.once_in(60),
        born: n + 1,
        settles: numbers.once_in(5).then(|| if numbers.once_in(3) { 9_999 } else { last.seats.born }),
        lapsed,
        ..word(numbers.below(5))
    }
}

#[tokio::test]
async fn seats_are_kept_as_in_memory() {
    let server = Server::start();
    let store = store(&server);
    begin(&store).await.expect("begun");
    let (mut numbers, mut keeper, mut last) = (Numbers(5), SeatKeeper::default(), SeatAnswer::default());
    let (mut given, mut refused) = (0, 0);
    for n in 0..1_500 {
        if n % 300 == 299 {
            redis::cmd("DEL").arg("quorate:{eu}:seats").exec(&mut server.connect()).expect("deleted");
            keeper = SeatKeeper::default();
        }
        let record = store.load().await.expect("there").record.expect("begun");
        let word = any_word(&mut numbers, &last, n);
        if numbers.once_in(12) {
            store.leave_seat(&word).await.expect("left");
            keeper.leave(&record, &word);
            continue;
        }
        let told = store.seat(&word).await.expect("told");
        let expected = keeper.take(told.shown, Some(&record), &word).expect("told");
        assert_eq!(told, expected, "{n}: {word:?}");
        given += u32::from(told.given != Given::Still);
        refused += u32::from(told.seat.is_none());
        last = told;
    }
    assert!(given > 50 && refused > 50, "{given} {refused}");
}

#[tokio::test]
async fn a_store_that_lost_its_state_gives_out_no_seat_before_all_had_the_time_to_say_which_they_have() {
    let server = Server::start();
    let store = store(&server);
    assert_eq!(store.seat(&word(1)).await, Err(LeaseError::Refused(Refusal::NoRecord)));
    begin(&store).await.expect("begun");
    let first = store.seat(&SeatWord { genesis: true, ..word(1) }).await.expect("told");
    assert_eq!((first.seat, first.given), (Some(1), Given::Fresh));
    assert_eq!(store.seat(&word(2)).await.expect("told").seat, None, "there is one");

    redis::cmd("FLUSHALL").exec(&mut server.connect()).expect("flushed");
    assert_eq!(store.seat(&word(1)).await, Err(LeaseError::Refused(Refusal::NoRecord)));
    store.open_session(&opening(1)).await.expect("opened");
    let other = store.seat(&SeatWord { born: 78, ..word(2) }).await.expect("told");
    assert_eq!((other.seat, other.seats.born, other.seats.settled), (None, 78, false), "somebody may have it");
    let held = store.seat(&SeatWord { holds: Some((1, first.seats.born)), ..word(1) }).await.expect("told");
    assert_eq!((held.seat, held.given), (Some(1), Given::Still));
    // once it is settled, and given back, it is the other's, and not fresh
    store.seat(&SeatWord { settles: Some(78), ..word(1) }).await.expect("told");
    store.leave_seat(&word(1)).await.expect("left");
    let anew = store.seat(&word(2)).await.expect("told");
    assert_eq!((anew.seat, anew.given), (Some(1), Given::Anew));
    let life: i64 = redis::cmd("PTTL").arg("quorate:{eu}:seats").query(&mut server.connect()).expect("asked");
    assert!(life > 0, "it has an expiry");
}

#[tokio::test]
async fn once_each_seat_was_named_after_a_loss_and_a_response_has_come_they_are_all_here() {
    let server = Server::start();
    let store = store(&server);
    store.open_session(&opening(1)).await.expect("opened");
    let two = |me, seat| SeatWord { seats: 2, holds: Some((seat, 5)), ..word(me) };
    let mut settled = Vec::new();
    for word in [two(1, 1), two(2, 2)] {
        settled.push(store.seat(&word).await.expect("told").seats.settled);
    }
    // by what a disk remembered there may be more
    assert_eq!(settled, [false, false]);
    begin_again(&store, 2).await;
    let stale = SeatWord { goes_by: PoliciesInForce { active: 6, next: None, also: None }, ..two(1, 1) };
    assert!(!store.seat(&stale).await.expect("told").seats.settled, "by a former set there were fewer");
    assert!(store.seat(&two(1, 1)).await.expect("told").seats.settled);
    assert_eq!(store.seat(&SeatWord { seats: 2, ..word(3) }).await.expect("told").seat, None, "both are taken");
    let successor = store.seat(&SeatWord { seats: 2, predecessor: Some(AgentId(1)), ..word(4) }).await.expect("told");
    assert_eq!((successor.seat, successor.given), (Some(1), Given::Anew), "that of its former life");
    assert!(!successor.seats.entries.contains_key(&AgentId(1)));
}
