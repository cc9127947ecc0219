//! From what became of each request to what it says of the limits.

use super::book::Book;
use super::fleet::Fleet;
use super::ideal::{Charge, IdealBuckets};
use super::interval::{Admission, Overshoot, overshoot};
use super::outcome::{Outcome, PolicyNames, Sample, Silence};
use super::report::{PolicyReport, RegionReport, Report, Spread, Tally, WorstInterval};
use quorate_shared::api::DecisionMode;
use quorate_shared::units::MicroTokens;
use std::collections::BTreeMap;
use std::time::Duration;

/// The report of a run, whose samples may come in any order.
pub fn measure(mut samples: Vec<Sample>, book: &Book, fleet: &Fleet) -> Report {
    samples.sort_by_key(|s| s.sent);
    let ideal = ideal_admissions(&samples, book);
    let policies = policy_reports(&samples, book, &ideal);
    let limited = |(sample, _): &(&Sample, &bool)| !book.charges(sample.planned.kind).is_empty();
    let ideal_admitted = samples.iter().zip(&ideal).filter(limited).filter(|(_, ideal)| **ideal).count();
    let admitted = samples.iter().zip(&ideal).filter(limited).filter(|(s, _)| is_admitted(s)).count();
    Report {
        policy_set: book.version(),
        elapsed_ms: milliseconds(samples.iter().map(|s| s.answered).max().unwrap_or_default()),
        all: tally(samples.iter()),
        late_ms: spread(samples.iter().map(Sample::late)),
        ideal_admitted: count(ideal_admitted),
        utilisation: share(admitted as f64, ideal_admitted as f64),
        measured_overshoot: policies.iter().map(|p| p.measured_overshoot).fold(0.0, f64::max),
        answers_by_other_policies: count(samples.iter().filter(|s| !as_expected(s, book)).count()),
        regions: region_reports(&samples, fleet),
        policies,
    }
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

fn share(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

fn milliseconds(span: Duration) -> f64 {
    span.as_secs_f64() * 1_000.0
}

fn is_admitted(sample: &Sample) -> bool {
    matches!(sample.outcome, Outcome::Admitted { .. })
}

/// For each sample, whether an ideal bucket for each budget would have admitted it at the instant it was sent.
fn ideal_admissions(samples: &[Sample], book: &Book) -> Vec<bool> {
    let mut buckets = IdealBuckets::new(book.budgets().iter().map(|b| b.limit));
    samples.iter().map(|s| buckets.handle_request(s.sent, book.charges(s.planned.kind))).collect()
}

/// False if the answer names other policies than those by which the run is measured.
fn as_expected(sample: &Sample, book: &Book) -> bool {
    let charges = book.charges(sample.planned.kind);
    let expected = |name: &String| charges.iter().any(|c| book.policy_of(c).name.as_str() == name);
    match &sample.outcome {
        Outcome::Admitted { policies, .. } => policies.len() == charges.len() && policies.iter().all(expected),
        Outcome::Refused { policies } => policies.iter().all(expected),
        Outcome::Failed(_) | Outcome::Unknown(_) => true,
    }
}

fn tally<'a>(samples: impl Iterator<Item = &'a Sample> + Clone) -> Tally {
    let mut tally = Tally::default();
    for sample in samples.clone() {
        tally.offered += 1;
        match &sample.outcome {
            Outcome::Admitted { .. } => tally.admitted += 1,
            Outcome::Refused { .. } => tally.refused += 1,
            Outcome::Failed(kind) => *tally.errors.entry(kind.clone()).or_default() += 1,
            Outcome::Unknown(Silence::TimedOut) => tally.unknown.timed_out += 1,
            Outcome::Unknown(Silence::Broken) => tally.unknown.broken += 1,
        }
    }
    let decided = samples.filter(|s| matches!(s.outcome, Outcome::Admitted { .. } | Outcome::Refused { .. }));
    tally.latency_ms = spread(decided.map(Sample::latency));
    tally
}

/// By nearest rank, exactly.
fn spread(spans: impl Iterator<Item = Duration>) -> Option<Spread> {
    let mut spans: Vec<Duration> = spans.collect();
    spans.sort_unstable();
    let rank = |percent: usize| (spans.len() * percent).div_ceil(100).saturating_sub(1);
    let at = |percent| spans.get(rank(percent)).copied().map(milliseconds);
    Some(Spread { p50: at(50)?, p99: at(99)?, max: at(100)? })
}

fn region_reports(samples: &[Sample], fleet: &Fleet) -> BTreeMap<String, RegionReport> {
    let report = |region| {
        let agents = fleet.agents_of(&region);
        let own = samples.iter().filter(|s| agents.contains(&s.planned.agent));
        let mut modes = BTreeMap::new();
        for sample in own.clone() {
            if let Outcome::Admitted { mode: Some(mode), .. } = sample.outcome {
                *modes.entry(mode_key(mode)).or_default() += 1;
            }
        }
        (region.to_string(), RegionReport { tally: tally(own), admitted_by_mode: modes })
    };
    fleet.regions().into_iter().map(report).collect()
}

fn mode_key(mode: DecisionMode) -> &'static str {
    crate::commands::check::mode_name(mode)
}

/// What is gathered of one policy.
#[derive(Clone, Copy, Default)]
struct PolicyCounts {
    offered: u64,
    admitted: u64,
    refused: u64,
    admitted_tokens: MicroTokens,
    ideal_tokens: MicroTokens,
}

fn policy_reports(samples: &[Sample], book: &Book, ideal: &[bool]) -> Vec<PolicyReport> {
    let mut counts = vec![PolicyCounts::default(); book.policies().len()];
    let mut admissions: Vec<Vec<Admission>> = vec![Vec::new(); book.budgets().len()];
    for (sample, ideal) in samples.iter().zip(ideal) {
        for charge in book.charges(sample.planned.kind) {
            let policy = &mut counts[book.budgets()[charge.budget].policy];
            policy.offered += 1;
            if *ideal {
                policy.ideal_tokens = policy.ideal_tokens.saturating_add(charge.cost);
            }
            match &sample.outcome {
                Outcome::Admitted { policies, .. } if names(policies, charge, book) => {
                    policy.admitted += 1;
                    policy.admitted_tokens = policy.admitted_tokens.saturating_add(charge.cost);
                    admissions[charge.budget].push(Admission { sent: sample.sent, answered: sample.answered, cost: charge.cost });
                }
                Outcome::Refused { policies } if names(policies, charge, book) => policy.refused += 1,
                _ => {}
            }
        }
    }
    let worst = worst_by_policy(book, &admissions);
    book.policies().iter().enumerate().map(|(i, policy)| policy_report(policy.name.to_string(), counts[i], i, book, &worst)).collect()
}

fn names(policies: &PolicyNames, charge: &Charge, book: &Book) -> bool {
    policies.iter().any(|name| name == book.policy_of(charge).name.as_str())
}

/// The budget with the largest excess, by index of the policy.
fn worst_by_policy(book: &Book, admissions: &[Vec<Admission>]) -> BTreeMap<usize, (usize, Overshoot)> {
    let mut worst: BTreeMap<usize, (usize, Overshoot)> = BTreeMap::new();
    for (index, budget) in book.budgets().iter().enumerate() {
        let Some(found) = overshoot(budget.limit, &admissions[index]) else { continue };
        let entry = worst.entry(budget.policy).or_insert((index, found));
        if found.amount > entry.1.amount {
            *entry = (index, found);
        }
    }
    worst
}

fn policy_report(
    name: String,
    counts: PolicyCounts,
    index: usize,
    book: &Book,
    worst: &BTreeMap<usize, (usize, Overshoot)>,
) -> PolicyReport {
    let worst = worst.get(&index);
    PolicyReport {
        policy: name,
        budgets: count(book.budgets().iter().filter(|b| b.policy == index).count()),
        offered: counts.offered,
        admitted: counts.admitted,
        refused: counts.refused,
        admitted_tokens: counts.admitted_tokens.tokens(),
        ideal_tokens: counts.ideal_tokens.tokens(),
        utilisation: share(counts.admitted_tokens.tokens(), counts.ideal_tokens.tokens()),
        measured_overshoot: worst.map_or(0.0, |(_, o)| o.amount.tokens()),
        worst_interval: worst.map(|(budget, o)| WorstInterval {
            subject: book.budgets()[*budget].subject.clone(),
            from_ms: milliseconds(o.from),
            to_ms: milliseconds(o.to),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::fleet::Agent;
    use crate::load::schedule::Planned;
    use crate::load::testing::{attributes, policy};
    use quorate_shared::policy::PolicySet;

    fn fleet() -> Fleet {
        let agent = |region: &str| Agent { region: region.parse().expect("a name"), url: String::new() };
        Fleet::new(vec![agent("us"), agent("eu")])
    }

    /// Policies `write` (2/s, burst 2, by tenant) and `all` (100/s, burst 100). Kind 0 is of tenant a, 1 of b, 2 of none.
    fn book() -> Book {
        let set = PolicySet {
            version: 7,
            policies: vec![policy("write", 2, 2, &["tenant"]), policy("all", 100, 100, &[])],
            ..PolicySet::default()
        };
        Book::new(set, &["tenant=a", "tenant=b", "x=y"].map(attributes), None)
    }

    fn names(list: &[&str]) -> PolicyNames {
        list.iter().map(|s| (*s).to_owned()).collect()
    }

    fn sample(at_ms: u64, agent: usize, kind: usize, outcome: Outcome) -> Sample {
        let at = Duration::from_millis(at_ms);
        Sample {
            planned: Planned { at, agent, kind },
            sent: at + Duration::from_millis(1),
            answered: at + Duration::from_millis(3),
            outcome,
        }
    }

    fn admitted(list: &[&str]) -> Outcome {
        Outcome::Admitted { policies: names(list), mode: Some(DecisionMode::Leased) }
    }

    fn refused() -> Outcome {
        Outcome::Refused { policies: names(&["write"]) }
    }

    #[test]
    fn requests_are_counted_by_region_and_by_policy() {
        let samples = vec![
            sample(500, 1, 1, admitted(&["write", "all"])),
            sample(0, 0, 0, admitted(&["write", "all"])),
            sample(1, 0, 0, refused()),
            sample(2, 1, 2, admitted(&["all"])),
            sample(3, 1, 2, Outcome::Failed("503 limiter-unavailable".into())),
            sample(4, 1, 2, Outcome::Unknown(Silence::TimedOut)),
            sample(5, 1, 2, Outcome::Unknown(Silence::Broken)),
        ];
        let report = measure(samples, &book(), &fleet());
        assert_eq!((report.all.offered, report.all.admitted, report.all.refused), (7, 3, 1));
        assert_eq!((report.all.unknown.timed_out, report.all.unknown.broken), (1, 1));
        assert_eq!(report.all.errors, BTreeMap::from([("503 limiter-unavailable".to_owned(), 1)]));
        assert_eq!((report.regions["us"].tally.offered, report.regions["eu"].tally.offered), (2, 5));
        assert_eq!(report.regions["eu"].admitted_by_mode, BTreeMap::from([("leased", 2)]));
        let write = &report.policies[0];
        assert_eq!((write.policy.as_str(), write.budgets, write.offered, write.admitted, write.refused), ("write", 2, 3, 2, 1));
        assert_eq!((report.policies[1].offered, report.policies[1].admitted, report.policies[1].refused), (7, 3, 0));
        assert_eq!((report.policy_set, report.answers_by_other_policies, report.measured_overshoot), (7, 0, 0.0));
        let late = report.late_ms.expect("some");
        assert!((late.p50 - 1.0).abs() < 1e-9 && (late.max - 1.0).abs() < 1e-9);
        assert!((report.elapsed_ms - 503.0).abs() < 1e-9);
    }

    #[test]
    fn utilisation_is_against_one_bucket_for_all_regions() {
        // Two at once fit, the third does not; one of the two was refused.
        let samples = vec![sample(0, 0, 0, admitted(&["write", "all"])), sample(0, 1, 0, refused()), sample(0, 1, 0, refused())];
        let report = measure(samples, &book(), &fleet());
        assert_eq!((report.ideal_admitted, report.utilisation), (2, Some(0.5)));
        assert_eq!(report.policies[0].utilisation, Some(0.5));
        assert_eq!((report.policies[0].admitted_tokens, report.policies[0].ideal_tokens), (1.0, 2.0));
    }

    #[test]
    fn the_order_of_the_answers_is_not_that_of_the_requests() {
        let at = |ms| sample(ms, 0, 0, admitted(&["write", "all"]));
        assert_eq!(measure(vec![at(1_000), at(0), at(0)], &book(), &fleet()).ideal_admitted, 3);
    }

    #[test]
    fn each_subject_is_a_budget_of_its_own_and_the_worst_is_named() {
        let yes = || admitted(&["write", "all"]);
        // Each of two tenants may have two at once. One gets two, the other four.
        let at_most = vec![sample(0, 0, 0, yes()), sample(0, 1, 0, yes()), sample(0, 0, 1, yes()), sample(0, 1, 1, yes())];
        assert_eq!(measure(at_most.clone(), &book(), &fleet()).measured_overshoot, 0.0);
        let mut beyond = at_most;
        beyond.extend([sample(0, 0, 1, yes()), sample(0, 1, 1, yes())]);
        let report = measure(beyond, &book(), &fleet());
        // 4 − 2 − 2/s · 2 ms
        assert!((report.measured_overshoot - 1.996).abs() < 1e-9, "{}", report.measured_overshoot);
        assert_eq!(report.policies[0].worst_interval.as_ref().map(|w| w.subject.as_str()), Some("tenant=b"));
        assert_eq!(report.policies[1].worst_interval, None);
    }

    #[test]
    fn an_unknown_answer_is_neither_admitted_nor_an_excess() {
        let samples = (0..5).map(|_| sample(0, 0, 0, Outcome::Unknown(Silence::TimedOut))).collect();
        let report = measure(samples, &book(), &fleet());
        assert_eq!((report.all.admitted, report.measured_overshoot), (0, 0.0));
        assert_eq!(report.all.latency_ms, None);
    }

    #[test]
    fn answers_by_other_policies_are_noticed() {
        let samples = vec![sample(0, 0, 0, admitted(&["write"])), sample(0, 0, 2, admitted(&["new"])), sample(0, 0, 2, refused())];
        assert_eq!(measure(samples, &book(), &fleet()).answers_by_other_policies, 3);
    }

    #[test]
    fn ranks_are_exact() {
        let ms = |list: &[u64]| spread(list.iter().map(|n| Duration::from_millis(*n)));
        assert_eq!(ms(&[]), None);
        assert_eq!(ms(&[5]), Some(Spread { p50: 5.0, p99: 5.0, max: 5.0 }));
        let hundred: Vec<u64> = (1..=100).rev().collect();
        assert_eq!(ms(&hundred), Some(Spread { p50: 50.0, p99: 99.0, max: 100.0 }));
    }

    #[test]
    fn no_samples_give_an_empty_report() {
        let report = measure(vec![], &book(), &fleet());
        assert_eq!((report.all.offered, report.utilisation, report.late_ms), (0, None, None));
    }
}
