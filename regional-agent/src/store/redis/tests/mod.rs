//! The store in Redis, against real servers.

mod attempts;
mod batches;
mod cluster;
mod ends;
mod equivalence;
mod faults;
mod holds;
mod known_faults;
mod log_lines;
mod looks;
mod losses;
mod openings;
mod outage;
mod seats;
mod sentinel;
mod server;
mod shares;
mod slots;
mod values;
mod windows;

use super::script::Scripts;
use super::{RedisSettings, RedisStore};
use crate::config::RedisConfig;
use crate::store::keep::{Attempt, Keep, Said};
use crate::store::{LeaseError, StoreError, Unusable, Usages};
use quorate_limiter::decision::{Charge, Decision, LeaseView, Question, Reply};
use quorate_limiter::record::{Finish, Opening, Renewal};
use quorate_shared::heartbeat::{Number, Office, PoliciesInForce, Stamp};
use quorate_shared::names::{BudgetId, SubjectHash, SubjectKey};
use quorate_shared::policy::Limit;
use quorate_shared::time::{Drift, LeaderTime, StoreTime};
use quorate_shared::units::MicroTokens;
use server::Server;
use std::time::{Duration, Instant};

const NO_DRIFT: Drift = Drift::from_ppm(0).expect("in range");

/// Lua that reads the time that the test has set.
const TEST_CLOCK: &str = "local now = tonumber(redis.call('GET', 'now'))\n";

fn settings(url: &str) -> RedisSettings {
    // a machine that runs many tests may keep one waiting
    let (decision_timeout, lease_timeout) = (Duration::from_secs(10), Duration::from_secs(10));
    RedisSettings { redis: RedisConfig::at(url), region: "eu".parse().expect("a name"), decision_timeout, lease_timeout, waiting: 4_096 }
}

fn store(server: &Server) -> RedisStore {
    RedisStore::new(&settings(&server.url)).expect("an address")
}

/// A store on a clock that only moves when `now` is set in it.
fn store_on_test_clock(server: &Server) -> RedisStore {
    RedisStore::with_scripts(&settings(&server.url), Scripts::on_clock(TEST_CLOCK)).expect("an address")
}

fn set_now(connection: &mut redis::Connection, micros: u64) {
    redis::cmd("SET").arg("now").arg(micros).exec(connection).expect("set");
}

fn subject(name: &str) -> BudgetId {
    let policy = "write-api".parse().expect("a name");
    let subject = SubjectHash::of(&SubjectKey::new([1; 32]), &policy, [name]);
    BudgetId { policy, generation: 1, subject }
}

/// A charge of one token; the floor is the whole limit.
fn charge(name: &str, rate: MicroTokens, period: Duration, burst: MicroTokens) -> Charge {
    let limit = Limit::TokenBucket { rate, period, burst };
    let floor = limit.capacity();
    Charge {
        budget: subject(name),
        limit,
        floor,
        lendable: floor,
        former_floors: vec![],
        floor_ttl: None,
        cost: MicroTokens::TOKEN,
        enforced: true,
    }
}

/// What a key holds, a bucket's bytes as the text of the same numbers.
fn shown(kept: Vec<u8>) -> String {
    let number = |bytes: &[u8]| bytes.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    match kept.split_first() {
        Some((form @ (1 | 2), rest)) => {
            let (level, rest) = rest.split_at(7);
            let (fraction, rest) = rest.split_at(5);
            let [last, rate, epoch] = [&rest[..7], &rest[7..14], &rest[14..]].map(number);
            format!("{} {} {last} {rate} {} {epoch}", number(level), number(fraction), form - 1)
        }
        _ => String::from_utf8(kept).expect("text"),
    }
}

fn tokens(n: u64) -> MicroTokens {
    MicroTokens::from_tokens(n).expect("a small amount")
}

fn question(charges: &[Charge]) -> Question {
    Question { view: LeaseView::default(), drift: NO_DRIFT, charges: charges.to_vec() }
}

impl RedisStore {
    /// Decides, and keeps something beside.
    async fn decide_keeping(&self, question: &Question, keep: &Keep, until: Instant) -> Result<Said, StoreError> {
        self.decide_showing(question, keep, until).await.map(|(said, _)| said)
    }

    /// Decides within the store's own time.
    async fn ask(&self, question: &Question, keep: &Keep) -> Result<Said, StoreError> {
        self.decide_keeping(question, keep, Instant::now() + self.decision_timeout).await
    }

    /// Decides, and keeps nothing beside.
    async fn decide(&self, question: &Question) -> Result<Reply, StoreError> {
        match self.ask(question, &Keep::default()).await? {
            Said::First { reply, .. } => Ok(reply),
            other => panic!("nothing was remembered: {other:?}"),
        }
    }
}

async fn decide(store: &RedisStore, charges: &[Charge]) -> Decision {
    match store.decide(&question(charges)).await {
        Ok(Reply::Decided(decision)) => decision,
        other => panic!("not decided: {other:?}"),
    }
}

fn opening(session: u64) -> Opening {
    Opening { session, nonce: 7, burn: false, policies: PoliciesInForce::default() }
}

/// The end of response `number` in a region where nothing was admitted before.
fn renewal() -> Renewal {
    let lenders = [("us".parse().expect("a name"), Duration::from_millis(1_500))].into();
    Renewal { lease: Duration::from_secs(5), drift: Drift::DEFAULT, lenders, drained_lenders: vec![(subject("a"), Default::default())] }
}

fn genesis(number: Number) -> Finish {
    let stamp = Stamp { number, office: Office { term: 3, process: u64::MAX }, at: LeaderTime::from_micros(u64::MAX) };
    Finish {
        stamp,
        renewal: renewal(),
        clock_at_least: StoreTime::ZERO,
        policies: PoliciesInForce::default(),
        full: true,
        genesis: true,
        lapsed: false,
        changed: vec![],
        named: None,
    }
}

/// Opens session 1 and applies its first response: buckets are full.
async fn begin(store: &RedisStore) -> Result<(), LeaseError> {
    store.open_session(&opening(1)).await?;
    let number = Number { session: 1, seq: store.draw_seq(1).await?.seq };
    store.take(number).await?;
    store.finish(&genesis(number)).await
}

/// Opens a session after a loss, and applies its first full response: what was admitted before nobody knows.
async fn begin_again(store: &RedisStore, session: u64) {
    store.open_session(&opening(session)).await.expect("greater");
    let number = Number { session, seq: store.draw_seq(session).await.expect("drawn").seq };
    store.take(number).await.expect("newer");
    store.finish(&Finish { genesis: false, ..genesis(number) }).await.expect("of the response taken");
}

fn is_unreachable<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Unreachable(_)))
}
