//! Who asks is nobody else's business: a subject is planted, and every output is searched for it.

use crate::collector::Collector;
use crate::system::Dev;
use serde_json::{Value, json};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::process::Command;

/// In attributes, in ids of requests, and where it should not be.
const PLANTED: &str = "planted-5ubject-9e1b";

const SET: &str = "\
regions: {us: {}}
policies:
- name: bucket
  per: [tenant]
  limit: {algorithm: token-bucket, rate: 1/h, burst: 3}
- name: window
  per: [tenant, user]
  limit: {algorithm: fixed-window, units: 50, window: day}
- name: log
  per: [user]
  limit: {algorithm: sliding-log, units: 50, window: 1h}
- name: slots
  per: [tenant]
  limit: {algorithm: concurrency, slots: 50, max-hold: 10s}
";

const COORDINATOR: [&str; 9] = [
    "/v1/regions",
    "/v1/budgets",
    "/v1/bound",
    "/v1/cluster",
    "/v1/audit?limit=1000",
    "/v1/policies",
    "/v1/policies/history",
    "/metrics",
    "/readyz",
];
const AGENT: [&str; 3] = ["/v1/status", "/metrics", "/readyz"];

/// Every byte that Redis keeps.
const DUMP: &str = "local all = {} \
    for _, key in ipairs(redis.call('KEYS', '*')) do all[#all + 1] = key .. redis.call('DUMP', key) end return all";

/// Asks in every way that leaves something behind.
async fn ask(dev: &Dev) {
    let attributes = json!({"tenant": PLANTED, "user": format!("{PLANTED}@example.com"), PLANTED: PLANTED});
    let question = |id: u64| json!({"attributes": attributes, "request_id": format!("{PLANTED}-{id}")}).to_string();
    let mut answers = Vec::new();
    for id in 0..5 {
        answers.push(dev.post("/v1/check", question(id)).await);
    }
    assert_eq!(answers.iter().map(|(status, _)| *status).collect::<Vec<_>>(), [200, 200, 200, 429, 429]);
    let slot: Value = serde_json::from_str(&answers[0].1).expect("JSON");
    dev.post("/v1/release", json!({"slot": slot["slot"]}).to_string()).await;
    let reserve = json!({"attributes": {"user": PLANTED}, "cost": 2, "ttl": "30s"});
    let (_, reserved) = dev.post("/v1/reserve", reserve.to_string()).await;
    let reserved: Value = serde_json::from_str(&reserved).expect("JSON");
    dev.post("/v1/settle", json!({"reservation": reserved["reservation"], "cost": 1}).to_string()).await;
    for malformed in [format!("{{\"attributes\": {{\"tenant\": {PLANTED}"), json!({PLANTED: PLANTED}).to_string()] {
        assert_eq!(dev.post("/v1/check", malformed).await.0, 400);
    }
    for (status, text) in answers {
        assert!(!text.contains(PLANTED), "{status}: {text}");
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() { found.extend(files(&entry)) } else { found.push(entry) }
    }
    found
}

fn holds_it(bytes: &[u8]) -> bool {
    bytes.windows(PLANTED.len()).any(|window| window == PLANTED.as_bytes())
}

async fn redis(dev: &Dev, command: &[&str]) -> Vec<u8> {
    let port = dev.redis_port().to_string();
    let ran = Command::new("redis-cli").args(["-p", &port]).args(command).output().await.expect("redis-cli runs");
    ran.stdout
}

#[tokio::test]
async fn no_output_has_a_subject_in_clear() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, log) = (folder.path().join("data"), folder.path().join("log"));
    let (collector, url) = Collector::listen().await;
    let dev = Dev::start_with(SET, |command| {
        let log = File::create(&log).expect("a file");
        command
            .args(["--redis", "--data-dir", &data.display().to_string(), "--traces", &url])
            .env("RUST_LOG", "trace")
            .stderr(Stdio::from(log));
    })
    .await;
    ask(&dev).await;
    for (base, paths) in [(dev.coordinator(), &COORDINATOR[..]), (dev.agent(), &AGENT[..])] {
        for path in paths {
            let text = dev.get(format!("{base}{path}")).await;
            assert!(!text.is_empty() && !text.contains(PLANTED), "{path}: {text}");
        }
    }
    redis(&dev, &["CONFIG", "SET", "rdbcompression", "no"]).await;
    let kept = redis(&dev, &["EVAL", DUMP, "0"]).await;
    let shown = String::from_utf8_lossy(&kept);
    assert!(shown.contains(":bucket:") && !holds_it(&kept), "{shown}");
    dev.end().await;
    let spans = collector.bytes();
    assert!(spans.len() > 1_000 && !holds_it(&spans), "{}", String::from_utf8_lossy(&spans));
    let log = std::fs::read(&log).expect("a log");
    assert!(log.len() > 10_000, "the log has every detail");
    let line = log.split(|byte| *byte == b'\n').find(|line| holds_it(line)).map(String::from_utf8_lossy);
    assert_eq!(line, None);
    let stored = files(&data);
    assert!(stored.len() > 2, "{stored:?}");
    for file in stored {
        assert!(!holds_it(&std::fs::read(&file).expect("readable")), "{}", file.display());
    }
}
