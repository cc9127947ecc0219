//! The commands as a shell sees them: exit statuses, what goes to which stream, what is sent.
#![allow(clippy::expect_used, reason = "tests say what they expect")]

mod stub;

use axum::Router;
use axum::body::Bytes;
use axum::extract::RawQuery;
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::{get, post};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use stub::{File, nowhere, quorate, serve};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

const SET: &str = "regions: {us: {}, eu: {}}\npolicies:\n- name: write\n  limit: {algorithm: token-bucket, rate: 100/s, burst: 200}\n";

fn problem(status: u16, kind: &str) -> Value {
    json!({"type": format!("https://quorate.dev/problems/{kind}"), "title": "Told so", "status": status})
}

#[tokio::test]
async fn what_is_no_command_is_a_usage_error() {
    for bad in [&["explain"] as &[&str], &["check"], &["load", "--rate", "100"], &["regions", "--coordinator", "127.0.0.1:7101"], &[]] {
        let ran = quorate(bad).await;
        assert_eq!((ran.status, ran.out.as_str()), (2, ""), "{bad:?}: {ran:?}");
        assert!(!ran.err.is_empty());
    }
}

#[tokio::test]
async fn version_help_and_completions_need_no_system() {
    let version = quorate(&["--version"]).await;
    assert_eq!((version.status, version.out), (0, format!("quorate {}\n", env!("CARGO_PKG_VERSION"))));
    assert_eq!(quorate(&["load", "--help"]).await.status, 0);
    for shell in ["bash", "zsh", "fish"] {
        let ran = quorate(&["completions", shell]).await;
        assert!(ran.status == 0 && ran.out.contains("follow-the-sun"), "{shell}: {ran:?}");
    }
}

#[tokio::test]
async fn a_refused_connection_says_where_and_what_to_do() {
    let (first, second) = (nowhere().await, nowhere().await);
    let ran = quorate(&["regions", "--coordinator", &first, "--coordinator", &second]).await;
    assert_eq!((ran.status, ran.out.as_str()), (1, ""), "{ran:?}");
    for part in [&first, &second, "connection refused", "quorate dev", "QUORATE_COORDINATOR"] {
        assert!(ran.err.contains(part), "`{part}` is not in\n{}", ran.err);
    }
    let agent = quorate(&["check", "--attributes", "a=b", "--agent", &first]).await;
    assert!(agent.status == 1 && agent.err.contains(&first) && agent.err.contains("QUORATE_AGENT"), "{agent:?}");
}

#[tokio::test]
async fn the_next_coordinator_is_asked_when_one_cannot_answer() {
    let regions = json!({"regions": []});
    let unready = serve(Router::new().route("/v1/regions", get(async || (StatusCode::SERVICE_UNAVAILABLE, "no leader")))).await;
    let good = serve(Router::new().route("/v1/regions", get(async move || axum::Json(regions)))).await;
    let all = [nowhere().await, unready.clone(), good].join(",");
    let ran = quorate(&["regions", "--json", "--coordinator", &all]).await;
    assert_eq!((ran.status, ran.out.as_str()), (0, "{\"regions\":[]}\n"), "{ran:?}");
    let ran = quorate(&["regions", "--coordinator", &unready]).await;
    assert!(ran.status == 1 && ran.err.contains("status 503") && ran.err.contains("no leader"), "{ran:?}");
}

#[tokio::test]
async fn a_decision_is_the_exit_status() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = asked.clone();
    let check = async move |body: Bytes| {
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        seen.lock().expect("whole").push(body.clone());
        match body["attributes"]["route"].as_str() {
            Some("write") => (StatusCode::OK, axum::Json(json!({"decision": "allow", "limits": [], "slot": null}))),
            Some("full") => {
                let mut refusal = problem(429, "quota-exceeded");
                refusal["violated-policies"] = json!(["write-api"]);
                refusal["retry_after_ms"] = json!(1590);
                (StatusCode::TOO_MANY_REQUESTS, axum::Json(refusal))
            }
            _ => (StatusCode::UNPROCESSABLE_ENTITY, axum::Json(problem(422, "cost-exceeds-limit"))),
        }
    };
    let agent = serve(Router::new().route("/v1/check", post(check))).await;
    let yes = quorate(&["check", "--agent", &agent, "--attributes", "route=write,tenant=acme", "--cost", "3"]).await;
    assert_eq!((yes.status, yes.out.as_str(), yes.err.as_str()), (0, "allowed: no policy matches\n", ""));
    let no = quorate(&["check", "--agent", &agent, "--attributes", "route=full"]).await;
    assert_eq!((no.status, no.out.as_str(), no.err.as_str()), (1, "refused by write-api; retry after 1.6s\n", ""));
    let raw = quorate(&["check", "--agent", &agent, "--attributes", "route=full", "--json"]).await;
    assert_eq!(raw.status, 1);
    assert_eq!(serde_json::from_str::<Value>(&raw.out).expect("JSON")["retry_after_ms"], 1590);
    let never = quorate(&["check", "--agent", &agent, "--attributes", "route=other"]).await;
    assert!(never.status == 1 && never.out.is_empty() && never.err.contains("Told so"), "{never:?}");
    let asked = asked.lock().expect("whole");
    assert_eq!(asked[0], json!({"attributes": {"route": "write", "tenant": "acme"}, "cost": 3}));
    assert_eq!(asked[1], json!({"attributes": {"route": "full"}}));
}

#[tokio::test]
async fn tables_have_no_colours_where_there_is_no_terminal() {
    let region = json!({"region": "eu", "state": "expired", "session": 3, "horizon_ms": 0, "heartbeat_age_ms": 1200, "agents": ["a"],
        "store": {"kind": "redis", "healthy": false}, "mode": "floor", "weight": 1, "policies": 4});
    let coordinator = serve(Router::new().route("/v1/regions", get(async move || axum::Json(json!({"regions": [region]}))))).await;
    let ran = quorate(&["regions", "--coordinator", &coordinator]).await;
    assert_eq!(ran.status, 0, "{ran:?}");
    assert!(ran.out.starts_with("REGION  STATE    MODE") && ran.out.contains("1.2s ago"), "{}", ran.out);
    assert!(!ran.out.contains('\u{1b}'));
}

#[tokio::test]
async fn the_token_is_sent_and_the_filters_are_passed_on() {
    let answer = async |headers: HeaderMap, RawQuery(query): RawQuery| {
        assert_eq!(headers.get(header::AUTHORIZATION).map(|v| v.as_bytes()), Some(b"Bearer s3cret".as_slice()));
        axum::Json(json!({"budgets": [], "cursor": query, "total": 0}))
    };
    let coordinator = serve(Router::new().route("/v1/budgets", get(answer))).await;
    let token = File::new("token", "s3cret\n");
    let (token, options) = (token.text(), ["--policy", "write", "--limit", "5", "--json"]);
    let ran = quorate(&[&["budgets", "--coordinator", &coordinator, "--token-file", &token], &options as &[&str]].concat()).await;
    assert_eq!(serde_json::from_str::<Value>(&ran.out).expect("JSON")["cursor"], "policy=write&limit=5", "{ran:?}");
}

#[tokio::test]
async fn another_server_is_not_taken_for_ours() {
    let web = serve(Router::new().fallback(async || "<html>hello</html>")).await;
    let ran = quorate(&["bound", "--coordinator", &web]).await;
    assert!(ran.status == 1 && ran.err.contains("Is it a coordinator?"), "{ran:?}");
}

#[tokio::test]
async fn validation_needs_no_system_and_tells_the_mistakes_of_all_files() {
    let good = File::new("good.yaml", SET);
    let first = File::new("first.yaml", &SET.replace("100/s", "100").replace("write", "Write"));
    let second = File::new("second.yaml", &SET.replace("burst", "bursts"));
    let ran = quorate(&["policy", "validate", &good.text()]).await;
    assert_eq!((ran.status, ran.out), (0, format!("{}: good; 1 policy, 2 regions\n", good.text())));
    let ran = quorate(&["policy", "validate", &first.text(), &good.text(), &second.text(), "/nowhere.yaml"]).await;
    assert_eq!(ran.status, 1);
    assert!(ran.out.contains("good.yaml: good"), "{ran:?}");
    for part in ["first.yaml:3:", "first.yaml:4:", "second.yaml:4:", "/nowhere.yaml"] {
        assert!(ran.err.contains(part), "`{part}` is not in\n{}", ran.err);
    }
    let ran = quorate(&["policy", "validate", "--json", &first.text(), &good.text(), "/nowhere.yaml"]).await;
    let files: Value = serde_json::from_str(&ran.out).expect("JSON");
    let valid: Vec<_> = files.as_array().expect("an array").iter().map(|file| file["valid"].as_bool()).collect();
    assert_eq!((ran.status, valid), (1, vec![Some(false), Some(true), Some(false)]), "{files}");
    let lines: Vec<_> = files[0]["errors"].as_array().expect("an array").iter().map(|error| error["line"].as_u64()).collect();
    assert_eq!(lines, [Some(3), Some(4)], "{files}");
}

#[tokio::test]
async fn an_import_prints_a_set_and_tells_the_rest_apart_from_it() {
    let limits = "domain: d\ndescriptors:\n- {key: k, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 5}}\n";
    let (good, bad) = (File::new("limits.yaml", limits), File::new("bad.yaml", "domain: d\ndescriptors:\n- {kye: k}\n"));
    let import = async |more: &[&str]| quorate(&[&["policy", "import", "--from", "envoy-ratelimit"], more].concat()).await;
    let ran = import(&[&good.text(), "--regions", "eu,us"]).await;
    assert_eq!((ran.status, ran.err.lines().count()), (0, 1), "{ran:?}");
    assert!(ran.err.starts_with(&format!("note: {}:3:24: `quota_mode`", good.text())), "{ran:?}");
    assert!(ran.out.starts_with("regions:\n  eu: {}\n  us: {}\n"), "{ran:?}");
    let set = File::new("set.yaml", &ran.out);
    assert!(quorate(&["policy", "validate", &set.text()]).await.out.contains("good; 1 policy, 2 regions"));
    let ran = import(&[&good.text(), &bad.text()]).await;
    assert_eq!((ran.status, ran.out.as_str()), (1, ""), "{ran:?}");
    let (unknown, again) =
        (format!("error: {}:3:4: unknown key `kye`", bad.text()), format!("error: {}:1:9: the domain `d` is in", good.text()));
    assert!(ran.err.contains(&unknown) && !ran.err.contains("note"), "{ran:?}");
    let ran = import(&[&good.text(), &good.text()]).await;
    assert!(ran.status == 1 && ran.err.starts_with(&again), "{ran:?}");
    let limits = File::new("limitador.yaml", "- {namespace: shop, max_value: 1, seconds: 1, conditions: [], variables: [], nmae: x}\n");
    let ran = quorate(&["policy", "import", "--from", "limitador", &limits.text()]).await;
    assert!(ran.status == 0 && ran.out.contains("name: shop\n") && ran.err.contains(":1:84: `nmae`"), "{ran:?}");
    assert_eq!(quorate(&["policy", "import", "--from", "nobody", &good.text()]).await.status, 2);
}

/// A coordinator that has set 4 and takes what replaces it; and the queries and bodies that it was sent.
async fn keeper() -> (String, Arc<Mutex<Vec<(Option<String>, String)>>>) {
    let taken = Arc::new(Mutex::new(Vec::new()));
    let seen = taken.clone();
    let old = async || {
        let write = json!({"name": "write", "limit": {"algorithm": "token-bucket", "rate": "50/s", "burst": 200}});
        axum::Json(json!({"version": 4, "active": 4, "pending": null, "regions": {"us": {}, "eu": {}}, "policies": [write]}))
    };
    let put = async move |headers: HeaderMap, RawQuery(query): RawQuery, body: String| {
        if headers.get(header::IF_MATCH).map(|v| v.as_bytes()) != Some(b"\"4\"".as_slice()) {
            return (StatusCode::PRECONDITION_FAILED, axum::Json(problem(412, "version-conflict")));
        }
        seen.lock().expect("whole").push((query, body));
        (StatusCode::OK, axum::Json(json!({"version": 5, "waits_for": ["eu"]})))
    };
    (serve(Router::new().route("/v1/policies", get(old).put(put))).await, taken)
}

#[tokio::test]
async fn a_policy_set_is_compared_and_put_in_force() {
    let (coordinator, taken) = keeper().await;
    let file = File::new("set.yaml", SET);
    let diff = quorate(&["policy", "diff", &file.text(), "--coordinator", &coordinator]).await;
    assert_eq!(diff.status, 0, "{diff:?}");
    assert!(diff.out.contains("write   limit.rate  50/s  100/s") && diff.out.contains("nothing was changed"), "{}", diff.out);
    // One that refuses the connection was surely not told.
    let both = [nowhere().await, coordinator.clone()].join(",");
    let apply = quorate(&["policy", "apply", &file.text(), "--why", "more room", "--coordinator", &both]).await;
    assert!(apply.out.contains("version 5 is accepted, and in force once confirmed by eu ("), "{apply:?}");
    assert!(apply.out.ends_with("until then a rollback to the version in force withdraws it\n"), "{apply:?}");
    let stale = quorate(&["policy", "apply", &file.text(), "--if-version", "3", "--coordinator", &coordinator]).await;
    assert!(stale.status == 1 && stale.err.contains("status 412"), "{stale:?}");
    let expected = [(Some("dry_run=true".to_owned()), SET.to_owned()), (Some("why=more%20room".to_owned()), SET.to_owned())];
    assert_eq!(*taken.lock().expect("whole"), expected);
}

#[tokio::test]
async fn a_rollback_names_the_version_that_it_replaces() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = asked.clone();
    let newest = async || {
        axum::Json(json!({"version": 6, "active": 5, "pending": {"version": 6, "waits_for": []}, "regions": {"us": {}}, "policies": []}))
    };
    let rollback = async move |headers: HeaderMap, RawQuery(query): RawQuery, body: String| {
        let text = |name| headers.get(name).map(|v| v.to_str().expect("ASCII").to_owned());
        let dry = query.as_deref().is_some_and(|query| query.contains("dry_run"));
        seen.lock().expect("whole").push((text(header::IF_MATCH), text(header::CONTENT_TYPE), query, body));
        let diff = json!([{"policy": "write", "field": "limit.rate", "from": "50/s", "to": "100/s"}]);
        let warnings = json!([{"pointer": "/policies/0/floor", "detail": "too little"}]);
        axum::Json(json!({"version": if dry { 6 } else { 7 }, "dry_run": dry, "waits_for": [], "warnings": warnings, "diff": diff}))
    };
    let routes = Router::new().route("/v1/policies", get(newest)).route("/v1/policies/rollback", post(rollback));
    let coordinator = serve(routes).await;
    let dry = quorate(&["policy", "rollback", "2", "--dry-run", "--coordinator", &coordinator]).await;
    assert!(dry.status == 0 && dry.out.contains("50/s  100/s") && dry.out.ends_with("version 6; nothing was changed\n"), "{dry:?}");
    assert_eq!(dry.err, "warning: /policies/0/floor: too little\n");
    let done = quorate(&["policy", "rollback", "2", "--why", "too tight", "--coordinator", &coordinator]).await;
    assert!(done.status == 0 && done.out.ends_with("version 7 is in force\n"), "{done:?}");
    let again = quorate(&["policy", "rollback", "2", "--if-version", "3", "--json", "--coordinator", &coordinator]).await;
    assert_eq!(serde_json::from_str::<Value>(&again.out).expect("JSON")["version"], 7, "{again:?}");
    let sent = |tag: &str, query: Option<&str>| {
        (Some(tag.to_owned()), Some("application/json".to_owned()), query.map(str::to_owned), "{\"to\":2}".to_owned())
    };
    let expected = [sent("\"6\"", Some("dry_run=true")), sent("\"6\"", Some("why=too%20tight")), sent("\"3\"", None)];
    assert_eq!(*asked.lock().expect("whole"), expected);
}

#[tokio::test]
async fn the_history_is_listed_and_one_version_is_printed_whole() {
    let answer = async |headers: HeaderMap, RawQuery(query): RawQuery| match query.as_deref() {
        None => {
            json!({"version": 1, "active": 1, "pending": null, "history": [{"version": 1, "who": "ops", "when": "2026-01-02T03:04:05.678Z",
            "why": "first\u{1b}[2J", "state": "active", "diff": []}]})
            .to_string()
        }
        Some(query) => format!("{query} as {}", headers[header::ACCEPT].to_str().expect("ASCII")),
    };
    let coordinator = serve(Router::new().route("/v1/policies/history", get(answer))).await;
    let run = async |options: &[&str]| quorate(&[&["policy", "history", "--coordinator", &coordinator], options].concat()).await.out;
    let table = run(&[]).await;
    assert!(table.ends_with("      1  active  2026-01-02T03:04:05.678Z  ops  nothing  first\u{fffd}[2J\n"), "{table}");
    assert_eq!(serde_json::from_str::<Value>(&run(&["--json"]).await).expect("JSON")["history"][0]["why"], "first\u{1b}[2J");
    assert_eq!(run(&["4"]).await, "version=4 as application/yaml\n");
    assert_eq!(run(&["4", "--json"]).await, "version=4 as application/json\n");
}

#[tokio::test]
async fn a_change_that_may_have_arrived_is_not_sent_again() {
    let (coordinator, taken) = keeper().await;
    let file = File::new("set.yaml", SET);
    // The first takes connections and closes them without a word. It is passed over when only asked.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let broken = format!("http://{}", listener.local_addr().expect("bound"));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 1024]).await;
        }
    });
    let ran = quorate(&["policy", "apply", &file.text(), "--coordinator", &broken, "--coordinator", &coordinator]).await;
    assert!(ran.status == 1 && ran.err.contains(&broken) && !ran.err.contains("connection refused"), "{ran:?}");
    assert_eq!(taken.lock().expect("whole").len(), 0);
}

#[tokio::test]
async fn clearing_alarms_says_what_fails_still() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = asked.clone();
    let clear = async move |RawQuery(query): RawQuery| {
        seen.lock().expect("whole").push(query);
        let standing = json!([{"policy": "write", "subject": "00ff", "what": "3 exceeds 2"}]);
        axum::Json(json!({"cleared": [{"policy": "write", "subject": "0001"}], "standing": standing}))
    };
    let coordinator = serve(Router::new().route("/v1/budgets/alarm/clear", post(clear))).await;
    let ran = quorate(&["cluster", "clear-alarm", "--policy", "write", "--why", "mended it", "--coordinator", &coordinator]).await;
    let lines = "write 0001: cleared, grants go on\nwrite 00ff: not cleared, the check fails still: 3 exceeds 2\n";
    assert_eq!((ran.status, ran.out.as_str()), (1, lines), "{ran:?}");
    assert_eq!(*asked.lock().expect("whole"), [Some("policy=write&why=mended%20it".to_owned())]);
}

#[tokio::test]
async fn a_set_with_mistakes_is_not_sent() {
    let (coordinator, taken) = keeper().await;
    let file = File::new("set.yaml", &SET.replace("100/s", "100"));
    let ran = quorate(&["policy", "apply", &file.text(), "--coordinator", &coordinator]).await;
    assert!(ran.status == 1 && ran.err.contains("set.yaml:4:"), "{ran:?}");
    assert_eq!(taken.lock().expect("whole").len(), 0);
}
