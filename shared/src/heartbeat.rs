//! The agents' protocol: one heartbeat of one region, and the answer to it.
//!
//! Field names are short because every heartbeat carries them for every active budget.

use crate::bound::Steps;
use crate::names::{BudgetId, PolicyName, RegionName, SubjectKey};
use crate::policy::PolicySet;
use crate::time::{Drift, LeaderTime, StoreTime, WindowLabel};
use crate::units::{Capacity, MicroTokens};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The version of this protocol. An agent and a coordinator of different versions do not talk.
pub const PROTOCOL: u16 = 1;

/// No lease is longer. What a region may have promised before a restart is over after this (R6).
pub const LONGEST_LEASE: Duration = Duration::from_secs(60);

/// Reports in one heartbeat at most, and budgets that are said to have drained. One region's many subjects must not cost any region its lease,
/// and every report is planned, logged and applied before the answer leaves.
pub const MOST_REPORTS: usize = 1_000;

/// Agents of a region that a heartbeat names at most, beside the one that sends it.
pub const MOST_AGENTS: usize = 64;

/// Windows in one heartbeat at most of which it says what was spent: those of all reports, and as many others.
pub const MOST_SPENT: usize = 2 * MOST_REPORTS;

/// `(session, seq)` of a heartbeat and of the response to it. Ordered lexicographically.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Number {
    /// The region's session; only ever grows.
    pub session: u64,
    /// Counts the heartbeats of the session from 1.
    pub seq: u64,
}

impl Number {
    /// The number before it in the same session.
    #[must_use]
    pub const fn before(self) -> Self {
        Self { session: self.session, seq: self.seq.saturating_sub(1) }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.session, self.seq)
    }
}

/// One leader's time in office. Times of different offices are never compared.
///
/// The Raft term alone would not do: a leader that restarts may lead on in its old term, with a
/// clock that began anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Office {
    /// Raft term.
    pub term: u64,
    /// Drawn at random by the leading process when it took office.
    pub process: u64,
}

/// Number and date of a response: the number orders, office and time date it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Of the heartbeat that was answered.
    #[serde(rename = "n")]
    pub number: Number,
    /// Whose clock.
    #[serde(rename = "o")]
    pub office: Office,
    /// When the leader took the heartbeat up.
    pub at: LeaderTime,
}

/// What a region's agent sends once in a period.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// [`PROTOCOL`].
    pub protocol: u16,
    /// Which region.
    pub region: RegionName,
    /// Which agent of it; for display.
    pub agent: String,
    /// The region's other agents; for display. At most [`MOST_AGENTS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<String>,
    /// Greater than any before it (R1).
    pub number: Number,
    /// Drawn at random when the session was opened. A region whose store lost its record may
    /// open a session of a number that was used before; this tells them apart.
    pub nonce: u64,
    /// The newest response of this session that is applied in full; absent at its start.
    pub echo: Option<Stamp>,
    /// For budgets with a drain: the newest response of this session up to which the count has
    /// come down to what the region may use without the parts it gave up. At most [`MOST_REPORTS`].
    #[serde(default)]
    pub drained: Vec<(BudgetId, Stamp)>,
    /// The newest response of this session whose policies alone past use counts under, of every
    /// budget: with policies that have no drain the echo.
    #[serde(default)]
    pub floors_drained: Option<Stamp>,
    /// The newest window that the region has opened of each allowance.
    #[serde(default)]
    pub windows: Vec<OpenWindow>,
    /// The newest version of the policy set whose text the agent has.
    pub policies: Option<u64>,
    /// Demand and use of budgets that are worth a word; a budget that is not named has none.
    #[serde(default)]
    pub reports: Vec<Report>,
    /// Units spent, read after the echoed response was applied: of every window that a grant is
    /// known for, and of the newest window of every allowance that is reported. At most [`MOST_SPENT`];
    /// of those that do not fit a later one speaks.
    #[serde(default)]
    pub spent: Vec<Spent>,
    /// Policies of whose budgets gateways of the region spend parts by themselves, or are about to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Parts>,
    /// The region's store.
    pub store: StoreReport,
    /// What the agent's clock says.
    #[serde(default, skip_serializing_if = "ClockReport::is_empty")]
    pub clock: ClockReport,
}

impl Heartbeat {
    /// One that says nothing but who sends it, and how the region's store is.
    pub fn silent(region: RegionName, agent: String, number: Number, nonce: u64, store: StoreReport) -> Self {
        Self {
            protocol: PROTOCOL,
            region,
            agent,
            others: Vec::new(),
            number,
            nonce,
            echo: None,
            drained: Vec::new(),
            floors_drained: None,
            windows: Vec::new(),
            policies: None,
            reports: Vec::new(),
            spent: Vec::new(),
            parts: Vec::new(),
            store,
            clock: ClockReport::default(),
        }
    }
}

/// What the agent's monotonic clock says of its reports and of its store's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockReport {
    /// When the reports were read; absent without an echo.
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    pub read: Option<Reading>,
    /// What the store's clock showed when the number was drawn; absent of a clock that nobody sets.
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<StoreTime>,
    /// Forward steps of the store's clock; absent until there was one.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<ObservedSteps>,
}

impl ClockReport {
    /// True if it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// When reports were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// After the echoed response arrived.
    #[serde(rename = "a")]
    pub after: Duration,
    /// How long after the store decided an admission may be counted.
    #[serde(rename = "l")]
    pub lag: Duration,
}

/// Forward steps of a store's clock that one process saw since it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedSteps {
    /// Drawn at random by the process: another one counts anew.
    #[serde(rename = "o")]
    pub observer: u64,
    /// How many, and by how much at most.
    #[serde(rename = "s")]
    pub steps: Steps,
}

/// Demand and use of one budget in one region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Which budget.
    #[serde(rename = "b")]
    pub budget: BudgetId,
    /// Wanted in one period of the policy, refused requests included.
    #[serde(rename = "d")]
    pub demand: MicroTokens,
    /// Admitted since the session began.
    #[serde(rename = "a")]
    pub admitted: MicroTokens,
    /// Refused since the session began.
    #[serde(rename = "r")]
    pub refused: MicroTokens,
    /// So much of what was admitted were estimates of costs: part of it may have been given back since.
    #[serde(rename = "e", default, skip_serializing_if = "none")]
    pub estimated: MicroTokens,
    /// The largest cost asked for of late that the region could not hold without a loan.
    #[serde(rename = "l", default)]
    pub largest: MicroTokens,
}

fn none(units: &MicroTokens) -> bool {
    *units == MicroTokens::ZERO
}

/// Units that a region has spent of one window of an allowance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Which budget.
    #[serde(rename = "b")]
    pub budget: BudgetId,
    /// Which window.
    #[serde(rename = "w")]
    pub label: WindowLabel,
    /// How many.
    #[serde(rename = "s")]
    pub units: MicroTokens,
}

/// What gateways may spend of one budget of a policy after it was drawn from the region's store, and when others may have
/// its room already.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parts {
    /// Which policy.
    #[serde(rename = "p")]
    pub policy: PolicyName,
    /// What refills of one budget, all regions together, from a draw to the last moment at which it may be spent: the most of
    /// all budgets of the policy.
    #[serde(rename = "m")]
    pub most: MicroTokens,
}

/// The newest window that a region has opened of one policy's budgets; it never goes back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenWindow {
    /// Which policy.
    pub policy: PolicyName,
    /// See [`BudgetId::generation`].
    pub generation: u64,
    /// Which window.
    pub label: WindowLabel,
    /// The last that can ever have been used: a later one than `label` only after a loss of state (R7).
    pub last: WindowLabel,
}

/// What a region says of its store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreReport {
    /// `embedded` or `redis`.
    pub kind: String,
    /// True if it answered the last question put to it.
    pub healthy: bool,
    /// What was used beyond limits, of policies of which anything was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excesses: Vec<Excess>,
}

impl StoreReport {
    /// Of a store of this kind, of which nothing was used beyond limits.
    pub fn new(kind: &str, healthy: bool) -> Self {
        Self { kind: kind.to_owned(), healthy, excesses: Vec::new() }
    }
}

/// What one budget of a policy used beyond its limit in one region, because nobody could know in time: the most of
/// all of its budgets within this hour of the store's clock and the one before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excess {
    /// Which policy.
    #[serde(rename = "p")]
    pub policy: PolicyName,
    /// What reservations cost beyond their estimates and beyond what was there when they were settled.
    #[serde(rename = "s")]
    pub settled: MicroTokens,
    /// Slots that ended without being given back.
    #[serde(rename = "o")]
    pub outlived: MicroTokens,
}

impl Excess {
    /// True of nothing.
    pub fn is_zero(&self) -> bool {
        none(&self.settled) && none(&self.outlived)
    }
}

/// The coordinator's word on one heartbeat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Renewed.
    Renewed(Box<Response>),
    /// R1: not greater than the last accepted number; nothing was renewed.
    Stale {
        /// The last accepted number of the region.
        newest: Number,
    },
    /// The policy set knows no such region.
    UnknownRegion,
    /// The coordinators were restored from a backup: until what was granted before cannot count any more, they answer nobody.
    Restoring {
        /// For how long yet, if no other of them takes the lead.
        remaining: Duration,
    },
}

/// A renewal, with every offer made to the region since its echo (R4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// Number and date.
    pub stamp: Stamp,
    /// Of the heartbeat that is answered: a late answer to an earlier session of the same number is not taken.
    pub nonce: u64,
    /// `L`: how long the session is renewed for.
    pub lease: Duration,
    /// The longest that `L` ever was: so long an earlier session may have promised for.
    #[serde(default)]
    pub longest_lease: Duration,
    /// ρ.
    pub drift: Drift,
    /// True if the offers are all there are: what is not named is nothing.
    pub full: bool,
    /// True if this ledger never before answered this region, so nothing was admitted there.
    pub genesis: bool,
    /// What the region may use and must leave alone, by budget.
    pub offers: Vec<Offer>,
    /// How long each lender has promised, from the leader's receipt of the heartbeat on; absent: no
    /// promise stands. Of budgets without a drain.
    pub lenders: BTreeMap<RegionName, Duration>,
    /// The same of each budget with a drain of which this region was offered a loan.
    #[serde(default)]
    pub drained_lenders: Vec<(BudgetId, BTreeMap<RegionName, Duration>)>,
    /// Units of allowances: like the offers all since the echo, or all there are in a full response.
    #[serde(default)]
    pub grants: Vec<Grant>,
    /// Windows that end by then are closed: a region whose clock is behind goes on from there, since
    /// of a closed window nobody knows any more what was granted.
    #[serde(default)]
    pub clock_at_least: StoreTime,
    /// Sets that were active and still bear on windows that began under them, oldest first.
    #[serde(default)]
    pub former: Vec<FormerSet>,
    /// Which policy sets hold.
    pub policies: PoliciesInForce,
    /// Sets that the agent has not read yet.
    pub sets: Vec<Arc<PolicySet>>,
    /// For hashing subjects.
    pub subject_key: SubjectKey,
}

/// Which policy sets hold in a region. While `next` stands, each floor is the smaller of both (R9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PoliciesInForce {
    /// Version of the active set.
    pub active: u64,
    /// Version of the set that is about to become active.
    pub next: Option<u64>,
    /// A set that was about to become active when the coordinators were lost: perhaps it is, so it is obeyed too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub also: Option<u64>,
}

impl PoliciesInForce {
    /// Later ones are greater: by the newest set, then by whether it is active.
    pub fn recency(self) -> (u64, u64) {
        (self.active.max(self.next.unwrap_or(0)), self.active)
    }

    /// What holds in a region that goes by `own`: coordinators that were restored from a backup do not know which set is
    /// active there. One that obeys more sets than can be named here serves nothing until they do.
    #[must_use]
    pub fn in_a_region_with(self, own: Self) -> Self {
        if self.active > 0 || self.next.is_none() {
            return self;
        }
        match (own.next, own.also) {
            (next, also) if next == self.next => Self { active: own.active, also, ..self },
            (next, None) => Self { active: own.active, also: next, ..self },
            (_, Some(_)) => self,
        }
    }
}

/// What one region may use of one budget beyond its floor, and what it must leave alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Which budget.
    #[serde(rename = "b")]
    pub budget: BudgetId,
    /// How much.
    #[serde(flatten)]
    pub holding: Holding,
    /// True if past use of the budget keeps counting, so that the region is to say when it has
    /// [`drained`](Heartbeat::drained).
    #[serde(rename = "d", default, skip_serializing_if = "std::ops::Not::not")]
    pub drains: bool,
}

/// How many units of one window of an allowance a region may spend, its floor included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Which budget.
    #[serde(rename = "b")]
    pub budget: BudgetId,
    /// Which window.
    #[serde(rename = "w")]
    pub label: WindowLabel,
    /// Units; less than the floor means nothing beyond it.
    #[serde(rename = "g")]
    pub granted: MicroTokens,
    /// The most that the region can have spent of it before this session, for a region that has
    /// lost count (R7).
    #[serde(rename = "u")]
    pub used_at_most: MicroTokens,
}

/// A set that was active: windows up to a label began under it, so in those each floor is at most
/// what it gave (R9).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormerSet {
    /// Its version.
    pub version: u64,
    /// The last window of each policy and generation that began under it.
    pub up_to: Vec<(PolicyName, u64, WindowLabel)>,
}

/// The record of one budget in one region: part of the pool, loans taken, floor lent out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// Of the pool.
    #[serde(rename = "p", default)]
    pub pool: Capacity,
    /// Of the region's own floor, lent to others.
    #[serde(rename = "l", default)]
    pub lent: Capacity,
    /// Of other regions' floors, by lender.
    #[serde(rename = "f", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub borrowed: BTreeMap<RegionName, Capacity>,
}

impl Holding {
    /// True if the region has its floor and nothing else.
    pub fn is_zero(&self) -> bool {
        self.pool.is_zero() && self.lent.is_zero() && self.borrowed.values().all(|c| c.is_zero())
    }

    /// Borrowed from all lenders together.
    pub fn borrowed_total(&self) -> Capacity {
        self.borrowed.values().copied().sum()
    }

    /// Borrowed from one lender.
    pub fn borrowed_from(&self, lender: &RegionName) -> Capacity {
        self.borrowed.get(lender).copied().unwrap_or_default()
    }

    /// What the region may use, by the protocol's entitlement: the floor less what is lent
    /// (the whole floor once `whole_floor`), and while `leased` the pool and the loans of those
    /// lenders that still promise.
    pub fn entitlement(&self, floor: Capacity, whole_floor: bool, leased: bool, promises: impl Fn(&RegionName) -> bool) -> Capacity {
        let own = if whole_floor { floor } else { floor.minus(self.lent) };
        if !leased {
            return own;
        }
        let loans = self.borrowed.iter().filter(|(lender, _)| promises(lender)).map(|(_, c)| *c);
        own.plus(self.pool).plus(loans.sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_order_by_session_first() {
        let n = |session, seq| Number { session, seq };
        assert!(n(2, 1) > n(1, 99) && n(2, 2) > n(2, 1));
    }

    #[test]
    fn an_entitlement_has_only_the_parts_that_stand() {
        let cap = |r: u64, b: u64| Capacity::new(MicroTokens(r), MicroTokens(b));
        let eu: RegionName = "eu".parse().expect("a name");
        let holding = Holding { pool: cap(5, 5), lent: cap(4, 40), borrowed: BTreeMap::from([(eu, cap(7, 7))]) };
        let floor = cap(10, 10);
        assert_eq!(holding.entitlement(floor, false, true, |_| true), cap(18, 12));
        assert_eq!(holding.entitlement(floor, false, true, |_| false), cap(11, 5));
        assert_eq!(holding.entitlement(floor, false, false, |_| true), cap(6, 0));
        assert_eq!(holding.entitlement(floor, true, false, |_| true), cap(10, 10));
    }
}
