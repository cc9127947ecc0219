//! A Redis that is absent, slow, restarted or replaced.

use super::*;
use quorate_limiter::record::Refusal;
use rustix::process::Signal;

const SECOND: Duration = Duration::from_secs(1);

fn limit() -> Charge {
    charge("a", tokens(1), 3_600 * SECOND, tokens(100))
}

/// Asks again while the store is away; fails after ten seconds.
async fn patiently(store: &RedisStore) -> Reply {
    for _ in 0..1_000 {
        match store.decide(&question(&[limit()])).await {
            Ok(reply) => return reply,
            Err(StoreError::Refused(why)) => panic!("refused: {why}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
    panic!("it did not come back");
}

#[tokio::test]
async fn the_agent_may_come_before_its_redis_and_outlive_it() {
    let port = server::free_port();
    let url = format!("redis://:secret@127.0.0.1:{port}");
    let store = RedisStore::new(&settings(&url)).expect("an address");
    let refused = store.decide(&question(&[limit()])).await;
    assert!(is_unreachable(&refused), "{refused:?}");
    assert!(!store.is_healthy());

    let mut server = Server::on_port(port, ":secret@", &["--requirepass", "secret"]);
    assert_eq!(patiently(&store).await, Reply::NoRecord);
    begin(&store).await.expect("begun");
    assert!(decide(&store, &[limit()]).await.allowed);
    assert!(store.is_healthy());

    server.kill();
    assert!(is_unreachable(&store.decide(&question(&[limit()])).await));
    assert!(!store.is_healthy());
    server.restart();
    assert_eq!(patiently(&store).await, Reply::NoRecord);
}

#[tokio::test]
async fn a_wrong_password_is_an_error_that_does_not_repeat_it() {
    let server = Server::on_port(server::free_port(), ":wrong@", &["--requirepass", "right"]);
    let store = RedisStore::new(&settings(&server.url)).expect("an address");
    let refused = store.decide(&question(&[limit()])).await;
    assert!(matches!(&refused, Err(StoreError::Unusable { why: Unusable::Denied, said }) if !said.contains("wrong")), "{refused:?}");
    assert!(!format!("{:?} {store:?}", settings(&server.url)).contains("wrong"));
    assert!(RedisStore::new(&settings("not an address")).is_err());
}

#[tokio::test]
async fn a_restarted_redis_is_not_believed_even_if_it_kept_its_data() {
    let mut server = Server::on_port(server::free_port(), "", &[]);
    let store = store(&server);
    begin(&store).await.expect("begun");
    assert!(decide(&store, &[limit()]).await.allowed);
    redis::cmd("SAVE").exec(&mut server.connect()).expect("saved");
    server.kill();
    server.restart();
    let kept: u64 = redis::cmd("DBSIZE").query(&mut server.connect()).expect("it answers");
    assert_eq!(kept, 2);

    assert_eq!(patiently(&store).await, Reply::NoRecord);
    assert_eq!(store.draw_seq(1).await, Err(LeaseError::Refused(Refusal::NoRecord)));
    assert!(store.load().await.expect("it answers").lost());
    store.open_session(&opening(2)).await.expect("greater");
    let loaded = store.load().await.expect("it answers");
    assert!(!loaded.lost());
    let record = loaded.record.expect("open");
    assert!(record.burnt && record.emptied_at.is_some());
    let all = Charge { lendable: quorate_shared::units::Capacity::ZERO, ..limit() };
    assert_eq!(decide(&store, &[all]).await.limits[0].remaining.tokens_floor(), 0, "its bucket counts as empty");
}

#[tokio::test]
async fn a_redis_that_hangs_is_not_waited_for_and_nothing_is_asked_twice() {
    let server = Server::start();
    let mut settings = settings(&server.url);
    let patient = RedisStore::new(&settings).expect("an address");
    begin(&patient).await.expect("begun");
    settings.decision_timeout = Duration::from_millis(50);
    let store = RedisStore::new(&settings).expect("an address");
    assert!(matches!(patiently(&store).await, Reply::Decided(_)));

    server.signal(Signal::STOP);
    let began = std::time::Instant::now();
    for _ in 0..5 {
        assert_eq!(store.decide(&question(&[limit()])).await, Err(StoreError::Timeout));
    }
    assert!(began.elapsed() >= 5 * Duration::from_millis(50));
    assert!(!store.is_healthy());
    server.signal(Signal::CONT);
    assert!(matches!(patiently(&store).await, Reply::Decided(_)));
    let look = Charge { cost: MicroTokens(0), ..limit() };
    let taken = 100 - decide(&patient, &[look]).await.limits[0].remaining.tokens_floor();
    // two that were answered, and of those that were not each at most once
    assert!((2..=2 + 6).contains(&taken), "{taken} taken");
}

#[tokio::test]
async fn a_connection_that_has_been_silent_is_made_anew() {
    let server = Server::start();
    let mut settings = settings(&server.url);
    settings.decision_timeout = Duration::from_millis(20);
    let store = RedisStore::new(&settings).expect("an address");
    assert_eq!(patiently(&store).await, Reply::NoRecord);
    let mut connection = server.connect();
    let mut accepted = || -> u64 {
        let info: String = redis::cmd("INFO").arg("stats").query(&mut connection).expect("it answers");
        let line = info.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
        line.and_then(|n| n.trim().parse().ok()).expect("a number")
    };
    let before = accepted();
    server.signal(Signal::STOP);
    let began = std::time::Instant::now();
    while began.elapsed() < Duration::from_millis(1_300) {
        assert!(store.decide(&question(&[limit()])).await.is_err());
        // once it is not asked any more, nothing here waits
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    server.signal(Signal::CONT);
    assert_eq!(patiently(&store).await, Reply::NoRecord);
    assert!(accepted() > before);
}

#[tokio::test]
async fn another_agents_session_ends_this_ones() {
    let server = Server::start();
    let (old, new) = (store(&server), store(&server));
    begin(&old).await.expect("begun");
    new.open_session(&opening(2)).await.expect("greater");
    let superseded = LeaseError::Refused(Refusal::Superseded { taken: Number { session: 2, seq: 0 } });
    assert_eq!(old.take(Number { session: 1, seq: 2 }).await, Err(superseded.clone()));
    assert_eq!(old.finish(&genesis(Number { session: 1, seq: 1 })).await, Err(superseded.clone()));
    assert_eq!(old.draw_seq(1).await, Err(superseded));
    let mut late = question(&[limit()]);
    late.view.leased = true;
    late.view.number = Number { session: 1, seq: 1 };
    assert_eq!(old.decide(&late).await, Ok(Reply::OtherLease(Number { session: 2, seq: 0 })));
}
