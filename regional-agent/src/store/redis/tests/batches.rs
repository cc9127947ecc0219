//! Questions that go to Redis together: each is answered as if it was alone.

use super::values::poll_async;
use super::*;
use futures_util::FutureExt;
use futures_util::future::join_all;
use rustix::process::Signal;

const HOUR: Duration = Duration::from_secs(3_600);

fn limit(name: &str, burst: u64) -> Charge {
    charge(name, tokens(1), HOUR, tokens(burst))
}

fn calls(server: &Server) -> u64 {
    let info: String = redis::cmd("INFO").arg("commandstats").query(&mut server.connect()).expect("it answers");
    let of = |line: &str| line.strip_prefix("cmdstat_evalsha:calls=")?.split(',').next()?.parse().ok();
    info.lines().find_map(of).unwrap_or(0)
}

/// Asks all of them at once.
async fn ask_all(store: &RedisStore, asked: &[Vec<Charge>]) -> Vec<Result<Reply, StoreError>> {
    let questions: Vec<Question> = asked.iter().map(|charges| question(charges)).collect();
    join_all(questions.iter().map(|question| store.decide(question))).await
}

fn allowed(reply: &Result<Reply, StoreError>) -> bool {
    matches!(reply, Ok(Reply::Decided(decision)) if decision.allowed)
}

#[tokio::test]
async fn questions_that_come_while_one_is_on_its_way_share_a_call_and_a_bucket() {
    let server = Server::start();
    let store = store(&server);
    begin(&store).await.expect("begun");
    let before = calls(&server);
    let asked: Vec<Vec<Charge>> = (0..40).map(|n| vec![limit(["a", "b"][n % 2], 15)]).collect();
    let replies = ask_all(&store, &asked).await;
    assert_eq!(calls(&server) - before, 1);
    // of each twenty the first fifteen, in the order of the asking
    assert!(replies.iter().enumerate().all(|(n, reply)| allowed(reply) == (n < 30)), "{replies:?}");
    // more than one call takes go in the next ones
    let asked: Vec<Vec<Charge>> = (0..200).map(|n| vec![limit(&n.to_string(), 1)]).collect();
    assert!(ask_all(&store, &asked).await.iter().all(allowed));
    assert_eq!(calls(&server) - before, 1 + 200_u64.div_ceil(64));
}

#[tokio::test]
async fn a_question_is_all_or_nothing_among_others() {
    let server = Server::start();
    let store = store(&server);
    begin(&store).await.expect("begun");
    let (a, b) = (limit("a", 2), limit("b", 1));
    let asked = [vec![a.clone(), b.clone()], vec![a.clone(), b.clone()], vec![b.clone()], vec![a.clone()], vec![a]];
    let replies = ask_all(&store, &asked).await;
    // the second charged nothing, so the fourth still has one
    assert_eq!(replies.iter().map(allowed).collect::<Vec<_>>(), [true, false, false, true, false]);
}

#[tokio::test]
async fn a_bucket_that_nobody_can_read_is_the_trouble_of_who_asks_for_it() {
    let server = Server::start();
    let store = store(&server);
    begin(&store).await.expect("begun");
    let mut connection = server.connect();
    let key = |name| store.keys.bucket(&subject(name));
    redis::cmd("SET").arg(key("torn")).arg("1 2 x").exec(&mut connection).expect("set");
    redis::cmd("RPUSH").arg(key("list")).arg("1").exec(&mut connection).expect("set");
    let asked = ["a", "torn", "list", "b"].map(|name| vec![limit(name, 1)]);
    let replies = ask_all(&store, &asked).await;
    assert!(allowed(&replies[0]) && allowed(&replies[3]), "{replies:?}");
    for (place, word) in [(1, "unreadable bucket"), (2, "WRONGTYPE")] {
        assert!(matches!(&replies[place], Err(StoreError::Refused(said)) if said.contains(word)), "{replies:?}");
    }
    assert_eq!(redis::cmd("GET").arg(key("torn")).query(&mut connection), Ok("1 2 x".to_owned()));
    let left = decide(&store, &[Charge { cost: MicroTokens(0), ..limit("a", 1) }]).await.limits[0].remaining;
    assert_eq!(left.tokens_floor(), 0, "it was charged");
}

#[tokio::test]
async fn buckets_of_agents_before_there_were_bytes_go_on_as_they_were() {
    let server = Server::start();
    let (store, mut connection) = (store_on_test_clock(&server), server.connect());
    let now = 1_790_000_000_000_000;
    set_now(&mut connection, now);
    begin(&store).await.expect("begun");
    let limit = limit("a", 10);
    assert!(decide(&store, std::slice::from_ref(&limit)).await.allowed);
    let key = store.keys.bucket(&limit.budget);
    let bytes: Vec<u8> = redis::cmd("GET").arg(&key).query(&mut connection).expect("there");
    assert_eq!(bytes.len(), 34);
    let text = shown(bytes.clone());
    // the same numbers as text are the same bucket, half an hour later too
    let mut found = Vec::new();
    for kept in [bytes, text.into_bytes()] {
        redis::cmd("SET").arg(&key).arg(kept).arg("PX").arg(60_000).exec(&mut connection).expect("set");
        set_now(&mut connection, now + 1_800_000_000);
        found.push(decide(&store, std::slice::from_ref(&limit)).await);
        set_now(&mut connection, now);
    }
    assert_eq!(found[0], found[1]);
    assert_eq!(found[0].limits[0].remaining, MicroTokens(8_500_000));
}

#[tokio::test]
async fn a_batch_without_an_answer_is_no_answer_to_any_and_is_not_sent_again() {
    let server = Server::start();
    let patient = store(&server);
    begin(&patient).await.expect("begun");
    let hurried = RedisSettings { decision_timeout: Duration::from_millis(50), ..settings(&server.url) };
    let store = RedisStore::new(&hurried).expect("an address");
    poll_async(async || store.decide(&question(&[limit("warm", 9)])).await.is_ok()).await;
    let before = calls(&server);
    server.signal(Signal::STOP);
    let asked: Vec<Vec<Charge>> = (0..10).map(|_| vec![limit("a", 100)]).collect();
    let replies = ask_all(&store, &asked).await;
    assert!(replies.iter().all(|reply| *reply == Err(StoreError::Timeout)), "{replies:?}");
    server.signal(Signal::CONT);
    // each of them may have been charged, once
    let look = Charge { cost: MicroTokens(0), ..limit("a", 100) };
    poll_async(async || decide(&patient, std::slice::from_ref(&look)).await.limits[0].remaining.tokens_floor() == 90).await;
    assert!(calls(&server) > before);
}

#[tokio::test]
async fn who_gives_up_takes_nobody_along_and_is_not_asked_for_unless_it_was() {
    let server = Server::start();
    let store = store(&server);
    begin(&store).await.expect("begun");
    let (a, b) = (question(&[limit("a", 9)]), question(&[limit("b", 9)]));
    let look = Charge { cost: MicroTokens(0), ..limit("a", 9) };
    let left = async || decide(&store, std::slice::from_ref(&look)).await.limits[0].remaining;
    // before the batch is sent
    assert_eq!(store.decide(&a).now_or_never(), None);
    assert!(allowed(&store.decide(&b).await));
    assert_eq!(left().await.tokens_floor(), 9);
    // while it is on its way
    server.signal(Signal::STOP);
    let giving_up = async {
        let given_up = tokio::time::timeout(Duration::from_millis(50), store.decide(&a)).await;
        server.signal(Signal::CONT);
        given_up
    };
    let (given_up, answered) = tokio::join!(giving_up, store.decide(&b));
    assert!(given_up.is_err() && allowed(&answered), "{given_up:?} {answered:?}");
    assert_eq!(left().await.tokens_floor(), 8);
}
