//! The way to a collector.

use crate::TARGET;
use http::HeaderMap;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::TracerProvider;
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::{HeaderExtractor, HeaderInjector};
use opentelemetry_otlp::{ExporterBuildError, Protocol, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use quorate_shared::settings::TraceSettings;
use quorate_shared::units::PartsPerMillion;
use std::time::Duration;
use tracing::Span;
use tracing::subscriber::Subscriber;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

/// Where a collector takes spans up, below its base URL.
const PATH: &str = "/v1/traces";

/// A collector has this long to take a batch of spans up; then they are lost.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Whose spans they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// `quorate-agent`, `quorate-coordinator` or `quorate-dev`.
    pub name: &'static str,
    /// Which of them.
    pub instance: String,
    /// Of the program.
    pub version: &'static str,
}

/// Spans on their way to a collector. They are sent in batches, by a thread of their own; of those for which there is no
/// room, and of those that the collector does not take up, nobody hears again.
#[derive(Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
}

/// Why there is no way to a collector.
#[derive(Debug, thiserror::Error)]
#[error("spans cannot be sent to {endpoint}: {source}")]
pub struct ExportError {
    endpoint: String,
    source: ExporterBuildError,
}

impl Traces {
    /// The way to the collector at `settings.endpoint`.
    ///
    /// # Errors
    /// If there can be none.
    pub fn new(settings: &TraceSettings, service: Service) -> Result<Self, ExportError> {
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{}{PATH}", settings.endpoint))
            .with_timeout(TIMEOUT)
            .build()
            .map_err(|source| ExportError { endpoint: settings.endpoint.clone(), source })?;
        let resource = Resource::builder_empty()
            .with_service_name(service.name)
            .with_attributes([KeyValue::new("service.instance.id", service.instance), KeyValue::new("service.version", service.version)])
            .build();
        let provider = SdkTracerProvider::builder()
            .with_resource(resource)
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(ratio(settings.sample)))))
            .with_batch_exporter(exporter)
            .build();
        Ok(Self { provider })
    }

    /// What takes the spans up; beside the log, which has a filter of its own.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer("quorate"))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_level(false)
            .with_tracked_inactivity(false)
            .with_filter(filter_fn(|metadata| metadata.target() == TARGET))
    }

    /// Sends what there is. Waits for the collector, so it is called where that harms nobody.
    pub fn end(self) {
        if let Err(error) = self.provider.shutdown_with_timeout(TIMEOUT) {
            tracing::warn!(%error, "the last spans were not sent");
        }
    }
}

fn ratio(share: PartsPerMillion) -> f64 {
    f64::from(share.0) / f64::from(PartsPerMillion::WHOLE.0)
}

/// See [`crate::continue_from`].
pub fn continue_from(span: &Span, headers: &HeaderMap) {
    let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &HeaderExtractor(headers));
    // fails of a span that no exporter sees, or that has begun: neither is one that was just made for it
    let _ = span.set_parent(context);
}

/// See [`crate::inject`].
pub fn inject(span: &Span, headers: &mut HeaderMap) {
    TraceContextPropagator::new().inject_context(&span.context(), &mut HeaderInjector(headers));
}
