//! Runs schedules of the simulator, and says what they came to.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    clippy::disallowed_types,
    reason = "a command: it reads arguments, prints, measures time and uses all cores"
)]

use quorate_shared::mistake::Mistake;
use quorate_tests::simulation::fault::{Fault, Faults};
use quorate_tests::simulation::{Report, Violation, World, kinds, teeth, trace};
use std::ops::Range;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const USAGE: &str = "\
usage: simulate [--seeds N] [--seed K] [--kind NAME] [--trace] [--teeth] [--threads N]

  --seeds N    so many schedules (1000; with --trace 1)
  --seed K     the first of them (0)
  --kind NAME  of that range only the schedules of this kind
  --trace      print what happens in them
  --teeth      make each known mistake, and print the first schedule that catches it
  --rule WORDS of the mistakes only those with these words
  --threads N  on so many threads (all cores)";

/// What happened last in a schedule that broke a promise: so many lines.
const LAST: usize = 60;

/// Violations that are printed with their traces.
const PRINTED: usize = 5;

/// Schedules that one thread takes at a time.
const BATCH: u64 = 64;

struct Settings {
    seeds: Range<u64>,
    trace: bool,
    teeth: bool,
    threads: usize,
    kind: Option<String>,
    rule: String,
}

impl Settings {
    fn takes(&self, seed: u64) -> bool {
        self.kind.as_ref().is_none_or(|kind| kinds::of(seed).name == kind)
    }
}

fn main() -> ExitCode {
    let settings = match read(std::env::args().skip(1)) {
        Ok(Some(settings)) => settings,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(what) => {
            eprintln!("{what}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let well = if settings.trace {
        settings.seeds.clone().filter(|seed| settings.takes(*seed)).map(|seed| print_trace(seed, usize::MAX)).filter(|well| !well).count()
            == 0
    } else if settings.teeth {
        let named = Mistake::ALL.iter().filter(|mistake| mistake.text().contains(&settings.rule));
        named.filter(|mistake| !bite(**mistake, &settings)).count() == 0
    } else {
        run_all(&settings)
    };
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// `None`: help is asked for.
fn read(mut arguments: impl Iterator<Item = String>) -> Result<Option<Settings>, String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (mut seeds, mut first, mut trace, mut teeth, mut threads, mut kind) = (None, 0, false, false, cores, None);
    let mut rule = String::new();
    while let Some(flag) = arguments.next() {
        if flag == "--kind" {
            let name = arguments.next().ok_or("--kind needs a name")?;
            let known = kinds::all().any(|kind| kind.name == name);
            kind = Some(known.then_some(name).ok_or("no such kind of schedules")?);
            continue;
        }
        if flag == "--rule" {
            rule = arguments.next().ok_or("--rule needs some words")?;
            continue;
        }
        let mut number = || {
            let text = arguments.next().ok_or(format!("{flag} needs a number"))?;
            text.parse::<u64>().map_err(|_| format!("{flag}: `{text}` is not a whole number"))
        };
        match flag.as_str() {
            "--seeds" => seeds = Some(number()?),
            "--seed" => first = number()?,
            "--threads" => threads = usize::try_from(number()?).unwrap_or(cores).max(1),
            "--trace" => trace = true,
            "--teeth" => teeth = true,
            "--help" | "-h" => return Ok(None),
            _ => return Err(format!("no such flag: `{flag}`")),
        }
    }
    let count = seeds.unwrap_or(if trace { 1 } else { 1_000 });
    Ok(Some(Settings { seeds: first..first.saturating_add(count), trace, teeth, threads, kind, rule }))
}

/// Prints the end of a schedule. True if no promise was broken.
fn print_trace(seed: u64, most: usize) -> bool {
    let (lines, violation) = trace::last_lines(seed, most);
    lines.iter().for_each(|line| println!("{line}"));
    if let Some(violation) = &violation {
        println!("seed {seed}, at {} µs: {}: {}", violation.at, violation.rule, violation.what);
    }
    violation.is_none()
}

/// True if some schedule catches the mistake.
fn bite(mistake: Mistake, settings: &Settings) -> bool {
    let count = settings.seeds.end - settings.seeds.start;
    let caught = teeth::first_to_catch(mistake, settings.seeds.clone().filter(|seed| settings.takes(*seed)));
    match &caught {
        Some((seed, violation)) => {
            println!("{:<58} seed {seed:>6} ({}): {}", mistake.text(), World::new(*seed).kind(), violation.rule);
        }
        None => println!("{:<58} not caught by {count} schedules", mistake.text()),
    }
    caught.is_some()
}

/// What schedules came to, together.
#[derive(Default)]
struct Total {
    faults: Faults,
    requests: (u64, u64),
    leased_instants: u64,
    healing: u64,
    violations: Vec<(u64, Violation)>,
}

impl Total {
    fn count(&mut self, seed: u64, outcome: Result<Report, Violation>) {
        match outcome {
            Ok(report) => {
                self.faults.add(&report.faults);
                self.requests = (self.requests.0 + report.requests.0, self.requests.1 + report.requests.1);
                self.leased_instants += report.leased_instants;
                self.healing = self.healing.max(report.healing);
            }
            Err(violation) => self.violations.push((seed, violation)),
        }
    }

    fn add(&mut self, other: Self) {
        self.faults.add(&other.faults);
        self.requests = (self.requests.0 + other.requests.0, self.requests.1 + other.requests.1);
        self.leased_instants += other.leased_instants;
        self.healing = self.healing.max(other.healing);
        self.violations.extend(other.violations);
    }
}

fn run_all(settings: &Settings) -> bool {
    let started = Instant::now();
    let mut total = run_on_threads(settings);
    let seconds = started.elapsed().as_secs_f64();
    total.violations.sort_by_key(|(seed, _)| *seed);
    for (seed, _) in total.violations.iter().take(PRINTED) {
        println!("-- seed {seed}, its last {LAST} lines; all of them: simulate --seed {seed} --trace");
        print_trace(*seed, LAST);
    }
    for (seed, violation) in total.violations.iter().skip(PRINTED) {
        println!("seed {seed}, at {} µs: {}: {}", violation.at, violation.rule, violation.what);
    }
    print_total(settings, &total, seconds);
    total.violations.is_empty()
}

fn run_on_threads(settings: &Settings) -> Total {
    let next = AtomicU64::new(settings.seeds.start);
    let work = || {
        let mut total = Total::default();
        loop {
            let from = next.fetch_add(BATCH, Ordering::Relaxed);
            if from >= settings.seeds.end {
                return total;
            }
            for seed in (from..(from + BATCH).min(settings.seeds.end)).filter(|seed| settings.takes(*seed)) {
                total.count(seed, World::new(seed).run());
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..settings.threads).map(|_| scope.spawn(work)).collect();
        let mut total = Total::default();
        threads.into_iter().filter_map(|thread| thread.join().ok()).for_each(|part| total.add(part));
        total
    })
}

fn print_total(settings: &Settings, total: &Total, seconds: f64) {
    let schedules = settings.seeds.clone().filter(|seed| settings.takes(*seed)).count();
    let per_second = schedules as f64 / seconds;
    println!("{schedules} schedules, {} violations", total.violations.len());
    println!("{per_second:.0} schedules per second on {} threads", settings.threads);
    println!("{} requests, {} admitted; {} instants beyond a floor", total.requests.0, total.requests.1, total.leased_instants);
    println!("healed within {} heartbeats of each region", total.healing);
    Fault::ALL.iter().for_each(|fault| println!("{:>10}  {fault}", total.faults.of(*fault)));
}
