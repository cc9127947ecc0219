//! What the HTTP endpoints say, for those who serve and those who read it.

mod requests;

pub use requests::{CheckRequest, ReleaseRequest, ReserveRequest, SettleRequest};

use crate::bound::Bound;
use crate::policy::render::Change;
use crate::problem::Problem;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// 200 of `POST /v1/check`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CheckAnswer {
    /// Always `allow`: a refusal is a problem with status 429.
    pub decision: String,
    /// One for each policy that matched.
    pub limits: Vec<LimitState>,
    /// For `POST /v1/release`.
    pub slot: Option<String>,
    /// For `POST /v1/settle`, if this was `POST /v1/reserve`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
}

/// One of the answers of `POST /v1/checks`, which are in the order of the questions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AnswerOfMany {
    /// That `POST /v1/check` would have had.
    pub status: u16,
    /// The same.
    pub body: CheckBody,
}

/// The body of an answer to a check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum CheckBody {
    /// Of 200.
    Allowed(CheckAnswer),
    /// Of every other.
    Problem(Problem),
}

/// 200 of `POST /v1/release`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReleaseAnswer {
    /// False if the slot had ended, or was given back before: nothing has changed.
    pub released: bool,
}

/// 200 of `POST /v1/settle`; the same however often it is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SettleAnswer {
    /// Always true: a reservation that has ended is a problem with status 410.
    pub settled: bool,
    /// The cost that counts now.
    pub cost: u64,
    /// Whole tokens that every limit of the request got back at least.
    pub returned: u64,
    /// Tokens beyond the estimate that were not there to be taken, of the limit that lacked the most.
    pub owed: u64,
}

/// One limit as this region sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LimitState {
    /// Name of the policy.
    pub policy: String,
    /// Whole tokens that this region may save up now.
    pub limit: u64,
    /// Whole tokens left in this region.
    pub remaining: u64,
    /// Until this region's bucket is full again.
    pub reset_after_ms: u64,
    /// On what the decision rests.
    pub mode: DecisionMode,
    /// True if the policy would have refused, but only observes.
    pub observed: bool,
}

/// On what a decision rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DecisionMode {
    /// A lease of the coordinator.
    Leased,
    /// The region's static share.
    Floor,
    /// A share held in the process, without the store.
    Emergency,
    /// Nothing: the store cannot be asked and the policy lets pass.
    Open,
}

/// `GET /v1/status` of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgentStatus {
    /// Which region.
    pub region: String,
    /// Which agent of it.
    pub agent: String,
    /// All of them.
    #[serde(default)]
    pub agents: Vec<AgentState>,
    /// `leased` or `floor`; `starting` before the first answer of a coordinator.
    pub mode: String,
    /// The session.
    pub session: u64,
    /// Heartbeats sent in it.
    pub seq: u64,
    /// Until the lease ends; 0 once it has.
    pub horizon_ms: u64,
    /// Until the whole floor may be used without a coordinator; 0 once it may.
    pub floor_horizon_ms: u64,
    /// Since a coordinator last answered.
    pub last_renewal_ms: Option<u64>,
    /// Why the last heartbeat failed, if it did.
    pub last_error: Option<String>,
    /// The coordinator that answers.
    pub coordinator: Option<String>,
    /// The region's store.
    pub store: StoreStatus,
    /// How policies answer while it fails; none while it does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallbacks: Vec<FallbackStatus>,
    /// Version of the policy set in force.
    pub policies: u64,
    /// Policies whose floors end by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub floors: Vec<FloorStatus>,
    /// What this agent may spend by itself; none if nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seat: Option<SeatStatus>,
    /// Budgets beyond their floors.
    pub budgets: Vec<BudgetStatus>,
    /// The subjects of each policy that this agent is asked for most.
    #[serde(default)]
    pub hot_subjects: Vec<HotSubject>,
}

/// How long a region may use its floors of one policy if no coordinator answers (`floor-ttl`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FloorStatus {
    /// Which policy.
    pub policy: String,
    /// True once nothing of it is admitted any more, until a coordinator answers.
    pub ended: bool,
    /// Until then; 0 once it has ended.
    pub left_ms: u64,
}

/// A subject that is asked for more than others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HotSubject {
    /// Of which policy.
    pub policy: String,
    /// Hash of the subject.
    pub subject: String,
    /// Its part of the policy's requests of late, at least.
    pub share: f64,
}

/// One agent of a region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentState {
    /// Its name.
    pub agent: String,
    /// Which of the region's seats it has, from 1; none without one, or if it is not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seat: Option<u32>,
    /// True of the one that renews the region's lease.
    pub renews: bool,
}

/// What one agent of a region may spend by itself, whether or not the store answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SeatStatus {
    /// Which of the region's seats, from 1.
    pub seat: u32,
    /// Until its right to that ends, unless the store confirms it.
    pub until_ms: u64,
    /// Version of the policy set by which it goes.
    pub policies: u64,
    /// True while it spends, since the store cannot be asked.
    pub spends: bool,
}

/// The store of a region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoreStatus {
    /// `embedded` or `redis`.
    pub kind: String,
    /// True if it answered the last question.
    pub healthy: bool,
    /// True while it is not asked, since it keeps failing, until it answers a probe.
    #[serde(default)]
    pub suspended: bool,
    /// For how long it has failed, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_ms: Option<u64>,
    /// How it failed last, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What may go wrong by how it is configured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<StoreWarning>,
}

/// What may go wrong by how a store is configured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoreWarning {
    /// `eviction` or `persistence`.
    pub kind: String,
    /// In words.
    pub text: String,
}

/// How a policy answers while the region's store cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FallbackStatus {
    /// Its name.
    pub policy: String,
    /// `open`, `emergency` or `closed`.
    pub answer: String,
    /// For how long it is open yet.
    pub left_ms: Option<u64>,
}

/// One budget in one region, as the agent sees it. Amounts in tokens, rates in tokens per period.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BudgetStatus {
    /// Name of the policy.
    pub policy: String,
    /// Hash of the subject.
    pub subject: String,
    /// `leased` or `floor`.
    pub mode: DecisionMode,
    /// Static share.
    pub floor: CapacityTokens,
    /// Of the pool.
    pub pool: CapacityTokens,
    /// Lent to other regions.
    pub lent: CapacityTokens,
    /// Borrowed, by lender.
    pub borrowed: BTreeMap<String, CapacityTokens>,
    /// Wanted in one period.
    pub demand: f64,
}

/// A capacity for people: tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CapacityTokens {
    /// Tokens in one period of the policy.
    pub rate: f64,
    /// Tokens that may be saved up.
    pub burst: f64,
}

impl From<crate::units::Capacity> for CapacityTokens {
    fn from(c: crate::units::Capacity) -> Self {
        Self { rate: c.rate.tokens(), burst: c.burst.tokens() }
    }
}

/// `GET /v1/regions`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Regions {
    /// By name.
    pub regions: Vec<RegionState>,
}

/// One region as the coordinator sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RegionState {
    /// Its name.
    pub region: String,
    /// `live`, `expired`, or `unknown` before its first heartbeat or without a leader.
    pub state: String,
    /// The session.
    pub session: u64,
    /// Until its lease ends by the leader's clock; 0 once it has.
    pub horizon_ms: u64,
    /// Since its last heartbeat.
    pub heartbeat_age_ms: Option<u64>,
    /// Its agents.
    pub agents: Vec<String>,
    /// The one of them that renews its lease.
    #[serde(default)]
    pub renewed_by: Option<String>,
    /// Its store.
    pub store: StoreStatus,
    /// `leased`, `floor`, or `conflict`: two stores serve it, and their agents' sessions overtake each other.
    pub mode: String,
    /// Its part of all floors that are split by weight.
    pub weight: u32,
    /// Version of the policy set that it has confirmed.
    pub policies: u64,
    /// By how much its store's clock is ahead of that of the live region whose clock is nearest; behind, if negative.
    #[serde(default)]
    pub clock_ahead_ms: Option<i64>,
}

/// A store's clock that is further from all others than this opens other windows than they do.
pub const CLOCKS_FAR_APART_MS: u64 = 10_000;

impl RegionState {
    /// What is wrong with its store's clock, if it is far from all others.
    pub fn clock_alarm(&self) -> Option<String> {
        let ahead = self.clock_ahead_ms.filter(|ahead| ahead.unsigned_abs() >= CLOCKS_FAR_APART_MS)?;
        let side = if ahead > 0 { "ahead of" } else { "behind" };
        Some(format!("its store's clock is {} s {side} that of every other region", ahead.unsigned_abs() / 1_000))
    }
}

/// `GET /v1/budgets`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Budgets {
    /// Those beyond their floors or in demand.
    pub budgets: Vec<BudgetState>,
    /// For the next page.
    pub cursor: Option<String>,
    /// How many there are in all.
    pub total: usize,
}

/// One budget as the coordinator sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BudgetState {
    /// Name of the policy.
    pub policy: String,
    /// Hash of the subject.
    pub subject: String,
    /// The whole limit.
    pub limit: CapacityTokens,
    /// The same in a few words, such as `10000 each month (Europe/Berlin)`.
    #[serde(default)]
    pub limit_in_words: String,
    /// The span that rates speak of.
    pub period_ms: u64,
    /// Of the policy: `enforce`, `observe` or `canary 10%`.
    #[serde(default)]
    pub mode: String,
    /// False: refusals of this subject are counted and not enforced.
    #[serde(default = "yes")]
    pub enforced: bool,
    /// How long a region uses its floor without a coordinator; absent: as long as it likes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor_ttl_ms: Option<u64>,
    /// By region.
    pub regions: BTreeMap<String, BudgetShare>,
    /// Of a fixed window or a quota: the open windows of which somebody wanted more than a floor, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<BudgetWindow>,
    /// The internal check of the ledger that failed, if one did: nothing is granted.
    #[serde(default)]
    pub alarm: Option<String>,
}

fn yes() -> bool {
    true
}

/// One region's part of a budget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BudgetShare {
    /// Static share.
    pub floor: CapacityTokens,
    /// Of the static share, not in the floor: what its agents may spend without the store, all together.
    #[serde(default)]
    pub set_aside: CapacityTokens,
    /// The most that it may be using, by all that it was told since it last confirmed.
    pub held: CapacityTokens,
    /// What it was last told it may use.
    pub offered: CapacityTokens,
    /// Of its floor, lent to others.
    pub lent: CapacityTokens,
    /// Of other floors.
    pub borrowed: CapacityTokens,
    /// Wanted in one period.
    pub demand: f64,
    /// Tokens admitted since the coordinator knows of the budget; of windows, units spent of the newest one.
    pub admitted: f64,
    /// Tokens refused since then; of windows this is not told.
    pub refused: f64,
}

/// One window of a budget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BudgetWindow {
    /// When it begins: Unix milliseconds, by the clocks of the stores.
    pub begins_at_ms: u64,
    /// By region.
    pub regions: BTreeMap<String, WindowUnits>,
}

/// One region's units of a window, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WindowUnits {
    /// What it was last told it may spend, its floor at least.
    pub granted: f64,
    /// The most that it may come to, by all that it was told since it last confirmed.
    pub held: f64,
    /// The most that it has reported as spent.
    pub spent: f64,
}

/// `GET /v1/bound`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Bounds {
    /// For each policy.
    pub policies: Vec<PolicyBound>,
}

/// Promise and measurement of one policy. While a change is pending, both are of the old limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PolicyBound {
    /// Its name.
    pub policy: String,
    /// The greatest rate and the greatest burst (or units) of its limits, overrides included.
    #[serde(default)]
    pub limit: CapacityTokens,
    /// Its limit in a few words, such as `10000 each month (Europe/Berlin)`; that it has overrides is said.
    #[serde(default)]
    pub limit_in_words: String,
    /// The span that rates speak of.
    #[serde(default)]
    pub period_ms: u64,
    /// `enforce`, `observe` or `canary 10%`.
    #[serde(default)]
    pub mode: String,
    /// The promise.
    #[serde(flatten)]
    pub bound: Bound,
    /// Tokens beyond `B + R·W` in the worst interval seen, from the regions' reports; where the
    /// bound has a rate, beyond that as well. A lower bound: what a report covers is allowed for.
    pub measured_overshoot: f64,
    /// The same of the last hour.
    #[serde(default)]
    pub measured_overshoot_last_hour: f64,
    /// The most by which it exceeded the bound in force when it was measured; 0 unless a promise was broken.
    #[serde(default)]
    pub measured_beyond_bound: f64,
    /// Admitted in the last heartbeats against the limits of the subjects in demand; `null` without demand.
    pub utilisation: Option<f64>,
    /// The set that is accepted and not in force yet.
    #[serde(default)]
    pub change: Option<PendingChange>,
    /// Its budgets of which an internal check of the ledger failed: nothing is granted of them.
    #[serde(default)]
    pub alarms: Vec<BudgetAlarm>,
}

/// A budget of which an internal check of the ledger failed: a bug.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BudgetAlarm {
    /// Name of the policy.
    pub policy: String,
    /// Hash of the subject.
    pub subject: String,
    /// Which check, and by how much it failed.
    pub what: String,
}

/// 200 of `POST /v1/budgets/alarm/clear`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClearedAlarms {
    /// Budgets of which grants go on.
    pub cleared: Vec<BudgetName>,
    /// Budgets that fail the check still, so that nothing is granted of them.
    pub standing: Vec<BudgetAlarm>,
}

/// Which budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BudgetName {
    /// Name of the policy.
    pub policy: String,
    /// Hash of the subject.
    pub subject: String,
}

/// A policy set that is accepted and not in force yet: until then the bound is that of the old one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PendingChange {
    /// Its version.
    pub version: u64,
    /// Regions that have not confirmed it, or hold or lent something of a budget of which it allows less.
    pub waits_for: Vec<String>,
    /// Those of them that are out of reach.
    pub out_of_reach: Vec<String>,
    /// From now, in milliseconds, about: by then it is in force if the regions go on answering, or one of them is out of
    /// reach. `null`: nobody can know.
    pub until_ms: Option<u64>,
    /// Why so.
    pub why: String,
}

/// One kept version of the policy set, in `GET /v1/policies/history`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeptVersion {
    /// Its number.
    pub version: u64,
    /// Name of the credential that asked for it, `founding` or `anonymous`.
    pub who: String,
    /// RFC 3339, UTC, by the wall clock of the leader of that time.
    pub when: String,
    /// In their words.
    pub why: Option<String>,
    /// Whether it is in force.
    pub state: VersionState,
    /// Against the version before; `null` if that is not kept any more.
    pub diff: Option<Vec<Change>>,
}

/// Whether a version of the policy set is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum VersionState {
    /// Accepted, and in force once all regions have confirmed it.
    Pending,
    /// In force.
    Active,
    /// It was in force.
    Former,
    /// Another took its place before it was in force.
    Withdrawn,
}

/// `GET /v1/cluster`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Cluster {
    /// The node that answers.
    pub node: u64,
    /// The leader, if there is one.
    pub leader: Option<u64>,
    /// Raft term.
    pub term: u64,
    /// `leader`, `follower`, `candidate`, `learner` or `shutdown`.
    pub state: String,
    /// Index of the last entry applied here.
    pub applied: u64,
    /// Index of the last entry in the log here.
    pub last_log: u64,
    /// Index of the last snapshot here.
    pub snapshot: Option<u64>,
    /// By which rules the ledger here is applied.
    #[serde(default)]
    pub level: u32,
    /// What log, vote and snapshot take on this node's disk, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
    /// What is free there, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_free_bytes: Option<u64>,
    /// Every node.
    pub members: Vec<Member>,
}

/// One node of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Member {
    /// Its id.
    pub id: u64,
    /// Where it is reached.
    pub address: String,
    /// True if it votes.
    pub voter: bool,
    /// Entries that it is behind the leader; known to the leader only.
    pub lag: Option<u64>,
}
