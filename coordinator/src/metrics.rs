//! What a coordinator tells Prometheus. Every series is bounded by the members, the regions or
//! the policies, never by subjects.

use crate::raft::RaftStatus;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder, prometheus_text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use quorate_shared::api::{PolicyBound, RegionState};
use std::fmt::{self, Write};
use std::sync::atomic::AtomicU64;

/// Policies with series of their own: the first in the set.
const MAX_POLICIES: usize = 1_000;

const STATES: [&str; 5] = ["leader", "follower", "candidate", "learner", "shutdown"];
const REGION_STATES: [&str; 3] = ["live", "expired", "unknown"];

type Ratio = Gauge<f64, AtomicU64>;
type Labels<const N: usize = 1> = [(&'static str, String); N];

/// What is counted between two scrapes. Everything else is read when asked for.
#[derive(Debug, Default)]
pub struct Metrics {
    heartbeats: Family<HeartbeatLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HeartbeatLabels {
    result: HeartbeatResult,
}

/// What became of a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeartbeatResult {
    /// The lease was renewed.
    Renewed,
    /// A newer one was there before.
    Stale,
    /// The policy set has no such region.
    UnknownRegion,
    /// The leader answered.
    Forwarded,
    /// It was malformed.
    Refused,
    /// Nobody could decide.
    Unavailable,
}

impl EncodeLabelValue for HeartbeatResult {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        encoder.write_str(match self {
            Self::Renewed => "renewed",
            Self::Stale => "stale",
            Self::UnknownRegion => "unknown_region",
            Self::Forwarded => "forwarded",
            Self::Refused => "refused",
            Self::Unavailable => "unavailable",
        })
    }
}

/// What is read when Prometheus asks.
#[derive(Debug)]
pub struct Readings {
    /// Raft.
    pub status: RaftStatus,
    /// By this node's clock: of a follower, without ages.
    pub regions: Vec<RegionState>,
    /// Promise and measurement of each policy.
    pub bounds: Vec<PolicyBound>,
    /// Version of the newest policy set.
    pub policy_set: u64,
    /// Budgets in the ledger.
    pub budgets: usize,
    /// Budgets of which an internal check of the ledger failed.
    pub alarms: usize,
    /// By which rules the ledger is applied.
    pub level: u32,
    /// Open event streams.
    pub streams: usize,
}

impl Metrics {
    /// Counts a heartbeat.
    pub fn heartbeat(&self, result: HeartbeatResult) {
        self.heartbeats.get_or_create(&HeartbeatLabels { result }).inc();
    }

    /// Everything in Prometheus's text format.
    ///
    /// # Errors
    /// The writer's; none is known.
    pub fn exposition(&self, readings: &Readings) -> Result<String, fmt::Error> {
        let mut registry = Registry::with_prefix("quorate");
        registry.register("heartbeats", "Heartbeats by what became of them", self.heartbeats.clone());
        let version = [("version", env!("CARGO_PKG_VERSION").to_owned())];
        family(&mut registry, "build_info", "The program's version", [(version, 1.0)]);
        raft(&mut registry, &readings.status);
        regions(&mut registry, &readings.regions);
        policies(&mut registry, &readings.bounds);
        gauge(&mut registry, "policy_set_version", "Version of the newest policy set", readings.policy_set as f64);
        gauge(&mut registry, "active_budgets", "Budgets beyond their floors or in demand", readings.budgets as f64);
        let help = "Budgets of which an internal check failed: a bug; nothing is granted of them until that is cleared";
        gauge(&mut registry, "ledger_alarms", help, readings.alarms as f64);
        gauge(&mut registry, "ledger_level", "By which rules the ledger here is applied", f64::from(readings.level));
        gauge(&mut registry, "event_streams", "Open streams of /v1/events", readings.streams as f64);
        let mut text = String::new();
        prometheus_text::encode(&mut text, &registry)?;
        Ok(text)
    }
}

fn raft(registry: &mut Registry, status: &RaftStatus) {
    let states = STATES.map(|state| ([("state", state.to_owned())], f64::from(u8::from(state == status.state))));
    family(registry, "raft_state", "1 for what this node is now", states);
    gauge(registry, "raft_leader_known", "1 if this node knows a leader", f64::from(u8::from(status.leader.is_some())));
    gauge(registry, "raft_term", "The newest term that this node knows of", status.term as f64);
    gauge(registry, "raft_applied_index", "Index of the last entry applied here", status.applied as f64);
    gauge(registry, "raft_last_log_index", "Index of the last entry in the log here", status.last_log as f64);
    gauge(registry, "raft_snapshot_index", "Index of the last entry in the snapshot here", status.snapshot.unwrap_or(0) as f64);
    let lags = status.members.iter().filter_map(|m| Some(([("node", m.id.to_string())], m.lag? as f64)));
    family(registry, "raft_follower_lag_entries", "Entries that a node is behind the leader; known to the leader", lags);
    counter(registry, "raft_disk_changes", "Changes written to the store", status.disk_changes);
    counter(registry, "raft_disk_flushes", "Flushes of the store; several changes share one", status.disk_commits);
}

fn regions(registry: &mut Registry, regions: &[RegionState]) {
    let count = |state: &str| regions.iter().filter(|r| r.state == state).count() as f64;
    let counts = REGION_STATES.map(|state| ([("state", state.to_owned())], count(state)));
    family(registry, "regions", "Regions by the state of their session; unknown without the leader's clock", counts);
    let of = |region: &RegionState| [("region", region.region.clone())];
    let ages = regions.iter().filter_map(|r| Some((of(r), seconds(r.heartbeat_age_ms?))));
    seconds_family(registry, "region_heartbeat_age", "Since the last heartbeat; known to the leader", ages);
    let leases = regions.iter().filter(|r| r.state != "unknown").map(|r| (of(r), seconds(r.horizon_ms)));
    seconds_family(registry, "region_lease_remaining", "Until the lease ends; known to the leader", leases);
    let ahead = regions.iter().filter_map(|r| Some((of(r), r.clock_ahead_ms? as f64 / 1_000.0)));
    let help = "By how much the clock of the region's store is ahead of the nearest one of another live region";
    seconds_family(registry, "region_store_clock_ahead", help, ahead);
    let healthy = regions.iter().filter(|r| !r.store.kind.is_empty()).map(|r| (of(r), f64::from(u8::from(r.store.healthy))));
    family(registry, "region_store_healthy", "1 if the region's store answered its agent", healthy);
}

fn policies(registry: &mut Registry, bounds: &[PolicyBound]) {
    let bounds = bounds.get(..MAX_POLICIES).unwrap_or(bounds);
    let of = |bound: &PolicyBound| [("policy", bound.policy.clone())];
    let promised = bounds.iter().map(|b| (of(b), b.bound.overshoot_bound.unwrap_or(f64::INFINITY)));
    family(registry, "policy_overshoot_bound_tokens", "Tokens beyond the limit at once at most; +Inf if unbounded", promised);
    let rates = bounds.iter().map(|b| (of(b), b.bound.overshoot_per_period.unwrap_or(f64::INFINITY)));
    family(registry, "policy_overshoot_bound_tokens_per_period", "Tokens more in each period at most; +Inf if unbounded", rates);
    let modes = bounds.iter().map(|b| ([("policy", b.policy.clone()), ("mode", b.mode.clone())], 1.0));
    registry.register("policy_mode", "1 for what the policy does with refusals: enforce, observe, or canary with its part", filled(modes));
    let pending = bounds.iter().map(|b| (of(b), f64::from(u8::from(b.change.is_some()))));
    family(registry, "policy_change_pending", "1 while the bound is that of an old limit", pending);
    let measured = bounds.iter().map(|b| (of(b), b.measured_overshoot));
    family(registry, "policy_overshoot_measured_tokens", "Tokens beyond the limit in the worst interval seen", measured);
    let last_hour = bounds.iter().map(|b| (of(b), b.measured_overshoot_last_hour));
    family(registry, "policy_overshoot_measured_last_hour_tokens", "The same of the last hour", last_hour);
    let beyond = bounds.iter().map(|b| (of(b), b.measured_beyond_bound));
    let help = "Tokens by which the overshoot exceeded the bound in force when it was measured; 0 unless a promise was broken";
    family(registry, "policy_overshoot_beyond_bound_tokens", help, beyond);
    let used = bounds.iter().filter_map(|b| Some((of(b), b.utilisation?)));
    family(registry, "policy_utilisation_ratio", "Demand served against demand that the limit could serve", used);
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1_000.0
}

fn gauge(registry: &mut Registry, name: &str, help: &str, value: f64) {
    let gauge = Ratio::default();
    gauge.set(value);
    registry.register(name, help, gauge);
}

fn counter(registry: &mut Registry, name: &str, help: &str, value: u64) {
    let counter: Counter = Counter::default();
    counter.inc_by(value);
    registry.register(name, help, counter);
}

fn family(registry: &mut Registry, name: &str, help: &str, values: impl IntoIterator<Item = (Labels, f64)>) {
    registry.register(name, help, filled(values));
}

fn seconds_family(registry: &mut Registry, name: &str, help: &str, values: impl IntoIterator<Item = (Labels, f64)>) {
    registry.register_with_unit(name, help, Unit::Seconds, filled(values));
}

fn filled<const N: usize>(values: impl IntoIterator<Item = (Labels<N>, f64)>) -> Family<Labels<N>, Ratio> {
    let family = Family::<Labels<N>, Ratio>::default();
    for (labels, value) in values {
        family.get_or_create(&labels).set(value);
    }
    family
}
