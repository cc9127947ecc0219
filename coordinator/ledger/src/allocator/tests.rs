use super::*;

fn region(name: &str) -> RegionName {
    name.parse().expect("a name")
}

fn cap(rate: u64, burst: u64) -> Capacity {
    Capacity::new(MicroTokens(rate), MicroTokens(burst))
}

fn entitlement(targets: &Targets, situation: &Situation, name: &RegionName) -> Capacity {
    let holding = targets.get(name).cloned().unwrap_or_default();
    holding.entitlement(situation.claims[name].floor, false, true, |_| true)
}

fn check_conserved(targets: &Targets, situation: &Situation) {
    let pools: Capacity = targets.values().map(|h| h.pool).sum();
    assert!(pools.fits(situation.pool), "{pools:?} of {:?}", situation.pool);
    for (name, claim) in &situation.claims {
        let lent = targets.get(name).map(|h| h.lent).unwrap_or_default();
        let borrowed: Capacity = targets.values().map(|h| h.borrowed_from(name)).sum();
        assert!(lent.fits(claim.lendable), "{name} lends {lent:?} of {:?}", claim.lendable);
        assert!(borrowed.fits(lent), "{name}: {borrowed:?} borrowed of {lent:?}");
    }
}

/// Numbers from a seed (Knuth's MMIX generator).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn claim(numbers: &mut Numbers) -> Claim {
    let floor = cap(numbers.below(50), numbers.below(4) * 1_000_000);
    let live = numbers.below(6) > 0;
    Claim {
        floor,
        lendable: if live { cap(floor.rate.0 * 9 / 10, floor.burst.0) } else { Capacity::ZERO },
        demand: MicroTokens(numbers.below(120)),
        largest: MicroTokens(numbers.below(3) / 2 * numbers.below(9) * 700_000),
        returning: MicroTokens::ZERO,
        weight: u32::try_from(numbers.below(4)).expect("small"),
        priority: u32::try_from(numbers.below(2)).expect("small"),
        live,
        before: Holding::default(),
    }
}

fn any_situation(numbers: &mut Numbers) -> Situation {
    let claims: BTreeMap<RegionName, Claim> = (0..=numbers.below(6)).map(|i| (region(&format!("r{i}")), claim(numbers))).collect();
    let pool = cap(numbers.below(30), numbers.below(3) * 1_000_000);
    let floors: Capacity = claims.values().map(|c| c.floor).sum();
    let readiness = [Readiness::Never, Readiness::WithLoans, Readiness::Always][numbers.below(3) as usize];
    Situation { limit: pool.plus(floors), pool, readiness, turn: numbers.below(5), claims }
}

#[test]
fn plans_are_conserved_whatever_is_wanted_and_whatever_was_before() {
    let mut numbers = Numbers(1);
    for _ in 0..20_000 {
        let mut situation = any_situation(&mut numbers);
        let first = plan(&situation);
        check_conserved(&first, &situation);
        // the same regions want something else, one has gone, and what was planned stands
        for (name, claim) in &mut situation.claims {
            claim.before = first.get(name).cloned().unwrap_or_default();
            claim.demand = MicroTokens(numbers.below(120));
            if numbers.below(9) == 0 {
                (claim.live, claim.lendable) = (false, Capacity::ZERO);
            }
        }
        check_conserved(&plan(&situation), &situation);
    }
}

#[test]
fn whoever_can_use_its_floor_has_as_much_of_it_as_it_wants() {
    let mut numbers = Numbers(2);
    for _ in 0..20_000 {
        let situation = any_situation(&mut numbers);
        let targets = plan(&situation);
        for (name, claim) in &situation.claims {
            let has = entitlement(&targets, &situation, name);
            let usable = has.burst >= MicroTokens::TOKEN;
            assert!(!usable || has.rate >= claim.demand.min(claim.floor.rate), "{name} is below the floor that it wants");
        }
    }
}

#[test]
fn what_changed_nothing_plans_nothing_new() {
    let mut numbers = Numbers(3);
    for _ in 0..5_000 {
        let mut situation = any_situation(&mut numbers);
        let first = plan(&situation);
        for (name, claim) in &mut situation.claims {
            claim.before = first.get(name).cloned().unwrap_or_default();
        }
        assert_eq!(plan(&situation), first);
    }
}

#[test]
fn no_capacity_is_idle_while_somebody_who_can_use_it_lacks_it() {
    let mut numbers = Numbers(4);
    for _ in 0..20_000 {
        let mut situation = any_situation(&mut numbers);
        situation.claims.values_mut().for_each(|claim| claim.largest = MicroTokens::ZERO);
        let targets = plan(&situation);
        let unused_by = |claim: &Claim| claim.floor.rate.0.saturating_sub(claim.demand.0).min(claim.lendable.rate.0);
        let idle = situation.claims.values().filter(|c| c.live && c.demand.0 == 0).map(unused_by).sum::<u64>();
        let lacks = |(name, claim): &(&RegionName, &Claim)| {
            let has = entitlement(&targets, &situation, name);
            claim.live && has.burst >= MicroTokens::TOKEN && has.rate.0 + 8 < claim.demand.min(situation.limit.rate).0
        };
        if situation.claims.iter().any(|one| lacks(&one)) {
            let lent: u64 = targets.values().map(|h| h.borrowed_total().rate.0).sum();
            assert!(lent >= idle, "{idle} idle, {lent} lent: {situation:?} {targets:?}");
        }
    }
}

#[test]
fn a_region_whose_largest_cost_is_out_of_reach_has_a_token_for_smaller_ones() {
    let token = MicroTokens::TOKEN.0;
    // of a limit of two tokens at once the other keeps a part that it may not lend
    let asks = Claim { demand: MicroTokens(40), largest: MicroTokens(2 * token), weight: 1, live: true, ..Claim::default() };
    let idle = Claim { floor: cap(30, token * 6 / 5), lendable: cap(20, token), weight: 1, live: true, ..Claim::default() };
    let claims = BTreeMap::from([(region("asks"), asks), (region("idle"), idle)]);
    let pool = cap(10, token * 4 / 5);
    let situation = Situation { limit: cap(40, 2 * token), pool, claims, ..Situation::default() };
    let targets = plan(&situation);
    check_conserved(&targets, &situation);
    let has = entitlement(&targets, &situation, &region("asks"));
    assert_eq!(has, cap(30, token));
    // one that can be served is not robbed of its burst for that
    let mut contended = situation.clone();
    let served = Claim { largest: MicroTokens(token), ..contended.claims[&region("asks")].clone() };
    contended.claims.insert(region("also"), served);
    let targets = plan(&contended);
    check_conserved(&targets, &contended);
    assert_eq!(entitlement(&targets, &contended, &region("also")).burst, MicroTokens::TOKEN);
}

#[test]
fn a_token_whose_parts_are_in_a_floor_and_in_the_pool_goes_to_whoever_asks() {
    let token = MicroTokens::TOKEN;
    let part = MicroTokens;
    let floor = Capacity::new(part(150_000), part(600_000));
    let asks =
        Claim { floor, lendable: floor, demand: MicroTokens(60 * token.0), largest: token, weight: 1, live: true, ..Claim::default() };
    // its clients may come back, but nobody asks there now; of its own floor it can save up nothing
    let floor = Capacity::new(part(450_000), MicroTokens::ZERO);
    let waits = Claim { floor, lendable: floor, largest: token, weight: 1, live: true, ..Claim::default() };
    let claims = BTreeMap::from([(region("asks"), asks), (region("waits"), waits)]);
    let pool = Capacity::new(part(400_000), part(400_000));
    let situation = Situation { limit: Capacity::new(token, token), pool, claims, ..Situation::default() };
    let targets = plan(&situation);
    check_conserved(&targets, &situation);
    assert_eq!(entitlement(&targets, &situation, &region("asks")), situation.limit);
}

#[test]
fn a_token_goes_to_whoever_asks_before_those_that_may_come_back() {
    let token = MicroTokens::TOKEN;
    let cap = |rate: u64, burst: u64| Capacity::new(MicroTokens(rate), MicroTokens(burst));
    for own in [0, 600_000, 1_200_000] {
        // its largest cost is out of reach, its smaller ones are not
        let floor = cap(150_000, own);
        let asks =
            Claim { demand: MicroTokens(60 * token.0), largest: MicroTokens(4 * token.0), weight: 1, live: true, ..Claim::default() };
        let asks = Claim { floor, lendable: floor, ..asks };
        let floor = cap(450_000, 600_000);
        let waits = Claim { floor, lendable: floor, largest: token, weight: 1, live: true, ..Claim::default() };
        let claims = BTreeMap::from([(region("asks"), asks), (region("waits"), waits)]);
        let pool = cap(400_000, 400_000);
        let mut situation = Situation { limit: cap(1_000_000, own + 1_000_000), pool, claims, ..Situation::default() };
        let targets = plan(&situation);
        check_conserved(&targets, &situation);
        let has = entitlement(&targets, &situation, &region("asks"));
        assert!(has.burst >= token && has.rate == MicroTokens(1_000_000), "{has:?}");
        // nor is a plan kept by which the other has it
        let waits = situation.claims.get_mut(&region("waits")).expect("is there");
        waits.before.pool = pool;
        let targets = plan(&situation);
        assert!(entitlement(&targets, &situation, &region("asks")).burst >= token);
    }
}

#[test]
fn units_go_to_whoever_asks_before_those_that_may_come_back() {
    let units = |n: u64| Capacity::new(MicroTokens::ZERO, MicroTokens(n * MicroTokens::TOKEN.0));
    for floor in [units(0), units(1)] {
        let waits = Claim { floor, lendable: floor, largest: units(2).burst, weight: 3, live: true, ..Claim::default() };
        let asks = Claim { demand: units(4).burst, largest: units(2).burst, weight: 1, live: true, ..Claim::default() };
        let claims = BTreeMap::from([(region("asks"), asks), (region("waits"), waits)]);
        let pool = units(2).minus(floor);
        let mut situation = Situation { limit: units(2), pool, claims, ..Situation::default() };
        let targets = units::plan(&situation);
        check_conserved(&targets, &situation);
        assert_eq!(entitlement(&targets, &situation, &region("asks")), units(2));
        // what nobody asks for is there when they come back
        let asks = situation.claims.get_mut(&region("asks")).expect("is there");
        (asks.demand, asks.largest, asks.before) = (MicroTokens::ZERO, MicroTokens::ZERO, targets[&region("asks")].clone());
        let targets = units::plan(&situation);
        check_conserved(&targets, &situation);
        assert_eq!(entitlement(&targets, &situation, &region("waits")), units(2));
    }
}
