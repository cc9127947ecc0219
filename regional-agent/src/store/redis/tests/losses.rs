//! Each way in which a Redis loses state: it is found out at the next question, and nothing is admitted twice.

use super::values::poll;
use super::*;
use quorate_limiter::hold::{Beside, HoldId};
use quorate_limiter::record::Refusal;
use quorate_shared::policy::Window;
use quorate_shared::units::Capacity;

const HOUR: Duration = Duration::from_secs(3_600);
const MOST: u64 = 50;

/// One budget of each algorithm with a rate. Nothing worth speaking of refills within a test.
fn budgets() -> Vec<Charge> {
    let units = tokens(MOST);
    let limits = [
        Limit::TokenBucket { rate: tokens(1), period: HOUR, burst: units },
        Limit::FixedWindow { units, window: Window::Every(24 * HOUR) },
        Limit::SlidingWindow { units, window: HOUR },
        Limit::SlidingLog { units, window: HOUR },
        Limit::Concurrency { slots: units, max_hold: HOUR },
    ];
    let of =
        |limit: Limit| Charge { limit, floor: limit.capacity(), lendable: Capacity::ZERO, ..charge(limit.algorithm(), units, HOUR, units) };
    limits.map(of).to_vec()
}

/// Asks for so many of each budget, one by one; gives how many were admitted of each, or what else was said.
async fn admit(store: &RedisStore, times: u64) -> Result<Vec<u64>, Reply> {
    let mut admitted = Vec::new();
    for (budget, charge) in (0_u8..).zip(budgets()) {
        let mut of = 0;
        for n in 0..times {
            let slot = u128::from(Instant::now().elapsed().subsec_nanos()) + (u128::from(budget) << 64) + (u128::from(n) << 32);
            let slot = matches!(charge.limit, Limit::Concurrency { .. }).then(|| HoldId::from_bits(slot));
            let keep = Keep { beside: Beside { hold: None, slot }, attempt: None };
            match store.ask(&question(std::slice::from_ref(&charge)), &keep).await {
                Ok(Said::First { reply: Reply::Decided(decision), .. }) => of += u64::from(decision.allowed),
                Ok(Said::First { reply, .. }) => return Err(reply),
                other => panic!("it answers: {other:?}"),
            }
        }
        admitted.push(of);
    }
    Ok(admitted)
}

/// A store of which a part of each budget is used.
async fn used(server: &Server) -> RedisStore {
    let store = store(server);
    begin(&store).await.expect("begun");
    assert_eq!(admit(&store, MOST - 10).await, Ok(vec![MOST - 10; 5]));
    store
}

/// The loss is found out at the first question, and in a new session nothing passes that could be one too many.
async fn nothing_passes_after(store: &RedisStore) {
    assert_eq!(admit(store, 1).await, Err(Reply::NoRecord));
    assert_eq!(store.draw_seq(1).await, Err(LeaseError::Refused(Refusal::NoRecord)));
    assert!(store.load().await.expect("it answers").lost());
    begin_again(store, 2).await;
    assert!(!store.load().await.expect("it answers").lost());
    let admitted = admit(store, MOST).await.expect("decided");
    assert!(admitted.iter().all(|n| *n == 0), "beyond what was left: {admitted:?}");
}

#[tokio::test]
async fn a_restart_without_persistence_admits_nothing_twice() {
    let mut server = Server::on_port(server::free_port(), "", &[]);
    let store = used(&server).await;
    server.kill();
    server.restart();
    values::poll_async(async || admit(&store, 0).await.is_ok() && store.load().await.is_ok()).await;
    nothing_passes_after(&store).await;
}

#[tokio::test]
async fn a_flush_of_everything_admits_nothing_twice() {
    let server = Server::start();
    let store = used(&server).await;
    redis::cmd("FLUSHALL").exec(&mut server.connect()).expect("flushed");
    nothing_passes_after(&store).await;
}

#[tokio::test]
async fn a_flush_of_scripts_loses_nothing() {
    let server = Server::start();
    let store = used(&server).await;
    redis::cmd("SCRIPT").arg("FLUSH").exec(&mut server.connect()).expect("flushed");
    assert_eq!(admit(&store, MOST).await, Ok(vec![10; 5]));
}

#[tokio::test]
async fn a_replica_that_lags_and_takes_over_admits_nothing_twice() {
    let mut primary = Server::on_port(server::free_port(), "", &["--repl-diskless-sync-delay", "0"]);
    let replica = Server::on_port(server::free_port(), "", &["--replicaof", "127.0.0.1", primary.port()]);
    let before = store(&primary);
    begin(&before).await.expect("begun");
    poll(|| replica.info("replication").contains("master_link_status:up") && replica.info("keyspace").contains("keys=1,")).await;
    // what is admitted from here on the replica never hears of
    replica.signal(rustix::process::Signal::STOP);
    assert_eq!(admit(&before, MOST).await, Ok(vec![MOST; 5]));
    primary.kill();
    replica.signal(rustix::process::Signal::CONT);
    redis::cmd("REPLICAOF").arg(&["NO", "ONE"]).exec(&mut replica.connect()).expect("promoted");
    nothing_passes_after(&store(&replica)).await;
}

#[tokio::test]
async fn a_copy_of_an_hour_ago_put_back_under_an_open_connection_admits_nothing_twice() {
    let server = Server::start();
    let (store, mut connection) = (store(&server), server.connect());
    begin(&store).await.expect("begun");
    let copy: Vec<u8> = redis::cmd("DUMP").arg(&store.keys.lease).query(&mut connection).expect("there");
    store.draw_seq(1).await.expect("drawn");
    assert_eq!(admit(&store, MOST).await, Ok(vec![MOST; 5]));
    redis::cmd("FLUSHALL").exec(&mut connection).expect("flushed");
    redis::cmd("RESTORE").arg(&store.keys.lease).arg(3_600_000).arg(copy).exec(&mut connection).expect("restored");
    nothing_passes_after(&store).await;
}

#[tokio::test]
async fn an_evicted_key_admits_nothing_twice() {
    let server = Server::on_port(server::free_port(), "", &["--maxmemory", "8mb", "--maxmemory-policy", "allkeys-random"]);
    let (store, mut connection) = (used(&server).await, server.connect());
    let warned: Vec<&str> = store.condition().warnings.iter().map(crate::store::Warning::kind).collect();
    assert_eq!(warned, ["eviction", "persistence"]);
    // of whom is not known
    let mut filled = 0;
    while !evicted(&server) {
        filled += 1;
        redis::cmd("SET").arg(format!("filler {filled}")).arg(vec![b'x'; 10_000]).exec(&mut connection).expect("set");
    }
    assert_eq!(admit(&store, 1).await, Err(Reply::NoRecord));
    server.set("maxmemory", "0");
    server.set("maxmemory", "64mb");
    nothing_passes_after(&store).await;
}

fn evicted(server: &Server) -> bool {
    !server.info("stats").contains("evicted_keys:0\r\n")
}
