//! Measures the allocator: `allocation [--seeds N]` prints the table of docs/allocator.md.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    clippy::disallowed_types,
    reason = "a command: it reads arguments, prints, and times plans"
)]

use quorate_ledger::allocator::{Claim, Situation, plan};
use quorate_shared::units::{Capacity, MicroTokens};
use quorate_tests::allocation::SECOND;
use quorate_tests::allocation::report::{followed_after, measure, table, workloads};
use quorate_tests::allocation::workload::Workload;
use quorate_tests::allocation::world::World;
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seeds = match arguments.as_slice() {
        [] => 10,
        [flag, n] if flag == "--seeds" && n.parse::<u64>().is_ok_and(|n| n > 0) => n.parse().unwrap_or(1),
        _ => {
            eprintln!("usage: allocation [--seeds N]: a whole number above 0");
            return ExitCode::from(2);
        }
    };
    let rows: Vec<_> = workloads().iter().map(|w| measure(w, 0..seeds)).collect();
    print!("{}", table(&rows));
    for round_trip in [50, 150, 250] {
        let step = Workload::step("", 0.9, 10 * SECOND).with_round_trip("", round_trip * 1_000);
        let after = |seed| followed_after(&World::new(step.clone(), seed).run(), 2, 30 * SECOND);
        match (0..seeds).map(after).collect::<Option<Vec<_>>>() {
            Some(after) => {
                println!("round trips of {round_trip} ms: a step is followed within {} ms", after.iter().max().unwrap_or(&0) / 1_000)
            }
            None => println!("round trips of {round_trip} ms: a step is not followed"),
        }
    }
    for regions in [3, 50] {
        println!("a plan for {regions} regions takes {} µs", plan_micros(regions));
    }
    ExitCode::SUCCESS
}

/// How long one plan takes, of a budget that most regions use and some outgrow.
fn plan_micros(regions: u64) -> u128 {
    const RUNS: u128 = 2_000;
    let tokens = |n: u64| MicroTokens(n * MicroTokens::TOKEN.0);
    let floor = Capacity::new(tokens(100), tokens(100));
    let claim = |n: u64| Claim {
        floor,
        lendable: Capacity::new(tokens(90), tokens(90)),
        demand: tokens(n * n % 37 * 10),
        weight: 1,
        live: true,
        ..Claim::default()
    };
    let claims = (0..regions).filter_map(|n| Some((format!("r{n:02}").parse().ok()?, claim(n)))).collect();
    let limit = Capacity::new(tokens(100 * regions), tokens(100 * regions));
    let situation = Situation { limit, claims, ..Situation::default() };
    let begun = Instant::now();
    for _ in 0..RUNS {
        std::hint::black_box(plan(std::hint::black_box(&situation)));
    }
    begun.elapsed().as_micros() / RUNS
}
