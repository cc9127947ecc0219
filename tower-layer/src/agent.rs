//! An agent, asked over HTTP on connections that are kept.

use crate::refusal::Refusal;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, StatusCode};
use quorate_shared::api::{CheckAnswer, CheckRequest, ReleaseRequest};
use reqwest::{Client, RequestBuilder, Url};
use std::sync::Arc;
use std::time::Duration;

/// An answer takes so long at most, if nothing else is said: a store has 50 ms.
const WITHIN: Duration = Duration::from_millis(100);

/// A slot that is not given back in this time ends by itself later.
const RELEASE: Duration = Duration::from_secs(5);

/// What is told of the limits beside the answer of a service.
const BESIDE: [&str; 5] = ["ratelimit", "ratelimit-policy", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];

/// What more of a refusal reaches the client.
const REFUSAL: [HeaderName; 3] = [CONTENT_TYPE, CACHE_CONTROL, RETRY_AFTER];

/// An agent of this region. Cheap to clone; clones share connections.
#[derive(Clone, Debug)]
pub struct Agent {
    client: Client,
    check: Url,
    release: Url,
    token: Option<Arc<str>>,
    within: Duration,
}

/// Why there is no way to an agent.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The URL is none.
    #[error("`{0}` is not the URL of an agent: write scheme, host and port, such as `http://127.0.0.1:7201`")]
    Url(String),
    /// The system gives no HTTP client.
    #[error("cannot make a network client: {0}")]
    Client(#[from] reqwest::Error),
}

/// What an agent decided.
pub enum Decision {
    /// The request may go on.
    Pass {
        /// What its answer is to say of the limits.
        fields: HeaderMap,
        /// Slots that it holds until it is answered.
        slot: Option<Slot>,
    },
    /// It may not.
    Refuse(Refusal),
}

/// Why an agent decided nothing.
#[derive(Debug, thiserror::Error)]
pub enum Undecided {
    /// It could not be asked, or did not answer in time.
    #[error("no agent answered: {0}")]
    Unanswered(#[from] reqwest::Error),
    /// It does not know what is meant, or who asks.
    #[error("the agent answered with status {0}")]
    Unexpected(StatusCode),
}

impl Agent {
    /// The agent at this base URL. Makes no connection yet.
    ///
    /// # Errors
    /// If that is no URL of HTTP, or the system gives no client.
    pub fn new(url: &str) -> Result<Self, AgentError> {
        let base = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.path() == "/");
        let path = |path: &str| base.as_ref().and_then(|base| base.join(path).ok()).ok_or_else(|| AgentError::Url(url.to_owned()));
        let client = Client::builder().no_proxy().tcp_nodelay(true).build()?;
        Ok(Self { client, check: path("/v1/check")?, release: path("/v1/release")?, token: None, within: WITHIN })
    }

    /// The same, showing this token.
    #[must_use]
    pub fn with_token(mut self, token: &str) -> Self {
        self.token = Some(token.into());
        self
    }

    /// The same with so much time for an answer. Default 100 ms.
    #[must_use]
    pub fn within(mut self, time: Duration) -> Self {
        self.within = time;
        self
    }

    /// Asks it, in the trace that the request is part of.
    pub(crate) async fn decide(&self, request: &CheckRequest, trace: HeaderMap) -> Result<Decision, Undecided> {
        let mut response = self.post(&self.check).timeout(self.within).headers(trace).json(request).send().await?;
        let status = response.status();
        let mut fields = std::mem::take(response.headers_mut());
        let body = response.bytes().await?;
        match status {
            StatusCode::OK => {
                keep(&mut fields, &[]);
                Ok(Decision::Pass { fields, slot: self.slot(&body) })
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::UNPROCESSABLE_ENTITY | StatusCode::SERVICE_UNAVAILABLE => {
                keep(&mut fields, &REFUSAL);
                Ok(Decision::Refuse(Refusal { status, fields, body }))
            }
            other => Err(Undecided::Unexpected(other)),
        }
    }

    fn slot(&self, body: &Bytes) -> Option<Slot> {
        let answer: CheckAnswer = serde_json::from_slice(body).ok()?;
        answer.slot.map(|slot| Slot { agent: self.clone(), slot })
    }

    fn post(&self, url: &Url) -> RequestBuilder {
        let request = self.client.post(url.clone());
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }
}

/// Leaves the fields that a client gets: those of the limits, and `more`.
fn keep(fields: &mut HeaderMap, more: &[HeaderName]) {
    let wanted = |name: &HeaderName| BESIDE.contains(&name.as_str()) || more.contains(name);
    *fields = std::mem::take(fields).into_iter().filter_map(|(name, value)| Some((name.filter(wanted)?, value))).collect();
}

/// Slots that are held; given back when this is dropped.
#[derive(Debug)]
pub struct Slot {
    agent: Agent,
    slot: String,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let body = ReleaseRequest { slot: std::mem::take(&mut self.slot) };
        let request = self.agent.post(&self.agent.release).timeout(RELEASE).json(&body);
        // outside a runtime nobody can send it: it ends by itself after the policy's `max-hold`
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Err(error) = request.send().await {
                    tracing::warn!(%error, "a slot was not given back");
                }
            });
        }
    }
}
