use super::*;

const RATE: u64 = 100_000_000;

fn region(name: &str) -> RegionName {
    name.parse().expect("a name")
}

fn cap(rate: u64, burst: u64) -> Capacity {
    Capacity::new(MicroTokens(rate), MicroTokens(burst))
}

/// Three regions with a floor of a third each (less a few), 90 % of it lendable.
fn claims(demands: [u64; 3]) -> BTreeMap<RegionName, Claim> {
    let floor = cap(33_000_000, 66_000_000);
    let claim = |demand| Claim {
        floor,
        lendable: cap(29_700_000, 60_000_000),
        demand: MicroTokens(demand),
        weight: 1,
        live: true,
        borrows_from: BTreeSet::new(),
    };
    ["ap", "eu", "us"].into_iter().zip(demands).map(|(n, d)| (region(n), claim(d))).collect()
}

fn entitlement(targets: &BTreeMap<RegionName, Holding>, claims: &BTreeMap<RegionName, Claim>, name: &str) -> Capacity {
    let holding = targets.get(&region(name)).cloned().unwrap_or_default();
    holding.entitlement(claims[&region(name)].floor, false, true, |_| true)
}

fn check_conserved(targets: &BTreeMap<RegionName, Holding>, claims: &BTreeMap<RegionName, Claim>, pool: Capacity) {
    let pools: Capacity = targets.values().map(|h| h.pool).sum();
    assert!(pools.fits(pool), "{pools:?} of {pool:?}");
    for (name, claim) in claims {
        let lent = targets.get(name).map(|h| h.lent).unwrap_or_default();
        let borrowed: Capacity = targets.values().map(|h| h.borrowed_from(name)).sum();
        assert!(lent.fits(claim.lendable), "{name} lends {lent:?}");
        assert!(borrowed.fits(lent), "{name}: {borrowed:?} borrowed of {lent:?}");
    }
}

#[test]
fn nobody_in_need_moves_nothing() {
    assert!(plan(MicroTokens(RATE), Capacity::ZERO, &claims([0, 10_000_000, 20_000_000])).is_empty());
}

#[test]
fn one_hot_region_gets_what_the_idle_may_lend() {
    let claims = claims([0, 500_000_000, 0]);
    let targets = plan(MicroTokens(RATE), cap(1_000_000, 2_000_000), &claims);
    check_conserved(&targets, &claims, cap(1_000_000, 2_000_000));
    assert_eq!(entitlement(&targets, &claims, "eu"), cap(33_000_000 + 1_000_000 + 59_400_000, 66_000_000 + 2_000_000 + 120_000_000));
    assert_eq!(entitlement(&targets, &claims, "us"), cap(3_300_000, 6_000_000));
}

#[test]
fn all_hot_regions_keep_their_floors() {
    let claims = claims([500_000_000, 500_000_000, 500_000_000]);
    let targets = plan(MicroTokens(RATE), cap(1_000_000, 2_000_000), &claims);
    check_conserved(&targets, &claims, cap(1_000_000, 2_000_000));
    for name in ["ap", "eu", "us"] {
        assert!(entitlement(&targets, &claims, name).rate.0 >= 33_000_000);
    }
    assert_eq!(targets.values().map(|h| h.pool.rate.0).sum::<u64>(), 1_000_000);
}

#[test]
fn a_shortage_is_shared_by_weight() {
    let mut claims = claims([0, 500_000_000, 500_000_000]);
    claims.get_mut(&region("us")).expect("there").weight = 3;
    let targets = plan(MicroTokens(RATE), Capacity::ZERO, &claims);
    let (eu, us) = (entitlement(&targets, &claims, "eu").rate.0, entitlement(&targets, &claims, "us").rate.0);
    // max-min by weight: us rises alone until it has three times what eu has, or nothing is left
    assert_eq!((eu, us), (33_000_000, 62_700_000));
}

#[test]
fn an_unreachable_region_keeps_its_floor() {
    let mut claims = claims([0, 500_000_000, 0]);
    let away = claims.get_mut(&region("ap")).expect("there");
    (away.live, away.lendable) = (false, Capacity::ZERO);
    let targets = plan(MicroTokens(RATE), Capacity::ZERO, &claims);
    assert_eq!(entitlement(&targets, &claims, "ap"), claims[&region("ap")].floor);
    assert_eq!(entitlement(&targets, &claims, "eu").rate.0, 62_700_000);
}

#[test]
fn a_single_token_moves_whole() {
    let floor_of = |burst| Claim { floor: cap(333_333, burst), lendable: cap(299_999, burst), live: true, weight: 1, ..Claim::default() };
    let mut claims: BTreeMap<_, _> =
        [("ap", floor_of(1_000_000)), ("eu", floor_of(0)), ("us", floor_of(0))].map(|(n, c)| (region(n), c)).into();
    claims.get_mut(&region("eu")).expect("there").demand = MicroTokens(5_000_000);
    let targets = plan(MicroTokens(1_000_000), Capacity::ZERO, &claims);
    assert_eq!(entitlement(&targets, &claims, "eu").burst, MicroTokens(1_000_000));
    assert_eq!(entitlement(&targets, &claims, "ap").burst, MicroTokens(0));
}

#[test]
fn plans_are_conserved_whatever_is_wanted() {
    let mut state = 1_u64;
    let mut next = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for _ in 0..20_000 {
        let claim = |floor: Capacity, lendable| Claim { floor, lendable, live: true, ..Claim::default() };
        let mut claims = BTreeMap::new();
        for i in 0..=next(5) {
            let floor = cap(next(50), next(4) * 1_000_000);
            let mut c = claim(floor, cap(floor.rate.0 * 9 / 10, floor.burst.0));
            (c.demand, c.weight) = (MicroTokens(next(120)), u32::try_from(next(4)).expect("small"));
            if next(6) == 0 {
                (c.live, c.lendable) = (false, Capacity::ZERO);
            }
            claims.insert(region(&format!("r{i}")), c);
        }
        let pool = cap(next(30), next(3) * 1_000_000);
        let floors: u64 = claims.values().map(|c| c.floor.rate.0).sum();
        let targets = plan(MicroTokens(pool.rate.0 + floors), pool, &claims);
        check_conserved(&targets, &claims, pool);
        for (name, c) in &claims {
            let has = entitlement(&targets, &claims, name.as_str()).rate;
            assert!(has >= c.demand.min(c.floor.rate), "{name} is below the floor that it wants");
        }
    }
}
