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
