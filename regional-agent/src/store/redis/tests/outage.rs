//! A Redis that does not serve: every question is answered within its time, and what waits is bounded.

use super::values::{poll, poll_async};
use super::*;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::sync::Arc;

const BUDGET: Duration = Duration::from_millis(50);
const HOUR: Duration = Duration::from_secs(3_600);

fn limit() -> Charge {
    charge("a", tokens(1), HOUR, tokens(1_000_000))
}

fn hurried(server: &Server, waiting: usize) -> RedisStore {
    RedisStore::new(&RedisSettings { decision_timeout: BUDGET, waiting, ..settings(&server.url) }).expect("an address")
}

/// A store that has answered by now, so that what comes is not the first connection.
async fn begun(server: &Server, waiting: usize) -> Arc<RedisStore> {
    let patient = store(server);
    begin(&patient).await.expect("begun");
    let store = Arc::new(hurried(server, waiting));
    poll_async(async || answers(&store).await).await;
    store
}

async fn answers(store: &RedisStore) -> bool {
    store.decide(&question(&[limit()])).await.is_ok()
}

/// Asks until this is what is wrong: on a busy machine a question may have run out of time before.
async fn comes_to(store: &RedisStore, why: Unusable) {
    poll_async(async || {
        let _ = store.decide(&question(&[limit()])).await;
        matches!(store.condition().failing, Some((_, StoreError::Unusable { why: found, .. })) if found == why)
    })
    .await;
}

/// What came of so many questions.
#[derive(Debug, Default)]
struct Measured {
    took: Vec<Duration>,
    kinds: BTreeMap<&'static str, usize>,
    most_waiting: usize,
    resident: (u64, u64),
    normal_after: Duration,
    connections: u64,
}

impl Measured {
    fn quantile(&self, part: f64) -> Duration {
        let mut sorted = self.took.clone();
        sorted.sort_unstable();
        sorted[((sorted.len() - 1) as f64 * part) as usize]
    }
}

/// Kibibytes that this process has in memory.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it is named");
    line.split_whitespace().next().and_then(|n| n.parse().ok()).expect("a number")
}

/// A thousand questions in each second, against a Redis that is stopped for `span`, and until it answers again.
async fn stopped_for(span: Duration) -> Measured {
    let server = Server::on_port(server::free_port(), "", &[]);
    let store = begun(&server, 1_024).await;
    server.signal(Signal::STOP);
    let (mut measured, begun) = (Measured::default(), Instant::now());
    let (told, mut answers) = tokio::sync::mpsc::unbounded_channel();
    let mut ticks = tokio::time::interval(Duration::from_millis(1));
    let mut settled = false;
    while begun.elapsed() < span {
        ticks.tick().await;
        let (asked_of, told) = (Arc::clone(&store), told.clone());
        tokio::spawn(async move {
            let asked = Instant::now();
            let kind = asked_of.decide(&question(&[limit()])).await.map_or_else(|error| error.kind(), |_| "answered");
            let _ = told.send((asked.elapsed(), kind));
        });
        while let Ok((took, kind)) = answers.try_recv() {
            measured.took.push(took);
            *measured.kinds.entry(kind).or_default() += 1;
        }
        measured.most_waiting = measured.most_waiting.max(Arc::strong_count(&store) - 1);
        if !settled && begun.elapsed() > span / 3 {
            (settled, measured.resident.0) = (true, resident());
        }
    }
    measured.resident.1 = resident();
    server.signal(Signal::CONT);
    let resumed = Instant::now();
    poll_async(async || store.decide(&question(&[limit()])).await.is_ok()).await;
    measured.normal_after = resumed.elapsed();
    let clients = server.info("clients");
    let connected = clients.lines().find_map(|line| line.strip_prefix("connected_clients:")).expect("it is named");
    measured.connections = connected.trim().parse().expect("a number");
    measured
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_redis_costs_no_question_more_than_its_time() {
    let measured = stopped_for(Duration::from_secs(4)).await;
    assert!(measured.took.len() > 500 && !measured.kinds.contains_key("answered"), "{:?}", measured.kinds);
    // the first ones wait for their time; then nobody does
    assert!(measured.kinds["timeout"] * 4 < measured.took.len(), "{:?}", measured.kinds);
    assert!(measured.quantile(0.99) < BUDGET + Duration::from_millis(200), "{:?}", measured.quantile(0.99));
    assert!(measured.most_waiting <= 1_024, "{}", measured.most_waiting);
    // one of the agent, the patient one's, the tester's, and attempts that nobody accepted while it stood still
    assert!(measured.connections < 20, "{}", measured.connections);
    assert!(measured.normal_after < Duration::from_secs(3), "{:?}", measured.normal_after);
}

/// `cargo nextest run --release -p quorate-agent --run-ignored only --no-capture a_minute_of_a_stopped_redis`
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute and asserts times, which want an idle machine"]
async fn a_minute_of_a_stopped_redis_is_answered_in_time_and_costs_no_memory() {
    let measured = stopped_for(Duration::from_secs(60)).await;
    let (median, p99, worst) = (measured.quantile(0.5), measured.quantile(0.99), measured.quantile(1.0));
    println!("{} answers: {:?}", measured.took.len(), measured.kinds);
    println!("median {median:?}, p99 {p99:?}, worst {worst:?}; at most {} wait", measured.most_waiting);
    println!("resident after 20 s and after 60 s: {:?} KiB; {} connections", measured.resident, measured.connections);
    println!("answered {:?} after it went on", measured.normal_after);
    assert!(measured.took.len() > 55_000 && !measured.kinds.contains_key("answered"));
    assert!(p99 <= BUDGET + Duration::from_millis(10), "{p99:?}");
    assert!(measured.resident.1 < measured.resident.0 + 4_096, "{:?}", measured.resident);
    assert!(measured.normal_after < Duration::from_secs(1), "{:?}", measured.normal_after);
}

#[tokio::test]
async fn no_more_questions_wait_than_may() {
    let server = Server::start();
    let store = begun(&server, 4).await;
    server.signal(Signal::STOP);
    let asked: Vec<_> = (0..10)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.decide(&question(&[limit()])).await })
        })
        .collect();
    let mut kinds: BTreeMap<&str, u32> = BTreeMap::new();
    for one in asked {
        let failed = one.await.expect("no panic").expect_err("nobody answers");
        *kinds.entry(failed.kind()).or_default() += 1;
    }
    assert_eq!(kinds, BTreeMap::from([("overloaded", 6), ("timeout", 4)]));
    server.signal(Signal::CONT);
    poll_async(async || answers(&store).await).await;
}

#[tokio::test]
async fn a_redis_that_keeps_failing_is_not_asked_until_it_answers_a_probe() {
    let mut server = Server::on_port(server::free_port(), "", &[]);
    let store = begun(&server, 1_024).await;
    server.kill();
    poll_async(async || store.decide(&question(&[limit()])).await == Err(StoreError::Suspended)).await;
    let condition = store.condition();
    assert!(!condition.healthy && condition.suspended && condition.failing.is_some(), "{condition:?}");
    // nobody asks: the probes find out by themselves
    server.restart();
    poll(|| !store.condition().suspended).await;
    let condition = store.condition();
    assert!(condition.healthy && condition.failing.is_none(), "{condition:?}");
    assert_eq!(store.decide(&question(&[limit()])).await, Ok(Reply::NoRecord));
}

#[tokio::test]
async fn callers_who_give_up_early_are_failures_too() {
    let server = Server::start();
    let store = begun(&server, 1_024).await;
    server.signal(Signal::STOP);
    poll_async(async || {
        let gave_up = tokio::time::timeout(BUDGET / 2, store.decide(&question(&[limit()]))).await;
        gave_up == Ok(Err(StoreError::Suspended))
    })
    .await;
    server.signal(Signal::CONT);
    poll_async(async || answers(&store).await).await;
}

#[tokio::test]
async fn a_full_redis_charges_nothing_and_serves_again_once_there_is_room() {
    let server = Server::on_port(server::free_port(), "", &[]);
    let store = begun(&server, 1_024).await;
    let used = |store: &RedisStore| {
        let bucket = store.keys.bucket(&limit().budget);
        shown(redis::cmd("GET").arg(bucket).query(&mut server.connect()).expect("there"))
    };
    let before = used(&store);
    server.set("maxmemory-policy", "noeviction");
    server.set("maxmemory", "1");
    comes_to(&store, Unusable::OutOfMemory).await;
    poll_async(async || store.decide(&question(&[limit()])).await == Err(StoreError::Suspended)).await;
    assert!(!store.is_healthy());
    assert_eq!(used(&store), before);
    server.set("maxmemory", "0");
    poll_async(async || answers(&store).await).await;
    assert_ne!(used(&store), before);
}

#[tokio::test]
async fn a_primary_that_was_demoted_is_given_up_and_looked_for_again() {
    let server = Server::on_port(server::free_port(), "", &[]);
    let store = begun(&server, 1_024).await;
    // of a primary that cannot be reached: it keeps what it has, and of what it has lost nothing is to be said yet
    redis::cmd("REPLICAOF").arg(&["127.0.0.1", &server::free_port().to_string()]).exec(&mut server.connect()).expect("demoted");
    comes_to(&store, Unusable::ReadOnly).await;
    poll_async(async || store.decide(&question(&[limit()])).await == Err(StoreError::Suspended)).await;
    redis::cmd("REPLICAOF").arg(&["NO", "ONE"]).exec(&mut server.connect()).expect("promoted");
    // the process is the same, its history is not
    poll_async(async || store.decide(&question(&[limit()])).await == Ok(Reply::NoRecord)).await;
}

#[tokio::test]
async fn a_redis_that_is_loading_is_named_and_waited_for() {
    let mut server = Server::on_port(server::free_port(), "", &[]);
    let store = begun(&server, 1_024).await;
    let mut connection = server.connect();
    // while it loads it answers once per kilobyte
    redis::cmd("CONFIG").arg(&["SET", "rdbcompression", "no"]).exec(&mut connection).expect("set");
    for n in 0..2_000 {
        redis::cmd("SET").arg(n).arg("x".repeat(1_024)).exec(&mut connection).expect("set");
    }
    redis::cmd("SAVE").exec(&mut connection).expect("saved");
    server.kill();
    // ten milliseconds for each key, until it was seen
    server.restart_slowly(&["--key-load-delay", "10000", "--loading-process-events-interval-bytes", "1024"]);
    comes_to(&store, Unusable::Loading).await;
    redis::cmd("CONFIG").arg(&["SET", "key-load-delay", "0"]).exec(&mut server.connect()).expect("it may be set while it loads");
    poll_async(async || store.decide(&question(&[limit()])).await == Ok(Reply::NoRecord)).await;
}

#[tokio::test]
async fn a_script_that_runs_for_too_long_is_named() {
    let server = Server::on_port(server::free_port(), "", &["--busy-reply-threshold", "1"]);
    let store = begun(&server, 1_024).await;
    let mut others = server.connect();
    let endless = std::thread::spawn(move || redis::cmd("EVAL").arg("while true do end").arg(0).exec(&mut others));
    comes_to(&store, Unusable::Busy).await;
    redis::cmd("SCRIPT").arg("KILL").exec(&mut server.connect()).expect("killed");
    assert!(endless.join().expect("no panic").is_err());
    poll_async(async || answers(&store).await).await;
}
