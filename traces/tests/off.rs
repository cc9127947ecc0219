//! Without an exporter a span costs no memory.

#![allow(clippy::unwrap_used, reason = "a test says what it expects by unwrapping")]

use http::{HeaderMap, Request, Response};
use quorate_traces::{Joined, TARGET, TracedLayer, inject};
use std::future::{Future, Ready, ready};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use tower::{Layer, Service, service_fn};
use tracing::{Span, info_span};
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer as _, fmt};

fn answer(_: Request<()>) -> Ready<Result<Response<()>, ()>> {
    let batch = info_span!(target: TARGET, "store", quorate.limits = 3);
    let mut joined = Joined::default();
    joined.add(&batch);
    joined.add(&Span::current());
    let joint = joined.parent(|first| info_span!(target: TARGET, parent: first, "batch"));
    assert!(batch.is_disabled() && joint.is_disabled());
    let mut headers = HeaderMap::new();
    inject(&mut headers);
    assert!(headers.is_empty());
    ready(Ok(Response::new(())))
}

#[test]
fn what_nobody_exports_is_not_made_and_takes_no_memory() {
    let log = fmt::layer().with_filter(EnvFilter::new(format!("trace,{TARGET}=off")));
    tracing_subscriber::registry().with(log).try_init().unwrap();
    let mut service = TracedLayer.layer(service_fn(answer));
    let traced = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let mut ask = || {
        let request = Request::post("/v1/check").header("traceparent", traced).body(()).unwrap();
        allocation_counter::measure(|| {
            let answered = pin!(service.call(request));
            let polled = answered.poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(polled, Poll::Ready(Ok(_))));
        })
    };
    // the first time each place asks who is interested
    ask();
    assert_eq!(ask().count_total, 0);
}
