//! The way to the coordinators: HTTP/2, to the one that answered last, else to the next.

use quorate_shared::heartbeat::{Answer, Heartbeat};
use quorate_shared::problem::Problem;
use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The coordinators of a cluster, as one agent reaches them.
#[derive(Debug)]
pub struct Coordinators {
    urls: Vec<String>,
    token: Option<String>,
    client: reqwest::Client,
    preferred: AtomicUsize,
}

/// A coordinator's answer, and whose.
#[derive(Debug)]
pub struct Answered {
    /// The answer.
    pub answer: Answer,
    /// Base URL of the coordinator.
    pub coordinator: String,
}

/// Why a heartbeat got no answer.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// Nobody answered.
    #[error("no coordinator answered: {0}")]
    Unanswered(String),
    /// The agent's credential is none, or that of another region.
    #[error("the coordinators refuse this agent's credential: {0}")]
    Forbidden(String),
}

impl Coordinators {
    /// Coordinators at these base URLs, each given `timeout` for an answer.
    ///
    /// # Errors
    /// If the HTTP client cannot be made.
    pub fn new(urls: Vec<String>, token: Option<String>, timeout: Duration) -> Result<Self, reqwest::Error> {
        let client = reqwest::Client::builder()
            .http2_prior_knowledge()
            .timeout(timeout)
            .connect_timeout(timeout)
            .tcp_nodelay(true)
            .no_proxy()
            .build()?;
        Ok(Self { urls, token, client, preferred: AtomicUsize::new(0) })
    }

    /// Sends one heartbeat to one coordinator. If it does not answer, the next heartbeat goes to
    /// the next coordinator: nobody knows whether this one was accepted, so it is not sent again.
    ///
    /// # Errors
    /// If there was no answer in time, or a problem.
    pub async fn send(&self, beat: &Heartbeat) -> Result<Answered, SendError> {
        let preferred = self.preferred.load(Ordering::Relaxed);
        let Some(base) = self.urls.get(preferred % self.urls.len().max(1)) else {
            return Err(SendError::Unanswered("none is configured".into()));
        };
        match self.post(base, beat).await {
            Ok(answer) => Ok(Answered { answer, coordinator: base.clone() }),
            Err(error) => {
                self.preferred.store(preferred.wrapping_add(1), Ordering::Relaxed);
                Err(error)
            }
        }
    }

    /// True if a coordinator answers, and knows a leader.
    pub async fn are_reached(&self) -> bool {
        for base in &self.urls {
            if self.client.get(format!("{base}/readyz")).send().await.is_ok_and(|response| response.status().is_success()) {
                return true;
            }
        }
        false
    }

    async fn post(&self, base: &str, beat: &Heartbeat) -> Result<Answer, SendError> {
        let unanswered = |why: String| SendError::Unanswered(format!("{base}: {why}"));
        let url = format!("{base}/v1/regions/{}/heartbeat", beat.region);
        let mut request = self.client.post(url).json(beat);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let mut context = HeaderMap::new();
        quorate_traces::inject(&mut context);
        let response = request.headers(context).send().await.map_err(|e| unanswered(reason(&e)))?;
        if response.status().is_success() {
            return response.json().await.map_err(|e| unanswered(reason(&e)));
        }
        let status = response.status();
        let said = response.json::<Problem>().await.map_or_else(|_| format!("status {status}"), |problem| problem.to_string());
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(SendError::Forbidden(format!("{base}: {said}"))),
            _ => Err(unanswered(said)),
        }
    }
}

/// What went wrong, down to its cause, without the URL.
fn reason(error: &reqwest::Error) -> String {
    let mut deepest: &dyn std::error::Error = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    if error.is_timeout() { "timed out".into() } else { deepest.to_string() }
}
