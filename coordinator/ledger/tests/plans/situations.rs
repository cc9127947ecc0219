//! Situations that the allocator meets.

use quorate_ledger::allocator::{Claim, Readiness, Situation};
use quorate_shared::names::RegionName;
use quorate_shared::units::{Capacity, MicroTokens};
use std::collections::BTreeMap;

/// Each with a title; several of one title follow each other.
pub fn all() -> Vec<(&'static str, Vec<Situation>)> {
    vec![
        ("Nobody outgrows its floor: nothing moves", vec![three([0, 10, 29])]),
        ("One hot region takes what the idle may lend; bursts stay where they are", vec![three([0, 500, 0])]),
        ("All are hot: each keeps its floor", vec![three([500, 500, 500])]),
        ("Two are hot: what the third does not need is divided by weight", vec![with(three([0, 500, 500]), "us", |c| c.weight = 3)]),
        ("Two are hot: the greater priority is served first", vec![with(three([0, 500, 40]), "us", |c| c.priority = 1)]),
        ("A region out of reach keeps its floor, and lends nothing", vec![with(three([0, 500, 0]), "ap", away)]),
        (
            "Noise changes nothing; half of the demand does",
            vec![three([0, 60, 20]), three([0, 62, 21]), three([0, 58, 19]), three([0, 30, 20])],
        ),
        ("A lender wakes, and has its own back", vec![three([0, 500, 0]), three([25, 500, 0]), three([60, 500, 0])]),
        ("Nobody is hot any more: idle floors are held ready for a while, then given back", after_a_hot_region()),
        ("A margin is given where there is one", vec![three([5, 60, 10])]),
        ("Everything is in the pool", vec![pooled([0, 500, 20])]),
        ("A large cost: the pool's burst first, then that of the least busy", vec![with(half_pooled(), "eu", |c| c.largest = tokens(90))]),
        ("A cost that nobody could lend for moves nothing", vec![with(three([0, 10, 20]), "eu", |c| c.largest = tokens(190))]),
        ("Two large costs that do not both fit take turns", turns()),
        ("A limit of 1 over five regions: who asks has the token", vec![ones(&["r3"], 0), ones(&["r3"], 1)]),
        ("A limit of 1 over five regions that all ask: in turn", vec![ones(&FIVE, 0), ones(&FIVE, 1), ones(&FIVE, 5)]),
        ("A burst that is small for its rate follows it", vec![small_burst()]),
    ]
}

const FIVE: [&str; 5] = ["r1", "r2", "r3", "r4", "r5"];

fn name(name: &str) -> RegionName {
    name.parse().expect("a name")
}

fn tokens(n: u64) -> MicroTokens {
    MicroTokens(n * MicroTokens::TOKEN.0)
}

fn cap(rate: u64, burst: u64) -> Capacity {
    Capacity::new(tokens(rate), tokens(burst))
}

fn claim(floor: Capacity, lendable: Capacity, demand: u64) -> Claim {
    Claim { floor, lendable, demand: tokens(demand), weight: 1, live: true, ..Claim::default() }
}

fn situation(limit: Capacity, pool: Capacity, claims: impl IntoIterator<Item = (&'static str, Claim)>) -> Situation {
    let claims = claims.into_iter().map(|(n, claim)| (name(n), claim)).collect::<BTreeMap<_, _>>();
    Situation { limit, pool, readiness: Readiness::WithLoans, turn: 0, claims }
}

/// 90 a second with a burst of 180, all of it in floors.
fn three(demands: [u64; 3]) -> Situation {
    let claims = ["ap", "eu", "us"].into_iter().zip(demands.map(|demand| claim(cap(30, 60), cap(27, 54), demand)));
    situation(cap(90, 180), Capacity::ZERO, claims)
}

fn with(mut situation: Situation, region: &str, change: impl FnOnce(&mut Claim)) -> Situation {
    change(situation.claims.get_mut(&name(region)).expect("there"));
    situation
}

fn away(claim: &mut Claim) {
    (claim.live, claim.lendable) = (false, Capacity::ZERO);
}

fn after_a_hot_region() -> Vec<Situation> {
    let of_late = Situation { readiness: Readiness::Always, ..three([0, 0, 10]) };
    vec![three([0, 500, 0]), of_late, three([0, 0, 10])]
}

fn pooled(demands: [u64; 3]) -> Situation {
    let claims = ["ap", "eu", "us"].into_iter().zip(demands.map(|demand| claim(Capacity::ZERO, Capacity::ZERO, demand)));
    situation(cap(90, 180), cap(90, 180), claims)
}

fn half_pooled() -> Situation {
    let claims = ["ap", "eu", "us"].into_iter().zip([1, 5, 0].map(|demand| claim(cap(15, 30), cap(13, 26), demand)));
    situation(cap(90, 160), cap(45, 50), claims)
}

fn turns() -> Vec<Situation> {
    let both = |turn| {
        let one = with(three([10, 10, 0]), "ap", |c| c.largest = tokens(120));
        Situation { turn, ..with(one, "eu", |c| c.largest = tokens(130)) }
    };
    vec![both(0), both(1), both(2)]
}

/// 1 a second with a burst of 1: the floor of the first region holds it.
fn ones(asking: &[&str], turn: u64) -> Situation {
    let rate = |micros: u64| MicroTokens(micros);
    let one = |n: &'static str| {
        let burst = if n == "r1" { MicroTokens::TOKEN } else { MicroTokens::ZERO };
        let asks = asking.contains(&n);
        let mut claim = claim(Capacity::new(rate(200_000), burst), Capacity::new(rate(180_000), burst), u64::from(asks) * 5);
        claim.largest = if asks { MicroTokens::TOKEN } else { MicroTokens::ZERO };
        (n, claim)
    };
    Situation { turn, ..situation(cap(1, 1), Capacity::ZERO, FIVE.into_iter().map(one)) }
}

fn small_burst() -> Situation {
    let claims = ["ap", "eu", "us"].into_iter().zip([0, 5_000, 0].map(|demand| claim(cap(300, 20), cap(270, 18), demand)));
    situation(cap(900, 60), Capacity::ZERO, claims)
}
