//! Tokens and roles.

use crate::cluster::{Agent, Cluster, POLICIES, answered};
use quorate_coordinator::config::{CoordinatorConfig, Role, Token};
use quorate_shared::settings::TokenHash;
use reqwest::Method;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HOST, IF_MATCH};
use sha2::{Digest, Sha256};

fn tokens() -> Vec<Token> {
    let token =
        |name: &str, role| Token { name: name.into(), role, sha256: TokenHash::new(Sha256::digest(format!("{name}-secret")).into()) };
    vec![
        token("viewer", Role::Viewer),
        token("operator", Role::Operator),
        token("eu-agent", Role::Agent("eu".parse().expect("a name"))),
        token("eu-other", Role::Agent("eu".parse().expect("a name"))),
        token("peer", Role::Peer),
    ]
}

async fn guarded(count: u64) -> Cluster {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("peer-token");
    std::fs::write(&file, "peer-secret\n").expect("written");
    let tweak = |config: &mut CoordinatorConfig| {
        config.tokens = tokens();
        config.peer_token_file = Some(file.clone());
    };
    let cluster = Cluster::start(count, tweak).await.with_token("viewer-secret");
    for node in 0..usize::try_from(count).expect("small") {
        cluster.is_ready(node).await;
    }
    cluster
}

#[tokio::test]
async fn of_two_agents_that_claim_one_region_with_different_credentials_one_is_refused() {
    let cluster = guarded(1).await;
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let beat = |credential: &str, session, nonce| {
        let mut heartbeat = Agent::new("eu").beat(vec![]);
        (heartbeat.number.session, heartbeat.nonce) = (session, nonce);
        let sent = client.post(format!("{}/v1/regions/eu/heartbeat", cluster.url(0))).bearer_auth(format!("{credential}-secret"));
        answered(sent.json(&heartbeat))
    };
    assert_eq!(beat("eu-agent", 1, 1).await.status, 200);
    beat("eu-other", 2, 2).await.is_problem(409, "region-claimed");
    assert_eq!(beat("eu-agent", 3, 3).await.status, 200, "it goes on, in a new session of its own");
    beat("eu-other", 4, 4).await.is_problem(409, "region-claimed");
    let shared = beat("eu-other", 4, 3).await;
    assert_eq!(shared.status, 200, "it shares the session: {}", shared.text);
}

#[tokio::test]
async fn each_role_may_do_its_own_and_nothing_more() {
    let cluster = guarded(1).await;
    let beat = |region| serde_json::to_string(&Agent::new(region).beat(vec![])).expect("JSON");
    let ask = |method, path, body: String| cluster.request(0, method, path).header(CONTENT_TYPE, "application/json").body(body);
    let requests = || {
        [
            ask(Method::GET, "/v1/regions", String::new()),
            ask(Method::PUT, "/v1/policies?dry_run=true", POLICIES.into()).header(IF_MATCH, "\"1\""),
            ask(Method::POST, "/v1/regions/eu/heartbeat", beat("eu")),
            ask(Method::POST, "/v1/regions/us/heartbeat", beat("us")),
            ask(Method::POST, "/raft/append", String::new()),
            ask(Method::GET, "/healthz", String::new()),
            ask(Method::GET, "/", String::new()),
            ask(Method::GET, "/v1/policies/history", String::new()),
            ask(Method::POST, "/v1/policies/rollback?dry_run=true", r#"{"to": 1}"#.into()),
            ask(Method::GET, "/v1/cluster/snapshot", String::new()),
        ]
    };
    // 421: it got as far as Raft, which was not addressed
    let allowed = [
        ("viewer", [200, 403, 403, 403, 403, 200, 200, 200, 403, 403]),
        ("operator", [200, 200, 403, 403, 403, 200, 200, 200, 200, 200]),
        ("eu-agent", [403, 403, 200, 403, 403, 200, 200, 403, 403, 403]),
        ("peer", [200, 403, 403, 403, 421, 200, 200, 200, 403, 403]),
        ("nobody", [401, 401, 401, 401, 401, 200, 200, 401, 401, 401]),
    ];
    for (name, wanted) in allowed {
        for (at, (request, want)) in requests().into_iter().zip(wanted).enumerate() {
            let built = request.build().expect("a request");
            let mut built = reqwest::RequestBuilder::from_parts(reqwest::Client::new(), built).build().expect("a request");
            built.headers_mut().insert(AUTHORIZATION, format!("Bearer {name}-secret").parse().expect("ASCII"));
            let answer =
                answered(reqwest::RequestBuilder::from_parts(reqwest::Client::builder().no_proxy().build().expect("a client"), built))
                    .await;
            assert_eq!(answer.status.as_u16(), want, "{name}, request {at}: {}", answer.text);
            match want {
                401 => {
                    answer.is_problem(401, "unauthorized");
                    assert_eq!(answer.headers["www-authenticate"], "Bearer");
                }
                403 => drop(answer.is_problem(403, "forbidden")),
                _ => {}
            }
        }
    }
    let without =
        answered(reqwest::Client::builder().no_proxy().build().expect("a client").get(format!("{}/v1/regions", cluster.url(0)))).await;
    without.is_problem(401, "unauthorized");
}

#[tokio::test]
async fn who_asked_is_known_to_the_leader_too() {
    let cluster = guarded(3).await.with_token("operator-secret");
    let leader = cluster.leader().await;
    let put = cluster.put_policies((leader + 1) % 3, "", Some(1), POLICIES).await;
    assert_eq!(put.status, 200, "{}", put.text);
    let who = cluster.node(leader).node().read(|l| l.policy_history().iter().map(|v| v.by.who.clone()).collect::<Vec<_>>());
    assert_eq!(who, ["founding", "operator"]);
}

#[tokio::test]
async fn an_open_node_answers_to_no_name_of_others() {
    let cluster = Cluster::one().await;
    let named = |host| cluster.request(0, Method::GET, "/v1/regions").header(HOST, host);
    answered(named("evil.example")).await.is_problem(403, "forbidden");
    assert_eq!(answered(named("localhost:7101")).await.status, 200);
}
