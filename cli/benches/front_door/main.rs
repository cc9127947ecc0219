//! Prints what the HTTP front door costs beside a bare server that parses the same question: throughput, CPU, latency,
//! each with its ratio to that ceiling, all in one run.
//!
//!     cargo bench -p quorate --bench front_door
//!
//! The ceiling is an axum server in a process of its own; the agents are the `quorate` binary with a coordinator and,
//! where the row says so, a `redis-server`. All of them are asked in turns by the same closed loop, over connections that
//! stay open. What a process costs is its user and system time by `/proc/PID/stat`.
//!
//! | variable | default | |
//! |---|---|---|
//! | `SECONDS` | 4 | of each turn |
//! | `ROUNDS` | 3 | turns of each row; the medians are printed |
//! | `ONLY` | | prints rows whose name contains this, and the ceiling |
//! | `QUORATE` | the one of this build | the `quorate` binary that is measured |
//! | `CALLGRIND` | | `1`: also the instructions of each answer, if `valgrind` is on PATH |
//!
//! Fails on nothing but a broken run.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark: it runs processes, reads clocks and prints"
)]

mod ceiling;
mod client;
mod instructions;
mod system;

use client::Load;
use std::time::Duration;
use system::{Contender, System};

/// Connections that ask at once.
const CONNECTIONS: [usize; 2] = [64, 256];

/// What one turn of one row came to.
#[derive(Clone, Copy, Default)]
struct Figures {
    per_second: f64,
    /// CPU seconds of the server for a million answers.
    server: f64,
    /// The same of its Redis; zero without one.
    redis: f64,
    p50: f64,
    p99: f64,
}

fn main() {
    if std::env::var("ROLE").is_ok_and(|role| role == "ceiling") {
        return ceiling::serve();
    }
    let (span, rounds) = (Duration::from_secs(number("SECONDS", 4)), number("ROUNDS", 3));
    let only = std::env::var("ONLY").unwrap_or_default();
    let system = System::start(&only);
    for connections in CONNECTIONS {
        print_saturated(&system, connections, span, rounds);
        print_at_half(&system, connections, span, rounds);
    }
    if std::env::var("CALLGRIND").is_ok() {
        instructions::print(&only);
    }
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// All connections ask again as soon as they are answered.
fn print_saturated(system: &System, connections: usize, span: Duration, rounds: u64) {
    println!("\n{connections} connections, each of which asks as soon as it is answered; medians of {rounds} turns of {span:?}\n");
    println!("| server | answers/s | ratio | CPU s per 10^6 | ratio | Redis CPU s per 10^6 | p50 µs | p99 µs | ratio |");
    println!("|---|---|---|---|---|---|---|---|---|");
    let rows = measured(system, connections, None, span, rounds);
    let first = rows[0];
    for (contender, row) in system.contenders().iter().zip(&rows) {
        println!(
            "| {} | {:.0} | {:.2} | {:.1} | {:.2} | {} | {:.0} | {:.0} | {:.2} |",
            contender.name,
            row.per_second,
            row.per_second / first.per_second,
            row.server,
            row.server / first.server,
            redis_cell(contender, row),
            row.p50,
            row.p99,
            row.p99 / first.p99,
        );
    }
}

/// The same number of questions a second for each: half of what the slowest answers.
fn print_at_half(system: &System, connections: usize, span: Duration, rounds: u64) {
    let slowest = measured(system, connections, None, span / 2, 1).iter().map(|row| row.per_second).fold(f64::MAX, f64::min);
    let pace = slowest / 2.0;
    println!("\n{connections} connections, {pace:.0} questions a second for each server: half of what the slowest answers\n");
    println!("| server | CPU s per 10^6 | Redis CPU s per 10^6 | p50 µs | p99 µs | ratio |");
    println!("|---|---|---|---|---|---|");
    let rows = measured(system, connections, Some(pace), span, rounds);
    for (contender, row) in system.contenders().iter().zip(&rows) {
        let redis = redis_cell(contender, row);
        println!("| {} | {:.1} | {redis} | {:.0} | {:.0} | {:.2} |", contender.name, row.server, row.p50, row.p99, row.p99 / rows[0].p99);
    }
}

fn redis_cell(contender: &Contender, row: &Figures) -> String {
    contender.redis.map_or_else(|| "-".to_owned(), |_| format!("{:.1}", row.redis))
}

/// The medians of each row, whose turns alternate.
fn measured(system: &System, connections: usize, pace: Option<f64>, span: Duration, rounds: u64) -> Vec<Figures> {
    let mut turns = vec![Vec::new(); system.contenders().len()];
    for _ in 0..rounds {
        for (contender, turns) in system.contenders().iter().zip(&mut turns) {
            turns.push(turn(contender, connections, pace, span));
        }
    }
    turns.iter().map(|turns| medians(turns)).collect()
}

fn turn(contender: &Contender, connections: usize, pace: Option<f64>, span: Duration) -> Figures {
    let load = Load { address: contender.address, connections, pace };
    load.run(span / 4);
    let cpu = || [Some(contender.process), contender.redis].map(|process| process.map_or(0.0, system::cpu_seconds));
    let before = cpu();
    let answers = load.run(span);
    let [server, redis] = [0, 1].map(|i| (cpu()[i] - before[i]) * 1e6 / answers.count as f64);
    Figures { per_second: answers.per_second, server, redis, p50: answers.percentile(50), p99: answers.percentile(99) }
}

fn medians(turns: &[Figures]) -> Figures {
    let of = |field: fn(&Figures) -> f64| {
        let mut values: Vec<f64> = turns.iter().map(field).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Figures { per_second: of(|f| f.per_second), server: of(|f| f.server), redis: of(|f| f.redis), p50: of(|f| f.p50), p99: of(|f| f.p99) }
}
