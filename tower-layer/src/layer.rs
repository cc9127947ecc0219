//! The layer, and the service that it makes of another.

use crate::agent::{Agent, Decision};
use crate::body::LimitedBody;
use crate::refusal::Refusal;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, HeaderName, Request, Response};
use quorate_shared::api::CheckRequest;
use std::pin::Pin;
use std::task::{Context, Poll};
use tower::{Layer, Service};

/// What of a request reaches the agent beside the question.
const TRACE: [&str; 2] = ["traceparent", "tracestate"];

/// What happens to requests while no agent decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WithoutAgent {
    /// They are refused with 503.
    #[default]
    Closed,
    /// They pass, and nothing is charged.
    Open,
}

/// Asks an agent before a service answers.
#[derive(Clone, Debug)]
pub struct LimitLayer<F> {
    agent: Agent,
    question: F,
    without_agent: WithoutAgent,
}

impl<F: Fn(&Parts) -> Option<CheckRequest>> LimitLayer<F> {
    /// Asks `agent` what `question` makes of a request; nothing is asked about a request of which it makes nothing.
    pub fn new(agent: Agent, question: F) -> Self {
        Self { agent, question, without_agent: WithoutAgent::default() }
    }

    /// The same; what happens while no agent decides. Default: requests are refused.
    #[must_use]
    pub fn without_agent(mut self, without_agent: WithoutAgent) -> Self {
        self.without_agent = without_agent;
        self
    }
}

impl<S, F: Clone> Layer<S> for LimitLayer<F> {
    type Service = Limit<S, F>;

    fn layer(&self, inner: S) -> Limit<S, F> {
        Limit { inner, limits: self.clone() }
    }
}

/// A service that is limited.
#[derive(Clone, Debug)]
pub struct Limit<S, F> {
    inner: S,
    limits: LimitLayer<F>,
}

impl<S, F, I, O> Service<Request<I>> for Limit<S, F>
where
    S: Service<Request<I>, Response = Response<O>> + Clone + Send + 'static,
    S::Future: Send,
    F: Fn(&Parts) -> Option<CheckRequest>,
    I: Send + 'static,
{
    type Response = Response<LimitedBody<O>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<I>) -> Self::Future {
        // the one that said it is ready is called; its clone has to be asked anew
        let clone = self.inner.clone();
        let mut ready = std::mem::replace(&mut self.inner, clone);
        let (parts, body) = request.into_parts();
        let question = (self.limits.question)(&parts);
        let trace = trace_of(&parts.headers);
        let (agent, without_agent) = (self.limits.agent.clone(), self.limits.without_agent);
        Box::pin(async move {
            let decision = match question {
                Some(question) => decide(&agent, &question, trace, without_agent).await,
                None => pass(),
            };
            match decision {
                Decision::Refuse(refusal) => Ok(if is_grpc(&parts.headers) { refusal.grpc() } else { refusal.http() }),
                Decision::Pass { fields, slot } => {
                    let mut response = ready.call(Request::from_parts(parts, body)).await?;
                    say(response.headers_mut(), fields);
                    Ok(response.map(|body| LimitedBody::of_service(body, slot)))
                }
            }
        })
    }
}

/// W3C trace context: the agent's span and the service's have the same parent, whatever the service traces with.
fn trace_of(headers: &HeaderMap) -> HeaderMap {
    TRACE.iter().filter_map(|name| Some((HeaderName::from_static(name), headers.get(*name)?.clone()))).collect()
}

async fn decide(agent: &Agent, question: &CheckRequest, trace: HeaderMap, without_agent: WithoutAgent) -> Decision {
    agent.decide(question, trace).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "a request was not decided");
        match without_agent {
            WithoutAgent::Closed => Decision::Refuse(Refusal::without_agent()),
            WithoutAgent::Open => pass(),
        }
    })
}

fn pass() -> Decision {
    Decision::Pass { fields: HeaderMap::new(), slot: None }
}

/// Says how the limits stand, in the place of whatever the service said of its own.
fn say(headers: &mut HeaderMap, fields: HeaderMap) {
    for (name, value) in fields {
        if let Some(name) = name {
            headers.insert(name, value);
        }
    }
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}
