//! What is counted of gateways that spend parts of budgets by themselves. Whoever they are, there are a dozen series.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Counts together with its clones.
#[derive(Clone, Debug, Default)]
pub struct GatewayMetrics {
    /// Open streams.
    connected: Gauge,
    /// Buckets of all of them.
    buckets: Gauge,
    requests: Family<ResultLabel, Counter>,
    answers: Family<AnswerLabel, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnswerLabel {
    answer: &'static str,
}

impl GatewayMetrics {
    /// A gateway has connected.
    pub fn connected(&self) {
        self.connected.inc();
    }

    /// It is gone, with so many buckets.
    pub fn gone(&self, buckets: usize) {
        self.connected.dec();
        self.buckets.dec_by(i64::try_from(buckets).unwrap_or(i64::MAX));
    }

    /// A gateway has a bucket more.
    pub fn bucket_begun(&self) {
        self.buckets.inc();
    }

    /// Or less.
    pub fn bucket_forgotten(&self) {
        self.buckets.dec();
    }

    /// What a gateway let pass and refused of one bucket.
    pub fn reported(&self, passed: u64, refused: u64) {
        for (result, requests) in [("passed", passed), ("refused", refused)] {
            self.requests.get_or_create(&ResultLabel { result }).inc_by(requests);
        }
    }

    /// What one was told of a bucket: `part`, `again`, `everything`, `nothing` or `forget`.
    pub fn told(&self, answer: &'static str) {
        self.answers.get_or_create(&AnswerLabel { answer }).inc();
    }

    /// Makes them part of the exposition.
    pub fn register(&self, r: &mut Registry) {
        r.register("gateways", "Gateways that are connected to spend parts of budgets by themselves", self.connected.clone());
        r.register("gateway_buckets", "Buckets of all connected gateways", self.buckets.clone());
        let requests = "Requests that gateways report: passed by a part that they had, or refused";
        r.register("gateway_requests", requests, self.requests.clone());
        let answers = "Answers to a bucket's report: a new part, the same again, everything (nothing limits it), nothing (is left), forget";
        r.register("gateway_answers", answers, self.answers.clone());
    }
}
