//! What one exploration allows to happen, and the policy under which it does.

use quorate_shared::heartbeat::Holding;
use quorate_shared::mistake::Mistake;
use quorate_shared::names::{BudgetId, RegionName, SubjectKey};
use quorate_shared::policy::{Limit, PolicySet, Window};
use quorate_shared::testing;
use quorate_shared::time::Drift;
use quorate_shared::units::{Capacity, MicroTokens, PartsPerMillion};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

/// The longest lease that there may be, so that an agent which does not know `L` reckons with about the same.
pub const LEASE: Duration = quorate_shared::heartbeat::LONGEST_LEASE;

/// How often each thing may still happen. What is not named here may happen at any time and any number of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Left {
    /// Heartbeats, by region.
    pub beats: [u8; 2],
    /// New leaders.
    pub elections: u8,
    /// Turns of what the leader would like to give to whom.
    pub swings: u8,
    /// Restarts of an agent.
    pub restarts: u8,
    /// Losses of a store, its agent included.
    pub losses: u8,
    /// Questions of a second agent of the first region to its store, which show it the lease; of 0 there is none.
    pub looks: u8,
    /// Changes to the setting's other policies.
    pub changes: u8,
    /// By region: how often its store's clock comes to show the next window of an allowance.
    pub turns: [u8; 2],
}

impl Setting {
    /// What is longer ago is over: a lease, and past use that counts for as long after it.
    pub fn longest(&self) -> Duration {
        self.drift.stretch(LEASE) + self.drain() + Duration::from_micros(1)
    }

    /// The policies of this version.
    pub fn policies(&self, version: u64) -> PolicySet {
        let policies = if version > 1 { self.next.clone() } else { policies(self.limit) };
        PolicySet { version, ..policies }
    }

    /// `D_b`.
    pub fn drain(&self) -> Duration {
        self.drift.stretch(self.limit.drain())
    }
}

/// One exploration.
#[derive(Clone, Debug)]
pub struct Setting {
    /// How often each thing may happen.
    pub left: Left,
    /// Of the one budget.
    pub limit: Limit,
    /// What the policies may be changed to.
    pub next: PolicySet,
    /// True to begin with a region that holds the pool and a loan; else nobody has been heard of.
    pub lent: bool,
    /// True if an agent sends its next heartbeat only when it has applied the answer to the last, or no
    /// longer waits for it, as the real one does; else answers overlap, as the rules allow.
    pub one_at_a_time: bool,
    /// True if there may be time between the steps of applying a response, and an end of the agent.
    pub stepwise: bool,
    /// Time goes on by so much.
    pub tick: Duration,
    /// ρ.
    pub drift: Drift,
    /// A rule that is left out, to see that it is missed.
    pub mistake: Option<Mistake>,
    /// How fast the agents' clocks run, in millionths of true time.
    pub agents: [u64; 2],
    /// The same for the first leader and the second.
    pub leaders: [u64; 2],
}

static NAMES: LazyLock<[RegionName; 2]> = LazyLock::new(|| ["a", "b"].map(|name| name.parse().expect("a name")));

static BUDGET: LazyLock<BudgetId> = LazyLock::new(|| testing::budget("p".parse().expect("a name")));

/// The two regions.
pub fn name(region: usize) -> RegionName {
    NAMES[region].clone()
}

/// The one budget.
pub fn budget() -> BudgetId {
    BUDGET.clone()
}

/// For hashing subjects.
pub fn key() -> SubjectKey {
    SubjectKey::new([0; 32])
}

/// Of the budget.
const TOKENS: u64 = 4;

fn tokens(n: u64) -> MicroTokens {
    MicroTokens::from_tokens(n).expect("few")
}

/// A budget of which past use does not count.
pub fn flow() -> Limit {
    Limit::TokenBucket { rate: tokens(TOKENS), period: Duration::from_secs(1), burst: tokens(TOKENS) }
}

/// A budget of which use counts for as long as a lease.
pub fn share() -> Limit {
    Limit::SlidingLog { units: tokens(TOKENS), window: LEASE }
}

/// A budget of units, of windows as long as a lease.
pub fn allowance() -> Limit {
    Limit::FixedWindow { units: tokens(TOKENS), window: Window::Every(LEASE) }
}

/// The same limit with a quarter less of it, of which the first region's floor is smaller and the second's greater.
pub fn less(limit: Limit) -> PolicySet {
    let fewer = tokens(TOKENS * 3 / 4);
    let limit = match limit {
        Limit::TokenBucket { period, .. } => Limit::TokenBucket { rate: fewer, period, burst: fewer },
        Limit::FixedWindow { window, .. } => Limit::FixedWindow { units: fewer, window },
        other => other,
    };
    let mut set = policies(limit);
    set.regions.entry(name(1)).and_modify(|region| region.weight = 5);
    set
}

/// What one version of the policies makes of the budget.
#[derive(Clone, Debug)]
pub struct Terms {
    /// All of it.
    pub limit: Capacity,
    /// By region.
    pub floors: [Capacity; 2],
    /// What is in no floor.
    pub pool: Capacity,
}

impl Terms {
    /// By the one policy of a set.
    pub fn of(set: &PolicySet) -> Self {
        let policy = &set.policies[0];
        let (limit, shares) = (policy.limit.capacity(), set.shares(policy, policy.limit));
        let floors = [0, 1].map(|region| shares.get(&name(region)).map(|share| share.floor).unwrap_or_default());
        Self { limit, floors, pool: limit.minus(floors[0].plus(floors[1])) }
    }
}

/// Each region's static share, all of which may be lent.
pub fn floor(limit: Limit) -> Capacity {
    part(limit, 4)
}

/// `R − Σ f`.
pub fn pool(limit: Limit) -> Capacity {
    part(limit, 2)
}

fn part(limit: Limit, of: u64) -> Capacity {
    let Capacity { rate, burst } = limit.capacity();
    Capacity::new(MicroTokens(rate.0 / of), MicroTokens(burst.0 / of))
}

/// Half of the limit is in no floor.
pub fn policies(limit: Limit) -> PolicySet {
    let policy = testing::policy("p".parse().expect("a name"), limit, PartsPerMillion(500_000));
    testing::policy_set([0, 1].map(name), policy)
}

/// The same of a window's units: all but the other's floor.
pub fn units_to(favoured: usize, limit: Limit) -> BTreeMap<RegionName, MicroTokens> {
    let (all, floor) = (limit.capacity().burst, floor(limit).burst);
    BTreeMap::from([(name(favoured), all.saturating_sub(floor)), (name(1 - favoured), floor)])
}

/// Everything to one region: the pool and all that the other may lend.
pub fn all_to(favoured: usize, limit: Limit) -> BTreeMap<RegionName, Holding> {
    let lender = 1 - favoured;
    let most = Holding { pool: pool(limit), borrowed: BTreeMap::from([(name(lender), floor(limit))]), ..Holding::default() };
    BTreeMap::from([(name(favoured), most), (name(lender), Holding { lent: floor(limit), ..Holding::default() })])
}
