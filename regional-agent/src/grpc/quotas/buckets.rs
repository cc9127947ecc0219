//! Which bucket is shared by whom.

use super::actions::Said;
use super::group::Group;
use crate::clock::LocalClock;
use crate::grpc::descriptors;
use crate::http::Decider;
use crate::metrics::GatewayMetrics;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use envoy_types::pb::envoy::service::rate_limit_quota::v3::rate_limit_quota_response::BucketAction;
use envoy_types::pb::envoy::service::rate_limit_quota::v3::rate_limit_quota_usage_reports::BucketQuotaUsage;
use envoy_types::pb::envoy::service::rate_limit_quota::v3::{BucketId, RateLimitQuotaUsageReports};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tonic::Status;

/// Buckets that one gateway may have; it is told to forget any more.
pub const MOST_BUCKETS: usize = 10_000;

/// Bytes of a bucket's id. Ids may have in them what clients say: one that is longer is forgotten at once, by the gateway
/// too, so that reports stay short.
pub const LONGEST_ID: usize = 1024;

/// What is known of a request: two buckets are one if they have the same.
type Attributes = BTreeMap<String, String>;

/// All buckets that gateways spend of.
pub(super) struct Buckets<D> {
    pub decider: Arc<D>,
    pub clock: LocalClock,
    metrics: GatewayMetrics,
    groups: Mutex<BTreeMap<Attributes, Arc<Group>>>,
    gateways: AtomicU64,
}

impl<D: Decider> Buckets<D> {
    pub fn new(decider: Arc<D>, metrics: GatewayMetrics) -> Self {
        Self { decider, metrics, clock: LocalClock::default(), groups: Mutex::default(), gateways: AtomicU64::new(0) }
    }

    /// A gateway that has connected.
    pub fn gateway(self: &Arc<Self>) -> Gateway<D> {
        self.metrics.connected();
        let number = self.gateways.fetch_add(1, Ordering::Relaxed);
        Gateway { number, buckets: self.clone(), domain: None, spends: BTreeMap::new() }
    }

    fn group(&self, attributes: Attributes) -> Arc<Group> {
        let mut groups = self.groups.lock();
        groups.entry(attributes.clone()).or_insert_with(|| Arc::new(Group::new(attributes))).clone()
    }

    /// Nobody spends of it through this handle any more.
    fn leave(&self, group: Arc<Group>) {
        let mut groups = self.groups.lock();
        // the map's and this one
        if Arc::strong_count(&group) == 2 {
            groups.remove(group.attributes());
        }
    }
}

/// One gateway, for as long as its stream lasts.
pub(super) struct Gateway<D: Decider> {
    number: u64,
    buckets: Arc<Buckets<D>>,
    domain: Option<String>,
    spends: BTreeMap<Attributes, Arc<Group>>,
}

impl<D: Decider> Gateway<D> {
    /// Takes what it reports, bucket by bucket; what it is to hear.
    pub async fn reported(&mut self, reports: RateLimitQuotaUsageReports) -> Result<Vec<BucketAction>, Status> {
        let domain = match &self.domain {
            Some(domain) => domain.clone(),
            None if reports.domain.is_empty() => return Err(Status::invalid_argument("the domain is missing or empty")),
            None => self.domain.insert(reports.domain).clone(),
        };
        let mut actions = Vec::new();
        for usage in reports.bucket_quota_usages {
            actions.extend(self.used(&domain, usage).await);
        }
        Ok(actions)
    }

    async fn used(&mut self, domain: &str, usage: BucketQuotaUsage) -> Option<BucketAction> {
        let id = usage.bucket_id.filter(|id| !id.bucket.is_empty())?;
        let Some(attributes) = attributes_of(domain, &id) else { return Some(Said::Forget.of(id)) };
        if !self.spends.contains_key(&attributes) && self.spends.len() >= MOST_BUCKETS {
            return Some(Said::Forget.of(id));
        }
        let metrics = &self.buckets.metrics;
        let begin = || {
            metrics.bucket_begun();
            self.buckets.group(attributes.clone())
        };
        let group = self.spends.entry(attributes.clone()).or_insert_with(begin).clone();
        let counts = (usage.num_requests_allowed, usage.num_requests_denied);
        metrics.reported(counts.0, counts.1);
        let said = group.reported(&*self.buckets.decider, &self.buckets.clock, self.number, counts).await;
        if said == Some(Said::Forget) {
            self.spends.remove(&attributes);
            self.buckets.metrics.bucket_forgotten();
            self.buckets.leave(group);
        }
        let said = said?;
        self.buckets.metrics.told(said.word());
        Some(said.of(id))
    }
}

fn attributes_of(domain: &str, id: &BucketId) -> Option<Attributes> {
    if id.bucket.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>() > LONGEST_ID {
        return None;
    }
    let entries = id.bucket.iter().map(|(key, value)| Entry { key: key.clone(), value: value.clone() });
    descriptors::attributes(domain, entries).ok()
}

impl<D: Decider> Drop for Gateway<D> {
    /// What it has ends by itself, and is settled then.
    fn drop(&mut self) {
        self.buckets.metrics.gone(self.spends.len());
        for group in std::mem::take(&mut self.spends).into_values() {
            let (buckets, number) = (self.buckets.clone(), self.number);
            tokio::spawn(async move {
                group.gone(&*buckets.decider, &buckets.clock, number).await;
                buckets.leave(group);
            });
        }
    }
}
