//! Prints how the ledger's costs grow with the budgets that exist: `cargo bench -p quorate-ledger --bench scale`.
//!
//! Ten regions each hold a part of every budget. Times are the median of several; memory is what the process grew by,
//! for each budget and region. `SIZES=10,1000` for other numbers of budgets. Fails on nothing but a broken run.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    reason = "a benchmark: it runs processes, reads clocks and prints"
)]

#[path = "scale/world.rs"]
mod world;

use quorate_ledger::Ledger;
use quorate_shared::heartbeat::MOST_REPORTS;
use std::process::Command;
use std::time::{Duration, Instant};
use world::{REGIONS, World};

/// Numbers of budgets, unless others are asked for.
const SIZES: &str = "10,1000,100000,1000000";

/// How often what changes little is measured.
const TIMES: usize = 31;

/// One row of the table.
type Row = (&'static str, f64);

fn main() {
    if let Some(size) = std::env::var("ROW").ok().and_then(|size| size.parse().ok()) {
        measure(size).iter().for_each(|(what, value)| println!("{what}\t{value}"));
        return;
    }
    let sizes = std::env::var("SIZES").unwrap_or_else(|_| SIZES.to_owned());
    let columns: Vec<(String, Vec<(String, f64)>)> = sizes.split(',').map(|size| (size.trim().to_owned(), column(size.trim()))).collect();
    println!("{REGIONS} regions; in brackets: how many times as much as with the fewest budgets\n");
    println!("| budgets | {} |", columns.iter().map(|(size, _)| size.as_str()).collect::<Vec<_>>().join(" | "));
    println!("|---|{}", "---|".repeat(columns.len()));
    for (place, (what, first)) in columns[0].1.iter().enumerate() {
        let cell = |column: &Vec<(String, f64)>| format!("{} ({:.1})", shown(column[place].1), column[place].1 / first.max(f64::EPSILON));
        println!("| {what} | {} |", columns.iter().map(|(_, column)| cell(column)).collect::<Vec<_>>().join(" | "));
    }
}

/// Each size in a process of its own, so that its memory is its own.
fn column(size: &str) -> Vec<(String, f64)> {
    let here = std::env::current_exe().expect("this program");
    let output = Command::new(here).env("ROW", size).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let row = |line: &str| line.split_once('\t').map(|(what, value)| (what.to_owned(), value.parse().expect("a number")));
    text.lines().filter_map(row).collect()
}

fn measure(size: usize) -> Vec<Row> {
    let before = resident();
    let mut world = World::new(size);
    let bytes = (resident() - before) / (size * REGIONS) as f64;
    let mut rows = vec![
        ("heartbeat with nothing new, µs", micros(median(|| world.quiet()))),
        ("heartbeat with one changed demand, µs", micros(median(|| world.change()))),
    ];
    let plan = median(|| world.plan_one());
    let full: Duration = world.plan_all(MOST_REPORTS);
    rows.push(("planning one changed budget, µs", micros(plan)));
    rows.push(("planning all budgets, ms", millis(full)));
    rows.push(("first heartbeat of an office, µs", micros(median_of(5, || world.first_of_office()))));
    rows.extend(snapshot(&world.ledger));
    rows.push(("end of a region's lease, ms", millis(world.expire())));
    rows.push(("bytes for each budget and region", bytes));
    rows
}

fn snapshot(ledger: &Ledger) -> Vec<Row> {
    let (copied, copy) = timed(|| ledger.clone());
    let (encode, bytes) = timed(|| rmp_serde::to_vec_named(&copy).expect("encodes"));
    drop(copy);
    let (decode, back) = timed(|| rmp_serde::from_slice::<Ledger>(&bytes).expect("decodes"));
    assert!(back == *ledger, "what was read is what was written");
    let size = bytes.len() as f64 / 1e6;
    vec![
        ("snapshot: copy under the lock, ms", millis(copied)),
        ("snapshot: encode, ms", millis(encode)),
        ("snapshot: decode, ms", millis(decode)),
        ("snapshot: MB", size),
    ]
}

fn timed<T>(what: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let value = what();
    (start.elapsed(), value)
}

fn median(what: impl FnMut() -> Duration) -> Duration {
    median_of(TIMES, what)
}

fn median_of(times: usize, mut what: impl FnMut() -> Duration) -> Duration {
    let mut all: Vec<Duration> = (0..times).map(|_| what()).collect();
    all.sort_unstable();
    all[times / 2]
}

fn micros(span: Duration) -> f64 {
    span.as_secs_f64() * 1e6
}

fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

/// Three digits that count.
fn shown(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// Memory of this process, in bytes.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<f64>().ok()).expect("kB") * 1_024.0
}
