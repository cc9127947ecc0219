//! Ten thousand real requests from three regions, replayed against the whole system on real Redis.
//!
//! The trace stays outside the repository, beside the checkout in `shared/data/access-log.tsv`, or
//! where `QUORATE_TRACE` says; without it this test says so and passes over it. Needs `redis-server`
//! on PATH and the `quorate` binary of the same profile, as `./test` builds it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    reason = "a test with real processes: it starts programs and says what it passes over"
)]

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const POLICIES: &str = "\
regions: {us: {}, eu: {}, ap: {}}
policies:
  - name: per-route
    match: {route: '*'}
    per: [route]
    limit: {algorithm: token-bucket, rate: 20/s, burst: 20}
    on-store-failure: closed
";

/// How much faster than in life: 83 hours in 15 s.
const SPEED: &str = "20000";

struct System(Child);

impl Drop for System {
    fn drop(&mut self) {
        // SIGTERM, so that it ends its Redis servers too
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

#[test]
fn a_real_day_admits_no_more_than_the_limits() {
    let Some(trace) = trace() else {
        println!("passed over: no trace beside the checkout, and QUORATE_TRACE names none");
        return;
    };
    let folder = tempfile::tempdir().expect("a directory");
    let policies = folder.path().join("policies.yaml");
    std::fs::write(&policies, POLICIES).expect("written");
    let (_system, base) = start(&policies);
    let report = load(&trace, base);
    assert_eq!(report["offered"], 10_000, "{report:#}");
    assert_eq!(report["measured_overshoot"], 0.0, "{report:#}");
    let count = |field: &str| report[field].as_u64().expect("a number");
    assert!(count("admitted") > 0 && count("refused") > 0, "{report:#}");
    println!("utilisation {}, p99 {} ms", report["utilisation"], report["latency_ms"]["p99"]);
}

fn trace() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/access-log.tsv");
    let path = std::env::var_os("QUORATE_TRACE").map_or(beside, PathBuf::from);
    path.exists().then_some(path)
}

/// The `quorate` binary of this profile, beside this test's own.
fn quorate() -> PathBuf {
    let own = std::env::current_exe().expect("a path");
    let binary = own.parent().and_then(Path::parent).expect("target/PROFILE").join("quorate");
    assert!(binary.exists(), "{} is not there: cargo build -p quorate", binary.display());
    binary
}

/// The whole system on ports that are free, and the base of its ports.
fn start(policies: &Path) -> (System, u16) {
    let first = 20_000 + u16::try_from(std::process::id() % 300).expect("small") * 100;
    for attempt in 0..10 {
        let base = first + attempt * 1_000;
        let mut command = Command::new(quorate());
        command.args(["dev", "--redis", "--port-base", &base.to_string(), "--policies"]).arg(policies);
        let mut system = System(command.stdout(Stdio::piped()).spawn().expect("it starts"));
        let lines = BufReader::new(system.0.stdout.take().expect("piped")).lines();
        if lines.map_while(Result::ok).any(|line| line.starts_with("ready")) {
            return (system, base);
        }
    }
    panic!("the system did not start on any of ten port ranges");
}

fn load(trace: &Path, base: u16) -> Value {
    let agents: Vec<String> = (1..=3).map(|n| format!("http://127.0.0.1:{}", base + 100 + n)).collect();
    let coordinator = format!("http://127.0.0.1:{}", base + 1);
    let mut command = Command::new(quorate());
    command.args(["--coordinator", &coordinator, "load", "--json", "--speed", SPEED, "--agents", &agents.join(","), "--trace"]).arg(trace);
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}
