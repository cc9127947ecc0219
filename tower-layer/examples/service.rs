//! A service of axum with limits: `cargo run -p quorate-tower --example service`, beside `./quickstart`.
//!
//!     curl -i http://127.0.0.1:8080/write -H 'x-api-key: key-of-acme'

use axum::Router;
use axum::routing::get;
use http::request::Parts;
use quorate_tower::{Agent, AgentError, CheckRequest, LimitLayer, WithoutAgent};
use std::time::Duration;

/// Who has a key is known by it, never by what they say of themselves.
const KEYS: [(&str, &str); 2] = [("key-of-acme", "acme"), ("key-of-globex", "globex")];

/// What the agent is asked about a request: nothing without a known key.
fn question(request: &Parts) -> Option<CheckRequest> {
    let key = request.headers.get("x-api-key")?;
    let (_, tenant) = KEYS.iter().find(|(known, _)| key == known)?;
    let route = request.uri.path().trim_matches('/');
    let attributes = [("tenant", *tenant), ("route", route)].map(|(name, value)| (name.to_owned(), value.to_owned()));
    Some(CheckRequest { attributes: attributes.into(), ..CheckRequest::default() })
}

/// The service, limited by the agent at this URL.
///
/// # Errors
/// If that is no URL.
pub fn service(agent: &str) -> Result<Router, AgentError> {
    let agent = Agent::new(agent)?.within(Duration::from_millis(100));
    let limits = LimitLayer::new(agent, question).without_agent(WithoutAgent::Open);
    Ok(Router::new().route("/write", get(|| async { "written\n" })).layer(limits))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    axum::serve(listener, service("http://127.0.0.1:7201")?).await?;
    Ok(())
}
