//! Every key has an end after every script, so that no crash of an agent in between leaves one for good; and
//! what nobody uses any more leaves nothing behind.

use super::*;
use quorate_limiter::hold::{Beside, HoldId, NewHold};
use quorate_limiter::record::{FloorTerms, HoldingsChange, RECORD_LIFE, Settlement};
use quorate_limiter::slots::REMEMBERED;
use quorate_shared::heartbeat::{Grant, Holding};
use quorate_shared::policy::Window;
use quorate_shared::time::WindowLabel;
use quorate_shared::units::Capacity;

const SECOND: Duration = Duration::from_secs(1);

/// One limit of each kind; nothing of it is kept for long.
fn limits(units: MicroTokens) -> [Limit; 5] {
    [
        Limit::TokenBucket { rate: units, period: SECOND, burst: units },
        Limit::FixedWindow { units, window: Window::Every(SECOND) },
        Limit::SlidingWindow { units, window: SECOND },
        Limit::SlidingLog { units, window: SECOND },
        Limit::Concurrency { slots: units, max_hold: SECOND },
    ]
}

fn charges() -> Vec<Charge> {
    let of = |limit: Limit| Charge {
        limit,
        floor: limit.capacity(),
        lendable: Capacity::ZERO,
        cost: tokens(2),
        ..charge(limit.algorithm(), tokens(1), SECOND, tokens(1))
    };
    limits(tokens(10)).map(of).to_vec()
}

/// Each key with the time that is left of it, in milliseconds.
fn lives(connection: &mut redis::Connection) -> Vec<(String, i64)> {
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(connection).expect("it answers");
    let life = |key: &String| redis::cmd("PTTL").arg(key).query(connection).expect("it answers");
    let lives: Vec<i64> = keys.iter().map(life).collect();
    keys.into_iter().zip(lives).collect()
}

#[track_caller]
fn all_end(connection: &mut redis::Connection, after: &str, keys: usize) {
    let lives = lives(connection);
    let most = i64::try_from(RECORD_LIFE.as_millis()).expect("a week");
    // -2: it has ended since it was listed
    assert!(lives.iter().all(|(_, life)| (1..=most).contains(life) || *life == -2), "after {after}: {lives:?}");
    assert!(lives.len() >= keys, "after {after}: {lives:?}");
}

fn kept(bits: u128) -> Keep {
    let hold = Some(NewHold { id: HoldId::from_bits(bits), life: SECOND, most: MicroTokens(u64::MAX) });
    let attempt = Some(Attempt { key: bits.to_le_bytes(), content: [1; 16] });
    Keep { beside: Beside { hold, slot: Some(HoldId::from_bits(bits + 1)) }, attempt }
}

#[tokio::test]
async fn every_key_has_an_end_after_every_script() {
    let server = Server::start();
    let (store, mut connection) = (store(&server), server.connect());
    store.open_session(&opening(1)).await.expect("first");
    all_end(&mut connection, "open", 1);
    let number = Number { session: 1, seq: store.draw_seq(1).await.expect("drawn").seq };
    all_end(&mut connection, "draw", 1);
    store.take(number).await.expect("newer");
    all_end(&mut connection, "take", 1);
    let bucket = &charges()[0];
    let terms = FloorTerms { limit: bucket.limit, floor: bucket.floor, lendable: bucket.lendable };
    let holding = Holding { pool: Capacity::new(tokens(1), tokens(1)), ..Holding::default() };
    let label = WindowLabel::beginning_at(StoreTime::from_micros(1_000_000));
    let change = HoldingsChange {
        number,
        view: LeaseView::default(),
        drift: NO_DRIFT,
        settlements: vec![Settlement { budget: bucket.budget.clone(), holding, standing: Some(terms) }],
        grants: vec![Grant { budget: charges()[1].budget.clone(), label, granted: tokens(20), used_at_most: tokens(1) }],
    };
    store.write(&change).await.expect("of the response taken");
    all_end(&mut connection, "write and grant", 2);
    store.finish(&genesis(number)).await.expect("of the response taken");
    all_end(&mut connection, "finish", 1);
    for charge in charges() {
        for enforced in [true, false] {
            let charge = Charge { enforced, ..charge.clone() };
            for _ in 0..6 {
                store.ask(&question(std::slice::from_ref(&charge)), &Keep::default()).await.expect("decided");
                all_end(&mut connection, "a charge", 1);
            }
        }
    }
    tokio::time::sleep(2 * SECOND).await;
    let all = store.ask(&question(&charges()), &kept(10)).await.expect("decided");
    assert!(matches!(all, Said::First { reply: Reply::Decided(Decision { allowed: true, .. }), .. }), "{all:?}");
    all_end(&mut connection, "charges with all that is kept beside", 6);
    store.usage(&charges()[1..], NO_DRIFT).await.expect("read");
    all_end(&mut connection, "a look at the use", 6);
    store.settle(HoldId::from_bits(10), tokens(1), |_| None).await.expect("settled");
    all_end(&mut connection, "a settlement", 6);
    store.release(HoldId::from_bits(11)).await.expect("released");
    all_end(&mut connection, "a release", 5);
    store.open_session(&opening(2)).await.expect("greater");
    all_end(&mut connection, "a session after the first", 1);
    store.open_session(&Opening { burn: true, ..opening(3) }).await.expect("greater");
    all_end(&mut connection, "a loss", 1);
}

#[tokio::test]
async fn subjects_that_are_idle_leave_nothing() {
    let server = Server::start();
    let (store, mut connection) = (store_on_test_clock(&server), server.connect());
    set_now(&mut connection, 1_790_000_000_000_000);
    begin(&store).await.expect("begun");
    for n in 0..100_u32 {
        let of = |charge: Charge| Charge { budget: subject(&format!("{} {n}", charge.limit.algorithm())), ..charge };
        let charges: Vec<Charge> = charges().into_iter().map(of).collect();
        store.ask(&question(&charges), &kept(u128::from(n) << 8)).await.expect("decided");
    }
    let used = lives(&mut connection);
    assert!(used.len() > 700, "{}", used.len());
    // slots are remembered longest
    let longest = i64::try_from((REMEMBERED + 2 * SECOND).as_millis()).expect("an hour");
    // time passes faster: each key is given a thousandth of what is left of it
    for (key, life) in used.iter().filter(|(key, _)| *key != store.keys.lease && key != "now") {
        assert!((1..=longest).contains(life), "{key}: {life} ms");
        redis::cmd("PEXPIRE").arg(key).arg(life / 1_000 + 1).exec(&mut connection).expect("set");
    }
    values::poll(|| {
        let left: u64 = redis::cmd("DBSIZE").query(&mut connection).expect("it answers");
        left == 2
    })
    .await;
}
