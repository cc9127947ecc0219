//! Use of logs and windows at any pace, in Redis and in memory: the same answers, the same state.

use super::*;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestCaseResult, TestRunner};
use quorate_limiter::decision::LimitDecision;
use quorate_limiter::hold::{Beside, Grounds, HoldId, NewHold, SettleReply, Settled};
use quorate_limiter::store::MemoryStore;
use quorate_shared::policy::{MAX_LOG_ENTRIES, Window};
use quorate_shared::units::MAX_EXACT;

const HOUR: Duration = Duration::from_secs(3_600);

/// Both stores on one clock, with a first response applied.
struct Pair {
    redis: RedisStore,
    connection: redis::Connection,
    runtime: tokio::runtime::Runtime,
    memory: MemoryStore,
    now: StoreTime,
    _server: Server,
}

impl Pair {
    fn new() -> Self {
        let server = Server::start();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (redis, connection) = (store_on_test_clock(&server), server.connect());
        let mut pair = Self { redis, connection, runtime, memory: MemoryStore::default(), now: StoreTime::ZERO, _server: server };
        pair.begin(StoreTime::from_micros(1_790_000_000_000_000));
        pair
    }

    fn begin(&mut self, now: StoreTime) {
        redis::cmd("FLUSHALL").exec(&mut self.connection).expect("flushed");
        self.go_to(now);
        self.runtime.block_on(begin(&self.redis)).expect("begun");
        let identity = self.runtime.block_on(self.redis.load()).expect("it answers").store;
        self.memory = MemoryStore::default();
        self.memory.open_session(now, &opening(1), &identity).expect("the first");
        let number = Number { session: 1, seq: self.memory.draw_seq(now, 1).expect("open") };
        self.memory.take(now, number).expect("newer");
        self.memory.finish(now, &genesis(number)).expect("of the one taken");
    }

    fn go_to(&mut self, now: StoreTime) {
        self.now = now;
        set_now(&mut self.connection, now.as_micros());
    }

    /// The same answer of both.
    fn ask(&mut self, charge: &Charge) -> LimitDecision {
        let question = question(std::slice::from_ref(charge));
        let expected = self.memory.decide(self.now, &question);
        assert_eq!(self.runtime.block_on(self.redis.decide(&question)), Ok(expected.clone()));
        let Reply::Decided(decision) = expected else { panic!("not decided: {expected:?}") };
        decision.limits[0]
    }

    /// The same answer of both to an estimate.
    fn reserve(&mut self, charge: &Charge, id: u128) {
        let question = question(std::slice::from_ref(charge));
        let beside = Beside {
            hold: Some(NewHold { id: HoldId::from_bits(id), life: Duration::from_secs(600), most: MicroTokens(u64::MAX) }),
            slot: None,
        };
        let expected = self.memory.decide_beside(self.now, &question, &beside);
        let got = self.runtime.block_on(self.redis.ask(&question, &Keep { beside, attempt: None }));
        assert_eq!(got, Ok(Said::First { reply: expected, remembered: true }));
    }

    /// The same answer of both to what it cost.
    fn settle(&mut self, charge: &Charge, id: u128, cost: u64) -> SettleReply {
        let (id, cost, question) = (HoldId::from_bits(id), MicroTokens(cost), question(std::slice::from_ref(charge)));
        let expected = self.memory.settle_hold(self.now, id, cost, Some(&question));
        let grounds = |_| Some(Grounds::new(question.clone(), HOUR));
        assert_eq!(self.runtime.block_on(self.redis.settle(id, cost, grounds)), Ok(expected));
        expected
    }

    /// What both keep of the budget; whatever is kept has an end.
    fn kept(&mut self) -> Vec<String> {
        let budget = subject("a");
        let key = self.redis.keys.bucket(&budget);
        let kind: String = redis::cmd("TYPE").arg(&key).query(&mut self.connection).expect("it answers");
        let in_redis: Vec<String> = match kind.as_str() {
            "list" => redis::cmd("LRANGE").arg(&key).arg(0).arg(-1).query(&mut self.connection).expect("it answers"),
            "string" => vec![shown(redis::cmd("GET").arg(&key).query(&mut self.connection).expect("it answers"))],
            _ => vec![],
        };
        let log = self.memory.log(&budget).map(|(log, _)| equivalence::log_texts(log));
        let count = self.memory.count(&budget).map(|(count, _)| vec![equivalence::count_text(count)]);
        let units = self.memory.units(&budget).map(|(units, _)| vec![equivalence::units_text(units)]);
        assert_eq!(in_redis, log.or(count).or(units).unwrap_or_default());
        let life: i64 = redis::cmd("PTTL").arg(&key).query(&mut self.connection).expect("it answers");
        assert!(life > 0 || in_redis.is_empty(), "{key} ends in {life} ms");
        in_redis
    }
}

fn log(units: u64, window: Duration) -> Limit {
    Limit::SlidingLog { units: MicroTokens(units), window }
}

fn sliding(units: u64, window: Duration) -> Limit {
    Limit::SlidingWindow { units: MicroTokens(units), window }
}

fn of(limit: Limit, cost: u64) -> Charge {
    let floor = limit.capacity();
    Charge { limit, floor, lendable: floor, cost: MicroTokens(cost), ..charge("a", tokens(1), Duration::from_secs(1), tokens(1)) }
}

/// Spans and steps back in thousandths of a window, and costs in thousandths of the units.
fn steps() -> impl Strategy<Value = Vec<(i64, i64, u64)>> {
    let span = prop_oneof![8 => 0..300i64, 2 => 0..2_500i64, 1 => -1_000..0i64, 1 => -6_000..0i64];
    proptest::collection::vec((span, 0..3i64, prop_oneof![4 => 0..300u64, 1 => 0..1_100u64]), 1..60)
}

#[test]
fn use_at_any_pace_is_counted_alike() {
    let units = prop_oneof![1..6u64, Just(20_000_000u64), Just(MAX_EXACT)];
    // the longest are counted in parts of several microseconds
    let window = prop_oneof![Just(10u64), Just(1_000_000), Just((1 << 37) - 1), Just(40 * 3_600_000_000), Just(100 * 365 * 86_400_000_000)];
    let rng_seed = RngSeed::Fixed(2_026);
    let mut runner = TestRunner::new(Config { cases: 300, rng_seed, failure_persistence: None, ..Config::default() });
    let pair = std::cell::RefCell::new(Pair::new());
    let play = |(units, micros, exact, steps): (u64, u64, bool, Vec<(i64, i64, u64)>)| -> TestCaseResult {
        let window = Duration::from_micros(micros);
        let limit = if exact { log(units, window) } else { sliding(units, window) };
        let mut pair = pair.borrow_mut();
        pair.begin(StoreTime::from_micros(1_790_000_000_000_000));
        for (span, more, cost) in steps {
            // the record lives for a week without renewal
            let moved = (i128::from(micros) * i128::from(span) / 1_000).clamp(-3_000_000_000_000, 6 * 3_600_000_000) as i64 + more;
            let now = pair.now.as_micros().saturating_add_signed(moved);
            pair.go_to(StoreTime::from_micros(now.min(1_790_000_500_000_000)));
            pair.ask(&of(limit, (u128::from(units) * u128::from(cost) / 1_000) as u64));
            pair.kept();
        }
        Ok(())
    };
    let sequence = (units, window, any::<bool>(), steps());
    if let Err(failure) = runner.run(&sequence, play) {
        panic!("{failure}");
    }
}

#[test]
fn estimates_at_any_pace_are_settled_alike() {
    let window = Duration::from_secs(1);
    let fixed = |units| Limit::FixedWindow { units: MicroTokens(units), window: Window::Every(window) };
    let span = prop_oneof![3 => Just(0i64), 6 => 0..400i64, 1 => 400..2_500i64, 1 => -1_000..0i64, 1 => -3_000..0i64];
    let step = (span, 0..600u64, proptest::option::weighted(0.5, (0..8u64, prop_oneof![2 => 0..300u64, 1 => 0..2_500u64])));
    let units = prop_oneof![Just(6u64), Just(20_000_000u64), Just(MAX_EXACT)];
    let sequence = (units, 0..3usize, proptest::collection::vec(step, 1..60));
    let mut runner =
        TestRunner::new(Config { cases: 300, rng_seed: RngSeed::Fixed(2_026), failure_persistence: None, ..Config::default() });
    let (pair, corrected) = (std::cell::RefCell::new(Pair::new()), std::cell::Cell::new([[0; 2]; 3]));
    let result = runner.run(&sequence, |(units, kind, steps)| {
        let (mut pair, limit) = (pair.borrow_mut(), [fixed(units), sliding(units, window), log(units, window)][kind]);
        pair.begin(StoreTime::from_micros(1_790_000_000_000_000));
        for (id, (span, cost, settle)) in (0..).zip(steps) {
            let now = pair.now.as_micros().saturating_add_signed(span * 1_000);
            pair.go_to(StoreTime::from_micros(now));
            let of_units = |permille: u64| (u128::from(units) * u128::from(permille)).div_ceil(1_000) as u64;
            match settle.filter(|_| id > 0) {
                None => pair.reserve(&of(limit, of_units(cost)), id),
                Some((before, permille)) => {
                    let id = id.saturating_sub(1 + before as u128);
                    if let SettleReply::Settled(Settled { returned, owed, .. }) =
                        pair.settle(&of(limit, 0), id, of_units(permille).min(MAX_EXACT))
                    {
                        let mut counts = corrected.get();
                        counts[kind][0] += u64::from(returned > MicroTokens::ZERO);
                        counts[kind][1] += u64::from(owed > MicroTokens::ZERO);
                        corrected.set(counts);
                    }
                }
            }
            pair.kept();
        }
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
    assert!(corrected.get().iter().flatten().all(|n| *n > 100), "{corrected:?} were returned, and owed");
}

#[test]
fn what_a_script_can_hold_at_most_is_counted_to_the_last_digit() {
    let mut pair = Pair::new();
    for limit in [log(MAX_EXACT, HOUR), sliding(MAX_EXACT, HOUR)] {
        pair.begin(StoreTime::from_micros(MAX_EXACT - 2 * 3_600_000_000));
        assert!(pair.ask(&of(limit, MAX_EXACT - 1)).fits);
        assert!(!pair.ask(&of(limit, 2)).fits && !pair.ask(&of(limit, u64::MAX)).fits);
        assert_eq!(pair.ask(&of(limit, 1)).remaining, MicroTokens::ZERO);
        pair.go_to(StoreTime::from_micros(MAX_EXACT));
        assert!(pair.ask(&of(limit, 1)).remaining > MicroTokens::ZERO);
        assert!(!pair.kept().is_empty());
    }
}

#[test]
fn a_log_with_too_many_entries_is_merged_alike() {
    let mut pair = Pair::new();
    let (begun, units) = (pair.now, 2 * MAX_LOG_ENTRIES as u64);
    let charge = of(log(units, HOUR), 1);
    for i in 0..MAX_LOG_ENTRIES as u64 + 7 {
        pair.go_to(begun.after(Duration::from_micros(i)));
        assert!(pair.ask(&charge).fits);
    }
    let kept = pair.kept();
    assert_eq!((kept.len(), kept[0].as_str()), (MAX_LOG_ENTRIES + 1, "10007"));
    assert_eq!(kept[1], format!("{} 8", begun.as_micros() + 7));
    // all but the newest hundred age out at once, in chunks
    pair.go_to(begun.after(HOUR + Duration::from_micros(MAX_LOG_ENTRIES as u64 + 7 - 100)));
    assert!(pair.ask(&of(log(units, HOUR), units - 100)).fits);
    assert_eq!(pair.kept().len(), 102);
}

#[test]
fn a_long_wait_in_a_full_log_is_told_to_the_microsecond() {
    let mut pair = Pair::new();
    let begun = pair.now;
    for i in 0..100 {
        pair.go_to(begun.after(Duration::from_micros(i * 10)));
        assert!(pair.ask(&of(log(100, HOUR), 1)).fits);
    }
    for cost in [1, 7, 8, 9, 40, 41, 99, 100] {
        let wait = HOUR + Duration::from_micros((cost - 1) * 10 + 1) - Duration::from_micros(990);
        assert_eq!(pair.ask(&of(log(100, HOUR), cost)).retry_after, Some(wait));
    }
}

#[test]
fn the_bytes_of_a_subject_are_few_and_bounded() {
    let mut pair = Pair::new();
    let begun = pair.now;
    let bytes = |pair: &mut Pair| -> u64 {
        let key = pair.redis.keys.bucket(&subject("a"));
        redis::cmd("MEMORY").arg("USAGE").arg(key).arg("SAMPLES").arg(0).query(&mut pair.connection).expect("there")
    };
    pair.ask(&of(sliding(tokens(1_000).0, HOUR), 1_000_000));
    let window = bytes(&mut pair);
    pair.begin(begun);
    pair.ask(&of(log(tokens(100).0, HOUR), 1_000_000));
    let one = bytes(&mut pair);
    for i in 1..100 {
        pair.go_to(begun.after(Duration::from_micros(i)));
        pair.ask(&of(log(tokens(100).0, HOUR), 1_000_000));
    }
    let hundred = bytes(&mut pair);
    let each = (hundred - one) / 99;
    assert!(window <= 200 && one <= 250 && each <= 40, "{window} of a window, {one} of a log of one, {each} of each more");
}
