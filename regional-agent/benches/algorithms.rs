//! Prints decisions per second and bytes per subject of each algorithm, in Redis and embedded, beside the
//! token bucket's in the same run.
//!
//! Each subject is asked for in turn, 64 questions at a time, and all are admitted. Memory is measured when each
//! subject has been asked for ten times, speed after that. `SECONDS=30` for a longer run. Fails on nothing but a
//! broken run.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark: it runs processes, reads clocks and prints"
)]

use quorate_agent::config::RedisConfig;
use quorate_agent::store::keep::{Keep, Said};
use quorate_agent::store::{RedisSettings, Store};
use quorate_limiter::decision::{Charge, LeaseView, Question, Reply};
use quorate_limiter::hold::{Beside, HoldId};
use quorate_limiter::record::{Finish, Opening, Renewal};
use quorate_shared::heartbeat::{Number, Office, PoliciesInForce, Stamp};
use quorate_shared::names::{BudgetId, SubjectHash, SubjectKey};
use quorate_shared::policy::{CalendarUnit, Limit, TimeZone, Window};
use quorate_shared::time::{Drift, LeaderTime, StoreTime};
use quorate_shared::units::{Capacity, MicroTokens};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Subjects asked for, one after the other.
const SUBJECTS: usize = 10_000;

/// Questions under way at once.
const AT_ONCE: usize = 64;

/// Admissions of each subject before its memory is measured.
const ASKED_BEFORE: u64 = 10;

/// Units of each limit: more than is asked for.
const UNITS: u64 = 1_000_000;

fn main() {
    let seconds = std::env::var("SECONDS").ok().and_then(|n| n.parse().ok()).unwrap_or(5);
    // each row in a process of its own, so that its memory is its own
    if let Some((store, place)) = std::env::var("ROW").ok().as_deref().and_then(|row| row.split_once(' ')) {
        let (_, limit) = limits()[place.parse::<usize>().expect("a place")];
        return println!("{}", measure(limit, Duration::from_secs(seconds), store == "Redis"));
    }
    println!("{SUBJECTS} subjects, {AT_ONCE} questions at once, {seconds} s each; ratios to the token bucket of the same store\n");
    println!("| store | algorithm | decisions/s | ratio | Redis CPU s per 10^6 | bytes per subject | ratio |");
    println!("|---|---|---|---|---|---|---|");
    for store in ["Redis", "embedded"] {
        let mut first = None;
        for (place, (name, _)) in limits().iter().enumerate() {
            let row = row_of(&format!("{store} {place}"));
            let [per_second, cpu, bytes] = row;
            let [per_second_first, _, bytes_first] = *first.get_or_insert(row);
            let cpu = if store == "Redis" { format!("{cpu:.1}") } else { "-".into() };
            let (speed, size) = (per_second / per_second_first, bytes / bytes_first);
            println!("| {store} | {name} | {per_second:.0} | {speed:.2} | {cpu} | {bytes:.0} | {size:.2} |");
        }
    }
}

/// Decisions per second, CPU seconds of Redis per million, and bytes per subject, from a process of its own.
fn row_of(row: &str) -> [f64; 3] {
    let output = Command::new(std::env::current_exe().expect("this program")).env("ROW", row).stderr(Stdio::inherit()).output();
    let text = String::from_utf8(output.expect("it runs").stdout).expect("text");
    let numbers: Vec<f64> = text.split_whitespace().map(|word| word.parse().expect("a number")).collect();
    numbers.try_into().expect("three numbers")
}

struct Row {
    per_second: f64,
    redis_cpu: f64,
    bytes: f64,
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.per_second, self.redis_cpu, self.bytes)
    }
}

fn limits() -> [(&'static str, Limit); 6] {
    let units = MicroTokens::from_tokens(UNITS).expect("few");
    let hour = Duration::from_hours(1);
    let month = Window::Calendar { unit: CalendarUnit::Month, zone: TimeZone::named("Europe/Berlin").expect("a zone") };
    [
        ("token-bucket", Limit::TokenBucket { rate: units, period: hour, burst: units }),
        ("fixed-window, 1h", Limit::FixedWindow { units, window: Window::Every(hour) }),
        ("fixed-window, month", Limit::FixedWindow { units, window: month }),
        ("sliding-window", Limit::SlidingWindow { units, window: hour }),
        ("sliding-log", Limit::SlidingLog { units, window: hour }),
        ("concurrency", Limit::Concurrency { slots: units, max_hold: hour }),
    ]
}

/// One algorithm on a fresh store.
fn measure(limit: Limit, span: Duration, in_redis: bool) -> Row {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(measured(limit, span, in_redis))
}

async fn measured(limit: Limit, span: Duration, in_redis: bool) -> Row {
    let server = in_redis.then(Redis::start);
    let store = Arc::new(match &server {
        Some(server) => Store::redis(&server.settings()).expect("an address"),
        None => Store::embedded(),
    });
    begin(&store).await;
    let charges: Arc<Vec<Charge>> = Arc::new((0..SUBJECTS).map(|n| charge(limit, n)).collect());
    let resident_before = resident_bytes();
    for round in 0..ASKED_BEFORE {
        ask_all(&store, &charges, round).await;
    }
    let bytes = server.as_ref().map_or_else(|| (resident_bytes() - resident_before) / SUBJECTS as f64, Redis::bytes_per_subject);
    let cpu = || server.as_ref().map_or(0.0, |server| cpu_seconds(server.process.id()));
    let (started, cpu_before, mut decisions) = (Instant::now(), cpu(), 0_u64);
    while started.elapsed() < span {
        ask_all(&store, &charges, ASKED_BEFORE + decisions).await;
        decisions += SUBJECTS as u64;
    }
    let per_second = decisions as f64 / started.elapsed().as_secs_f64();
    Row { per_second, redis_cpu: (cpu() - cpu_before) * 1e6 / decisions as f64, bytes }
}

/// Asks once for each subject.
async fn ask_all(store: &Arc<Store>, charges: &Arc<Vec<Charge>>, round: u64) {
    let workers: Vec<_> = (0..AT_ONCE)
        .map(|worker| {
            let (store, charges) = (store.clone(), charges.clone());
            tokio::spawn(async move {
                for (place, charge) in charges.iter().enumerate().skip(worker).step_by(AT_ONCE) {
                    let question = Question { view: LeaseView::default(), drift: Drift::DEFAULT, charges: vec![charge.clone()] };
                    let slot = Some(HoldId::from_bits(((round as u128) << 64) + place as u128 + 1));
                    let keep = Keep { beside: Beside { hold: None, slot }, attempt: None };
                    let said = store.decide(&question, &keep, Instant::now() + store.budget()).await.expect("it answers");
                    let admitted = matches!(&said, (Said::First { reply: Reply::Decided(d), .. }, _) if d.allowed);
                    assert!(admitted, "{said:?}");
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.expect("it ends");
    }
}

fn charge(limit: Limit, n: usize) -> Charge {
    let policy = "p".parse().expect("a name");
    let subject = SubjectHash::of(&SubjectKey::new([1; 32]), &policy, [n.to_string().as_str()]);
    Charge {
        budget: BudgetId { policy, generation: 1, subject },
        limit,
        floor: limit.capacity(),
        lendable: Capacity::ZERO,
        former_floors: Vec::new(),
        floor_ttl: None,
        cost: MicroTokens::TOKEN,
        enforced: true,
    }
}

/// A first session in which everything may be used.
async fn begin(store: &Store) {
    let policies = PoliciesInForce::default();
    store.open_session(&Opening { session: 1, nonce: 1, burn: false, policies }).await.expect("opened");
    let number = Number { session: 1, seq: store.draw_seq(1).await.expect("drawn").seq };
    store.take(number).await.expect("taken");
    let renewal = Renewal { lease: Duration::from_secs(5), drift: Drift::DEFAULT, lenders: BTreeMap::new(), drained_lenders: Vec::new() };
    let stamp = Stamp { number, office: Office { term: 1, process: 1 }, at: LeaderTime::ZERO };
    let finish = Finish {
        stamp,
        renewal,
        policies,
        full: true,
        genesis: true,
        lapsed: false,
        clock_at_least: StoreTime::ZERO,
        changed: Vec::new(),
        named: None,
    };
    store.finish(&finish).await.expect("finished");
}

/// A `redis-server` of the benchmark's own.
struct Redis {
    process: Child,
    directory: tempfile::TempDir,
}

impl Redis {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut process = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
            .arg(directory.path().join("redis.sock"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("redis-server is installed");
        let mut lines = BufReader::new(process.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.to_lowercase().contains("ready to accept connections")), "it serves");
        std::thread::spawn(move || lines.for_each(drop));
        Self { process, directory }
    }

    fn url(&self) -> String {
        format!("unix://{}", self.directory.path().join("redis.sock").display())
    }

    fn settings(&self) -> RedisSettings {
        let patience = Duration::from_secs(10);
        RedisSettings {
            redis: RedisConfig::at(self.url()),
            region: "eu".parse().expect("a name"),
            decision_timeout: patience,
            lease_timeout: patience,
            waiting: 1_024,
        }
    }

    /// The mean of what Redis says that each bucket key takes, itself included.
    fn bytes_per_subject(&self) -> f64 {
        let client = redis::Client::open(self.url()).expect("an address");
        let mut connection = client.get_connection().expect("a connection");
        let keys: Vec<String> = redis::cmd("KEYS").arg("*:bucket:*").query(&mut connection).expect("it answers");
        let bytes = |key: &String| -> u64 {
            redis::cmd("MEMORY").arg("USAGE").arg(key).arg("SAMPLES").arg(0).query(&mut connection).expect("it answers")
        };
        keys.iter().map(bytes).sum::<u64>() as f64 / SUBJECTS as f64
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What this process holds, by `/proc/self/statm` in pages of 4 KiB.
fn resident_bytes() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("it is there");
    let pages: f64 = statm.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("a number");
    pages * 4096.0
}

/// User and system time of a process, by `/proc/PID/stat` in hundredths of a second.
fn cpu_seconds(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("it runs");
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: f64 = after_name.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<f64>().ok()).sum();
    ticks / 100.0
}
