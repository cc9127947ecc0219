//! A [`tower`] layer for axum, tonic and hyper: it asks a Quorate agent before a service answers.
//!
//! | the agent says | the client gets |
//! |---|---|
//! | 200 | the service's answer, with `RateLimit` and `RateLimit-Policy` |
//! | 429, 422, 503 | that, as problem+json with all its fields; over gRPC `RESOURCE_EXHAUSTED`, or `UNAVAILABLE` for 503 |
//! | nothing in time, or what it cannot mean | as [`WithoutAgent`] says |
//!
//! A slot of a concurrency limit is given back when the body of the answer has been sent, or is dropped.
//!
//! ```
//! use quorate_tower::{Agent, CheckRequest, LimitLayer, WithoutAgent};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), quorate_tower::AgentError> {
//! let agent = Agent::new("http://127.0.0.1:7201")?.within(Duration::from_millis(30));
//! let limits = LimitLayer::new(agent, |request| {
//!     let tenant = request.headers.get("x-tenant")?.to_str().ok()?;
//!     let attributes = [("tenant", tenant), ("method", request.method.as_str())];
//!     let attributes = attributes.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
//!     Some(CheckRequest { attributes, ..CheckRequest::default() })
//! })
//! .without_agent(WithoutAgent::Open);
//! let routes: axum::Router = axum::Router::new().layer(limits);
//! # Ok(())
//! # }
//! ```

mod agent;
mod body;
mod layer;
mod refusal;

pub use agent::{Agent, AgentError};
pub use body::LimitedBody;
pub use layer::{Limit, LimitLayer, WithoutAgent};
pub use quorate_shared::api::CheckRequest;
