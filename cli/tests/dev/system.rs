//! One running system.

use crate::stub::{File, Ran, quorate};
use serde_json::{Value, json};
use std::net::TcpListener;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// For whatever a loaded machine may delay.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A running system.
pub struct Dev {
    process: Child,
    base: u16,
    client: reqwest::Client,
    _set: File,
}

impl Dev {
    /// One coordinator and one region.
    pub async fn start(set: &str) -> Self {
        Self::start_with(set, |_| {}).await
    }

    /// The same, run as a test wants it.
    pub async fn start_with(set: &str, tweak: impl Fn(&mut Command)) -> Self {
        let file = File::new("set.yaml", set);
        let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().expect("a client");
        for _ in 0..10 {
            // one of its ports is free; if another is not, it says so and ends
            let free = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port").port();
            let Some(base) = free.checked_sub(101).filter(|base| (1..=65_136).contains(base)) else { continue };
            let port = base.to_string();
            let arguments = ["dev", "--regions", "us", "--coordinators", "1", "--policies", &file.text(), "--port-base", &port];
            let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
            tweak(command.args(arguments).stdout(Stdio::piped()).kill_on_drop(true));
            let mut process = command.spawn().expect("the binary runs");
            let mut lines = BufReader::new(process.stdout.take().expect("piped")).lines();
            while let Some(line) = lines.next_line().await.expect("UTF-8") {
                if line.starts_with("ready") {
                    return Self { process, base, client, _set: file };
                }
            }
        }
        panic!("it does not start");
    }

    /// Where the region's Redis is, if there is one.
    pub fn redis_port(&self) -> u16 {
        self.base + 301
    }

    pub fn coordinator(&self) -> String {
        format!("http://127.0.0.1:{}", self.base + 1)
    }

    pub fn agent(&self) -> String {
        format!("http://127.0.0.1:{}", self.base + 101)
    }

    pub async fn get(&self, url: String) -> String {
        self.client.get(url).send().await.expect("an answer").text().await.expect("a body")
    }

    pub async fn check(&self, attributes: Value) -> (u16, Value) {
        let (status, text) = self.post("/v1/check", json!({"attributes": attributes}).to_string()).await;
        (status, serde_json::from_str(&text).expect("JSON"))
    }

    /// Any question to the agent.
    pub async fn post(&self, path: &str, body: String) -> (u16, String) {
        let request = self.client.post(format!("{}{path}", self.agent())).header("content-type", "application/json").body(body);
        let answer = request.send().await.expect("an answer");
        (answer.status().as_u16(), answer.text().await.expect("a body"))
    }

    /// The same, in a trace.
    pub async fn post_in_trace(&self, path: &str, traceparent: &str, body: String) -> u16 {
        let request = self.client.post(format!("{}{path}", self.agent())).header("content-type", "application/json");
        request.header("traceparent", traceparent).body(body).send().await.expect("an answer").status().as_u16()
    }

    /// Runs a command against this system.
    pub async fn run(&self, arguments: &[&str]) -> Ran {
        quorate(&[arguments, &["--coordinator", &self.coordinator(), "--agent", &self.agent()]].concat()).await
    }

    /// Waits until the agent goes by this version of the policy set.
    pub async fn goes_by(&self, version: u64) {
        let start = Instant::now();
        loop {
            let status: Value = serde_json::from_str(&self.get(format!("{}/v1/status", self.agent())).await).expect("JSON");
            if status["policies"] == version {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{status}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Ends it as an operator does.
    pub async fn end(mut self) {
        let id = self.process.id().expect("it runs").to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().await.expect("a command").success());
        assert!(self.process.wait().await.expect("it ran").success());
    }

    pub async fn stop(mut self) {
        self.process.kill().await.expect("it ran");
    }
}
