//! What happened to one request or one heartbeat, as spans: from a front door to the region's store, from an agent to the
//! replicated log. Spans go to an OpenTelemetry collector by OTLP over HTTP, if one is configured.
//!
//! | part | what |
//! |---|---|
//! | [`TARGET`] | the target of every span here; logs leave it out |
//! | [`TracedLayer`] | a span for each request of a router, in the trace of whoever asks (W3C `traceparent`) |
//! | [`inject`] | `traceparent` of a request that is about to be sent |
//! | [`Joined`] | a span that does the work of several others |
//! | [`Traces`] | the exporter, with the feature `otlp` |
//!
//! Without an exporter nobody is interested in these spans, so `tracing` makes none: that costs a look at a flag, and
//! no allocation. What a span says has bounded values: names of policies, regions and routes, results, sizes. Never a
//! subject, an attribute of a request, or an id.

mod door;
#[cfg(feature = "otlp")]
mod export;
mod joined;

pub use door::{Traced, TracedFuture, TracedLayer};
#[cfg(feature = "otlp")]
pub use export::{ExportError, Service, Traces};
pub use joined::Joined;

use http::HeaderMap;
use tracing::Span;

/// The target of every span that is exported.
pub const TARGET: &str = "quorate_span";

/// Makes `span` a part of the trace that `headers` name, if they name one.
pub fn continue_from(span: &Span, headers: &HeaderMap) {
    if !span.is_disabled() {
        #[cfg(feature = "otlp")]
        export::continue_from(span, headers);
        #[cfg(not(feature = "otlp"))]
        let _ = headers;
    }
}

/// Names the present span to whoever is asked by a request with these headers.
pub fn inject(headers: &mut HeaderMap) {
    let span = Span::current();
    if !span.is_disabled() {
        #[cfg(feature = "otlp")]
        export::inject(&span, headers);
        #[cfg(not(feature = "otlp"))]
        let _ = headers;
    }
}
