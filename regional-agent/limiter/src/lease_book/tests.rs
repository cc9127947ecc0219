//! The lease book from heartbeat to heartbeat.

use super::*;
use quorate_shared::heartbeat::{LONGEST_LEASE, Office};
use quorate_shared::names::SubjectKey;
use quorate_shared::time::{LeaderTime, StoreTime};

const LEASE: Duration = Duration::from_secs(5);

fn second(n: u64) -> LocalTime {
    LocalTime::ZERO.after(Duration::from_secs(n))
}

fn open(session: u64, now: LocalTime) -> LeaseBook {
    let region = "eu".parse().expect("a name");
    LeaseBook::open(region, "agent".into(), session, 7, BTreeMap::new(), PoliciesInForce::default(), now)
}

/// A heartbeat at `sent`, answered at `received`, and the answer applied.
fn renew(book: &mut LeaseBook, seq: u64, sent: LocalTime, received: LocalTime) {
    let store = StoreReport::new("memory", true);
    let account = Account { policies_read: None, reports: vec![], windows: vec![], spent: vec![], store };
    let beat = book.beat(seq, sent, account);
    let response = Response {
        stamp: Stamp { number: beat.number, office: Office::default(), at: LeaderTime::ZERO },
        nonce: beat.nonce,
        lease: LEASE,
        longest_lease: LEASE,
        drift: Drift::DEFAULT,
        full: true,
        genesis: false,
        offers: Vec::new(),
        lenders: BTreeMap::new(),
        drained_lenders: Vec::new(),
        grants: Vec::new(),
        former: Vec::new(),
        clock_at_least: StoreTime::ZERO,
        policies: PoliciesInForce::default(),
        sets: Vec::new(),
        subject_key: SubjectKey::new([0; 32]),
    };
    let application = book.receive(&response, received).expect("newer than any");
    book.applied(application, received, Duration::ZERO);
}

#[test]
fn the_lease_is_dated_from_the_sending_and_the_floor_from_the_receipt() {
    let mut book = open(1, second(0));
    renew(&mut book, 1, second(10), second(12));
    assert_eq!(book.lease_horizon(), second(10).after(Drift::DEFAULT.shrink(LEASE)));
    assert_eq!(book.floor_horizon(), second(12).after(Drift::DEFAULT.stretch(LEASE)));
}

#[test]
fn an_agent_that_knows_no_lease_reckons_with_the_longest_until_it_is_told() {
    let mut book = open(2, second(100));
    assert!(!book.view(second(100)).leased);
    assert_eq!(book.floor_horizon(), second(100).after(Drift::MAX.stretch(LONGEST_LEASE)));
    renew(&mut book, 1, second(101), second(102));
    assert_eq!(book.floor_horizon(), second(102).after(Drift::DEFAULT.stretch(LEASE)));
    assert!(!book.view(second(107)).whole_floor && book.view(second(108)).whole_floor);
}

#[test]
fn floors_that_end_by_themselves_are_dated_from_the_sending_and_outlast_a_session() {
    let ttl = Some(60 * Duration::from_secs(1));
    let holds = |book: &LeaseBook, now| book.view(now).floor_holds(ttl, Drift::DEFAULT, Duration::ZERO);
    let mut book = open(1, second(0));
    assert!(!holds(&book, second(0)) && book.view(second(0)).floor_holds(None, Drift::DEFAULT, Duration::ZERO), "nobody was heard");
    renew(&mut book, 1, second(10), second(12));
    assert!(holds(&book, second(69)) && !holds(&book, second(70)), "a little less than a minute from the tenth second on");
    let next = open(2, second(30)).with_contact(book.contact());
    assert!(holds(&next, second(69)) && !holds(&next, second(70)));
    assert!(!holds(&open(2, second(30)), second(30)), "another process does not know");
    book.forget_contact();
    assert!(!holds(&book, second(13)), "nor does anybody by a new clock");
}
