//! A collector of spans, as OTLP over HTTP has it.

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

/// What it was sent.
#[derive(Clone, Default)]
pub struct Collector {
    bodies: Arc<Mutex<Vec<Bytes>>>,
}

impl Collector {
    /// One that listens, and its URL.
    pub async fn listen() -> (Self, String) {
        let collector = Self::default();
        let bodies = collector.bodies.clone();
        let take = move |body: Bytes| async move {
            bodies.lock().expect("nobody panicked").push(body);
            StatusCode::OK
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        tokio::spawn(async move { axum::serve(listener, Router::new().route("/v1/traces", post(take))).await });
        (collector, url)
    }

    /// Every byte of it.
    pub fn bytes(&self) -> Vec<u8> {
        self.bodies.lock().expect("nobody panicked").concat()
    }

    /// All spans.
    pub fn spans(&self) -> Vec<Span> {
        let bodies = self.bodies.lock().expect("nobody panicked");
        let read = |body: &Bytes| ExportTraceServiceRequest::decode(body.clone()).expect("OTLP");
        let resources = bodies.iter().flat_map(|body| read(body).resource_spans);
        resources.flat_map(|of| of.scope_spans).flat_map(|of| of.spans).collect()
    }
}
