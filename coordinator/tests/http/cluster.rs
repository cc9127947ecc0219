//! Nodes to ask, and an agent made by hand.

use quorate_coordinator::config::CoordinatorConfig;
use quorate_coordinator::server::Coordinator;
use quorate_shared::heartbeat::{Answer, Heartbeat, Number, Report, Response as Renewal, Stamp, StoreReport};
use reqwest::header::{CONTENT_TYPE, ETAG, HeaderMap, IF_MATCH};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::net::TcpListener;

/// For whatever a loaded machine may delay. Nothing waits so long where all is well.
const PATIENCE: Duration = Duration::from_secs(30);

pub const POLICIES: &str = "\
regions: {us: {weight: 2}, eu: {}}
policies:
  - name: write-api
    match: {route: write}
    per: [tenant]
    limit: {algorithm: token-bucket, rate: 300/s, burst: 300}
    on-store-failure: closed
";

/// Coordinators that run in this process.
pub struct Cluster {
    nodes: Vec<Option<Coordinator>>,
    urls: Vec<String>,
    client: reqwest::Client,
    token: Option<&'static str>,
    _dir: TempDir,
}

/// A status, headers and a body.
pub struct Answered {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answered {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {}", self.text))
    }

    pub fn etag(&self) -> &str {
        self.headers[ETAG].to_str().expect("ASCII")
    }

    /// Asserts that it is a problem of this type, whole.
    #[track_caller]
    pub fn is_problem(&self, status: u16, kind: &str) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        assert_eq!(self.headers[CONTENT_TYPE], "application/problem+json", "{}", self.text);
        let problem = self.json();
        assert_eq!(problem["type"], format!("https://quorate.dev/problems/{kind}"));
        assert_eq!(problem["status"], status);
        assert!(!problem["title"].as_str().expect("a title").is_empty());
        problem
    }
}

impl Cluster {
    /// One node, founded with [`POLICIES`].
    pub async fn one() -> Self {
        let cluster = Self::start(1, |_| {}).await;
        cluster.is_ready(0).await;
        cluster
    }

    /// Three nodes, founded with [`POLICIES`].
    pub async fn three() -> Self {
        let cluster = Self::start(3, |_| {}).await;
        for node in 0..3 {
            cluster.is_ready(node).await;
        }
        cluster
    }

    /// Nodes that have just been started.
    pub async fn start(count: u64, tweak: impl Fn(&mut CoordinatorConfig)) -> Self {
        Self::start_some(count, count, tweak).await
    }

    /// The first `started` of `count` members.
    pub async fn start_some(count: u64, started: u64, tweak: impl Fn(&mut CoordinatorConfig)) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let policies = dir.path().join("policies.yaml");
        std::fs::write(&policies, POLICIES).expect("written");
        let mut listeners = Vec::new();
        for _ in 0..count {
            listeners.push(TcpListener::bind("127.0.0.1:0").await.expect("a port"));
        }
        let addresses: Vec<_> = listeners.iter().map(|l| l.local_addr().expect("an address")).collect();
        let members: BTreeMap<u64, String> = (1..).zip(addresses.iter().map(ToString::to_string)).collect();
        let mut nodes = Vec::new();
        for (id, listener) in (1..=started).zip(listeners) {
            let address = listener.local_addr().expect("an address");
            let mut config = CoordinatorConfig::new(id, address, members.clone(), dir.path().join(id.to_string()));
            config.policies = Some(policies.clone());
            tweak(&mut config);
            nodes.push(Some(Coordinator::start_on(listener, config).await.expect("started")));
        }
        let urls = addresses.iter().map(|a| format!("http://{a}")).collect();
        let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().expect("a client");
        Self { nodes, urls, client, token: None, _dir: dir }
    }

    /// With this token in every request.
    pub fn with_token(mut self, token: &'static str) -> Self {
        self.token = Some(token);
        self
    }

    pub fn node(&self, node: usize) -> &Coordinator {
        self.nodes[node].as_ref().expect("running")
    }

    pub fn url(&self, node: usize) -> &str {
        &self.urls[node]
    }

    pub async fn stop(&mut self, node: usize) {
        self.nodes[node].take().expect("running").shutdown().await;
    }

    pub fn request(&self, node: usize, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.urls[node]));
        match self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    pub async fn get(&self, node: usize, path: &str) -> Answered {
        answered(self.request(node, Method::GET, path)).await
    }

    /// `PUT /v1/policies` in place of a version.
    pub async fn put_policies(&self, node: usize, query: &str, if_match: Option<u64>, text: impl Into<String>) -> Answered {
        let mut request = self.request(node, Method::PUT, &format!("/v1/policies{query}")).header(CONTENT_TYPE, "application/yaml");
        if let Some(version) = if_match {
            request = request.header(IF_MATCH, format!("\"{version}\""));
        }
        answered(request.body(text.into())).await
    }

    pub async fn post_heartbeat(&self, node: usize, region: &str, body: impl Into<String>) -> Answered {
        let request = self.request(node, Method::POST, &format!("/v1/regions/{region}/heartbeat"));
        answered(request.header(CONTENT_TYPE, "application/json").body(body.into())).await
    }

    pub async fn is_ready(&self, node: usize) {
        self.until(|| async { (self.get(node, "/readyz").await.status == 200).then_some(()) }).await;
        self.until(|| async { (self.get(node, "/v1/policies").await.json()["active"] != 0).then_some(()) }).await;
    }

    /// The leader by the word of the first node that runs.
    pub async fn leader(&self) -> usize {
        let asked = self.nodes.iter().position(Option::is_some).expect("a node");
        let id = self.until(|| async { self.get(asked, "/v1/cluster").await.json()["leader"].as_u64() }).await;
        usize::try_from(id).expect("small") - 1
    }

    /// Asks until there is an answer. What a node says over HTTP can only be asked for again: the
    /// pause spares the nodes, and decides nothing.
    pub async fn until<T, F: Future<Output = Option<T>>>(&self, ask: impl Fn() -> F) -> T {
        let start = Instant::now();
        loop {
            if let Some(value) = ask().await {
                return value;
            }
            assert!(start.elapsed() < PATIENCE, "it did not come true");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

pub async fn answered(request: RequestBuilder) -> Answered {
    let response = request.send().await.expect("an answer");
    let (status, headers) = (response.status(), response.headers().clone());
    Answered { status, headers, text: response.text().await.expect("a body") }
}

/// Every session here is the first of its number.
const NONCE: u64 = 7;

/// One region's agent.
pub struct Agent {
    pub region: &'static str,
    pub number: Number,
    pub echo: Option<Stamp>,
    pub policies: Option<u64>,
}

impl Agent {
    pub fn new(region: &'static str) -> Self {
        Self { region, number: Number { session: 1, seq: 0 }, echo: None, policies: None }
    }

    /// The next heartbeat.
    pub fn beat(&mut self, reports: Vec<Report>) -> Heartbeat {
        self.number.seq += 1;
        Heartbeat {
            echo: self.echo,
            floors_drained: self.echo,
            policies: self.policies,
            reports,
            ..Heartbeat::silent(
                self.region.parse().expect("a name"),
                format!("{}-1", self.region),
                self.number,
                NONCE,
                StoreReport::new("embedded", true),
            )
        }
    }

    /// Sends the next heartbeat and applies the response.
    pub async fn renew(&mut self, cluster: &Cluster, node: usize, reports: Vec<Report>) -> Renewal {
        let beat = serde_json::to_string(&self.beat(reports)).expect("JSON");
        let answer = cluster.post_heartbeat(node, self.region, beat).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        match serde_json::from_str(&answer.text).expect("an answer") {
            Answer::Renewed(renewal) => {
                self.echo = Some(renewal.stamp);
                self.policies = Some(renewal.policies.active);
                *renewal
            }
            other => panic!("{other:?}"),
        }
    }
}
