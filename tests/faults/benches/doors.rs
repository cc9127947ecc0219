//! What each front door adds: a gateway with and without its question to an agent, and a service with and without the
//! tower layer. 64 connections, each of which asks again as soon as it is answered.
//!
//!     cargo build --release -p quorate && cargo bench -p quorate-faults --bench doors
//!
//! One run measures all rows, so what is compared has met the same machine. Nothing is refused: the limit is far away.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    reason = "a bench with real processes: it reads clocks, starts programs and prints what it measured"
)]
#![allow(dead_code, reason = "the tests use more of what they share with it")]

#[path = "../tests/gateways/api.rs"]
mod api;
#[path = "../tests/gateways/gateway.rs"]
mod gateway;
#[path = "../tests/gateways/regions.rs"]
mod regions;

use api::Api;
use axum::Router;
use axum::routing::get;
use gateway::{Gateway, Program, WithoutAgent};
use quorate_tower::{Agent, CheckRequest, LimitLayer};
use regions::Regions;
use reqwest::Client;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

const CONNECTIONS: usize = 64;
const WARM_UP: Duration = Duration::from_millis(500);
const MEASURE: Duration = Duration::from_secs(4);

#[tokio::main]
async fn main() {
    let (regions, api) = (Regions::start().await, Api::start());
    println!("{CONNECTIONS} connections, {} s each; milliseconds", MEASURE.as_secs());
    println!("{:<28}{:>10}{:>8}{:>8}{:>11}{:>11}{:>9}", "", "answers/s", "p50", "p99", "added p50", "added p99", "not 200");
    let question = r#"{"attributes":{"path":"/bench"}}"#;
    row("the API itself", &format!("http://{}/bench", api.address()), None, None).await;
    row("the agent itself, /v1/check", &format!("http://{}/v1/check", regions.agent(0)), Some(question), None).await;
    for program in [Program::Nginx, Program::Haproxy, Program::Caddy] {
        let Some(path) = program.find() else { continue };
        let place = |kind: &str| format!("{program:?}-{kind}");
        let (found, agent) = ((program, path.as_path()), regions.agent(0));
        let bare = Gateway::start_changed(found, (regions.folder(), &place("bare")), (agent, api.address()), asks(program)).await;
        let before = row(&format!("{program:?}, which asks nobody"), &bare.url("/bench"), None, None).await;
        drop(bare);
        let closed = WithoutAgent::Closed;
        let asking = Gateway::start(found, (regions.folder(), &place("asking")), agent, api.address(), closed).await;
        row(&format!("{program:?} with an agent"), &asking.url("/bench"), None, Some(before)).await;
    }
    let service = || Router::new().route("/bench", get(|| async { "served" }));
    let before = row("axum, which asks nobody", &serve(service()).await, None, None).await;
    let agent = Agent::new(&format!("http://{}", regions.agent(0))).expect("a URL");
    let limits = LimitLayer::new(agent, |request| {
        let attributes = [("path".to_owned(), request.uri.path().to_owned())].into();
        Some(CheckRequest { attributes, ..CheckRequest::default() })
    });
    row("axum with the tower layer", &serve(service().layer(limits)).await, None, Some(before)).await;
}

/// The lines by which the shipped files ask an agent, and nothing in their place.
fn asks(program: Program) -> &'static [(&'static str, &'static str)] {
    match program {
        Program::Nginx => &[("include quorate-limit.conf;", ""), ("include quorate-server.conf;", "")],
        Program::Haproxy => &[("http-request lua.quorate", "")],
        Program::Caddy => &[("import quorate\n", "\n")],
    }
}

/// Serves it, and says where.
async fn serve(service: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/bench", listener.local_addr().expect("it is bound"));
    tokio::spawn(async move { axum::serve(listener, service).await.expect("it serves") });
    url
}

/// Answers in a second, and the two percentiles in milliseconds.
#[derive(Clone, Copy)]
struct Figures {
    p50: f64,
    p99: f64,
}

async fn row(name: &str, url: &str, question: Option<&'static str>, bare: Option<Figures>) -> Figures {
    let mut senders = JoinSet::new();
    let begun = Instant::now();
    for _ in 0..CONNECTIONS {
        let url = url.to_owned();
        senders.spawn(async move { ask(&url, question, begun).await });
    }
    let (answers, others): (Vec<_>, Vec<_>) = senders.join_all().await.into_iter().unzip();
    let mut took: Vec<f64> = answers.into_iter().flatten().collect();
    let others: usize = others.iter().sum();
    took.sort_by(f64::total_cmp);
    let at = |part: f64| took[((took.len() - 1) as f64 * part) as usize];
    let figures = Figures { p50: at(0.5), p99: at(0.99) };
    let rate = took.len() as f64 / MEASURE.as_secs_f64();
    let added = |with: f64, without: fn(Figures) -> f64| bare.map_or(String::new(), |bare| format!("{:.2}", with - without(bare)));
    let (p50, p99) = (added(figures.p50, |bare| bare.p50), added(figures.p99, |bare| bare.p99));
    println!("{name:<28}{rate:>10.0}{:>8.2}{:>8.2}{p50:>11}{p99:>11}{others:>9}", figures.p50, figures.p99);
    figures
}

/// Asks on one connection until the time is over; what each 200 after the warm-up took, in milliseconds, and how many
/// other answers there were: an agent that is too slow counts as none.
async fn ask(url: &str, question: Option<&'static str>, begun: Instant) -> (Vec<f64>, usize) {
    let client = Client::builder().no_proxy().pool_max_idle_per_host(1).build().expect("a client");
    let (mut took, mut others) = (Vec::new(), 0);
    while begun.elapsed() < WARM_UP + MEASURE {
        let request = match question {
            Some(question) => client.post(url).header("content-type", "application/json").body(question),
            None => client.get(url).header("x-api-key", "key-of-bench"),
        };
        let sent = Instant::now();
        let response = request.send().await.expect("an answer");
        let passed = response.status() == 200;
        response.bytes().await.expect("a body");
        if begun.elapsed() > WARM_UP {
            match passed {
                true => took.push(sent.elapsed().as_secs_f64() * 1_000.0),
                false => others += 1,
            }
        }
    }
    (took, others)
}
