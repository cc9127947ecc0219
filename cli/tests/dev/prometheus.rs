//! A real Prometheus reads what a system tells, by the configuration and the rules under `deploy/prometheus`.
//!
//! Passed over where there is no `prometheus` on PATH.

use crate::SET;
use crate::stub::File;
use crate::system::{Dev, PATIENCE};
use serde_json::{Value, json};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::process::{Child, Command};

fn deployed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("cli/ is in the checkout").join("deploy/prometheus")
}

/// The configuration that is shipped, with the addresses of this system, and quicker.
fn configuration(dev: &Dev) -> File {
    let text = std::fs::read_to_string(deployed().join("prometheus.yml")).expect("it is shipped");
    let address = |url: String| url.trim_start_matches("http://").to_owned();
    let replaced = [
        (r#""127.0.0.1:7101", "127.0.0.1:7102", "127.0.0.1:7103""#, format!("\"{}\"", address(dev.coordinator()))),
        (r#""127.0.0.1:7201", "127.0.0.1:7202", "127.0.0.1:7203""#, format!("\"{}\"", address(dev.agent()))),
        ("15s", "1s".to_owned()),
        ("quorate.rules.yml", deployed().join("quorate.rules.yml").display().to_string()),
    ];
    let text = replaced.into_iter().fold(text, |text, (from, to)| {
        assert!(text.contains(from), "{from} is not in the configuration");
        text.replace(from, &to)
    });
    File::new("prometheus.yml", &text)
}

struct Prometheus {
    process: Child,
    url: String,
    client: reqwest::Client,
    _files: (File, tempfile::TempDir),
}

impl Prometheus {
    /// `None` where there is none.
    fn start(dev: &Dev) -> Option<Self> {
        let (file, data) = (configuration(dev), tempfile::tempdir().expect("a folder"));
        let address = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port");
        let arguments = [
            format!("--config.file={}", file.text()),
            format!("--storage.tsdb.path={}", data.path().display()),
            format!("--web.listen-address={address}"),
        ];
        let process = Command::new("prometheus").args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn();
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        Some(Self { process: process.ok()?, url: format!("http://{address}"), client, _files: (file, data) })
    }

    async fn query(&self, expression: &str) -> Option<Vec<Value>> {
        let request = self.client.post(format!("{}/api/v1/query", self.url));
        let body = format!("query={}", expression.replace('%', "%25").replace('+', "%2B").replace('&', "%26"));
        let answer = request.header("content-type", "application/x-www-form-urlencoded").body(body).send().await.ok()?;
        let answer: Value = serde_json::from_str(&answer.text().await.ok()?).ok()?;
        answer["data"]["result"].as_array().cloned()
    }

    /// What a query gives once it gives what is wanted.
    async fn until(&self, expression: &str, wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let start = Instant::now();
        loop {
            let found = self.query(expression).await.unwrap_or_default();
            if wanted(&found) {
                return found;
            }
            assert!(start.elapsed() < PATIENCE, "{expression}: {found:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test]
async fn prometheus_scrapes_all_and_its_rules_record() {
    let dev = Dev::start(SET).await;
    let Some(mut prometheus) = Prometheus::start(&dev) else {
        eprintln!("passed over: there is no `prometheus` on PATH");
        return dev.stop().await;
    };
    let up = prometheus.until("up == 1", |found| found.len() == 2).await;
    let jobs: Vec<_> = up.iter().filter_map(|series| series["metric"]["job"].as_str()).collect();
    assert!(jobs.contains(&"quorate-coordinator") && jobs.contains(&"quorate-agent"), "{up:?}");
    for _ in 0..3 {
        dev.check(json!({"route": "once", "kind": "a", "id": "b"})).await;
    }
    let refused = "sum by (region, policy) (quorate_decisions_total{result=\"refused\"})";
    let counted = prometheus.until(refused, |found| !found.is_empty()).await;
    assert_eq!(counted[0]["metric"], json!({"region": "us", "policy": "once"}));
    assert_eq!(counted[0]["value"][1], "2");
    prometheus.until("quorate:overshoot_bound_tokens", |found| found.len() == 4).await;
    // one policy observes, so nothing bounds it, and that is pending for five minutes
    let pending = prometheus.until("ALERTS{alertname=\"QuorateUnbounded\"}", |found| !found.is_empty()).await;
    let policies: Vec<_> = pending.iter().filter_map(|series| series["metric"]["policy"].as_str()).collect();
    assert_eq!((policies, &pending[0]["metric"]["alertstate"]), (vec!["shadow", "trial"], &json!("pending")));
    let pages = prometheus.query("ALERTS{severity=\"page\"}").await.expect("an answer");
    assert!(pages.is_empty(), "{pages:?}");
    prometheus.process.kill().await.expect("it ran");
    dev.stop().await;
}

#[tokio::test]
async fn the_rules_pass_their_own_tests() {
    for arguments in [["check", "config", "prometheus.yml"], ["test", "rules", "quorate.rules.test.yml"]] {
        let ran = Command::new("promtool").args(arguments).current_dir(deployed()).output().await;
        let Ok(output) = ran else { return eprintln!("passed over: there is no `promtool` on PATH") };
        assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    }
}
