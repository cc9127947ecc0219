//! The API behind the gateways: says what it was asked.

use axum::Router;
use axum::http::HeaderMap;
use quorate_faults::ports::Port;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::task::JoinHandle;

/// What every answer begins with.
pub const WORDS: &str = "the api";

/// A running API; ends with this value.
#[derive(Debug)]
pub struct Api {
    port: Port,
    asked: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl Api {
    /// Starts it. It says `RateLimit` fields of its own, which no client is to see.
    pub fn start() -> Self {
        let port = Port::reserve();
        let asked = Arc::new(AtomicUsize::new(0));
        let (listener, counted) = (port.listen(), asked.clone());
        let answer = move |headers: HeaderMap| {
            let counted = counted.clone();
            async move {
                counted.fetch_add(1, Ordering::Relaxed);
                let own = [("ratelimit", "\"api\";r=1"), ("ratelimit-policy", "\"api\";q=1;w=1")];
                (own, format!("{WORDS}, asked by {}", headers.len()))
            }
        };
        let serving = tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await.expect("it serves") });
        Self { port, asked, serving }
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Requests that reached it.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
