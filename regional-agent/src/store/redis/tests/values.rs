//! Exact values and lifetimes, as they stand in Redis.

use super::*;
use quorate_limiter::decision::LimitDecision;
use quorate_limiter::record::{FloorTerms, HoldingsChange, Settlement};
use quorate_limiter::step_watch::StepWatch;
use quorate_shared::heartbeat::Holding;
use quorate_shared::time::LocalTime;
use quorate_shared::units::{Capacity, MAX_EXACT};
use std::sync::Arc;

const SECOND: Duration = Duration::from_secs(1);

async fn check(store: &RedisStore, charge: &Charge) -> LimitDecision {
    decide(store, std::slice::from_ref(charge)).await.limits[0]
}

fn bucket(connection: &mut redis::Connection, store: &RedisStore, name: &str) -> String {
    shown(redis::cmd("GET").arg(store.keys.bucket(&subject(name))).query(connection).expect("there"))
}

#[tokio::test]
async fn the_greatest_numbers_come_back_and_are_kept_as_they_are() {
    let server = Server::start();
    let (store, mut connection) = (store_on_test_clock(&server), server.connect());
    set_now(&mut connection, MAX_EXACT - 1_000_000);
    begin(&store).await.expect("begun");
    for (name, most) in [("a", MAX_EXACT), ("b", 1_000_000_000_000_000), ("c", 100_000_000_000_000)] {
        let limit = charge(name, MicroTokens(most), SECOND, MicroTokens(most));
        let one = Charge { cost: MicroTokens(1), ..limit.clone() };
        let got = check(&store, &one).await;
        assert_eq!((got.fits, got.capacity, got.remaining), (true, limit.floor, MicroTokens(most - 1)));
        let text = bucket(&mut connection, &store, name);
        assert_eq!(
            text.split(' ').take(4).collect::<Vec<_>>(),
            [(most - 1).to_string(), "0".into(), "9007199253740991".into(), most.to_string()]
        );
        let rest = check(&store, &Charge { cost: MicroTokens(most - 1), ..limit.clone() }).await;
        assert_eq!((rest.fits, rest.remaining, rest.reset_after), (true, MicroTokens(0), Some(SECOND)));
    }
    set_now(&mut connection, MAX_EXACT - 1_000_000 + 999_999);
    let look = Charge { cost: MicroTokens(0), ..charge("a", MicroTokens(MAX_EXACT), SECOND, MicroTokens(MAX_EXACT)) };
    assert_eq!(check(&store, &look).await.remaining, MicroTokens((u128::from(MAX_EXACT) * 999_999 / 1_000_000) as u64));
}

#[tokio::test]
async fn a_step_of_the_clock_is_seen_and_gives_no_more_than_its_refill() {
    let server = Server::start();
    let (store, mut connection) = (store_on_test_clock(&server), server.connect());
    let (begun, local) = (1_600_000_000_000_000, |ms: u64| LocalTime::from_micros(ms * 1_000));
    set_now(&mut connection, begun);
    begin(&store).await.expect("begun");
    let mut watch = StepWatch::new(1);
    let shown = store.draw_seq(1).await.expect("drawn").time.expect("of a clock that is set");
    assert_eq!(watch.observe(local(0), local(1), shown, NO_DRIFT), None);
    let limit = charge("a", tokens(10), SECOND, tokens(50));
    assert!(check(&store, &Charge { cost: tokens(50), ..limit.clone() }).await.fits);

    set_now(&mut connection, begun + 3_000_000);
    let shown = store.draw_seq(1).await.expect("drawn").time.expect("of a clock that is set");
    let step = watch.observe(local(2), local(3), shown, NO_DRIFT).expect("seen");
    let mut admitted = 0;
    while check(&store, &limit).await.fits {
        admitted += 1;
    }
    // for 3 ms the clock was right
    let bound = (step + Duration::from_millis(3)).as_micros() * 10 / 1_000_000;
    assert!(admitted == 30 && admitted <= bound, "{admitted} by a step of {step:?}");
}

#[tokio::test]
async fn real_time_admits_the_burst_and_what_refills() {
    let server = Server::start();
    let (store, mut connection) = (store(&server), server.connect());
    begin(&store).await.expect("begun");
    let limit = charge("a", tokens(2_000), SECOND, tokens(50));
    let mut micros = || -> u64 {
        let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(&mut connection).expect("it answers");
        seconds * 1_000_000 + micros
    };
    let (before, mut admitted) = (micros(), 0);
    while admitted < 150 {
        admitted += u64::from(check(&store, &limit).await.fits);
    }
    let span = micros() - before;
    assert!(admitted <= 50 + (span * 2_000).div_ceil(1_000_000), "{admitted} in {span} us");
}

#[tokio::test]
async fn waiting_as_told_is_enough_in_real_time() {
    let server = Server::start();
    let store = store(&server);
    begin(&store).await.expect("begun");
    let limit = charge("a", tokens(20), SECOND, tokens(1));
    assert!(check(&store, &limit).await.fits);
    let refused = check(&store, &limit).await;
    let wait = refused.retry_after.expect("it fits the capacity");
    assert!(!refused.fits && wait > Duration::ZERO && wait <= SECOND / 20);
    tokio::time::sleep(wait).await;
    assert!(check(&store, &limit).await.fits);
}

#[tokio::test]
async fn a_key_without_an_end_is_given_one_at_the_next_write() {
    let server = Server::start();
    let (store, mut connection) = (store(&server), server.connect());
    begin(&store).await.expect("begun");
    let limit = charge("a", tokens(1), SECOND, tokens(10));
    let key = store.keys.bucket(&limit.budget);
    assert!(check(&store, &limit).await.fits);
    let mut life = || -> i64 { redis::cmd("PTTL").arg(&key).query(&mut connection).expect("it answers") };
    // 10 s to fill, rounded up, and a minute
    assert!((60_000..=71_000).contains(&life()));
    redis::cmd("PERSIST").arg(&key).exec(&mut server.connect()).expect("persisted");
    assert_eq!(life(), -1);
    assert!(check(&store, &limit).await.fits);
    assert!((60_000..=71_000).contains(&life()));
}

#[tokio::test]
async fn a_look_leaves_no_trace() {
    let server = Server::start();
    let (store, mut connection) = (store(&server), server.connect());
    begin(&store).await.expect("begun");
    let limit = charge("a", tokens(1), 3_600 * SECOND, tokens(10));
    let look = Charge { cost: MicroTokens(0), ..limit.clone() };
    assert!(check(&store, &look).await.fits);
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).expect("it answers");
    assert_eq!(keys, std::slice::from_ref(&store.keys.lease));
    assert!(check(&store, &limit).await.fits);
    redis::cmd("PEXPIRE").arg(store.keys.bucket(&limit.budget)).arg(77_777_777).exec(&mut connection).expect("set");
    let before = bucket(&mut connection, &store, "a");
    assert_eq!(check(&store, &look).await.remaining.tokens_floor(), 9);
    assert_eq!(bucket(&mut connection, &store, "a"), before);
    let life: i64 = redis::cmd("PTTL").arg(store.keys.bucket(&limit.budget)).query(&mut connection).expect("it answers");
    assert!(life > 77_000_000, "untouched");
}

#[tokio::test]
async fn a_flush_of_scripts_costs_nobody_a_call() {
    let server = Server::start();
    let (store, mut connection) = (Arc::new(store(&server)), server.connect());
    begin(&store).await.expect("begun");
    let limit = charge("a", MicroTokens(1), 3_600 * SECOND, tokens(5_000));
    assert!(check(&store, &limit).await.fits);
    redis::cmd("SCRIPT").arg("FLUSH").exec(&mut connection).expect("flushed");
    redis::cmd("CONFIG").arg("RESETSTAT").exec(&mut connection).expect("reset");
    let calls: Vec<_> = (0..1_000)
        .map(|_| {
            let (store, limit) = (Arc::clone(&store), limit.clone());
            tokio::spawn(async move { check(&store, &limit).await.fits })
        })
        .collect();
    for call in calls {
        assert!(call.await.expect("no panic"));
    }
    let look = Charge { cost: MicroTokens(0), ..limit };
    assert_eq!(check(&store, &look).await.remaining.tokens_floor(), 5_000 - 1_001);
    let info: String = redis::cmd("INFO").arg("commandstats").query(&mut connection).expect("it answers");
    let loads = info.lines().find_map(|line| line.strip_prefix("cmdstat_script|load:calls=")?.split(',').next()?.parse().ok());
    assert_eq!(loads, Some(store.scripts.all().len()), "each script once");
}

#[tokio::test]
async fn more_settlements_than_one_script_takes_are_all_written() {
    let server = Server::start();
    let store = store(&server);
    begin(&store).await.expect("begun");
    let number = Number { session: 1, seq: 2 };
    store.take(number).await.expect("newer");
    let limit = charge("", tokens(10), SECOND, tokens(10));
    let floor = FloorTerms { limit: limit.limit, floor: limit.floor, lendable: limit.lendable };
    let holding = Holding { pool: Capacity::new(tokens(1), tokens(1)), ..Holding::default() };
    let settlement = |i: u32| Settlement { budget: subject(&i.to_string()), holding: holding.clone(), standing: Some(floor) };
    let change = HoldingsChange {
        number,
        view: LeaseView::default(),
        drift: NO_DRIFT,
        settlements: (0..300).map(settlement).collect(),
        grants: vec![],
    };
    store.write(&change).await.expect("of the response taken");
    let record = store.load().await.expect("it answers").record.expect("open");
    assert_eq!(record.holdings.len(), 300);
    assert!(record.holdings.values().all(|held| *held == holding));
}

#[tokio::test]
async fn every_key_of_a_question_is_in_one_slot_of_a_cluster() {
    let server = Server::on_port(server::free_port(), "", &["--cluster-enabled", "yes"]);
    redis::cmd("CLUSTER").arg("ADDSLOTSRANGE").arg(0).arg(16_383).exec(&mut server.connect()).expect("slots");
    let mut connection = server.connect();
    let served = || -> bool {
        let info: String = redis::cmd("CLUSTER").arg("INFO").query(&mut connection).expect("it answers");
        info.contains("cluster_state:ok")
    };
    poll(served).await;
    let store = store(&server);
    begin(&store).await.expect("begun");
    let charges = ["a", "b", "c"].map(|name| charge(name, tokens(1), SECOND, tokens(1)));
    assert!(decide(&store, &charges).await.allowed);
    assert!(!decide(&store, &charges).await.allowed);
}

#[tokio::test]
async fn a_replica_holds_the_same() {
    let server = Server::on_port(server::free_port(), "", &["--repl-diskless-sync-delay", "0"]);
    let port = server.url.rsplit(':').next().expect("a port").to_owned();
    let replica = Server::on_port(server::free_port(), "", &["--replicaof", "127.0.0.1", &port]);
    let mut copy = replica.connect();
    let synced = || -> bool {
        let info: String = redis::cmd("INFO").arg("replication").query(&mut copy).expect("it answers");
        info.contains("master_link_status:up")
    };
    poll(synced).await;
    let (store, mut original) = (store(&server), server.connect());
    begin(&store).await.expect("begun");
    let limit = charge("a", tokens(1), SECOND, tokens(10));
    for _ in 0..12 {
        check(&store, &limit).await;
        // the connection that waits must be one that wrote, or there is nothing to wait for
        redis::cmd("SET").arg("written").arg(1).exec(&mut original).expect("set");
        let replicas: u64 = redis::cmd("WAIT").arg(1).arg(10_000).query(&mut original).expect("it answers");
        assert_eq!(replicas, 1);
        assert_eq!(bucket(&mut copy, &store, "a"), bucket(&mut original, &store, "a"));
    }
}

/// Asks until it is so; fails after ten seconds.
pub async fn poll(mut is_so: impl FnMut() -> bool) {
    for _ in 0..1_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("still not so");
}

/// The same, of what has to be waited for.
pub async fn poll_async(mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..1_000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("still not so");
}
