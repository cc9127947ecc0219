//! What the allocator promises, in short. The whole table, as kept in docs/allocator.md:
//! `cargo run -p quorate-tests --release --bin allocation`.

use quorate_shared::units::MicroTokens;
use quorate_tests::allocation::report::{Row, followed_after, measure};
use quorate_tests::allocation::workload::Workload;
use quorate_tests::allocation::world::{BIN, World};
use quorate_tests::allocation::{Micros, SECOND};

/// One run, or so many, of which none admitted one too many.
fn row(workload: &Workload, runs: u64) -> Row {
    let row = measure(workload, 100..100 + runs);
    assert_eq!(row.overshoot, MicroTokens::ZERO, "{}", row.name);
    row
}

fn at_least(workload: &Workload, runs: u64, share: f64) {
    let row = row(workload, runs);
    assert!(row.share >= share, "{}: {:.3} of ideal is not {share}", row.name, row.share);
}

#[test]
fn steady_and_slow_loads_get_what_one_bucket_would_give() {
    at_least(&Workload::skew(), 1, 0.995);
    at_least(&Workload::skew_below(), 1, 0.995);
    at_least(&Workload::sun("follow the sun, 300 s", 300 * SECOND), 1, 0.995);
    at_least(&Workload::sun("follow the sun, 60 s", 60 * SECOND), 1, 0.99);
}

#[test]
fn twenty_regions_of_many_sizes_do_too() {
    at_least(&Workload::zipf("20 regions, Zipf, 95 %", 0.95), 1, 0.99);
    at_least(&Workload::zipf("20 regions, Zipf, 150 %", 1.5), 1, 0.978);
}

#[test]
fn a_step_is_followed_within_a_second() {
    at_least(&Workload::step("step, 10 s after", 0.9, 10 * SECOND), 4, 0.98);
    at_least(&Workload::step("step, 60 s after", 0.9, 60 * SECOND), 1, 0.99);
    for round_trip in [50_000, 150_000, 250_000] {
        for seed in 0..4 {
            let step = Workload::step("", 0.9, 5 * SECOND).with_round_trip("", round_trip);
            let after = followed_after(&World::new(step, seed).run(), 2, 30 * SECOND);
            assert!(after.is_some_and(|after| after <= SECOND), "{round_trip} µs: {after:?}");
        }
    }
}

#[test]
fn on_and_off_is_better_than_fixed_shares_even_at_two_seconds() {
    at_least(&Workload::on_off("on and off, 20/40 s", 20 * SECOND, 40 * SECOND), 4, 0.92);
    for (round_trip, share) in [(50_000, 0.79), (250_000, 0.69)] {
        let quick = row(&Workload::on_off("", 2 * SECOND, 4 * SECOND).with_round_trip("on and off, 2/4 s", round_trip), 1);
        assert!(quick.share >= quick.fixed && quick.share >= share, "{quick:?}");
    }
}

#[test]
fn a_short_gap_gives_little_away() {
    let gaps = row(&Workload::gaps(), 1);
    assert!(gaps.share >= 0.985 && gaps.share >= gaps.fixed, "{gaps:?}");
}

#[test]
fn a_region_that_is_cut_off_keeps_its_floor() {
    let workload = Workload::cut_off();
    let tally = World::new(workload, 1).run();
    assert_eq!(tally.overshoot, MicroTokens::ZERO);
    // after a lease it has its floor, and wants nine tenths of that; its bucket still is to be filled
    let from = |at: Micros| (at / BIN) as usize;
    let (asked, admitted) = tally.bins[2][from(45 * SECOND)..from(75 * SECOND)].iter().fold((0, 0), |(a, b), bin| (a + bin.0, b + bin.1));
    assert!(admitted * 100 >= asked * 99, "{admitted} of {asked}");
}

#[test]
fn a_large_cost_is_lent_for_and_a_limit_of_one_admits_one() {
    at_least(&Workload::large_costs(), 1, 0.84);
    at_least(&Workload::one_over_five("one asks", [false, false, true, false, false]), 1, 0.9);
    let all = World::new(Workload::one_over_five("all ask", [true; 5]), 1).run();
    assert_eq!(all.overshoot, MicroTokens::ZERO);
    assert!(all.admitted * 20 > all.ideal * 13, "{} of {}", all.admitted, all.ideal);
    let each = all.bins.iter().map(|bins| bins.iter().map(|(_, admitted)| admitted).sum::<u64>());
    assert!(each.clone().all(|admitted| admitted >= 10), "in turn: {:?}", each.collect::<Vec<_>>());
}
