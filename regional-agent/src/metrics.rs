//! What the agent counts for Prometheus.
//!
//! Series are bounded: labels are policies, and enumerations of this file; never a subject.

mod gateways;

pub use gateways::GatewayMetrics;

use crate::conflict::CONFLICT;
use crate::coordinators::SendError;
use crate::decide::{DecideError, PolicyDecision, Verdict};
use crate::fallback::Fallback;
use crate::renewal::BeatError;
use crate::store::{StoreError, Warning};
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder, prometheus_text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use quorate_limiter::hold::Settled;
use quorate_shared::api::{AgentStatus, DecisionMode};
use quorate_shared::names::{PolicyName, RegionName};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Media type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// Upper bounds of the decision histogram, in seconds: from a decision in memory to a store that
/// is about to be given up.
const DECISION_SECONDS: [f64; 13] = [50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 1.0];

/// A handle to everything that is counted. Clones count together.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Series>);

#[derive(Debug)]
struct Series {
    registry: Registry,
    decisions: Family<DecisionLabels, Counter>,
    decision_seconds: Histogram,
    store_errors: Family<KindLabel, Counter>,
    store_fallbacks: Family<FallbackLabels, Counter>,
    store_losses: Counter,
    store_warnings: Family<KindLabel, Gauge<u64, AtomicU64>>,
    store_suspended: Gauge<u64, AtomicU64>,
    heartbeats: Family<HeartbeatLabels, Counter>,
    forgotten_ids: Counter,
    settlements: Counter,
    returned_tokens: Counter<f64, AtomicU64>,
    owed_tokens: Counter<f64, AtomicU64>,
    by_itself: Counter,
    store_clock_steps: Counter,
    store_clock_stepped: Counter<f64, AtomicU64>,
    lease_horizon: Gauge<f64, AtomicU64>,
    floor_horizon: Gauge<f64, AtomicU64>,
    floor_end: Family<OfPolicy, Gauge<f64, AtomicU64>>,
    session: Gauge<u64, AtomicU64>,
    store_up: Gauge<u64, AtomicU64>,
    policy_version: Gauge<u64, AtomicU64>,
    agents: Gauge<u64, AtomicU64>,
    renews: Gauge<u64, AtomicU64>,
    conflict: Gauge<u64, AtomicU64>,
    hottest_subject: Family<OfPolicy, Gauge<f64, AtomicU64>>,
    gateways: GatewayMetrics,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Everything at zero, of no region in particular.
    pub fn new() -> Self {
        Self::counted_in(Registry::with_prefix("quorate"))
    }

    /// Everything at zero; each series names the region.
    pub fn of_region(region: &RegionName) -> Self {
        let label = (Cow::Borrowed("region"), Cow::Owned(region.to_string()));
        Self::counted_in(Registry::with_prefix_and_labels("quorate", [label].into_iter()))
    }

    fn counted_in(registry: Registry) -> Self {
        let mut series = Series {
            registry,
            decisions: Family::default(),
            decision_seconds: Histogram::new(DECISION_SECONDS),
            store_errors: Family::default(),
            store_fallbacks: Family::default(),
            store_losses: Counter::default(),
            store_warnings: Family::default(),
            store_suspended: Gauge::default(),
            heartbeats: Family::default(),
            forgotten_ids: Counter::default(),
            settlements: Counter::default(),
            returned_tokens: Counter::default(),
            owed_tokens: Counter::default(),
            by_itself: Counter::default(),
            store_clock_steps: Counter::default(),
            store_clock_stepped: Counter::default(),
            lease_horizon: Gauge::default(),
            floor_horizon: Gauge::default(),
            floor_end: Family::default(),
            session: Gauge::default(),
            store_up: Gauge::default(),
            policy_version: Gauge::default(),
            agents: Gauge::default(),
            renews: Gauge::default(),
            conflict: Gauge::default(),
            hottest_subject: Family::default(),
            gateways: GatewayMetrics::default(),
        };
        series.register();
        Self(Arc::new(series))
    }

    /// Counts one decision, and how long it took, from the attributes to the verdict. Answers
    /// repeated for a retry are no decisions.
    pub fn decision(&self, outcome: &Result<Verdict, DecideError>, took: Duration) {
        self.0.decision_seconds.observe(took.as_secs_f64());
        match outcome {
            Ok(verdict) => {
                for policy in &verdict.limits {
                    self.count(&policy.policy, result_of(verdict, policy), mode_of(policy.mode));
                }
            }
            Err(DecideError::StoreUnavailable { policies, .. }) => {
                for policy in policies {
                    self.count(policy, "unavailable", "closed");
                }
            }
            Err(DecideError::NoPolicies | DecideError::OtherUnit(_) | DecideError::OtherContent | DecideError::BeyondSettlement { .. }) => {
            }
        }
    }

    /// Counts a decision of a request with an id that the store did not remember, though it was to.
    pub fn attempt(&self, has_id: bool, remembered: bool) {
        if has_id && !remembered {
            self.0.forgotten_ids.inc();
        }
    }

    /// What is counted of gateways that spend by themselves.
    pub fn gateways(&self) -> &GatewayMetrics {
        &self.0.gateways
    }

    /// Counts a settlement; a repeated one again.
    pub fn settlement(&self, settled: &Settled) {
        self.0.settlements.inc();
        self.0.returned_tokens.inc_by(settled.returned.tokens());
        self.0.owed_tokens.inc_by(settled.owed.tokens());
    }

    /// Counts a question that the region's store did not answer.
    pub fn store_error(&self, error: &StoreError) {
        self.0.store_errors.get_or_create(&KindLabel { kind: error.kind() }).inc();
    }

    /// Counts what a policy answered without the store.
    pub fn fallback(&self, policy: &PolicyName, answer: Fallback) {
        let labels = FallbackLabels { policy: PolicyLabel(policy.clone()), answer: answer.name() };
        self.0.store_fallbacks.get_or_create(&labels).inc();
    }

    /// Counts a loss of the store's state.
    pub fn store_loss(&self) {
        self.0.store_losses.inc();
    }

    /// Counts a heartbeat: renewed, unanswered, refused (a coordinator answered, but nothing was
    /// renewed) or failed (the region's store or the agent's disk).
    pub fn heartbeat<T>(&self, outcome: &Result<T, BeatError>) {
        let result = match outcome {
            Ok(_) => "renewed",
            Err(BeatError::Unsent(SendError::Unanswered(_)) | BeatError::Unplugged) => "unanswered",
            Err(
                BeatError::Unsent(SendError::Forbidden(_))
                | BeatError::Stale { .. }
                | BeatError::UnknownRegion
                | BeatError::Refused(_)
                | BeatError::MissingPolicies(_)
                | BeatError::Restoring(_)
                | BeatError::OtherCluster
                | BeatError::OtherStore,
            ) => "refused",
            Err(BeatError::Store(_) | BeatError::Shelf(_)) => "failed",
        };
        self.0.heartbeats.get_or_create(&HeartbeatLabels { result }).inc();
    }

    /// Counts a time that the agent began to decide without its store, by what was set aside for it.
    pub fn spends_by_itself(&self) {
        self.0.by_itself.inc();
    }

    /// Counts a forward step of the store's clock.
    pub fn store_clock_step(&self, step: Duration) {
        self.0.store_clock_steps.inc();
        self.0.store_clock_stepped.inc_by(step.as_secs_f64());
    }

    /// The exposition, with gauges as `status` says. Prometheus text format 0.0.4.
    ///
    /// # Errors
    /// None is known: writing to a text does not fail.
    pub fn render(&self, status: &AgentStatus) -> Result<String, fmt::Error> {
        let seconds = |ms: u64| Duration::from_millis(ms).as_secs_f64();
        self.0.lease_horizon.set(seconds(status.horizon_ms));
        self.0.floor_horizon.set(seconds(status.floor_horizon_ms));
        self.0.floor_end.clear();
        for floor in &status.floors {
            if let Ok(policy) = floor.policy.parse() {
                self.0.floor_end.get_or_create(&OfPolicy { policy: PolicyLabel(policy) }).set(seconds(floor.left_ms));
            }
        }
        self.0.session.set(status.session);
        self.0.store_up.set(u64::from(status.store.healthy));
        self.0.store_suspended.set(u64::from(status.store.suspended));
        for kind in Warning::KINDS {
            let warned = status.store.warnings.iter().any(|warning| warning.kind == kind);
            self.0.store_warnings.get_or_create(&KindLabel { kind }).set(u64::from(warned));
        }
        self.0.policy_version.set(status.policies);
        self.0.agents.set(u64::try_from(status.agents.len()).unwrap_or(u64::MAX));
        self.0.renews.set(u64::from(status.agents.iter().any(|agent| agent.renews && agent.agent == status.agent)));
        self.0.conflict.set(u64::from(status.mode == CONFLICT));
        self.set_hottest(status);
        let mut text = String::new();
        prometheus_text::encode(&mut text, &self.0.registry)?;
        Ok(text)
    }

    /// One series for each policy, whatever its subjects: the share of the one that is asked for most.
    fn set_hottest(&self, status: &AgentStatus) {
        self.0.hottest_subject.clear();
        for subject in status.hot_subjects.iter().rev() {
            if let Ok(policy) = subject.policy.parse() {
                self.0.hottest_subject.get_or_create(&OfPolicy { policy: PolicyLabel(policy) }).set(subject.share);
            }
        }
    }

    fn count(&self, policy: &PolicyName, result: &'static str, mode: &'static str) {
        let labels = DecisionLabels { policy: PolicyLabel(policy.clone()), result, mode };
        self.0.decisions.get_or_create(&labels).inc();
    }
}

impl Series {
    fn register(&mut self) {
        let r = &mut self.registry;
        let decisions = "Decisions of each policy that matched: allowed, refused, observed (it would have refused, but only observes), \
            not_charged (another policy refused), unavailable (closed without a store)";
        r.register("decisions", decisions, self.decisions.clone());
        let took = "Time from a request's attributes to its verdict";
        r.register_with_unit("decision_duration", took, Unit::Seconds, self.decision_seconds.clone());
        r.register("store_errors", "Questions that the region's store did not answer", self.store_errors.clone());
        let fallbacks = "Answers of each policy without the region's store: open (it passed), emergency (decided by what is set aside) or closed (it did not pass)";
        r.register("store_fallbacks", fallbacks, self.store_fallbacks.clone());
        r.register("store_losses", "Times that the state of the region's store counted as lost", self.store_losses.clone());
        let warnings = "1 if the region's store may lose state by its configuration: eviction, persistence";
        r.register("store_warnings", warnings, self.store_warnings.clone());
        r.register("store_suspended", "1 while the region's store is not asked until it answers a probe", self.store_suspended.clone());
        r.register("heartbeats", "Heartbeats: renewed, unanswered, refused by a coordinator, failed on this side", self.heartbeats.clone());
        let forgotten = "Requests whose id the region's store did not remember: there were too many";
        r.register("forgotten_request_ids", forgotten, self.forgotten_ids.clone());
        r.register("settlements", "Reservations settled", self.settlements.clone());
        let returned = "Tokens that settlements gave back to every limit of their request";
        r.register("settlement_returned_tokens", returned, self.returned_tokens.clone());
        let owed = "Tokens that were used beyond an estimate and were not there to be taken";
        r.register("settlement_owed_tokens", owed, self.owed_tokens.clone());
        let by_itself = "Times that this agent began to spend what was set aside for it, since the store could not be asked";
        r.register("emergencies", by_itself, self.by_itself.clone());
        r.register("store_clock_steps", "Forward steps of the store's clock", self.store_clock_steps.clone());
        let stepped = "By how much the store's clock stepped forward, at most, all steps together";
        r.register_with_unit("store_clock_stepped", stepped, Unit::Seconds, self.store_clock_stepped.clone());
        let lease = "Until the lease ends; 0 once it has";
        r.register_with_unit("lease_horizon", lease, Unit::Seconds, self.lease_horizon.clone());
        let floor = "Until the whole floor may be used without a coordinator; 0 once it may";
        r.register_with_unit("floor_horizon", floor, Unit::Seconds, self.floor_horizon.clone());
        let end = "Until nothing of a policy is admitted any more unless a coordinator answers (floor-ttl); 0 once it has come to that";
        r.register_with_unit("floor_end", end, Unit::Seconds, self.floor_end.clone());
        r.register("session", "The region's session", self.session.clone());
        r.register("store_up", "1 if the region's store answered the last question", self.store_up.clone());
        r.register("policy_version", "Version of the policy set in force", self.policy_version.clone());
        r.register("agents", "Agents of the region, this one among them", self.agents.clone());
        r.register("agent_renews", "1 if this agent renews the region's lease", self.renews.clone());
        let conflict = "1 if another store serves a region of the same name, so that this agent admits nothing";
        r.register("region_conflict", conflict, self.conflict.clone());
        let hottest = "Part of a policy's requests that are for the subject asked for most";
        r.register("hottest_subject_share", hottest, self.hottest_subject.clone());
        self.gateways.register(r);
        r.register("build", "What is running", Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]));
    }
}

fn result_of(verdict: &Verdict, policy: &PolicyDecision) -> &'static str {
    let over = policy.decision.is_some_and(|d| !d.fits);
    match (over, policy.enforced) {
        (true, true) => "refused",
        (true, false) => "observed",
        (false, _) if verdict.allowed => "allowed",
        (false, _) => "not_charged",
    }
}

fn mode_of(mode: DecisionMode) -> &'static str {
    match mode {
        DecisionMode::Leased => "leased",
        DecisionMode::Floor => "floor",
        DecisionMode::Emergency => "emergency",
        DecisionMode::Open => "open",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabels {
    policy: PolicyLabel,
    result: &'static str,
    mode: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfPolicy {
    policy: PolicyLabel,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FallbackLabels {
    policy: PolicyLabel,
    answer: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HeartbeatLabels {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PolicyLabel(PolicyName);

impl EncodeLabelValue for PolicyLabel {
    fn encode(&self, encoder: &mut LabelValueEncoder) -> Result<(), fmt::Error> {
        EncodeLabelValue::encode(&self.0.as_str(), encoder)
    }
}
