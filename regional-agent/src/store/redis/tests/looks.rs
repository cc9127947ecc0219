//! Looks of several agents at one region: the lock, who is there, the fence of a session, what expires.

use super::*;
use crate::store::look::{AGENT_LIFE, Bid, Look, Looked};
use quorate_limiter::election::{AgentId, Lock};
use quorate_limiter::record::Refusal;

const MICROS: u64 = 1_000_000;

fn look(agent: u64) -> Look {
    let bid = Bid { free: true, none: true, ..Bid::default() };
    Look { me: AgentId(agent), name: format!("agent {agent}"), urges: 0, reaches: false, bid, reports: None, known: None }
}

fn held(looked: &Looked) -> (u64, Option<u64>) {
    looked.lock.map(|lock| (lock.token, lock.holder.map(|id| id.0))).expect("a lock")
}

async fn at(store: &RedisStore, look: &Look) -> Looked {
    store.look(look).await.expect("it answers")
}

#[tokio::test]
async fn one_agent_holds_the_lock_until_it_gives_it_back_or_lets_it_stand_still() {
    let server = Server::start();
    let (first, second) = (store(&server), store(&server));
    assert_eq!(held(&at(&first, &look(1)).await), (1, Some(1)));
    let seen = at(&second, &look(2)).await;
    assert_eq!(held(&seen), (1, Some(1)), "somebody has it");
    let challenge = Look { bid: Bid { challenged: seen.lock, ..Bid::default() }, ..look(2) };
    at(&first, &look(1)).await;
    assert_eq!(held(&at(&second, &challenge).await), (1, Some(1)), "it was counted up in between");
    let still = Look { bid: Bid { challenged: at(&second, &look(2)).await.lock, ..Bid::default() }, ..look(2) };
    assert_eq!(held(&at(&second, &still).await), (2, Some(2)));
    assert_eq!(held(&at(&first, &look(1)).await), (2, Some(2)), "it is lost to who held it");
    second.leave(&look(2)).await.expect("it answers");
    assert_eq!(held(&at(&first, &look(1)).await), (3, Some(1)), "given back, and taken with a greater token");
    let restarted = Look { bid: Bid { predecessor: Some(AgentId(1)), ..Bid::default() }, ..look(9) };
    assert_eq!(held(&at(&second, &restarted).await), (4, Some(9)), "a later life of the same agent");
    let gives_back = Look { bid: Bid { gives_back: true, ..look(9).bid }, ..look(9) };
    assert_eq!(held(&at(&second, &gives_back).await), (4, None));
    assert_eq!(at(&first, &Look { bid: Bid::default(), ..look(1) }).await.peers.len(), 1, "it goes on serving");
    assert_eq!(held(&at(&second, &look(9)).await), (5, Some(9)));
    let unready = Look { bid: Bid::default(), ..look(5) };
    second.leave(&look(9)).await.expect("it answers");
    assert_eq!(at(&second, &unready).await.lock, Some(Lock { token: 5, holder: None, beats: 0 }), "who does not stand gets nothing");
}

#[tokio::test]
async fn only_the_agent_that_holds_the_lock_opens_sessions() {
    let server = Server::start();
    let (first, second) = (store(&server), store(&server));
    at(&first, &look(1)).await;
    at(&second, &look(2)).await;
    assert_eq!(second.open_session(&opening(1)).await, Err(LeaseError::NotElected));
    first.open_session(&opening(1)).await.expect("opened");
    // another takes the lock: what the first still sends comes too late
    let still = Look { bid: Bid { challenged: at(&second, &look(2)).await.lock, ..Bid::default() }, ..look(2) };
    at(&second, &still).await;
    assert_eq!(first.open_session(&opening(2)).await, Err(LeaseError::NotElected));
    second.open_session(&opening(2)).await.expect("opened");
    assert!(matches!(first.draw_seq(1).await, Err(LeaseError::Refused(Refusal::Superseded { .. }))));
}

#[tokio::test]
async fn agents_see_those_that_look_and_none_that_is_silent() {
    let server = Server::start();
    let mut connection = server.connect();
    let store = store_on_test_clock(&server);
    set_now(&mut connection, 1_000 * MICROS);
    let names = |looked: &Looked| looked.peers.iter().map(|peer| peer.name.clone()).collect::<Vec<_>>();
    for agent in [1, 2] {
        at(&store, &look(agent)).await;
    }
    let third = at(&store, &Look { reaches: true, ..look(3) }).await;
    assert_eq!((names(&third), third.peers[0].reaches), (vec!["agent 1".to_owned(), "agent 2".to_owned()], false));
    assert!(at(&store, &look(1)).await.peers.iter().any(|peer| peer.reaches && peer.name == "agent 3"));
    store.leave(&look(2)).await.expect("it answers");
    assert_eq!(names(&at(&store, &look(3)).await), ["agent 1"]);
    set_now(&mut connection, (1_001 + AGENT_LIFE.as_secs()) * MICROS);
    assert!(names(&at(&store, &look(3)).await).is_empty());
    // the clock goes back by two days: nobody is frozen out
    set_now(&mut connection, 1_000 * MICROS);
    at(&store, &look(1)).await;
    assert_eq!(names(&at(&store, &look(3)).await), ["agent 1"]);
}

#[tokio::test]
async fn a_look_shows_the_lease_and_tells_its_terms_once() {
    let server = Server::start();
    let store = store(&server);
    assert_eq!(at(&store, &look(1)).await.lease, None);
    begin(&store).await.expect("begun");
    let lease = at(&store, &look(1)).await.lease.expect("a lease");
    let number = Number { session: 1, seq: 1 };
    assert_eq!((lease.sight.drawn, lease.sight.applied, lease.sight.nonce), (number, number, 7));
    assert_eq!((lease.renewal, lease.shelf), (Some(renewal()), None));
    let known = Look { known: Some(lease.sight), ..look(1) };
    assert_eq!(at(&store, &known).await.lease.expect("a lease").renewal, None);
    store.draw_seq(1).await.expect("drawn");
    let lease = at(&store, &known).await.lease.expect("a lease");
    assert_eq!((lease.sight.drawn.seq, lease.sight.applied.seq), (2, 1));
    // every answer to a question shows the same
    let asked = charge("a", tokens(1), Duration::from_secs(1), tokens(1));
    let (_, sight) =
        store.decide_showing(&question(&[asked]), &Keep::default(), Instant::now() + store.decision_timeout).await.expect("it answers");
    assert_eq!(sight, Some(lease.sight));
}

#[tokio::test]
async fn sets_are_shared_by_the_response_that_goes_by_them_and_everything_ends_some_day() {
    let server = Server::start();
    let store = store(&server);
    at(&store, &Look { reports: Some("{}".to_owned()), ..look(1) }).await;
    at(&super::store(&server), &Look { reports: Some("{}".to_owned()), ..look(2) }).await;
    begin(&store).await.expect("begun");
    let number = Number { session: 1, seq: 1 };
    assert!(store.shelve(Number { session: 1, seq: 0 }, "old", "old").await.is_err(), "a later response was taken");
    store.shelve(number, "name", "sets").await.expect("kept");
    assert_eq!(store.shelved().await, Ok(Some("sets".to_owned())));
    assert_eq!(at(&store, &look(1)).await.lease.and_then(|lease| lease.shelf), Some("name".to_owned()));
    let mut connection = server.connect();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).expect("keys");
    assert!(keys.len() >= 5, "{keys:?}");
    for key in keys {
        let left: i64 = redis::cmd("PTTL").arg(&key).query(&mut connection).expect("an answer");
        assert!(left > 0, "{key} never expires: {left}");
    }
    assert_eq!(store.reports(&[AgentId(2)]).await.expect("read").len(), 2);
    assert_eq!(store.reports(&[]).await.expect("read").len(), 1, "read for the last time");
}
