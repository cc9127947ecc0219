//! One run: faults come and go under load, all heals, and the checker judges.

use crate::checker::{Verdict, verdicts};
use crate::configuration::{LEASE, RATE};
use crate::fault::UnderWay;
use crate::load::Load;
use crate::published::Published;
use crate::pulse::{self, Pulse};
use crate::scenario::Scenario;
use crate::system::System;
use crate::told::{Limit, Outcome, Told};
use std::fmt;
use std::ops::Range;
use std::time::{Duration, Instant};
use tokio::time::MissedTickBehavior;

/// Between two questions for the published bound.
const ASK: Duration = Duration::from_millis(250);

/// Of the bucket's rate, so much is to be admitted once all is well: the rest is for a busy machine.
const SERVED: f64 = 0.7;

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its name.
    pub name: String,
    /// Of each limit.
    pub verdicts: Vec<Verdict>,
    /// From the end of the last fault until every region was leased by an answer that came after it.
    pub leased_after: Duration,
    /// Admitted in a second by the bucket, once all was well.
    pub served: f64,
    /// How requests were answered that were neither admitted nor refused, and how many were left out.
    pub unavailable: usize,
    /// No answer.
    pub unanswered: usize,
    /// Not sent: too many were under way.
    pub left_out: u64,
    /// What the coordinators published without a number, and what faults said of themselves.
    pub notes: Vec<String>,
    /// What must not be, whatever the machine has to do beside this: broken promises.
    pub broken: Vec<String>,
    /// What must not be on a machine that has time for this.
    pub slow: Vec<String>,
    /// By how much the machine woke this program up too late, at worst, once all had healed.
    pub machine_late: Duration,
}

/// Runs a scenario with so many agents in each region.
///
/// # Panics
/// If the system does not start, or is not leased again for long after all has healed.
pub async fn run(scenario: &Scenario, agents: usize) -> Report {
    let mut system = System::start(scenario.round_trip, agents).await;
    let pulse = Pulse::begin();
    let mut published = Published::default();
    published.ask(&system).await;
    let mut load = Load::on(&system);
    load.wander(scenario.seed);
    let notes = play(scenario, &mut system, &mut published).await;
    let healed = Instant::now();
    pulse.forget();
    system.wait_until_leased(Some(healed)).await;
    let leased_after = healed.elapsed();
    load.settle();
    let calm = measure(&load, &system, &mut published).await;
    let clock = load.clock();
    let (told, left_out) = load.stop().await;
    let mut report = Report {
        name: scenario.name.clone(),
        verdicts: verdicts(&told, clock, &published),
        leased_after,
        served: rate(&told, &calm),
        unavailable: count(&told, Outcome::Unavailable),
        unanswered: count(&told, Outcome::Unanswered),
        left_out,
        notes,
        broken: Vec::new(),
        slow: Vec::new(),
        machine_late: pulse.worst(),
    };
    report.broken = broken(&report, &told, &published);
    report.slow = slow(&report, scenario);
    if !report.is_well() {
        report.notes.push(format!("logs are kept in {}", system.keep().display()));
    }
    report
}

/// The faults, from the first to the end of the last.
async fn play(scenario: &Scenario, system: &mut System, published: &mut Published) -> Vec<String> {
    let begun = Instant::now();
    let mut notes = Vec::new();
    let mut waiting = scenario.steps.iter().peekable();
    let mut under_way: Vec<(Duration, UnderWay)> = Vec::new();
    let mut asks = tokio::time::interval(ASK);
    asks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let ends = under_way.iter().map(|(end, _)| *end).min();
        let Some(next) = waiting.peek().map(|step| step.at).into_iter().chain(ends).min() else { return notes };
        tokio::select! {
            _ = asks.tick() => published.ask(system).await,
            () = tokio::time::sleep_until((begun + next).into()) => {
                let now = begun.elapsed();
                for (_, fault) in under_way.extract_if(.., |(end, _)| *end <= now) {
                    notes.extend(fault.end(system));
                }
                while let Some(step) = waiting.next_if(|step| step.at <= now) {
                    let fault = step.fault.begin(system).await;
                    under_way.push((begun.elapsed() + step.lasts, fault));
                }
            }
        }
    }
}

/// A lease's time without faults; gives when that was.
async fn measure(load: &Load, system: &System, published: &mut Published) -> Range<Duration> {
    let from = load.clock().now();
    let until = from + LEASE;
    let mut asks = tokio::time::interval(ASK);
    while load.clock().now() < until {
        asks.tick().await;
        published.ask(system).await;
    }
    from..load.clock().now()
}

fn rate(told: &[Told], during: &Range<Duration>) -> f64 {
    let admitted = told.iter().filter(|told| told.limit == Limit::Bucket && told.is_admitted() && during.contains(&told.answered));
    admitted.count() as f64 / (during.end - during.start).as_secs_f64()
}

fn count(told: &[Told], outcome: Outcome) -> usize {
    told.iter().filter(|told| told.outcome == outcome).count()
}

fn broken(report: &Report, told: &[Told], published: &Published) -> Vec<String> {
    let beyond =
        report.verdicts.iter().filter(|verdict| !verdict.holds()).map(|v| format!("{}: {} beyond the limit", v.limit.name(), v.excess));
    let failed = told.iter().find(|told| matches!(told.outcome, Outcome::Failed(_))).map(|told| format!("an answer: {told:?}"));
    let unbounded = published.unbounded().map(|what| format!("nobody chose that: {what}"));
    beyond.chain(failed).chain(unbounded).chain(published.broken().cloned()).collect()
}

fn slow(report: &Report, scenario: &Scenario) -> Vec<String> {
    let late = (report.leased_after > LEASE).then(|| format!("leased again only after {:?}", report.leased_after));
    let little = (report.served < SERVED * f64::from(RATE)).then(|| format!("{:.0} of {RATE} a second once all was well", report.served));
    // among other faults there may be nothing to write
    let alone = scenario.steps.len() == 1;
    let disk = report.notes.iter().filter(|note| alone && note.contains("did not stop")).cloned();
    late.into_iter().chain(little).chain(disk).collect()
}

impl Report {
    /// True if nothing is wrong.
    pub fn is_well(&self) -> bool {
        self.broken.is_empty() && self.slow.is_empty()
    }

    /// How long it may take on this machine, as busy as it was, until every region is leased again: a lease on one that
    /// has time.
    pub fn may_take(&self) -> Duration {
        pulse::allows(LEASE, self.machine_late)
    }
}

/// A line, and one more for each note and for all that must not be.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<32}", self.name)?;
        for verdict in &self.verdicts {
            let (name, admitted, asked) = (verdict.limit.name(), verdict.admitted, verdict.asked);
            let bound = verdict.bound.map_or("unbounded".to_owned(), |bound| format!("{bound}"));
            write!(f, "  {name} {admitted}/{asked}")?;
            if verdict.allowed.is_finite() {
                write!(f, " of {:.0}", verdict.allowed)?;
            }
            write!(f, ", worst {:+.1}, bound {bound};", verdict.excess)?;
        }
        write!(f, "  leased after {:.2} s, then {:.0}/s;", self.leased_after.as_secs_f64(), self.served)?;
        write!(f, " {} unavailable, {} unanswered, {} left out", self.unavailable, self.unanswered, self.left_out)?;
        for note in &self.notes {
            write!(f, "\n    {note}")?;
        }
        for complaint in &self.broken {
            write!(f, "\n    BROKEN: {complaint}")?;
        }
        for complaint in &self.slow {
            write!(f, "\n    SLOW: {complaint}; the machine woke this program up as much as {:?} late", self.machine_late)?;
        }
        Ok(())
    }
}

/// Kept for a run that panicked.
pub fn failed(scenario: &Scenario, why: &str) -> Report {
    Report {
        name: scenario.name.clone(),
        verdicts: Vec::new(),
        leased_after: Duration::ZERO,
        served: 0.0,
        unavailable: 0,
        unanswered: 0,
        left_out: 0,
        notes: Vec::new(),
        broken: vec![why.to_owned()],
        slow: Vec::new(),
        machine_late: Duration::ZERO,
    }
}
