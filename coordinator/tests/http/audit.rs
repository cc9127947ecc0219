//! The account of what happened.

use crate::cluster::{Agent, Cluster, POLICIES};
use quorate_shared::audit::{AuditEvent, AuditKind, AuditPage};
use quorate_shared::heartbeat::Report;
use quorate_shared::names::BudgetId;
use quorate_shared::units::MicroTokens;
use reqwest::header::CONTENT_TYPE;

const SUBJECT: &str = "00000000000000000000000000000001";

fn wants(tokens: u64) -> Report {
    let budget = BudgetId { policy: "write-api".parse().expect("a name"), generation: 1, subject: SUBJECT.parse().expect("a hash") };
    let (demand, none) = (MicroTokens::from_tokens(tokens).expect("small"), MicroTokens::ZERO);
    Report { budget, demand, admitted: demand, refused: none, estimated: none, largest: none }
}

async fn page(cluster: &Cluster, node: usize, query: &str) -> AuditPage {
    let answer = cluster.get(node, &format!("/v1/audit{query}")).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    serde_json::from_str(&answer.text).expect("a page")
}

fn kinds(page: &AuditPage) -> Vec<AuditKind> {
    page.events.iter().map(|event| event.kind).collect()
}

/// Lets `us` lend to `eu`.
async fn lend(cluster: &Cluster) {
    let (mut eu, mut us) = (Agent::new("eu"), Agent::new("us"));
    for _ in 0..4 {
        us.renew(cluster, 0, vec![]).await;
        eu.renew(cluster, 0, vec![wants(250)]).await;
    }
}

#[tokio::test]
async fn any_node_tells_who_changed_what_and_why() {
    let cluster = Cluster::three().await;
    let text = POLICIES.replace("300/s", "400/s");
    assert_eq!(cluster.put_policies(1, "?why=more%20room", Some(1), text.clone()).await.status, 200);
    assert_eq!(cluster.put_policies(1, "?why=again", Some(1), text).await.status, 412, "refused");
    for node in 0..3 {
        let page = page(&cluster, node, "").await;
        let changes: Vec<&AuditEvent> = page.events.iter().filter(|event| event.kind == AuditKind::PoliciesChanged).collect();
        let [second, first] = changes.as_slice() else { panic!("{page:?}") };
        assert_eq!((second.version, second.who.as_deref(), second.why.as_deref()), (Some(2), Some("anonymous"), Some("more room")));
        assert_eq!((first.version, first.who.as_deref()), (Some(1), Some("founding")));
        assert!(second.index > first.index && second.at_ms >= first.at_ms && first.at_ms > 0, "{page:?}");
        let active: Vec<_> = page.events.iter().filter(|e| e.kind == AuditKind::PoliciesActive).map(|e| e.version).collect();
        assert_eq!(active, [Some(2), Some(1)]);
        assert!(kinds(&page).contains(&AuditKind::Founded) && kinds(&page).contains(&AuditKind::MembersChanged), "{page:?}");
    }
}

#[tokio::test]
async fn each_grant_is_told_by_its_budget_and_its_region() {
    let cluster = Cluster::one().await;
    lend(&cluster).await;
    let granted = page(&cluster, 0, &format!("?policy=write-api&subject={SUBJECT}&region=eu")).await;
    let newest = granted.events.first().expect("a grant");
    assert_eq!((newest.kind, newest.region.as_deref(), newest.policy.as_deref()), (AuditKind::Granted, Some("eu"), Some("write-api")));
    let loan = newest.holding.as_ref().and_then(|holding| holding.borrowed.get("us")).expect("a loan");
    assert!(loan.rate >= 150.0, "{newest:?}");
    assert!(granted.events.iter().all(|event| event.region.as_deref() == Some("eu")));
    let lent = page(&cluster, 0, "?kind=granted&region=us").await;
    assert!(lent.events.iter().any(|event| event.holding.as_ref().is_some_and(|holding| holding.lent.rate >= 150.0)), "{lent:?}");
    let sessions = page(&cluster, 0, "?kind=session-began").await;
    assert_eq!(sessions.events.iter().map(|event| event.region.as_deref()).collect::<Vec<_>>(), [Some("eu"), Some("us")]);
    assert!(page(&cluster, 0, "?policy=another").await.events.is_empty());
    let later = granted.events[0].at_ms + 1;
    assert!(page(&cluster, 0, &format!("?since_ms={later}")).await.events.is_empty());
    assert_eq!(page(&cluster, 0, &format!("?until_ms={later}")).await.events[0], granted.events[0]);
}

#[tokio::test]
async fn pages_follow_one_another_and_lines_are_the_same_events() {
    let cluster = Cluster::one().await;
    lend(&cluster).await;
    let all = page(&cluster, 0, "?limit=1000").await;
    assert!(all.events.len() > 4 && all.next.is_none(), "{all:?}");
    let (mut paged, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let query = cursor.map_or("?limit=2".to_owned(), |cursor| format!("?limit=2&cursor={cursor}"));
        let AuditPage { events, next } = page(&cluster, 0, &query).await;
        assert!(events.len() <= 2);
        paged.extend(events);
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(paged, all.events);
    let lines = cluster.get(0, "/v1/audit?format=jsonl&limit=3").await;
    assert_eq!((&lines.headers[CONTENT_TYPE], lines.text.lines().count()), (&"application/jsonl".parse().expect("a value"), 3));
    let read: Vec<AuditEvent> = lines.text.lines().map(|line| serde_json::from_str(line).expect("an event")).collect();
    assert_eq!(read, all.events[..3]);
    let rest = lines.headers["quorate-next-cursor"].to_str().expect("ASCII");
    assert_eq!(page(&cluster, 0, &format!("?cursor={rest}")).await.events, all.events[3..]);
}

#[tokio::test]
async fn a_question_with_a_mistake_is_refused() {
    let cluster = Cluster::one().await;
    for bad in [
        "?kind=x",
        "?limit=0",
        "?limit=10001",
        "?cursor=x",
        "?policy=A",
        "?subject=x",
        "?region=",
        "?format=xml",
        "?since=1",
        "?since_ms=-1",
    ] {
        let problem = cluster.get(0, &format!("/v1/audit{bad}")).await.is_problem(400, "invalid-request");
        assert!(problem.to_string().contains("query"), "{problem}");
    }
}
