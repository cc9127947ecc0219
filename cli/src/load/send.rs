//! Sending by the clock: each request leaves at its time, whether or not earlier ones were answered.

use super::fleet::Fleet;
use super::outcome::{Outcome, Sample, Silence};
use super::schedule::{Attributes, Planned};
use crate::client::reason;
use bytes::Bytes;
use quorate_shared::api::CheckRequest;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How to send.
#[derive(Clone, Debug)]
pub struct SendSettings {
    /// Requests under way at once; one more waits for its turn, and is late.
    pub connections: u32,
    /// How long to wait for an answer.
    pub timeout: Duration,
    /// Credentials.
    pub headers: HeaderMap,
}

/// Sends requests of a few kinds to the agents of a fleet.
#[derive(Debug)]
pub struct Sender {
    http: reqwest::Client,
    /// By agent.
    urls: Vec<reqwest::Url>,
    /// By kind.
    bodies: Vec<Bytes>,
    under_way: Arc<Semaphore>,
}

impl Sender {
    /// A sender of requests with these attributes, each of `cost` if it is given.
    pub fn new(fleet: &Fleet, kinds: &[Attributes], cost: Option<u64>, settings: SendSettings) -> anyhow::Result<Self> {
        let mut headers = settings.headers;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let http = reqwest::Client::builder().no_proxy().default_headers(headers).timeout(settings.timeout).build()?;
        let urls = fleet.agents().iter().map(|a| reqwest::Url::parse(&format!("{}/v1/check", a.url)));
        let body = |attributes: &Attributes| {
            let request = CheckRequest { attributes: attributes.clone(), cost, request_id: None };
            serde_json::to_vec(&request).map(Bytes::from)
        };
        Ok(Self {
            http,
            urls: urls.collect::<Result<_, _>>()?,
            bodies: kinds.iter().map(body).collect::<Result<_, _>>()?,
            under_way: Arc::new(Semaphore::new(usize::try_from(settings.connections)?)),
        })
    }

    /// Sends all of `plan`, or until `stop`. Every request sent gives one sample to `out`, which closes after the
    /// last of them.
    pub async fn send(self: Arc<Self>, plan: impl Iterator<Item = Planned>, stop: &CancellationToken, out: mpsc::UnboundedSender<Sample>) {
        let begin = Instant::now();
        for planned in plan {
            let Some(Some(permit)) = stop.run_until_cancelled(self.turn(begin, planned.at)).await else { return };
            let (sender, out) = (Arc::clone(&self), out.clone());
            tokio::spawn(async move {
                let sample = sender.send_one(planned, begin).await;
                drop(permit);
                // Nobody may be listening any more; then the sample is of no use.
                let _ = out.send(sample);
            });
        }
    }

    /// Waits until a request that is due `at` may leave; `None` if no more may.
    async fn turn(&self, begin: Instant, at: Duration) -> Option<OwnedSemaphorePermit> {
        tokio::time::sleep_until(begin.checked_add(at)?).await;
        Arc::clone(&self.under_way).acquire_owned().await.ok()
    }

    async fn send_one(&self, planned: Planned, begin: Instant) -> Sample {
        let request = self.http.post(self.urls[planned.agent].clone()).body(self.bodies[planned.kind].clone());
        let sent = begin.elapsed();
        let response = request.send().await;
        let answered = begin.elapsed();
        let outcome = match response {
            Ok(response) => {
                let status = response.status().as_u16();
                response.bytes().await.map_or_else(|e| failure(&e), |body| Outcome::read(status, &body))
            }
            Err(error) => failure(&error),
        };
        Sample { planned, sent, answered, outcome }
    }
}

/// A request that reached nobody failed; of any other without an answer nobody knows.
fn failure(error: &reqwest::Error) -> Outcome {
    if error.is_connect() {
        return Outcome::Failed(format!("connection: {}", reason(error)));
    }
    Outcome::Unknown(if error.is_timeout() { Silence::TimedOut } else { Silence::Broken })
}
