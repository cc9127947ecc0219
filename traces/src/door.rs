//! A span for each request that a router answers.

use crate::{TARGET, continue_from};
use axum::extract::MatchedPath;
use http::{Request, Response};
use pin_project_lite::pin_project;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tower::{Layer, Service};
use tracing::field::Empty;
use tracing::instrument::{Instrument, Instrumented};
use tracing::{Span, info_span};

/// Routes that people and machines ask all the time, and that decide nothing: they have no spans.
const UNTRACED: [&str; 5] = ["/healthz", "/readyz", "/metrics", "/openapi.json", "/v1/events"];

/// Makes a span of each request, named by its route.
#[derive(Clone, Copy, Debug, Default)]
pub struct TracedLayer;

impl<S> Layer<S> for TracedLayer {
    type Service = Traced<S>;

    fn layer(&self, inner: S) -> Traced<S> {
        Traced { inner }
    }
}

/// A service whose requests have spans.
#[derive(Clone, Debug)]
pub struct Traced<S> {
    inner: S,
}

impl<S, I, O> Service<Request<I>> for Traced<S>
where
    S: Service<Request<I>, Response = Response<O>>,
{
    type Response = Response<O>;
    type Error = S::Error;
    type Future = TracedFuture<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<I>) -> Self::Future {
        let span = span_of(&request);
        // what is called may make spans of its own before it is polled
        let answered = span.in_scope(|| self.inner.call(request));
        TracedFuture { answered: answered.instrument(span) }
    }
}

/// The path itself is not told: there may be anything in it. A method that HTTP does not know is told as none.
fn span_of<I>(request: &Request<I>) -> Span {
    let route = request.extensions().get::<MatchedPath>().map_or("unknown", MatchedPath::as_str);
    if UNTRACED.contains(&route) {
        return Span::none();
    }
    let method = match request.method().as_str() {
        known @ ("GET" | "HEAD" | "POST" | "PUT" | "DELETE" | "PATCH" | "OPTIONS") => known,
        _ => "_OTHER",
    };
    let span = info_span!(
        target: TARGET,
        "request",
        otel.name = Empty,
        otel.kind = "server",
        http.request.method = method,
        http.route = route,
        http.response.status_code = Empty,
    );
    if !span.is_disabled() {
        span.record("otel.name", format_args!("{method} {route}").to_string());
        continue_from(&span, request.headers());
    }
    span
}

pin_project! {
    /// Answers within a span.
    pub struct TracedFuture<F> {
        #[pin]
        answered: Instrumented<F>,
    }
}

impl<F, O, E> Future for TracedFuture<F>
where
    F: Future<Output = Result<Response<O>, E>>,
{
    type Output = Result<Response<O>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let answer = ready!(this.answered.as_mut().poll(context));
        if let Ok(response) = &answer {
            this.answered.span().record("http.response.status_code", response.status().as_u16());
        }
        Poll::Ready(answer)
    }
}
