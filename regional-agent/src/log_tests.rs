//! What an operator must know of is one line in the log: when it begins, and when it is over.

use crate::decide::Request;
use crate::identity::Identity;
use crate::metrics::Metrics;
use crate::policy_shelf::PolicyShelf;
use crate::region::Region;
use crate::store::Store;
use quorate_limiter::decision::{Charge, Decision};
use quorate_limiter::matching::Matched;
use quorate_limiter::matching::descriptors::MetBy;
use quorate_shared::heartbeat::Number;
use quorate_shared::names::{BudgetId, SubjectHash, SubjectKey};
use quorate_shared::policy::{Limit, OnStoreFailure};
use quorate_shared::units::MicroTokens;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing::subscriber::DefaultGuard;

/// Text that several write.
#[derive(Clone, Default)]
struct Text(Arc<Mutex<Vec<u8>>>);

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panicked").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is logged on this thread as long as it is there.
pub struct Log {
    text: Text,
    _guard: DefaultGuard,
}

impl Log {
    /// From `INFO` on.
    pub fn keep() -> Self {
        let text = Text::default();
        let written = text.clone();
        let format = tracing_subscriber::fmt().with_ansi(false).without_time().with_target(false);
        let subscriber = format.with_max_level(tracing::Level::INFO).with_writer(move || written.clone()).finish();
        Self { text, _guard: tracing::subscriber::set_default(subscriber) }
    }

    /// The lines since it was last asked.
    pub fn lines(&self) -> Vec<String> {
        let text = std::mem::take(&mut *self.text.0.lock().expect("nobody panicked"));
        String::from_utf8(text).expect("UTF-8").lines().map(|line| line.trim().to_owned()).collect()
    }

    /// Fails unless there is one line since it was last asked, which says so much.
    fn expect_one(&self, level: &str, words: &str) {
        let lines = self.lines();
        assert!(matches!(lines.as_slice(), [line] if line.starts_with(level) && line.contains(words)), "{level} {words}: {lines:?}");
    }
}

fn region() -> Region {
    let shelf = PolicyShelf::open(None).expect("nothing to read");
    Region::new("eu".parse().expect("a name"), "eu-1".into(), Identity::begin(None), Store::embedded(), shelf, Metrics::new())
        .open_for(Duration::ZERO)
}

async fn started(log: &Log) -> Region {
    let region = region();
    region.join().await.expect("its store is in this process");
    log.lines();
    region
}

#[tokio::test]
async fn a_state_that_was_lost_is_told_once_and_a_first_start_is_none() {
    let log = Log::keep();
    let region = region();
    region.join().await.expect("its store is in this process");
    assert!(log.lines().iter().all(|line| line.starts_with("INFO")), "a first start");
    region.open_session(Some(1)).await.expect("opened");
    log.expect_one("WARN", "lost its state");
    region.open_session(Some(1)).await.expect("it is open");
    assert_eq!(log.lines(), [""; 0]);
}

#[tokio::test]
async fn an_agent_that_spends_by_itself_says_when_it_begins_and_when_it_is_over() {
    let log = Log::keep();
    let region = started(&log).await;
    let admitted = Decision { allowed: true, limits: vec![] };
    for _ in 0..2 {
        (0..3).for_each(|_| region.note_by_itself(&[], &admitted));
        log.expect_one("WARN", "spends what was set aside");
        (0..3).for_each(|_| region.note_by_store());
        log.expect_one("INFO", "the store decides again");
    }
}

#[tokio::test]
async fn that_open_policies_let_nothing_pass_any_more_is_told_once_in_each_outage() {
    let log = Log::keep();
    let region = started(&log).await;
    let policy: quorate_shared::names::PolicyName = "reads".parse().expect("a name");
    let subject = SubjectHash::of(&SubjectKey::new([1; 32]), &policy, ["a"]);
    let limit = Limit::TokenBucket { rate: MicroTokens::TOKEN, period: Duration::from_secs(1), burst: MicroTokens::TOKEN };
    let charge = Charge {
        budget: BudgetId { policy: policy.clone(), generation: 1, subject },
        limit,
        floor: limit.capacity(),
        lendable: limit.capacity(),
        former_floors: vec![],
        floor_ttl: None,
        cost: MicroTokens::TOKEN,
        enforced: true,
    };
    let met = Matched { policy, charge, reach: MicroTokens::TOKEN, on_store_failure: OnStoreFailure::Open, met_by: MetBy::FIRST };
    for _ in 0..2 {
        for _ in 0..3 {
            region.without_store(&Request::default(), vec![met.clone()], "gone".into()).expect_err("open no longer");
        }
        log.expect_one("WARN", "let nothing pass any more");
        region.fallbacks.over();
    }
}

#[tokio::test]
async fn a_region_that_two_stores_serve_is_told_once_and_is_over() {
    let log = Log::keep();
    let region = started(&log).await;
    let number = |session| Number { session, seq: 1 };
    let mut stopped = Vec::new();
    while region.is_elected() {
        stopped.push(region.stops_after(number(1), number(2)).await);
    }
    assert_eq!(stopped, [false, false, true]);
    log.expect_one("ERROR", "another store serves a region of this name");
}
