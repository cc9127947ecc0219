//! Prints the figures of a whole system on this machine: time to ready, first decision, idle memory.
//!
//! Runs the release binary (`cargo build --release -p quorate`) as a user would, several times,
//! and prints medians. Fails on nothing but a broken run.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    reason = "a benchmark: it runs processes, reads clocks and prints"
)]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const RUNS: usize = 5;
const PORT_BASE: u16 = 19_100;
/// Memory is read when the system has been idle for so long.
const IDLE: Duration = Duration::from_secs(10);

struct System(Child);

impl Drop for System {
    fn drop(&mut self) {
        // SIGTERM, so that it ends cleanly
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

fn main() {
    let binary = release_binary();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (mut ready, mut first, mut idle) = (Vec::new(), Vec::new(), Vec::new());
    for run in 1..=RUNS {
        let started = Instant::now();
        let system = start(&binary);
        ready.push(started.elapsed().as_secs_f64() * 1_000.0);
        first.push(runtime.block_on(first_decision()).as_secs_f64() * 1_000.0);
        std::thread::sleep(IDLE);
        idle.push(resident_megabytes(system.0.id()));
        eprintln!("run {run} of {RUNS} done");
    }
    println!("quorate dev, embedded stores, medians of {RUNS} runs");
    println!("{:>8.0} ms  from start to ready", median(&mut ready));
    println!("{:>8.2} ms  first decision after ready, connection included", median(&mut first));
    println!("{:>8.1} MB  resident after {} s idle, the whole system", median(&mut idle), IDLE.as_secs());
}

fn release_binary() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target")), PathBuf::from);
    let binary = target.join("release/quorate");
    assert!(binary.exists(), "{} is not there: cargo build --release -p quorate", binary.display());
    binary
}

fn start(binary: &PathBuf) -> System {
    let mut command = Command::new(binary);
    command.args(["dev", "--port-base", &PORT_BASE.to_string()]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut system = System(command.spawn().expect("it starts"));
    let lines = BufReader::new(system.0.stdout.take().expect("piped")).lines();
    let ready = lines.map_while(Result::ok).any(|line| line.starts_with("ready"));
    assert!(ready, "it ended before it was ready");
    system
}

async fn first_decision() -> Duration {
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let request = client
        .post(format!("http://127.0.0.1:{}/v1/check", PORT_BASE + 101))
        .header("content-type", "application/json")
        .body(r#"{"attributes":{"route":"write","tenant":"acme"}}"#);
    let sent = Instant::now();
    let answer = request.send().await.expect("an answer");
    let took = sent.elapsed();
    assert_eq!(answer.status().as_u16(), 200);
    took
}

fn resident_megabytes(process: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("a running process");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line");
    let kilobytes: f64 = line.split_whitespace().nth(1).expect("a number").parse().expect("a number");
    kilobytes / 1_024.0
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
