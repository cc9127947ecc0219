//! Decisions a second over gRPC, beside the same over HTTP and beside a service that answers without deciding anything: each by
//! four connections with 64 streams each, in turns, client and server in this process.
//!
//! `cargo bench -p quorate-tests --bench grpc`
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    missing_docs,
    reason = "a measurement: it reads clocks and prints"
)]

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_server::{RateLimitService, RateLimitServiceServer};
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use quorate_agent::config::{AgentConfig, StoreConfig};
use quorate_agent::server::Agent;
use quorate_coordinator::config::CoordinatorConfig;
use quorate_coordinator::server::Coordinator;
use quorate_faults::ports::Port;
use quorate_faults::wait::until;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

const CONNECTIONS: usize = 4;
const STREAMS: usize = 64;
const ROUNDS: usize = 5;
const TURN: Duration = Duration::from_secs(2);

const POLICIES: &str = "regions: {eu: {}}\npolicies:\n- {name: open, match: {route: write}, per: [tenant], \
                        limit: {algorithm: token-bucket, rate: 1000000/s, burst: 1000000}}\n";

/// Answers without looking.
struct Empty;

#[tonic::async_trait]
impl RateLimitService for Empty {
    async fn should_rate_limit(&self, _: Request<RateLimitRequest>) -> Result<Response<RateLimitResponse>, Status> {
        Ok(Response::new(RateLimitResponse::default()))
    }
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
enum Door {
    Empty,
    Grpc,
    Http,
}

#[tokio::main]
async fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let policies = folder.path().join("policies.yaml");
    std::fs::write(&policies, POLICIES).expect("written");
    let (node, http, grpc, empty) = (Port::reserve(), Port::reserve(), Port::reserve(), Port::reserve());
    let members = BTreeMap::from([(1, node.address().to_string())]);
    let coordinator = CoordinatorConfig::new(1, node.address(), members, folder.path().join("node"));
    let _coordinator = Coordinator::start(CoordinatorConfig { policies: Some(policies), ..coordinator }).await.expect("it starts");
    let urls = vec![format!("http://{}", node.address())];
    let config = AgentConfig::new("eu".parse().expect("a name"), http.address(), urls, StoreConfig::Embedded);
    let agent = Agent::start(AgentConfig { grpc_listen: Some(grpc.address()), ..config }).await.expect("it starts");
    until("the agent is ready", Duration::from_secs(30), async || agent.region().ready().ok()).await;
    let routes = tonic::service::Routes::new(RateLimitServiceServer::new(Empty)).into_axum_router();
    let listener = empty.listen();
    tokio::spawn(async move { axum::serve(listener, routes).await });

    let mut best = BTreeMap::new();
    for _ in 0..ROUNDS {
        for (name, door, address) in
            [("empty", Door::Empty, empty.address()), ("gRPC", Door::Grpc, grpc.address()), ("HTTP/2", Door::Http, http.address())]
        {
            let rate = measure(door, address).await;
            let known = best.entry(name).or_insert(0.0);
            *known = f64::max(*known, rate);
        }
    }
    println!("{CONNECTIONS} connections of {STREAMS} streams; the best of {ROUNDS} turns of {TURN:?} each");
    for (name, rate) in &best {
        println!("{name:>7}: {rate:>9.0} a second, {:.2} of gRPC", rate / best["gRPC"]);
    }
    agent.shutdown().await;
}

async fn measure(door: Door, address: SocketAddr) -> f64 {
    let answered = Arc::new(AtomicU64::new(0));
    let mut asking = Vec::new();
    for connection in 0..CONNECTIONS {
        let client = Client::connect(door, address).await;
        for stream in 0..STREAMS {
            let (client, answered) = (client.clone(), answered.clone());
            asking.push(tokio::spawn(client.ask_on(format!("tenant-{}", connection * STREAMS + stream), answered)));
        }
    }
    tokio::time::sleep(TURN / 4).await;
    let (begun, before) = (Instant::now(), answered.load(Ordering::Relaxed));
    tokio::time::sleep(TURN).await;
    let count = answered.load(Ordering::Relaxed) - before;
    let rate = count as f64 / begun.elapsed().as_secs_f64();
    asking.into_iter().for_each(|task| task.abort());
    rate
}

/// One connection.
#[derive(Clone)]
enum Client {
    Grpc(RateLimitServiceClient<Channel>),
    Http(reqwest::Client, String),
}

impl Client {
    async fn connect(door: Door, address: SocketAddr) -> Self {
        match door {
            Door::Empty | Door::Grpc => {
                Self::Grpc(RateLimitServiceClient::connect(format!("http://{address}")).await.expect("a connection"))
            }
            Door::Http => {
                let client = reqwest::Client::builder().no_proxy().http2_prior_knowledge().build().expect("a client");
                Self::Http(client, format!("http://{address}/v1/check"))
            }
        }
    }

    /// Asks again and again.
    async fn ask_on(mut self, tenant: String, answered: Arc<AtomicU64>) {
        let entry = |key: &str, value: &str| Entry { key: key.to_owned(), value: value.to_owned() };
        let entries = vec![entry("route", "write"), entry("tenant", &tenant)];
        let descriptors = vec![RateLimitDescriptor { entries, ..RateLimitDescriptor::default() }];
        let request = RateLimitRequest { domain: "edge".to_owned(), descriptors, hits_addend: 0 };
        let body = serde_json::json!({"attributes": {"domain": "edge", "route": "write", "tenant": tenant}}).to_string();
        loop {
            match &mut self {
                Self::Grpc(client) => drop(client.should_rate_limit(request.clone()).await.expect("an answer")),
                Self::Http(client, url) => {
                    let sent = client.post(&*url).header("content-type", "application/json").body(body.clone()).send();
                    let answer = sent.await.and_then(reqwest::Response::error_for_status).expect("an answer");
                    drop(answer.bytes().await.expect("a body"));
                }
            }
            answered.fetch_add(1, Ordering::Relaxed);
        }
    }
}
