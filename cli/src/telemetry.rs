//! The log of a process, and its spans.

use anyhow::Context;
use quorate_shared::settings::{LogFormat, LogLevel, LogSettings, TraceSettings};
use std::io::IsTerminal;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Directive;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

/// Whose log and spans they are.
pub struct Service {
    /// The program's part.
    pub name: &'static str,
    /// Which of them.
    pub instance: String,
}

/// What is to be ended once everything else has.
#[must_use = "the last spans are sent at the end"]
pub struct Telemetry {
    #[cfg(feature = "otlp")]
    traces: Option<quorate_traces::Traces>,
}

impl Telemetry {
    /// Sends the log to standard error, with colours only where somebody sees them, and spans to a collector, if there
    /// is one. `RUST_LOG` overrides the level of the log.
    ///
    /// # Errors
    /// If there can be no way to the collector, or this program was built without any.
    pub fn begin(log: &LogSettings, traces: Option<&TraceSettings>, service: Service) -> anyhow::Result<Self> {
        let registry = tracing_subscriber::registry().with(logged(log));
        let (set, begun) = with_traces(registry, traces, service)?;
        if let Err(error) = set {
            eprintln!("warning: the log stays off: {error}");
        }
        Ok(begun)
    }

    /// Sends the last spans.
    pub async fn end(self) {
        #[cfg(feature = "otlp")]
        if let Some(traces) = self.traces {
            // it waits for the collector; an error of the thread itself leaves nothing to be done
            let _ = tokio::task::spawn_blocking(move || traces.end()).await;
        }
    }
}

type Logged = tracing_subscriber::layer::Layered<Box<dyn Layer<Registry> + Send + Sync>, Registry>;
type Set = Result<(), tracing_subscriber::util::TryInitError>;

#[cfg(feature = "otlp")]
fn with_traces(registry: Logged, settings: Option<&TraceSettings>, service: Service) -> anyhow::Result<(Set, Telemetry)> {
    let Service { name, instance } = service;
    let whose = || quorate_traces::Service { name, instance, version: env!("CARGO_PKG_VERSION") };
    let traces = settings.map(|settings| quorate_traces::Traces::new(settings, whose())).transpose().context("traces")?;
    let set = match &traces {
        Some(traces) => registry.with(traces.layer()).try_init(),
        None => registry.try_init(),
    };
    Ok((set, Telemetry { traces }))
}

#[cfg(not(feature = "otlp"))]
fn with_traces(registry: Logged, settings: Option<&TraceSettings>, _: Service) -> anyhow::Result<(Set, Telemetry)> {
    anyhow::ensure!(settings.is_none(), "this program was built without the feature `otlp`: it has no traces");
    Ok((registry.try_init(), Telemetry {}))
}

fn logged(settings: &LogSettings) -> Box<dyn Layer<Registry> + Send + Sync> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(filter_of(settings.level)));
    let filter = filter.add_directive(without_spans());
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    match settings.format {
        LogFormat::Json => log.json().with_filter(filter).boxed(),
        LogFormat::Text => log.with_filter(filter).boxed(),
    }
}

/// Spans are for the collector: where nothing else wants them, they are not even made.
fn without_spans() -> Directive {
    format!("{}=off", quorate_traces::TARGET).parse().unwrap_or_else(|_| LevelFilter::INFO.into())
}

/// At `info` the library beneath the replicated log would tell each of its steps, and at `error`
/// it calls it one that a node ends while another sends to it.
fn filter_of(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Error => "error,openraft=off",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info,openraft=warn",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_leaves_spans_out_whatever_else_it_has() {
        assert_eq!(without_spans().to_string(), "quorate_span=off");
    }
}
