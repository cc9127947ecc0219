//! The report of a run: as JSON for programs, as tables for people.

use crate::table::{Align, Cell, Paint, Table, Tone, number, percent};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// What a run showed. Amounts in requests unless they say tokens.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Version of the policy set that the run is measured by; 0 of a file.
    pub policy_set: u64,
    /// From the beginning to the last answer.
    pub elapsed_ms: f64,
    /// Over all regions.
    #[serde(flatten)]
    pub all: Tally,
    /// By how much requests left after their time.
    pub late_ms: Option<Spread>,
    /// Requests under some limit that one ideal bucket for each budget would have admitted.
    pub ideal_admitted: u64,
    /// Requests under some limit that were admitted, against those.
    pub utilisation: Option<f64>,
    /// Tokens beyond `B + R·(b − a)` in the worst interval of the worst budget.
    pub measured_overshoot: f64,
    /// Answers that name other policies than the run is measured by: the set changed meanwhile, or is another.
    pub answers_by_other_policies: u64,
    /// By region.
    pub regions: BTreeMap<String, RegionReport>,
    /// In the order of the policy set.
    pub policies: Vec<PolicyReport>,
}

/// What became of some requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Tally {
    /// Sent.
    pub offered: u64,
    /// Allowed.
    pub admitted: u64,
    /// Refused by a limit.
    pub refused: u64,
    /// May have been admitted or not.
    pub unknown: Unknown,
    /// Surely not decided, by kind.
    pub errors: BTreeMap<String, u64>,
    /// From sending to answer, of those admitted or refused.
    pub latency_ms: Option<Spread>,
}

/// Requests without an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Unknown {
    /// None in time.
    pub timed_out: u64,
    /// The connection broke, or the answer made no sense.
    pub broken: u64,
}

/// Middle and end of a distribution, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Half are at most this.
    pub p50: f64,
    /// 99 in 100 are at most this.
    pub p99: f64,
    /// All are at most this.
    pub max: f64,
}

/// One region's part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RegionReport {
    /// Its requests.
    #[serde(flatten)]
    pub tally: Tally,
    /// Admitted under some limit, by the weakest ground that the decision rests on.
    pub admitted_by_mode: BTreeMap<&'static str, u64>,
}

/// One policy's part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PolicyReport {
    /// Its name.
    pub policy: String,
    /// Subjects that were met.
    pub budgets: u64,
    /// Requests that it matches.
    pub offered: u64,
    /// Of those, admitted.
    pub admitted: u64,
    /// Of those, refused by this policy.
    pub refused: u64,
    /// Tokens admitted.
    pub admitted_tokens: f64,
    /// Tokens that ideal buckets would have admitted.
    pub ideal_tokens: f64,
    /// The one against the other.
    pub utilisation: Option<f64>,
    /// Tokens beyond `B + R·(b − a)` in the worst interval of the worst subject.
    pub measured_overshoot: f64,
    /// Where that was.
    pub worst_interval: Option<WorstInterval>,
}

/// The interval with the largest excess.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorstInterval {
    /// Whose budget.
    pub subject: String,
    /// Since the run began.
    pub from_ms: f64,
    /// Since the run began.
    pub to_ms: f64,
}

impl Tally {
    fn errors_total(&self) -> u64 {
        self.errors.values().sum()
    }

    fn unknown_total(&self) -> u64 {
        self.unknown.timed_out + self.unknown.broken
    }
}

impl Report {
    /// Tables for people.
    pub fn text(&self, paint: Paint) -> String {
        let mut text = format!("{}\n{}\n", self.region_table().render(paint), self.policy_table().render(paint));
        // Writing to a string does not fail.
        let _ = self.write_summary(&mut text, paint);
        text
    }

    fn region_table(&self) -> Table {
        let mut table = Table::new(&[
            ("REGION", Align::Left),
            ("OFFERED", Align::Right),
            ("ADMITTED", Align::Right),
            ("REFUSED", Align::Right),
            ("UNKNOWN", Align::Right),
            ("ERRORS", Align::Right),
            ("P50", Align::Right),
            ("P99", Align::Right),
            ("MAX", Align::Right),
            ("ADMITTED BY", Align::Left),
        ]);
        for (region, report) in &self.regions {
            let modes = report.admitted_by_mode.iter().map(|(mode, n)| format!("{mode} {n}"));
            let modes = modes.collect::<Vec<_>>().join(", ");
            table.row(tally_cells(region, &report.tally).into_iter().chain([modes.into()]));
        }
        table.row(tally_cells("all", &self.all));
        table
    }

    fn policy_table(&self) -> Table {
        let mut table = Table::new(&[
            ("POLICY", Align::Left),
            ("BUDGETS", Align::Right),
            ("OFFERED", Align::Right),
            ("ADMITTED", Align::Right),
            ("REFUSED", Align::Right),
            ("TOKENS", Align::Right),
            ("IDEAL", Align::Right),
            ("UTILISATION", Align::Right),
            ("OVERSHOOT", Align::Right),
        ]);
        for policy in &self.policies {
            table.row([
                (&policy.policy).into(),
                policy.budgets.into(),
                policy.offered.into(),
                policy.admitted.into(),
                policy.refused.into(),
                number(policy.admitted_tokens, 3).into(),
                number(policy.ideal_tokens, 3).into(),
                policy.utilisation.map_or("-".to_owned(), percent).into(),
                overshoot_cell(policy.measured_overshoot),
            ]);
        }
        table
    }

    fn write_summary(&self, text: &mut String, paint: Paint) -> std::fmt::Result {
        let seconds = number(self.elapsed_ms / 1_000.0, 2);
        let set = if self.policy_set == 0 { "a file".to_owned() } else { format!("policy set {}", self.policy_set) };
        writeln!(text, "{} requests in {seconds} s, measured by {set}", self.all.offered)?;
        match self.utilisation {
            Some(share) => writeln!(text, "utilisation  {} of {} that ideal buckets would admit", percent(share), self.ideal_admitted)?,
            None => writeln!(text, "utilisation  none: no request was under a limit")?,
        }
        let tone = overshoot_tone(self.measured_overshoot);
        let overshoot = paint.tone(&number(self.measured_overshoot, 6), tone);
        writeln!(text, "overshoot    {overshoot} tokens in the worst of all intervals of all budgets")?;
        for (policy, worst) in self.policies.iter().filter_map(|p| Some((p, p.worst_interval.as_ref()?))) {
            let amount = number(policy.measured_overshoot, 6);
            let (from, to) = (number(worst.from_ms, 3), number(worst.to_ms, 3));
            writeln!(text, "             {}, {}: {amount} tokens from {from} ms to {to} ms", policy.policy, worst.subject)?;
        }
        if let Some(late) = self.late_ms {
            writeln!(text, "late sending p50 {}, p99 {}, max {}", latency(late.p50), latency(late.p99), latency(late.max))?;
        }
        for (what, n) in [("not answered in time", self.all.unknown.timed_out), ("answer lost or unreadable", self.all.unknown.broken)] {
            if n > 0 {
                writeln!(text, "unknown      {n}: {what}; counted neither as admitted nor as refused")?;
            }
        }
        for (kind, n) in &self.all.errors {
            writeln!(text, "{}        {n}: {kind}", paint.tone("error", Tone::Bad))?;
        }
        if self.answers_by_other_policies > 0 {
            let n = self.answers_by_other_policies;
            writeln!(
                text,
                "{}      {n} answers name other policies than this set: did it change during the run?",
                paint.tone("warning", Tone::Attention)
            )?;
        }
        Ok(())
    }
}

fn tally_cells(name: &str, tally: &Tally) -> [Cell; 9] {
    let span = |of: fn(Spread) -> f64| tally.latency_ms.map_or("-".to_owned(), |spread| latency(of(spread)));
    let troubled = |n: u64, tone| if n > 0 { Cell::toned(n.to_string(), tone) } else { n.into() };
    [
        name.into(),
        tally.offered.into(),
        tally.admitted.into(),
        tally.refused.into(),
        troubled(tally.unknown_total(), Tone::Attention),
        troubled(tally.errors_total(), Tone::Bad),
        span(|s| s.p50).into(),
        span(|s| s.p99).into(),
        span(|s| s.max).into(),
    ]
}

fn overshoot_cell(tokens: f64) -> Cell {
    Cell::toned(number(tokens, 6), overshoot_tone(tokens))
}

fn overshoot_tone(tokens: f64) -> Tone {
    if tokens > 0.0 { Tone::Bad } else { Tone::Good }
}

fn latency(ms: f64) -> String {
    format!("{}ms", number(ms, 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let tally = Tally {
            offered: 10,
            admitted: 5,
            refused: 3,
            unknown: Unknown { timed_out: 1, broken: 0 },
            errors: BTreeMap::from([("503 limiter-unavailable".into(), 1)]),
            latency_ms: Some(Spread { p50: 0.5, p99: 12.345, max: 20.0 }),
        };
        let policy = PolicyReport {
            policy: "write".into(),
            budgets: 2,
            offered: 10,
            admitted: 5,
            refused: 3,
            admitted_tokens: 5.0,
            ideal_tokens: 8.0,
            utilisation: Some(0.625),
            measured_overshoot: 1.5,
            worst_interval: Some(WorstInterval { subject: "tenant=a".into(), from_ms: 1.0, to_ms: 2.5 }),
        };
        Report {
            policy_set: 3,
            elapsed_ms: 1_500.0,
            all: tally.clone(),
            late_ms: tally.latency_ms,
            ideal_admitted: 8,
            utilisation: Some(0.625),
            measured_overshoot: 1.5,
            answers_by_other_policies: 2,
            regions: BTreeMap::from([(
                "us".into(),
                RegionReport { tally, admitted_by_mode: BTreeMap::from([("floor", 1), ("leased", 4)]) },
            )]),
            policies: vec![policy],
        }
    }

    #[test]
    fn people_are_told_everything_that_is_not_as_it_should_be() {
        let text = report().text(Paint::NONE);
        for part in [
            "us           10         5        3        1       1  0.5ms  12.35ms  20ms  floor 1, leased 4",
            "utilisation  62.5% of 8",
            "overshoot    1.5 tokens",
            "write, tenant=a: 1.5 tokens from 1 ms to 2.5 ms",
            "late sending p50 0.5ms",
            "unknown      1: not answered in time",
            "error        1: 503 limiter-unavailable",
            "warning      2 answers",
        ] {
            assert!(text.contains(part), "`{part}` is not in\n{text}");
        }
    }

    #[test]
    fn programs_get_flat_counts() {
        let json = serde_json::to_value(report()).expect("serialises");
        assert_eq!(json["offered"], 10);
        assert_eq!(json["unknown"]["timed_out"], 1);
        assert_eq!(json["regions"]["us"]["admitted_by_mode"]["leased"], 4);
        assert_eq!(json["policies"][0]["worst_interval"]["subject"], "tenant=a");
        assert_eq!(json["latency_ms"]["p50"], 0.5);
    }
}
