//! The table: every workload, in one run, as parts of what one ideal bucket admits.

use super::workload::Workload;
use super::world::{BIN, Tally, World};
use super::{Micros, SECOND};
use quorate_shared::units::MicroTokens;

/// One line of the table.
#[derive(Clone, Debug)]
pub struct Row {
    /// The workload.
    pub name: &'static str,
    /// Admitted, as a part of what the ideal admits.
    pub share: f64,
    /// Admitted, as a part of what an ideal admits that keeps at home what the policy does.
    pub of_allowed: f64,
    /// The same with a fixed share for each region.
    pub fixed: f64,
    /// The most that any interval saw beyond the limit.
    pub overshoot: MicroTokens,
    /// Heartbeats of one region in a second.
    pub beats: f64,
    /// Plans that changed something, in a second.
    pub plans: f64,
}

/// Runs a workload once for each seed, and adds up.
pub fn measure(workload: &Workload, seeds: std::ops::Range<u64>) -> Row {
    let runs = (seeds.end - seeds.start) as f64;
    let tallies: Vec<Tally> = seeds.map(|seed| World::new(workload.clone(), seed).run()).collect();
    let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>() as f64;
    let ideal = sum(|t| t.ideal).max(1.0);
    let seconds = workload.counted.1 as f64 / SECOND as f64 * runs;
    Row {
        name: workload.name,
        share: sum(|t| t.admitted) / ideal,
        of_allowed: sum(|t| t.admitted) / sum(|t| t.allowed).max(1.0),
        fixed: sum(|t| t.fixed) / ideal,
        overshoot: tallies.iter().map(|t| t.overshoot).max().unwrap_or_default(),
        beats: sum(|t| t.beats) / seconds / workload.regions as f64,
        plans: sum(|t| t.plans) / seconds,
    }
}

/// After a step: how long until the region that it went to admits nine tenths of what is asked, over
/// every half a second from then on. Nothing if what it had saved up lasts until more has come.
pub fn followed_after(tally: &Tally, region: usize, step: Micros) -> Option<Micros> {
    let bins = tally.bins.get(region)?.get((step / BIN) as usize..)?;
    let good = |window: &[(u64, u64)]| {
        let (asked, admitted) = window.iter().fold((0, 0), |(a, b), (asked, admitted)| (a + asked, b + admitted));
        admitted * 10 >= asked * 9
    };
    let windows = bins.windows(5);
    let after = windows.clone().rposition(|window| !good(window)).map_or(0, |last| last + 1);
    (after < windows.len()).then_some(after as Micros * BIN)
}

/// Every workload of the table.
pub fn workloads() -> Vec<Workload> {
    let (ten, sixty) = (10 * SECOND, 60 * SECOND);
    vec![
        Workload::skew(),
        Workload::skew_below(),
        Workload::sun("follow the sun, 300 s", 300 * SECOND),
        Workload::sun("follow the sun, 60 s", sixty),
        Workload::zipf("20 regions, Zipf, 95 %", 0.95),
        Workload::zipf("20 regions, Zipf, 150 %", 1.5),
        Workload::step("step of 90 %, 10 s after", 0.9, ten),
        Workload::step("step of 90 %, 60 s after", 0.9, sixty),
        Workload::step("", 0.9, ten).with_round_trip("the same, 10 s after, round trips of 50 ms", 50_000),
        Workload::step("", 0.9, ten).with_round_trip("the same, 10 s after, round trips of 250 ms", 250_000),
        Workload::step("step of 150 %, 10 s after", 1.5, ten),
        Workload::step("step of 150 %, 60 s after", 1.5, sixty),
        Workload::step("", 1.5, ten).all_lendable("the same, 10 s after, all lendable"),
        Workload::step("", 1.5, sixty).all_lendable("the same, 60 s after, all lendable"),
        Workload::fall(),
        Workload::gaps(),
        Workload::on_off("on and off, 20/40 s", 20 * SECOND, 40 * SECOND),
        Workload::on_off("", 20 * SECOND, 40 * SECOND).all_lendable("the same, all lendable"),
        Workload::on_off("on and off, 2/4 s", 2 * SECOND, 4 * SECOND),
        Workload::on_off("", 2 * SECOND, 4 * SECOND).with_round_trip("the same, round trips of 50 ms", 50_000),
        Workload::on_off("", 2 * SECOND, 4 * SECOND).with_round_trip("the same, round trips of 250 ms", 250_000),
        Workload::cut_off(),
        Workload::large_costs(),
        Workload::one_over_five("1 over 5 regions, one asks", [false, false, true, false, false]),
        Workload::one_over_five("1 over 5 regions, all ask", [true; 5]),
    ]
}

/// The table as text.
pub fn table(rows: &[Row]) -> String {
    let head = "| workload | of ideal | of what the policy allows | fixed shares | overshoot | heartbeats/s | plans/s |\n|---|---|---|---|---|---|---|\n";
    let line = |r: &Row| {
        format!(
            "| {} | {:.3} | {:.3} | {:.3} | {} | {:.1} | {:.1} |\n",
            r.name, r.share, r.of_allowed, r.fixed, r.overshoot, r.beats, r.plans
        )
    };
    std::iter::once(head.to_owned()).chain(rows.iter().map(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_followed_once_no_half_second_misses_a_tenth() {
        let after = |admitted: &[u64]| {
            let bins = vec![admitted.iter().map(|n| (10, *n)).collect()];
            followed_after(&Tally { bins, ..Tally::default() }, 0, BIN)
        };
        let with = |missed: &[usize]| (0..21).map(|n| if missed.contains(&n) { 0 } else { 10 }).collect::<Vec<u64>>();
        assert_eq!(after(&with(&[])), Some(0));
        // what was saved up lasts for the first half a second, and then there is nothing for a while
        assert_eq!(after(&with(&[6, 7, 8])), Some(8 * BIN));
        assert_eq!(after(&with(&[20])), None);
    }
}
