//! What every gateway must do, and that each of them does it.

use crate::api::{Api, WORDS};
use crate::gateway::{Gateway, Program, WithoutAgent};
use crate::regions::{PATIENCE, REGIONS, Regions, UNITS};
use quorate_faults::wait::until;
use reqwest::header::HeaderMap;
use reqwest::{Client, StatusCode};
use std::path::{Path, PathBuf};

/// Regions, and a gateway before each of them.
struct Setting {
    gateways: Vec<Gateway>,
    regions: Regions,
    api: Api,
    program: (Program, PathBuf),
    client: Client,
}

/// What a client got.
struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl Setting {
    /// `None` where there is no such program.
    async fn before(program: Program, without: WithoutAgent) -> Option<Self> {
        let path = program.find()?;
        let (regions, api) = (Regions::start().await, Api::start());
        let client = Client::builder().no_proxy().timeout(PATIENCE).build().expect("a client");
        let mut setting = Self { gateways: Vec::new(), regions, api, program: (program, path), client };
        for region in 0..REGIONS.len() {
            let gateway = setting.gateway(region, without).await;
            setting.gateways.push(gateway);
        }
        Some(setting)
    }

    async fn gateway(&self, region: usize, without: WithoutAgent) -> Gateway {
        let program: (Program, &Path) = (self.program.0, &self.program.1);
        let name = format!("{:?}-{}-{without:?}", self.program.0, REGIONS[region]);
        Gateway::start(program, (self.regions.folder(), &name), self.regions.agent(region), self.api.address(), without).await
    }

    /// A request of the client with this key, with these fields besides.
    async fn get(&self, region: usize, path: &str, key: &str, fields: &[(&str, &str)]) -> Reply {
        let request = self.client.get(self.gateways[region].url(path)).header("x-api-key", key);
        let request = fields.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let response = request.send().await.expect("the gateway answers");
        let (status, headers) = (response.status(), response.headers().clone());
        Reply { status, headers, body: response.text().await.expect("a body") }
    }
}

impl Reply {
    /// A field, which is there once at most.
    fn field(&self, name: &str) -> Option<&str> {
        assert!(self.headers.get_all(name).iter().count() <= 1, "{name} more than once: {:?}", self.headers);
        self.headers.get(name).map(|value| value.to_str().expect("a text"))
    }

    /// Asserts that the API answered.
    fn passed(&self) -> &Self {
        assert!(self.status == 200 && self.body.starts_with(WORDS), "{} {}", self.status, self.body);
        self
    }

    /// Asserts that this is a problem of this kind and status.
    fn is_problem(&self, status: u16, kind: &str) -> &Self {
        assert_eq!(self.status, status, "{}", self.body);
        let body: serde_json::Value = serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.body));
        assert_eq!(self.field("content-type"), Some("application/problem+json"));
        assert_eq!(self.field("cache-control"), Some("no-store"));
        assert_eq!(body["status"], status);
        assert!(body["type"].as_str().is_some_and(|text| text.ends_with(kind)), "{body}");
        self
    }

    fn waits(&self) -> &Self {
        let seconds: u64 = self.field("retry-after").expect("a wait").parse().expect("seconds");
        assert!(seconds >= 1);
        self
    }
}

/// Each region's share of `/once` is one request.
async fn refusals_reach_clients(program: Program) {
    let Some(setting) = Setting::before(program, WithoutAgent::Closed).await else { return };
    let first = setting.get(0, "/once", "key-of-acme", &[]).await;
    first.passed();
    assert!(first.field("ratelimit").is_some_and(|field| field.contains("\"one-each\";r=0;t=")), "{:?}", first.headers);
    assert!(first.field("ratelimit-policy").is_some_and(|field| field.starts_with("\"per-tenant\";q=")), "{:?}", first.headers);

    let asked = setting.api.asked();
    let refused = setting.get(0, "/once", "key-of-acme", &[]).await;
    refused.is_problem(429, "quota-exceeded").waits();
    assert!(refused.body.contains("\"violated-policies\":[\"one-each\"]"), "{}", refused.body);
    assert!(refused.field("ratelimit").is_some_and(|field| field.contains("\"one-each\";r=0;t=")));
    assert!(refused.field("ratelimit-policy").is_some_and(|field| field.contains("\"one-each\";q=1;w=")));
    assert_eq!(setting.api.asked(), asked, "what is refused does not reach the API");
    setting.get(0, "/huge", "key-of-acme", &[]).await.is_problem(422, "cost-exceeds-limit");

    // other spellings are no way around, nor is what a client says of itself
    for path in ["//once", "/%6fnce", "/./once", "/once?again", "/x/../once"] {
        assert_eq!(setting.get(0, path, "key-of-acme", &[]).await.status, 429, "{path}");
    }
    let spoofed = [("x-tenant", "victim"), ("x-forwarded-for", "203.0.113.9"), ("x-forwarded-uri", "/else"), ("forwarded", "for=1.1.1.1")];
    assert_eq!(setting.get(0, "/once", "key-of-acme", &spoofed).await.status, 429);
    setting.get(0, "/once", "key-of-globex", &spoofed).await.passed();
    assert_eq!(setting.get(0, "/once", "key-of-globex", &[]).await.status, 429, "it was charged to whose key it was");
    let without_key = setting.get(0, "/free", "", &[("x-tenant", "acme")]).await;
    assert_eq!(without_key.passed().field("ratelimit"), None, "no tenant, whatever it says");
}

async fn without_an_agent(program: Program) {
    let Some(mut setting) = Setting::before(program, WithoutAgent::Closed).await else { return };
    setting.get(0, "/free", "key-of-acme", &[]).await.passed();
    let open = setting.gateway(0, WithoutAgent::Open).await;
    setting.gateways.push(open);
    setting.get(3, "/free", "key-of-acme", &[]).await.passed();
    setting.regions.kill_agent(0);
    setting.get(0, "/free", "key-of-acme", &[]).await.is_problem(503, "limiter-unavailable").waits();
    assert_eq!(setting.get(3, "/free", "key-of-acme", &[]).await.passed().field("retry-after"), None);
    setting.get(1, "/free", "key-of-acme", &[]).await.passed();
}

/// Each region asks in turn until nothing passes any more: what the regions lend each other takes a heartbeat or two.
async fn a_limit_over_three_regions(program: Program) {
    let Some(setting) = Setting::before(program, WithoutAgent::Closed).await else { return };
    let mut admitted = 0;
    for n in 0..10 * UNITS {
        let reply = setting.get(n % REGIONS.len(), "/free", "key-of-acme", &[]).await;
        match reply.status.as_u16() {
            200 => admitted += 1,
            _ => _ = reply.is_problem(429, "quota-exceeded").waits(),
        }
    }
    assert!(admitted <= UNITS, "{admitted} of {UNITS}");
    let admitted = std::cell::Cell::new(admitted);
    until("the whole limit is used", PATIENCE, async || {
        for region in 0..REGIONS.len() {
            admitted.set(admitted.get() + usize::from(setting.get(region, "/free", "key-of-acme", &[]).await.status == 200));
        }
        (admitted.get() >= UNITS).then_some(())
    })
    .await;
    for n in 0..UNITS {
        let reply = setting.get(n % REGIONS.len(), "/free", "key-of-acme", &[]).await;
        assert_eq!(reply.status, 429, "after {UNITS}");
    }
    assert_eq!((admitted.get(), setting.api.asked()), (UNITS, UNITS));
}

macro_rules! each_gateway {
    ($($name:ident: $program:expr;)*) => {$(
        mod $name {
            use super::*;

            #[tokio::test]
            async fn refused_requests_reach_the_client_right() {
                refusals_reach_clients($program).await;
            }

            #[tokio::test]
            async fn without_an_agent_it_does_as_configured() {
                without_an_agent($program).await;
            }

            #[tokio::test]
            async fn a_thousand_requests_over_three_regions_admit_a_hundred() {
                a_limit_over_three_regions($program).await;
            }
        }
    )*};
}

each_gateway! {
    nginx: Program::Nginx;
    haproxy: Program::Haproxy;
    caddy: Program::Caddy;
}
