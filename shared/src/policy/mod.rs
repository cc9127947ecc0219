//! The policy set: which requests are limited, by how much, and how a limit is divided by region.
//!
//! [`PolicySet`] is what a policy file means once every mistake in it has been ruled out; a
//! value of it is valid by construction of its reader ([`read`]).

pub mod floors;
mod pattern;
pub mod read;
pub mod render;
pub mod unit;
pub mod window;

pub use unit::RateUnit;
pub use window::{CalendarUnit, TimeZone, Window};

pub use pattern::Pattern;

use crate::names::{BudgetId, PolicyName, RegionName, SubjectHash, SubjectKey};
use crate::text::{DurationText, Rate, ShareText};
use crate::time::{StoreTime, WindowLabel};
use crate::units::{Capacity, MicroTokens, PartsPerMillion};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Everything a platform team has asked for, whole; replaced whole or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicySet {
    /// Counts the accepted sets; 0 is the empty set before the first.
    pub version: u64,
    /// The regions that may hold floors, with what each weighs.
    pub regions: BTreeMap<RegionName, Region>,
    /// The policies, in the order of the file.
    pub policies: Vec<Policy>,
}

/// What the policy set says of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// Its part of every floor, and of what is short, is in proportion to this.
    pub weight: u32,
    /// Regions of a greater one are served first from what is beyond floors.
    #[serde(default)]
    pub priority: u32,
    /// The agents that it may have, each with a seat: see [`floors::RegionShare::seat`]. At least 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub agents: u32,
}

const fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_one(agents: &u32) -> bool {
    *agents == 1
}

impl Default for Region {
    fn default() -> Self {
        Self { weight: 1, priority: 0, agents: 1 }
    }
}

/// One policy: one budget for every subject that it meets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Unique in the set; public.
    pub name: PolicyName,
    /// See [`BudgetId::generation`]. Assigned by [`PolicySet::succeed`].
    pub generation: u64,
    /// A request is limited if each of these attributes matches. Empty matches all.
    pub matches: BTreeMap<String, Matcher>,
    /// True if only a request is limited that has no attributes beside those of `matches` and `per`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_other_attributes: bool,
    /// Attributes whose values together are the subject. Empty: one budget for all.
    pub per: Vec<String>,
    /// Policies that do not charge a request which this one matches, whether or not that is charged for it, enforces
    /// anything, or is replaced itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaces: Vec<PolicyName>,
    /// How much.
    pub limit: Limit,
    /// How the static shares are set.
    pub floor: FloorRule,
    /// The part of each floor that may be lent while its region is idle.
    pub lendable: PartsPerMillion,
    /// True if floors beyond the limit were asked for on purpose.
    pub allow_overcommit: bool,
    /// What one request costs if it does not say so itself.
    pub cost: CostRule,
    /// Other limits for some subjects.
    pub overrides: Vec<Override>,
    /// What to answer while the region's store cannot be asked.
    pub on_store_failure: OnStoreFailure,
    /// Of each floor, what is set aside for agents that cannot ask the store, all of a region together; nothing
    /// where that is [`OnStoreFailure::Closed`].
    #[serde(default, skip_serializing_if = "is_none")]
    pub emergency: PartsPerMillion,
    /// How long a region may use its floors, and its agents what is set aside for them, without being heard of; then
    /// nothing of them, until a coordinator answers. `None`: for as long as it likes, so that a change waits for it (R9).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor_ttl: Option<Duration>,
    /// Whether refusals are enforced.
    pub mode: Mode,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_none(part: &PartsPerMillion) -> bool {
    *part == PartsPerMillion::default()
}

/// What an attribute must look like.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Matcher {
    /// `*`: there, with any value.
    Present,
    /// Exactly one of these.
    OneOf(Vec<String>),
    /// `text*`: begins with the text.
    Prefix(String),
    /// `{like: a*b, not: [abb, ac*]}`: like the one pattern, and like none of the others.
    Like {
        /// The one.
        like: Pattern,
        /// The others.
        not: Vec<Pattern>,
    },
}

/// Entries that a sliding log has at most, so that its memory is bounded. With more the two oldest
/// become one, as of the later of both: their units count longer than they would.
pub const MAX_LOG_ENTRIES: usize = 10_000;

/// How much, by which algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "algorithm", rename_all = "kebab-case")]
pub enum Limit {
    /// A bucket that holds `burst` and refills by `rate` in each `period`, continuously.
    TokenBucket {
        /// Refill in one period. At most [`crate::units::MAX_EXACT`].
        rate: MicroTokens,
        /// 1 µs to 36 h: what the script's exact division takes.
        period: Duration,
        /// At least one token, at most [`crate::units::MAX_EXACT`].
        burst: MicroTokens,
    },
    /// So many units in each window.
    FixedWindow {
        /// At most [`crate::units::MAX_EXACT`].
        units: MicroTokens,
        /// From when to when they may be spent.
        window: Window,
    },
    /// At most so many units in about any interval as long as the window: what was taken in the present
    /// window counts in full, and what was taken in the one before by the part of that which the interval
    /// still covers, as if it had been taken evenly. Windows begin at multiples of their length since 1970, UTC.
    SlidingWindow {
        /// At most [`crate::units::MAX_EXACT`].
        units: MicroTokens,
        /// The length of the interval.
        window: Duration,
    },
    /// At most so many units in any interval as long as the window: less if more than
    /// [`MAX_LOG_ENTRIES`] admissions fall into one.
    SlidingLog {
        /// At most [`crate::units::MAX_EXACT`].
        units: MicroTokens,
        /// How long a unit counts after it was taken.
        window: Duration,
    },
    /// So many requests at once.
    Concurrency {
        /// At most [`crate::units::MAX_EXACT`].
        slots: MicroTokens,
        /// A slot that is not given back ends by itself after so long.
        max_hold: Duration,
    },
}

/// How a budget counts past use; decides which rules of the protocol hold for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Token bucket: use is forgotten as it refills.
    Flow,
    /// Units of a labelled window: fixed window, calendar quota.
    Allowance,
    /// Past use keeps counting for a drain: sliding window or log, concurrency.
    Share,
}

impl Limit {
    /// What a policy file calls it.
    pub const fn algorithm(self) -> &'static str {
        match self {
            Self::TokenBucket { .. } => "token-bucket",
            Self::FixedWindow { .. } => "fixed-window",
            Self::SlidingWindow { .. } => "sliding-window",
            Self::SlidingLog { .. } => "sliding-log",
            Self::Concurrency { .. } => "concurrency",
        }
    }

    /// The window that an instant of a store's wall clock lies in, of a limit that has windows.
    pub fn window_at(self, now: StoreTime) -> Option<WindowLabel> {
        match self {
            Self::FixedWindow { window, .. } => Some(window.at(now)),
            Self::TokenBucket { .. } | Self::SlidingWindow { .. } | Self::SlidingLog { .. } | Self::Concurrency { .. } => None,
        }
    }

    /// When a window ends, of a limit that has windows.
    pub fn end_of(self, label: WindowLabel) -> StoreTime {
        match self {
            Self::FixedWindow { window, .. } => window.end(label),
            _ => label.start().after(self.period()),
        }
    }

    /// The whole of the limit.
    pub const fn capacity(self) -> Capacity {
        match self {
            Self::TokenBucket { rate, burst, .. } => Capacity::new(rate, burst),
            Self::FixedWindow { units, .. } | Self::SlidingWindow { units, .. } | Self::SlidingLog { units, .. } => {
                Capacity::new(MicroTokens::ZERO, units)
            }
            Self::Concurrency { slots, .. } => Capacity::new(MicroTokens::ZERO, slots),
        }
    }

    /// What of a capacity is wanted and divided: refill of a flow, units of anything else.
    pub const fn amount(self, of: Capacity) -> MicroTokens {
        match self.shape() {
            Shape::Flow => of.rate,
            Shape::Allowance | Shape::Share => of.burst,
        }
    }

    /// The span that [`Capacity::rate`] and a demand speak of: of a window, its length at most.
    pub const fn period(self) -> Duration {
        match self {
            Self::TokenBucket { period, .. } => period,
            Self::FixedWindow { window, .. } => window.longest(),
            Self::SlidingWindow { window, .. } | Self::SlidingLog { window, .. } => window,
            Self::Concurrency { max_hold, .. } => max_hold,
        }
    }

    /// How past use counts.
    pub const fn shape(self) -> Shape {
        match self {
            Self::TokenBucket { .. } => Shape::Flow,
            Self::FixedWindow { .. } => Shape::Allowance,
            Self::SlidingWindow { .. } | Self::SlidingLog { .. } | Self::Concurrency { .. } => Shape::Share,
        }
    }

    /// `d`: how long past use keeps counting.
    pub const fn drain(self) -> Duration {
        match self {
            Self::TokenBucket { .. } | Self::FixedWindow { .. } => Duration::ZERO,
            // taken as one window begins, a unit counts a little until the next one ends
            Self::SlidingWindow { window, .. } => window.saturating_mul(2),
            Self::SlidingLog { window, .. } => window,
            Self::Concurrency { max_hold, .. } => max_hold,
        }
    }

    /// True if a budget under `other` may go on under this limit with what it has counted.
    pub fn same_kind(self, other: Self) -> bool {
        match (self, other) {
            (Self::TokenBucket { period, .. }, Self::TokenBucket { period: theirs, .. }) => period == theirs,
            (Self::FixedWindow { window, .. }, Self::FixedWindow { window: theirs, .. }) => window == theirs,
            (Self::SlidingWindow { window, .. }, Self::SlidingWindow { window: theirs, .. })
            | (Self::SlidingLog { window, .. }, Self::SlidingLog { window: theirs, .. }) => window == theirs,
            (Self::Concurrency { max_hold, .. }, Self::Concurrency { max_hold: theirs, .. }) => max_hold == theirs,
            _ => false,
        }
    }

    /// The window of a `RateLimit-Policy` header (`w`), in whole seconds, rounded up: the time
    /// in which an empty bucket fills; of slots, the longest that one is held.
    pub fn window_seconds(self) -> u64 {
        let micros = match self {
            Self::TokenBucket { rate, period, burst } => u128::from(burst.0) * period.as_micros() / u128::from(rate.0.max(1)),
            _ => self.period().as_micros(),
        };
        u64::try_from(micros.div_ceil(1_000_000)).unwrap_or(u64::MAX).max(1)
    }
}

impl fmt::Display for Limit {
    /// In a few words, for people: `100/s +200`, `10000 each month (Europe/Berlin)`, `50 at once, 1min each`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TokenBucket { rate, period, burst } => write!(f, "{} +{burst}", Rate { amount: rate, period }),
            Self::FixedWindow { units, window: Window::Every(length) } => write!(f, "{units} each {}", DurationText(length)),
            Self::FixedWindow { units, window: Window::Calendar { unit, zone } } => write!(f, "{units} each {} ({zone})", unit.name()),
            Self::SlidingWindow { units, window } => write!(f, "{units} in about any {}", DurationText(window)),
            Self::SlidingLog { units, window } => write!(f, "{units} in any {}", DurationText(window)),
            Self::Concurrency { slots, max_hold } => write!(f, "{slots} at once, {} each", DurationText(max_hold)),
        }
    }
}

/// How the static shares are set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FloorRule {
    /// This part of the limit, all regions together, split by weight.
    Together(PartsPerMillion),
    /// Each region its own part of the limit; a region that is not named has none.
    Each(BTreeMap<RegionName, PartsPerMillion>),
}

impl FloorRule {
    /// The parts of all regions added up.
    pub fn total(&self) -> u64 {
        match self {
            Self::Together(part) => u64::from(part.0),
            Self::Each(parts) => parts.values().map(|p| u64::from(p.0)).sum(),
        }
    }
}

/// What one request costs if it does not say so itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CostRule {
    /// The same for all.
    Fixed(MicroTokens),
    /// By the value of an attribute; `otherwise` where it is absent or not listed.
    ByAttribute {
        /// Which attribute.
        attribute: String,
        /// Cost of each value.
        values: BTreeMap<String, MicroTokens>,
        /// Cost of any other.
        otherwise: MicroTokens,
    },
}

impl CostRule {
    /// The cost of a request with these attributes.
    pub fn of<'a>(&self, attribute: impl Fn(&str) -> Option<&'a str>) -> MicroTokens {
        match self {
            Self::Fixed(cost) => *cost,
            Self::ByAttribute { attribute: name, values, otherwise } => {
                attribute(name).and_then(|value| values.get(value)).copied().unwrap_or(*otherwise)
            }
        }
    }

    /// The cost of a request of which nothing else is known.
    pub const fn ordinary(&self) -> MicroTokens {
        let (Self::Fixed(cost) | Self::ByAttribute { otherwise: cost, .. }) = self;
        *cost
    }
}

/// Another limit for one subject. Algorithm and period (window, max-hold) are those of the policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Override {
    /// A value for each attribute of the policy's `per`.
    pub subject: BTreeMap<String, String>,
    /// Its limit.
    pub limit: Limit,
}

/// What to answer while the region's store cannot be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnStoreFailure {
    /// Decide in the process from a share that was carved out of the floor.
    #[default]
    Emergency,
    /// Allow for as long as the agent is set up to, and then as [`Self::Emergency`]. The bound says `unbounded`.
    Open,
    /// The same, for so long.
    OpenFor(Duration),
    /// 503.
    Closed,
}

impl OnStoreFailure {
    /// True if it allows for a time.
    pub const fn opens(self) -> bool {
        matches!(self, Self::Open | Self::OpenFor(_))
    }
}

/// Whether refusals are enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Counted, evaluated, reported, never refused.
    Observe,
    /// Refused when over.
    #[default]
    Enforce,
    /// Enforced for this stable part of the subjects, observed for the rest.
    Canary(PartsPerMillion),
}

impl Mode {
    /// Of this part of the subjects refusals are enforced; of a greater part, of these too.
    pub const fn enforced_part(self) -> PartsPerMillion {
        match self {
            Self::Observe => PartsPerMillion(0),
            Self::Enforce => PartsPerMillion::WHOLE,
            Self::Canary(part) => part,
        }
    }

    /// True if refusals of this subject are enforced.
    pub const fn enforces(self, subject: SubjectHash) -> bool {
        match self {
            Self::Enforce => true,
            Self::Observe => false,
            Self::Canary(part) => subject.millionth() < part.0,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Enforce => f.write_str("enforce"),
            Self::Observe => f.write_str("observe"),
            Self::Canary(part) => write!(f, "canary {}", ShareText(*part)),
        }
    }
}

impl Policy {
    /// True if it lets pass, at some time, what `next` would refuse under the same limit: refusals are
    /// enforced of fewer subjects, or everything passes without a store.
    pub fn is_looser_than(&self, next: &Self) -> bool {
        self.mode.enforced_part().0 < next.mode.enforced_part().0 || self.fails_open() && !next.fails_open()
    }

    /// True if it lets pass, at some time, what does not fit.
    pub fn lets_pass(&self) -> bool {
        self.mode.enforced_part().0 < PartsPerMillion::WHOLE.0 || self.fails_open()
    }

    /// True if it charges the requests that `other` charges, and as much for each.
    pub fn charges_like(&self, other: &Self) -> bool {
        let same_requests = self.matches == other.matches && self.no_other_attributes == other.no_other_attributes;
        same_requests && self.per == other.per && self.cost == other.cost
    }

    /// True if a request that both match is charged to this one only.
    pub fn replaces(&self, other: &Self) -> bool {
        self.replaces.contains(&other.name)
    }

    fn fails_open(&self) -> bool {
        self.on_store_failure.opens()
    }

    /// [`Self::floor_ttl`] of a region that was told of this policy and, if so, of its pending successor.
    pub fn floor_ttl_beside(&self, next: Option<&Self>) -> Option<Duration> {
        shorter(self.floor_ttl, next.and_then(|next| next.floor_ttl))
    }

    /// The same, refusing what `next` refuses too (R9).
    #[must_use]
    pub fn as_strict_as(mut self, next: &Self) -> Self {
        if self.mode.enforced_part().0 < next.mode.enforced_part().0 {
            self.mode = next.mode;
        }
        self.on_store_failure = match (self.on_store_failure, next.on_store_failure) {
            (OnStoreFailure::OpenFor(one), OnStoreFailure::OpenFor(other)) => OnStoreFailure::OpenFor(one.min(other)),
            (one, other) if one.opens() => other,
            (one, _) => one,
        };
        self.floor_ttl = shorter(self.floor_ttl, next.floor_ttl);
        self
    }

    /// The subject of a request with so many attributes, which are these, or `None` if the policy
    /// does not match it or an attribute of `per` is absent.
    pub fn subject<'a>(&'a self, key: &SubjectKey, attribute: impl Fn(&str) -> Option<&'a str>, count: usize) -> Option<SubjectHash> {
        let matched = self.matches.iter().all(|(name, matcher)| attribute(name).is_some_and(|v| matcher.matches(v)));
        if !matched || (self.no_other_attributes && count != self.named()) {
            return None;
        }
        let values: Option<Vec<&str>> = self.per.iter().map(|name| attribute(name)).collect();
        Some(SubjectHash::of(key, &self.name, values?))
    }

    /// How many attributes `matches` and `per` name together.
    fn named(&self) -> usize {
        self.matches.len() + self.per.iter().filter(|name| !self.matches.contains_key(*name)).count()
    }

    /// The budget of one of its subjects.
    pub fn budget(&self, subject: SubjectHash) -> BudgetId {
        BudgetId { policy: self.name.clone(), generation: self.generation, subject }
    }

    /// The overrides by subject hash.
    pub fn overrides_by_hash(&self, key: &SubjectKey) -> BTreeMap<SubjectHash, Limit> {
        let hash = |o: &Override| {
            let values: Option<Vec<&str>> = self.per.iter().map(|name| o.subject.get(name).map(String::as_str)).collect();
            values.map(|values| (SubjectHash::of(key, &self.name, values), o.limit))
        };
        self.overrides.iter().filter_map(hash).collect()
    }
}

/// What is over first; `None` never is.
fn shorter(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    a.into_iter().chain(b).min()
}

impl Matcher {
    /// True of a value that the matcher asks for.
    pub fn matches(&self, value: &str) -> bool {
        match self {
            Self::Present => true,
            Self::OneOf(values) => values.iter().any(|v| v == value),
            Self::Prefix(prefix) => value.starts_with(prefix.as_str()),
            Self::Like { like, not } => like.matches(value) && !not.iter().any(|other| other.matches(value)),
        }
    }
}

impl PolicySet {
    /// The policy of this name.
    pub fn policy(&self, name: &PolicyName) -> Option<&Policy> {
        self.policies.iter().find(|p| p.name == *name)
    }

    /// This set as the successor of `previous`, numbered after `newest`: each policy in the generation of its namesake if
    /// its budgets may go on, else in a new one.
    #[must_use]
    pub fn succeed(mut self, previous: &Self, newest: u64) -> Self {
        self.version = newest + 1;
        let before: BTreeMap<&PolicyName, &Policy> = previous.policies.iter().map(|policy| (&policy.name, policy)).collect();
        for policy in &mut self.policies {
            let goes_on = |old: &&&Policy| old.limit.same_kind(policy.limit) && old.per == policy.per;
            policy.generation = before.get(&policy.name).filter(goes_on).map_or(self.version, |old| old.generation);
        }
        self
    }
}

#[cfg(test)]
pub(super) mod tests;
