//! Envoy, which asks by gRPC: about each request (RLS), or for parts that it spends by itself (RLQS).

use crate::api::{Api, WORDS};
use crate::regions::{PATIENCE, REGIONS, Regions, UNITS};
use quorate_faults::ports::Port;
use quorate_faults::process::Process;
use quorate_faults::wait::until;
use reqwest::{Client, Response};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Which of the shipped files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filter {
    Rls,
    Rlqs,
}

impl Filter {
    fn file(self) -> &'static str {
        match self {
            Self::Rls => "rate-limit.yaml",
            Self::Rlqs => "rate-limit-quota.yaml",
        }
    }

    /// How the file says that nothing passes without an agent, and that everything does.
    fn without_agent(self) -> (&'static str, &'static str) {
        match self {
            Self::Rls => ("failure_mode_deny: true", "failure_mode_deny: false"),
            Self::Rlqs => ("blanket_rule: DENY_ALL", "blanket_rule: ALLOW_ALL"),
        }
    }
}

/// Regions, and an Envoy before each of them.
struct Setting {
    envoys: Vec<Envoy>,
    regions: Regions,
    api: Api,
    program: PathBuf,
    client: Client,
}

struct Envoy {
    port: Port,
    _admin: Port,
    _process: Process,
}

/// The program, if this machine has it.
fn find() -> Option<PathBuf> {
    let program = PathBuf::from(std::env::var("QUORATE_TEST_ENVOY").unwrap_or_else(|_| "envoy".to_owned()));
    let found = Command::new(&program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("passed over: there is no envoy on this machine; ./test says how to get it");
    }
    found.then_some(program)
}

impl Setting {
    async fn of(filter: Filter) -> Option<Self> {
        let program = find()?;
        let client = Client::builder().no_proxy().timeout(PATIENCE).build().expect("a client");
        let mut setting = Self { envoys: Vec::new(), regions: Regions::start().await, api: Api::start(), program, client };
        for region in 0..REGIONS.len() {
            setting.add(region, filter, false).await;
        }
        Some(setting)
    }

    /// Starts one more Envoy before a region's agent, and waits until it is ready.
    async fn add(&mut self, region: usize, filter: Filter, open: bool) {
        let (port, admin) = (Port::reserve(), Port::reserve());
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/envoy").join(filter.file());
        let mut text = fs::read_to_string(source).expect("it is shipped");
        let put_in = [(8080, port.address()), (8081, self.api.address()), (7301, self.regions.grpc(region)), (9901, admin.address())];
        for (shipped, here) in put_in {
            text = text.replace(&format!("port_value: {shipped}}}"), &format!("port_value: {}}}", here.port()));
        }
        if open {
            let (closed, open) = filter.without_agent();
            assert!(text.contains(closed), "{closed}");
            text = text.replace(closed, open);
        }
        let name = format!("envoy-{}", self.envoys.len());
        let config = self.regions.folder().join(format!("{name}.yaml"));
        fs::write(&config, text).expect("written");
        let arguments = ["-c", config.to_str().expect("UTF-8"), "--concurrency", "1", "--use-dynamic-base-id", "-l", "warning"];
        let _process = Process::start(&self.program, &arguments, &self.regions.folder().join(format!("{name}.log")));
        let clusters = format!("http://{}/clusters", admin.address());
        until("envoy listens, and takes the agent for healthy", PATIENCE, async || {
            let text = self.client.get(&clusters).send().await.ok()?.text().await.ok()?;
            let healthy = text.lines().any(|line| line.starts_with("quorate::") && line.ends_with("::health_flags::healthy"));
            tokio::net::TcpStream::connect(port.address()).await.ok().filter(|_| healthy)
        })
        .await;
        self.envoys.push(Envoy { port, _admin: admin, _process });
    }

    async fn get(&self, envoy: usize, tenant: Option<&str>) -> Response {
        let request = self.client.get(format!("http://{}/", self.envoys[envoy].port.address()));
        let request = tenant.into_iter().fold(request, |request, tenant| request.header("x-tenant", tenant));
        request.send().await.expect("envoy answers")
    }

    async fn passes(&self, envoy: usize, tenant: Option<&str>) -> bool {
        let response = self.get(envoy, tenant).await;
        let status = response.status().as_u16();
        assert!(status == 200 || field(&response, "retry-after").is_some(), "{status} {:?}", response.headers());
        let passed = status == 200 && response.text().await.expect("a body").starts_with(WORDS);
        assert!(passed || status == 429, "{status}");
        passed
    }

    /// Asks in each region in turn until the limit is used up, and then some more.
    async fn a_limit_over_three_regions(&self) {
        let mut admitted = 0;
        for n in 0..10 * UNITS {
            admitted += usize::from(self.passes(n % REGIONS.len(), Some("acme")).await);
        }
        assert!(admitted <= UNITS, "{admitted} of {UNITS}");
        let admitted = std::cell::Cell::new(admitted);
        until("the whole limit is used", 2 * PATIENCE, async || {
            for region in 0..REGIONS.len() {
                admitted.set(admitted.get() + usize::from(self.passes(region, Some("acme")).await));
            }
            (admitted.get() >= UNITS).then_some(())
        })
        .await;
        for n in 0..UNITS {
            assert!(!self.passes(n % REGIONS.len(), Some("acme")).await, "after {UNITS}");
        }
        assert_eq!((admitted.get(), self.api.asked()), (UNITS, UNITS));
    }
}

/// A field, which is there once at most.
fn field<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
    assert!(response.headers().get_all(name).iter().count() <= 1, "{name} more than once: {:?}", response.headers());
    response.headers().get(name).map(|value| value.to_str().expect("a text"))
}

#[tokio::test]
async fn refused_requests_reach_the_client_right() {
    let Some(setting) = Setting::of(Filter::Rls).await else { return };
    let first = setting.get(0, Some("once")).await;
    assert_eq!(first.status(), 200);
    assert!(field(&first, "ratelimit").is_some_and(|field| field.contains("\"one-each-by-envoy\";r=0;t=")), "{:?}", first.headers());
    let asked = setting.api.asked();
    let refused = setting.get(0, Some("once")).await;
    assert_eq!(refused.status(), 429);
    assert!(field(&refused, "retry-after").is_some_and(|seconds| seconds.parse::<u64>().is_ok_and(|seconds| seconds > 0)));
    assert!(field(&refused, "ratelimit").is_some_and(|field| field.contains("\"one-each-by-envoy\";r=0;t=")));
    assert!(field(&refused, "ratelimit-policy").is_some_and(|field| field.contains("\"one-each-by-envoy\";q=1;w=")));
    assert_eq!(setting.api.asked(), asked, "what is refused does not reach the API");
    assert!(setting.passes(0, None).await, "without a tenant nothing is asked");
}

#[tokio::test]
async fn without_an_agent_it_does_as_configured() {
    let Some(mut setting) = Setting::of(Filter::Rls).await else { return };
    setting.add(0, Filter::Rls, true).await;
    assert!(setting.passes(0, Some("acme")).await && setting.passes(3, Some("acme")).await);
    setting.regions.kill_agent(0);
    assert_eq!(setting.get(0, Some("acme")).await.status(), 500, "failure_mode_deny: true");
    assert!(setting.passes(3, Some("acme")).await, "failure_mode_deny: false");
    assert!(setting.passes(1, Some("acme")).await, "another region");
}

#[tokio::test]
async fn a_thousand_requests_over_three_regions_admit_a_hundred() {
    let Some(setting) = Setting::of(Filter::Rls).await else { return };
    setting.a_limit_over_three_regions().await;
}

#[tokio::test]
async fn parts_that_envoys_spend_by_themselves_are_within_the_limit() {
    let Some(mut setting) = Setting::of(Filter::Rlqs).await else { return };
    // two that share a region
    setting.add(0, Filter::Rlqs, false).await;
    until("the fourth gets a part", PATIENCE, async || setting.passes(3, Some("acme")).await.then_some(())).await;
    let before = setting.api.asked();
    assert_eq!(before, 1);
    let asked = std::cell::Cell::new(0_usize);
    until("the whole limit is used", 3 * PATIENCE, async || {
        for envoy in 0..setting.envoys.len() {
            setting.passes(envoy, Some("acme")).await;
            asked.set(asked.get() + 1);
        }
        assert!(setting.api.asked() <= UNITS, "{} passed", setting.api.asked());
        (setting.api.asked() == UNITS && asked.get() >= 10 * UNITS).then_some(())
    })
    .await;
    assert!(setting.passes(0, None).await, "what has no tenant is not limited");
}

#[tokio::test]
async fn without_an_agent_parts_end_and_then_it_does_as_configured() {
    let Some(mut setting) = Setting::of(Filter::Rlqs).await else { return };
    setting.add(0, Filter::Rlqs, true).await;
    for envoy in [0, 3] {
        until("it gets a part", PATIENCE, async || setting.passes(envoy, Some("acme")).await.then_some(())).await;
    }
    setting.regions.kill_agent(0);
    until("its part is used up or over", PATIENCE, async || (!setting.passes(0, Some("acme")).await).then_some(())).await;
    for _ in 0..UNITS {
        assert!(!setting.passes(0, Some("acme")).await, "DENY_ALL");
    }
    until("the part of the other is over, and everything passes", PATIENCE, async || {
        for _ in 0..UNITS {
            if !setting.passes(3, Some("acme")).await {
                return None;
            }
        }
        Some(())
    })
    .await;
}
