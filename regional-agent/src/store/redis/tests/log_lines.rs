//! A store that keeps failing is told once, and so is its return.

use super::values::poll_async;
use super::*;
use crate::log_tests::Log;

#[tokio::test]
async fn a_store_that_fails_and_answers_again_is_one_line_each() {
    let log = Log::keep();
    let mut server = Server::on_port(server::free_port(), "", &[]);
    let store = store(&server);
    begin(&store).await.expect("begun");
    let question = question(&[charge("a", tokens(1), Duration::from_secs(3_600), tokens(100))]);
    log.lines();
    server.kill();
    let mut told = Vec::new();
    // one that is asked no more says so at once
    poll_async(async || store.decide(&question).await == Err(StoreError::Suspended)).await;
    for _ in 0..50 {
        assert!(store.decide(&question).await.is_err());
    }
    told.append(&mut log.lines());
    server.restart();
    poll_async(async || store.decide(&question).await.is_ok()).await;
    for _ in 0..50 {
        store.decide(&question).await.expect("it answers");
    }
    told.append(&mut log.lines());
    let of = |words| told.iter().filter(|line| line.contains(words)).count();
    let (failing, back) = (of("WARN the region's store keeps failing"), of("INFO the region's store answers again"));
    assert_eq!((failing, back), (1, 1), "{told:?}");
}
