//! Heartbeats.

use crate::cluster::{Agent, Cluster};
use quorate_shared::api::{Budgets, Regions};
use quorate_shared::heartbeat::{Answer, Number, Report};
use quorate_shared::names::{BudgetId, SubjectHash};
use quorate_shared::units::MicroTokens;
use serde_json::json;

pub fn report(subject: &str, tokens: u64) -> Report {
    let amount = MicroTokens::from_tokens(tokens).expect("small");
    let subject: SubjectHash = format!("{subject:0>32}").parse().expect("a hash");
    let budget = BudgetId { policy: "write-api".parse().expect("a name"), generation: 1, subject };
    Report {
        budget,
        demand: amount,
        admitted: amount,
        refused: MicroTokens::ZERO,
        estimated: MicroTokens::ZERO,
        largest: MicroTokens::ZERO,
    }
}

#[tokio::test]
async fn a_region_lives_by_heartbeats_through_any_node() {
    let cluster = Cluster::three().await;
    let leader = cluster.leader().await;
    let mut eu = Agent::new("eu");
    for node in [0, 1, 2, 0] {
        let renewal = eu.renew(&cluster, node, vec![]).await;
        assert_eq!((renewal.stamp.number, renewal.policies.active), (eu.number, 1), "node {node}");
    }
    for node in 0..3 {
        let regions: Regions = serde_json::from_value(cluster.get(node, "/v1/regions").await.json()).expect("regions");
        let [eu, us] = regions.regions.as_slice() else { panic!("{regions:?}") };
        assert_eq!((eu.region.as_str(), eu.state.as_str(), eu.mode.as_str(), eu.session), ("eu", "live", "leased", 1), "node {node}");
        assert!(eu.horizon_ms > 0 && eu.horizon_ms <= 5_005, "{}", eu.horizon_ms);
        assert_eq!((us.region.as_str(), us.state.as_str()), ("us", "unknown"));
    }
    let follower = (leader + 1) % 3;
    let scraped = cluster.get(follower, "/metrics").await.text;
    assert!(scraped.contains("quorate_heartbeats_total{result=\"forwarded\"}"), "{scraped}");
}

#[tokio::test]
async fn capacity_moves_to_the_demand_and_is_shown() {
    let cluster = Cluster::one().await;
    let (mut eu, mut us) = (Agent::new("eu"), Agent::new("us"));
    us.renew(&cluster, 0, vec![]).await;
    let mut offered = 0;
    for _ in 0..6 {
        us.renew(&cluster, 0, vec![]).await;
        let offers = eu.renew(&cluster, 0, vec![report("1", 250), report("2", 200)]).await.offers;
        offered = offers.iter().map(|o| o.holding.borrowed_total().rate.tokens_floor()).max().unwrap_or(offered);
    }
    assert!(offered >= 150, "eu has a floor of 100/s, wants 250/s and was lent {offered}");

    let budgets = |query: &'static str| {
        let cluster = &cluster;
        async move { serde_json::from_value::<Budgets>(cluster.get(0, &format!("/v1/budgets{query}")).await.json()).expect("budgets") }
    };
    let all = budgets("").await;
    assert_eq!((all.total, all.budgets.len(), all.cursor), (2, 2, None));
    let most = budgets("?sort=demand&limit=1&policy=write-api").await;
    assert!(most.budgets[0].subject.ends_with('1'), "{most:?}");
    assert_eq!((most.budgets[0].limit.rate, most.budgets[0].regions["eu"].floor.rate), (300.0, 100.0));
    let cursor = most.cursor.expect("another page");
    let rest = cluster.get(0, &format!("/v1/budgets?sort=demand&limit=1&cursor={cursor}")).await.json();
    assert!(rest["budgets"][0]["subject"].as_str().expect("text").ends_with('2'), "{rest}");
    assert_eq!((&rest["cursor"], &rest["total"]), (&json!(null), &json!(2)));
    let one = budgets("?subject=00000000000000000000000000000002").await;
    assert_eq!(one.total, 1);
    assert_eq!(budgets("?policy=no-such").await.total, 0);
}

#[tokio::test]
async fn an_old_heartbeat_renews_nothing() {
    let cluster = Cluster::one().await;
    let mut eu = Agent::new("eu");
    eu.renew(&cluster, 0, vec![]).await;
    eu.renew(&cluster, 0, vec![]).await;
    let newest = eu.number;
    eu.number = Number { session: 1, seq: 0 };
    let again = serde_json::to_string(&eu.beat(vec![])).expect("JSON");
    let answer = cluster.post_heartbeat(0, "eu", again).await;
    assert_eq!(serde_json::from_str::<Answer>(&answer.text).expect("an answer"), Answer::Stale { newest });
    let mut mars = Agent::new("mars");
    let answer = cluster.post_heartbeat(0, "mars", serde_json::to_string(&mars.beat(vec![])).expect("JSON")).await;
    assert_eq!(serde_json::from_str::<Answer>(&answer.text).expect("an answer"), Answer::UnknownRegion);
    let scraped = cluster.get(0, "/metrics").await.text;
    for result in ["stale", "unknown_region"] {
        assert!(scraped.contains(&format!("quorate_heartbeats_total{{result=\"{result}\"}} 1\n")), "{scraped}");
    }
}

#[tokio::test]
async fn a_region_whose_store_fails_says_so_until_it_renews_again() {
    let cluster = Cluster::one().await;
    let mut eu = Agent::new("eu");
    let mut first = serde_json::to_value(eu.beat(vec![])).expect("JSON");
    first["others"] = json!(["eu-2"]);
    cluster.post_heartbeat(0, "eu", first.to_string()).await;
    let region = async || cluster.get(0, "/v1/regions").await.json()["regions"][0].clone();
    let healthy = async || region().await["store"]["healthy"].clone();
    assert_eq!(healthy().await, json!(true));
    let (number, newest) = (Number { seq: eu.number.seq - 1, ..eu.number }, eu.number);
    eu.number = number;
    let mut notice = serde_json::to_value(eu.beat(vec![])).expect("JSON");
    notice["store"]["healthy"] = json!(false);
    let answer = cluster.post_heartbeat(0, "eu", notice.to_string()).await;
    assert_eq!(serde_json::from_str::<Answer>(&answer.text).expect("an answer"), Answer::Stale { newest });
    assert_eq!(healthy().await, json!(false));
    assert_eq!(region().await["agents"], json!(["eu-1", "eu-2"]), "a notice names no others, and takes none away");
    eu.number = newest;
    eu.renew(&cluster, 0, vec![]).await;
    assert_eq!(healthy().await, json!(true));
}

#[tokio::test]
async fn a_heartbeat_for_nobody_is_refused_in_its_place() {
    let cluster = Cluster::one().await;
    let good = serde_json::to_value(Agent::new("eu").beat(vec![])).expect("JSON");
    let drained = || {
        let stamp = json!({"n": {"session": 1, "seq": 1}, "o": {"term": 1, "process": 1}, "at": 1});
        vec![json!([report("1", 1).budget, stamp]); 1_001]
    };
    let window = |label: u64, last: u64| json!({"policy": "write-api", "generation": 1, "label": label, "last": last});
    let spent = |label: u64| json!({"b": report("1", 1).budget, "w": label, "s": 1});
    let beyond = 9_007_199_254_740_992_u64;
    let cases = [
        ("/reports", json!({"reports": vec![json!(report("1", 1)); 1_001]})),
        ("/drained", json!({"drained": drained()})),
        ("/spent", json!({"spent": vec![spent(1); 2_001]})),
        ("/windows", json!({"windows": vec![window(1, 1); 10_001]})),
        ("/windows/1", json!({"windows": [window(1, 1), window(beyond, 1)]})),
        ("/windows/0", json!({"windows": [window(1, u64::MAX)]})),
        ("/spent/0", json!({"spent": [spent(u64::MAX)]})),
        ("/number/seq", json!({"number": {"session": 1, "seq": "x"}})),
        ("/region", json!({"region": "us"})),
        ("/reports/0", json!({"reports": [7]})),
        ("/number", json!({"number": {"session": 9_007_199_254_740_992_u64, "seq": 1}})),
        ("/agent", json!({"agent": "\u{1b}[2J"})),
        ("/agent", json!({"agent": "x".repeat(129)})),
        ("/store/kind", json!({"store": {"kind": "", "healthy": true}})),
    ];
    for (pointer, change) in cases {
        let mut body = good.clone();
        body.as_object_mut().expect("an object").extend(change.as_object().expect("an object").clone());
        let problem = cluster.post_heartbeat(0, "eu", body.to_string()).await.is_problem(400, "invalid-request");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
    cluster.post_heartbeat(0, "eu", "{").await.is_problem(400, "invalid-request");
    let newer = json!({"protocol": 99, "anything": true}).to_string();
    let problem = cluster.post_heartbeat(0, "eu", newer).await.is_problem(400, "protocol-mismatch");
    assert_eq!(problem["protocol"], 1);
    let large = " ".repeat((8 << 20) + 1);
    cluster.post_heartbeat(0, "eu", large).await.is_problem(413, "body-too-large");
}

#[tokio::test]
async fn a_new_leader_takes_over_and_the_old_session_goes_on() {
    let mut cluster = Cluster::three().await;
    let mut eu = Agent::new("eu");
    let first = cluster.leader().await;
    let before = eu.renew(&cluster, first, vec![]).await.stamp.office;
    cluster.stop(first).await;
    let asked = (first + 1) % 3;
    let office = cluster
        .until(|| async {
            // of each attempt it is not known whether it was counted
            let number = Number { session: 1, seq: eu.number.seq + 1 };
            let mut beat = Agent { number, ..Agent::new("eu") };
            let body = serde_json::to_string(&beat.beat(vec![])).expect("JSON");
            let answer = cluster.post_heartbeat(asked, "eu", body).await;
            if answer.status != 200 {
                let kind = answer.json()["type"].as_str().expect("a type").to_owned();
                assert!(kind.ends_with("/no-leader") || kind.ends_with("/outcome-unknown"), "{}", answer.text);
                assert_eq!(answer.headers["retry-after"], "1");
                return None;
            }
            match serde_json::from_str(&answer.text).expect("an answer") {
                Answer::Renewed(renewal) => Some(renewal.stamp.office),
                other => panic!("{other:?}"),
            }
        })
        .await;
    assert!(office.term > before.term, "{office:?} after {before:?}");
}
