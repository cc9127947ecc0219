//! From a request's attributes to the budgets it is charged to, by the policy sets in force.

pub mod descriptors;
mod pending;

use self::descriptors::MetBy;
use self::pending::smaller;
use crate::decision::Charge;
use crate::record::{ChangedPolicy, FloorTerms};
use quorate_shared::heartbeat::{FormerSet, OpenWindow, PoliciesInForce};
use quorate_shared::names::{BudgetId, PolicyName, RegionName, SubjectHash, SubjectKey};
use quorate_shared::policy::floors::RegionShare;
use quorate_shared::policy::{Limit, OnStoreFailure, Policy, PolicySet, Shape};
use quorate_shared::time::{StoreTime, WindowLabel};
use quorate_shared::units::{Capacity, MicroTokens};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The policy sets in force in one region, prepared for matching.
#[derive(Clone, Debug)]
pub struct PolicyTable {
    in_force: PoliciesInForce,
    key: SubjectKey,
    rows: Vec<Row>,
}

/// Whose static share a table tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder<'a> {
    /// The region's, which its store enforces.
    Region(&'a RegionName),
    /// That of one agent of the region, by its seat: see [`RegionShare::seat`].
    Seat(&'a RegionName, u32),
}

impl<'a> From<&'a RegionName> for Holder<'a> {
    fn from(region: &'a RegionName) -> Self {
        Self::Region(region)
    }
}

impl Holder<'_> {
    fn region(&self) -> &RegionName {
        let (Self::Region(region) | Self::Seat(region, _)) = self;
        region
    }

    /// The floor, and what of it may be lent: nothing of a seat.
    fn part_of(&self, share: &RegionShare) -> (Capacity, Capacity) {
        match *self {
            Self::Region(_) => (share.floor, share.lendable),
            Self::Seat(_, seat) => (share.seat_of(seat), Capacity::ZERO),
        }
    }
}

/// One policy, with what its holder may do under it.
#[derive(Clone, Debug)]
struct Row {
    policy: Policy,
    base: FloorTerms,
    overrides: BTreeMap<SubjectHash, FloorTerms>,
    /// See [`Matched::reach`]; first that of all that have no override.
    reach: (MicroTokens, BTreeMap<SubjectHash, MicroTokens>),
    former: Vec<FormerRow>,
}

/// The floors of an allowance in windows that began under a former set.
#[derive(Clone, Debug)]
struct FormerRow {
    up_to: WindowLabel,
    base: MicroTokens,
    overrides: BTreeMap<SubjectHash, MicroTokens>,
}

/// One policy that a request meets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matched {
    /// Its name.
    pub policy: PolicyName,
    /// What is charged.
    pub charge: Charge,
    /// The largest cost that the region could ever hold, with all that others may lend.
    pub reach: MicroTokens,
    /// What to do while the store cannot be asked.
    pub on_store_failure: OnStoreFailure,
    /// Which descriptors of the request met it.
    pub met_by: MetBy,
}

impl PolicyTable {
    /// The table of a region, or of one seat of it, under `active`, and under `next` too while that is
    /// pending: then each floor is the smaller of both (R9).
    pub fn new<'a>(holder: impl Into<Holder<'a>>, active: &Arc<PolicySet>, next: Option<&Arc<PolicySet>>, key: SubjectKey) -> Self {
        Self::obeying(holder, active, next, None, key)
    }

    /// The same under a third set: see [`PoliciesInForce::also`].
    pub fn obeying<'a>(
        holder: impl Into<Holder<'a>>,
        active: &Arc<PolicySet>,
        next: Option<&Arc<PolicySet>>,
        also: Option<&Arc<PolicySet>>,
        key: SubjectKey,
    ) -> Self {
        let holder = holder.into();
        let version = |set: Option<&Arc<PolicySet>>| set.map(|set| set.version);
        let in_force = PoliciesInForce { active: active.version, next: version(next), also: version(also) };
        let others: Vec<&PolicySet> = next.into_iter().chain(also).map(Arc::as_ref).collect();
        let rows = active.policies.iter().map(|policy| row(holder, active, policy, &others, &key)).collect();
        Self { in_force, key, rows }
    }

    /// No policies at all: what a region has before its first response.
    pub fn empty() -> Self {
        Self { in_force: PoliciesInForce::default(), key: SubjectKey::new([0; 32]), rows: Vec::new() }
    }

    /// The same table, with the sets that still bear on windows which began under them, each with
    /// its text if that was ever read: without, nothing of a floor may be used in those windows.
    #[must_use]
    pub fn with_former<'a>(mut self, holder: impl Into<Holder<'a>>, former: &[(FormerSet, Option<Arc<PolicySet>>)]) -> Self {
        let holder = holder.into();
        for row in &mut self.rows {
            let policy = &row.policy;
            let bears = |(bearing, set): &(FormerSet, Option<Arc<PolicySet>>)| {
                let mut windows =
                    bearing.up_to.iter().filter(|(name, generation, _)| *name == policy.name && *generation == policy.generation);
                windows.next().map(|(_, _, up_to)| former_row(holder, *up_to, set.as_deref(), policy, &self.key))
            };
            row.former = former.iter().filter_map(bears).collect();
        }
        self
    }

    /// The longest drain of its policies.
    pub fn longest_drain(&self) -> Duration {
        self.rows.iter().map(|row| row.policy.limit.drain()).max().unwrap_or_default()
    }

    /// The policies whose floors end by themselves, and after how long.
    pub fn floors_that_end(&self) -> impl Iterator<Item = (&PolicyName, Duration)> {
        self.rows.iter().filter_map(|row| Some((&row.policy.name, row.policy.floor_ttl?)))
    }

    /// What each policy answers without the store, and whether any refusal of it is enforced.
    pub fn on_store_failure(&self) -> impl Iterator<Item = (&PolicyName, OnStoreFailure, bool)> {
        let enforces = |policy: &Policy| policy.mode.enforced_part().0 > 0;
        self.rows.iter().map(move |row| (&row.policy.name, row.policy.on_store_failure, enforces(&row.policy)))
    }

    /// Policies of which the holder has anything of its own.
    pub fn with_floors(&self) -> impl Iterator<Item = &PolicyName> {
        let has = |row: &&Row| std::iter::once(&row.base).chain(row.overrides.values()).any(|terms| !terms.floor.is_zero());
        self.rows.iter().filter(has).map(|row| &row.policy.name)
    }

    /// True if one of its policies has windows.
    pub fn has_windows(&self) -> bool {
        self.rows.iter().any(|row| row.policy.limit.shape() == Shape::Allowance)
    }

    /// The newest window of each allowance: by the store's `clock`, and the last that may have been used.
    pub fn open_windows(&self, clock: StoreTime, burnt_until: Option<StoreTime>) -> Vec<OpenWindow> {
        let open = |row: &Row| {
            let label = row.policy.limit.window_at(clock)?;
            let last = row.policy.limit.window_at(burnt_until.unwrap_or_default().max(clock))?;
            Some(OpenWindow { policy: row.policy.name.clone(), generation: row.policy.generation, label, last })
        };
        self.rows.iter().filter_map(open).collect()
    }

    /// A question about one budget that charges nothing, if there is such a budget.
    pub fn look(&self, budget: &BudgetId) -> Option<Charge> {
        self.charge(budget, MicroTokens::ZERO)
    }

    /// A charge on one budget, if there is such a budget.
    pub fn charge(&self, budget: &BudgetId, cost: MicroTokens) -> Option<Charge> {
        let row = self.row(budget)?;
        Some(row.charge(budget.clone(), cost))
    }

    /// True if both go by sets of one cluster: versions of two mean nothing to each other.
    pub fn is_of_cluster_of(&self, other: &Self) -> bool {
        self.key == other.key
    }

    /// Its policies, by name and generation.
    pub fn kinds(&self) -> BTreeSet<(PolicyName, u64)> {
        self.rows.iter().map(|row| (row.policy.name.clone(), row.policy.generation)).collect()
    }

    /// Which sets it was made of.
    pub fn in_force(&self) -> PoliciesInForce {
        self.in_force
    }

    /// Every policy that a request with so many attributes, which are these, meets, with what it
    /// costs there: `cost` if the request says so, else as the policy says.
    pub fn matches<'a>(
        &'a self,
        attribute: impl Fn(&str) -> Option<&'a str> + Copy,
        count: usize,
        cost: Option<MicroTokens>,
    ) -> Vec<Matched> {
        self.unreplaced(self.met(attribute, count, cost))
    }

    /// Those too that others replace.
    fn met<'a>(&'a self, attribute: impl Fn(&str) -> Option<&'a str> + Copy, count: usize, cost: Option<MicroTokens>) -> Vec<Matched> {
        self.rows.iter().filter_map(|row| self.meet(row, attribute, count, cost)).collect()
    }

    /// Without those that others of them replace; also one that is replaced itself replaces.
    fn unreplaced(&self, mut met: Vec<Matched>) -> Vec<Matched> {
        let rows = self.rows.iter().filter(|row| !row.policy.replaces.is_empty() && met.iter().any(|m| m.policy == row.policy.name));
        let replaced: BTreeSet<&PolicyName> = rows.flat_map(|row| &row.policy.replaces).collect();
        if !replaced.is_empty() {
            met.retain(|matched| !replaced.contains(&matched.policy));
        }
        met
    }

    fn meet<'a>(
        &'a self,
        row: &'a Row,
        attribute: impl Fn(&str) -> Option<&'a str> + Copy,
        count: usize,
        cost: Option<MicroTokens>,
    ) -> Option<Matched> {
        let policy = &row.policy;
        let subject = policy.subject(&self.key, attribute, count)?;
        // a request that costs a thousand tokens still takes one slot; at no cost it only looks
        let own = cost.filter(|cost| *cost == MicroTokens::ZERO || !matches!(policy.limit, Limit::Concurrency { .. }));
        let charge = row.charge(policy.budget(subject), own.unwrap_or_else(|| policy.cost.of(attribute)));
        let reach = row.reach.1.get(&subject).copied().unwrap_or(row.reach.0);
        Some(Matched { policy: policy.name.clone(), charge, reach, on_store_failure: policy.on_store_failure, met_by: MetBy::FIRST })
    }

    /// What the policies say of one budget, if there is such a budget.
    pub fn terms(&self, budget: &BudgetId) -> Option<FloorTerms> {
        Some(self.row(budget)?.terms(&budget.subject))
    }

    fn row(&self, budget: &BudgetId) -> Option<&Row> {
        self.rows.iter().find(|r| r.policy.name == budget.policy && r.policy.generation == budget.generation)
    }

    /// Policies whose buckets may not be taken for full when this table succeeds `before`, with
    /// the floor that each had until now; all of them if that one's text is not `known`. Where floors have ended that
    /// hold for so long, which `ended` tells, others may have had them meanwhile: nothing is left of what was saved up.
    pub fn changed_since(&self, before: PoliciesInForce, known: Option<&Self>, ended: impl Fn(Duration) -> bool) -> Vec<ChangedPolicy> {
        let ended = |old: &Row| old.policy.floor_ttl.is_some_and(&ended);
        let changed = |row: &Row| {
            let Policy { name, generation, .. } = &row.policy;
            let change = |former, slows, anew| ChangedPolicy { policy: name.clone(), generation: *generation, former, slows, anew };
            // budgets that began since may have followed others of their name
            let Some(known) = known else { return Some(change(Capacity::ZERO, true, *generation > before.active)) };
            let Some(old) = known.rows.iter().find(|r| r.policy.name == *name) else {
                // budgets that began under a set that never reached this region may have had other limits then
                return (*generation != self.in_force.active).then(|| change(Capacity::ZERO, true, false));
            };
            match old.policy.generation == *generation {
                false => Some(change(Capacity::ZERO, false, true)),
                true if ended(old) => Some(change(Capacity::ZERO, row.slows(old), false)),
                true if (old.base, &old.overrides) == (row.base, &row.overrides) => None,
                true => Some(change(old.least_floor(), row.slows(old), false)),
            }
        };
        self.rows.iter().filter_map(changed).collect()
    }
}

impl Row {
    /// The least floor that one of its budgets has, by rate and by burst.
    fn least_floor(&self) -> Capacity {
        self.overrides.values().fold(self.base.floor, |least, terms| least.min(terms.floor))
    }

    /// True if one of its budgets refills more slowly than by `old`.
    fn slows(&self, old: &Self) -> bool {
        let named = self.overrides.keys().chain(old.overrides.keys());
        self.base.floor.rate < old.base.floor.rate
            || named.into_iter().any(|subject| self.terms(subject).floor.rate < old.terms(subject).floor.rate)
    }

    fn terms(&self, subject: &SubjectHash) -> FloorTerms {
        *self.overrides.get(subject).unwrap_or(&self.base)
    }

    fn charge(&self, budget: BudgetId, cost: MicroTokens) -> Charge {
        let share = self.terms(&budget.subject);
        let former = self.former.iter().map(|f| (f.up_to, *f.overrides.get(&budget.subject).unwrap_or(&f.base)));
        Charge {
            limit: share.limit,
            floor: share.floor,
            lendable: share.lendable,
            former_floors: former.collect(),
            floor_ttl: self.policy.floor_ttl,
            cost,
            enforced: self.policy.mode.enforces(budget.subject),
            budget,
        }
    }
}

/// The floors of a policy under a former set; nothing of a set that was never read.
fn former_row(holder: Holder<'_>, up_to: WindowLabel, set: Option<&PolicySet>, policy: &Policy, key: &SubjectKey) -> FormerRow {
    let former = set.and_then(|set| Some((set, set.policy(&policy.name)?)));
    let units = |limit| former.map(|(set, p)| terms_of(holder, set, p, limit).floor.burst).unwrap_or_default();
    let base = former.map(|(_, p)| units(p.limit)).unwrap_or_default();
    // a subject that only the present set names had the limit of all others
    let own = policy.overrides_by_hash(key).into_keys().map(|subject| (subject, base));
    let theirs = former.map(|(_, p)| p.overrides_by_hash(key)).unwrap_or_default();
    FormerRow { up_to, base, overrides: own.chain(theirs.into_iter().map(|(subject, limit)| (subject, units(limit)))).collect() }
}

fn row(holder: Holder<'_>, active: &PolicySet, policy: &Policy, others: &[&PolicySet], key: &SubjectKey) -> Row {
    let own = policy.overrides_by_hash(key);
    let namesake = |set: &&'_ PolicySet| set.policy(&policy.name).map(|theirs| (theirs.clone(), theirs.overrides_by_hash(key)));
    let successors: Vec<_> = others.iter().filter_map(|set| namesake(set).map(|(theirs, overrides)| (*set, theirs, overrides))).collect();
    let share = |subject: Option<&SubjectHash>| {
        let pick = |overrides: &BTreeMap<SubjectHash, Limit>, base| subject.and_then(|s| overrides.get(s)).copied().unwrap_or(base);
        let now = terms_of(holder, active, policy, pick(&own, policy.limit));
        let next = successors.iter().map(|(set, p, overrides)| terms_of(holder, set, p, pick(overrides, p.limit)));
        next.fold(now, smaller)
    };
    let subjects = own.keys().chain(successors.iter().flat_map(|(_, _, overrides)| overrides.keys()));
    let overrides = subjects.map(|subject| (*subject, share(Some(subject)))).collect();
    let reach = |limit| active.reach(policy, limit, holder.region());
    let reach = (reach(policy.limit), own.iter().map(|(subject, limit)| (*subject, reach(*limit))).collect());
    let strict = successors.iter().fold(policy.clone(), |strict, (_, next, _)| strict.as_strict_as(next));
    Row { policy: strict, base: share(None), overrides, reach, former: Vec::new() }
}

fn terms_of(holder: Holder<'_>, set: &PolicySet, policy: &Policy, limit: Limit) -> FloorTerms {
    let share = set.shares(policy, limit).get(holder.region()).copied().unwrap_or_default();
    let (floor, lendable) = holder.part_of(&share);
    FloorTerms { limit, floor, lendable }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_shared::policy::{CostRule, FloorRule, Mode, Override, Region};
    use quorate_shared::units::PartsPerMillion;
    use std::time::Duration;

    /// A set with one policy of 10 tokens, all of it region `eu`'s floor.
    fn set(version: u64, generation: u64, lendable: u32) -> Arc<PolicySet> {
        let ten = MicroTokens::from_tokens(10).expect("few");
        let policy = Policy {
            name: "p".parse().expect("a name"),
            generation,
            matches: BTreeMap::new(),
            no_other_attributes: false,
            replaces: Vec::new(),
            per: vec![],
            limit: Limit::TokenBucket { rate: ten, period: Duration::from_secs(1), burst: ten },
            floor: FloorRule::Together(PartsPerMillion::WHOLE),
            lendable: PartsPerMillion(lendable),
            allow_overcommit: false,
            cost: CostRule::Fixed(MicroTokens::TOKEN),
            overrides: vec![],
            on_store_failure: OnStoreFailure::Closed,
            emergency: PartsPerMillion(0),
            floor_ttl: None,
            mode: Mode::Enforce,
        };
        let regions = BTreeMap::from([("eu".parse().expect("a name"), Region::default())]);
        Arc::new(PolicySet { version, regions, policies: vec![policy] })
    }

    fn table(active: &Arc<PolicySet>, next: Option<&Arc<PolicySet>>) -> PolicyTable {
        PolicyTable::new(&"eu".parse().expect("a name"), active, next, SubjectKey::new([0; 32]))
    }

    #[test]
    fn what_is_lent_out_by_the_present_set_counts_as_lent_until_the_next_one_holds() {
        let (present, next) = (set(1, 1, 900_000), set(2, 1, 500_000));
        let lendable = |table: &PolicyTable| table.matches(|_| None, 0, None)[0].charge.lendable.rate.tokens_floor();
        assert_eq!(lendable(&table(&present, Some(&next))), 9, "9 tokens may be out, so a lost record leaves 9 alone");
        assert_eq!(lendable(&table(&next, None)), 5);
    }

    #[test]
    fn while_a_stricter_set_is_pending_its_refusals_are_enforced() {
        let with_mode = |version, mode| {
            let mut set = PolicySet::clone(&set(version, 1, 900_000));
            set.policies[0].mode = mode;
            Arc::new(set)
        };
        let (observe, enforce) = (with_mode(1, Mode::Observe), with_mode(2, Mode::Enforce));
        let enforced = |active, next| table(active, next).matches(|_| None, 0, None)[0].charge.enforced;
        assert!(!enforced(&observe, None) && enforced(&observe, Some(&enforce)) && enforced(&enforce, Some(&observe)));
    }

    #[test]
    fn budgets_that_are_older_than_the_set_that_brings_them_may_not_be_taken_for_full() {
        let none = table(&Arc::new(PolicySet { version: 1, ..PolicySet::default() }), None);
        let first = PoliciesInForce { active: 1, next: None, also: None };
        assert!(table(&set(2, 2, 900_000), None).changed_since(first, Some(&none), |_| false).is_empty(), "they begin with this set");
        let changed = table(&set(3, 2, 900_000), None).changed_since(first, Some(&none), |_| false);
        let told: Vec<_> = changed.iter().map(|c| (c.former, c.anew)).collect();
        assert_eq!(told, [(Capacity::ZERO, false)], "set 2 never reached this region");
    }

    #[test]
    fn a_change_of_one_override_tells_the_least_floor_of_all_before_it() {
        let with = |version, limits: &[(&str, u64)]| {
            let mut set = PolicySet::clone(&set(version, 1, 900_000));
            let policy = &mut set.policies[0];
            policy.per = vec!["tenant".into()];
            let limit = |tokens| {
                let amount = MicroTokens::from_tokens(tokens).expect("few");
                Limit::TokenBucket { rate: amount, period: Duration::from_secs(1), burst: amount }
            };
            let named = |(tenant, tokens): &(&str, u64)| Override {
                subject: BTreeMap::from([("tenant".into(), (*tenant).into())]),
                limit: limit(*tokens),
            };
            policy.overrides = limits.iter().map(named).collect();
            table(&Arc::new(set), None)
        };
        let first = PoliciesInForce { active: 1, next: None, also: None };
        let told = |old: &[(&str, u64)], new: &[(&str, u64)]| {
            let changed = with(2, new).changed_since(first, Some(&with(1, old)), |_| false);
            changed.iter().map(|c| (c.former.burst.tokens_floor(), c.former.rate.tokens_floor(), c.slows)).collect::<Vec<_>>()
        };
        assert_eq!(told(&[], &[("acme", 200)]), [(10, 10, false)], "nobody had less than the base");
        assert_eq!(told(&[("acme", 200)], &[]), [(10, 10, true)]);
        assert_eq!(told(&[("acme", 200), ("slow", 3)], &[("acme", 300), ("slow", 3)]), [(3, 3, false)]);
        assert_eq!(told(&[], &[("acme", 4)]), [(10, 10, true)]);
        assert_eq!(told(&[("acme", 200)], &[("acme", 200)]), []);
    }

    #[test]
    fn of_a_floor_that_has_ended_nothing_is_left_under_another_set() {
        let with = |version, seconds| {
            let mut set = PolicySet::clone(&set(version, 1, 900_000));
            set.policies[0].floor_ttl = Some(Duration::from_secs(seconds));
            Arc::new(set)
        };
        let (old, first) = (table(&with(1, 60), None), PoliciesInForce { active: 1, next: None, also: None });
        let told = |unheard: u64| {
            let ended = |ttl: Duration| ttl.as_secs() <= unheard;
            table(&with(2, 600), None).changed_since(first, Some(&old), ended).iter().map(|c| c.former).collect::<Vec<_>>()
        };
        assert_eq!((told(59), told(60)), (vec![], vec![Capacity::ZERO]));
        let while_pending = table(&with(1, 600), Some(&with(2, 60))).charge(&budget_of(&old), MicroTokens::TOKEN);
        assert_eq!(while_pending.and_then(|charge| charge.floor_ttl), Some(Duration::from_secs(60)), "the shorter of both");
    }

    fn budget_of(table: &PolicyTable) -> BudgetId {
        table.matches(|_| None, 0, None)[0].charge.budget.clone()
    }

    #[test]
    fn budgets_begin_anew_where_a_name_had_others_before() {
        let (old, first) = (table(&set(1, 1, 900_000), None), PoliciesInForce { active: 1, next: None, also: None });
        let anew = |table: PolicyTable, known| table.changed_since(first, known, |_| false).iter().map(|c| c.anew).collect::<Vec<_>>();
        assert_eq!(anew(table(&set(2, 2, 900_000), None), Some(&old)), [true], "another generation");
        assert_eq!(anew(table(&set(2, 1, 500_000), None), Some(&old)), [false], "the same with another lendable part");
        assert_eq!(anew(table(&set(3, 2, 900_000), None), None), [true], "began since, and perhaps not for the first time");
        assert_eq!(anew(table(&set(3, 1, 900_000), None), None), [false], "was there already");
    }
}
