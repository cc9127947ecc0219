//! Runs schedules of the simulator: `simulate --seeds N [--seed FIRST] [--trace]`.

#![allow(clippy::disallowed_methods, clippy::disallowed_macros, reason = "a command: it reads arguments and prints")]

use quorate_tests::simulation::{Report, World};
use std::collections::BTreeMap;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str| arguments.iter().position(|a| a == name).and_then(|i| arguments.get(i + 1)).map(|n| n.parse::<u64>());
    let (seeds, first) = match (number("--seeds").unwrap_or(Ok(1_000)), number("--seed").unwrap_or(Ok(0))) {
        (Ok(seeds), Ok(first)) => (seeds, first),
        _ => {
            eprintln!("usage: simulate [--seeds N] [--seed FIRST] [--trace]: whole numbers");
            return ExitCode::from(2);
        }
    };
    let traced = arguments.iter().any(|a| a == "--trace");
    let mut faults: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut asked, mut admitted, mut leased, mut violations) = (0, 0, 0, 0);
    for seed in first..first + seeds {
        let world = World::new(seed);
        match if traced { world.telling(|at, event| println!("{at:>10} µs  {event}")) } else { world }.run() {
            Ok(Report { faults: of_seed, requests, leased_instants, .. }) => {
                of_seed.into_iter().for_each(|(kind, n)| *faults.entry(kind).or_default() += n);
                (asked, admitted, leased) = (asked + requests.0, admitted + requests.1, leased + leased_instants);
            }
            Err(violation) => {
                violations += 1;
                println!("seed {seed}: at {} µs: {}", violation.at, violation.what);
            }
        }
    }
    println!("{seeds} schedules, {violations} violations, {asked} requests, {admitted} admitted, {leased} instants beyond a floor");
    faults.iter().for_each(|(kind, n)| println!("{n:>10}  {kind}"));
    if violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
