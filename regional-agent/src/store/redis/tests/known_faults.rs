//! Faults that limiters have had in public, each a class of its own: no algorithm of either store has them.
//!
//! Every question goes to both stores on one clock, which must agree; what is asserted is the right answer.

use super::*;
use crate::store::redis::wire::Keys;
use quorate_limiter::decision::LimitDecision;
use quorate_limiter::store::MemoryStore;
use quorate_shared::policy::Window;
use quorate_shared::units::{Capacity, MAX_EXACT};

/// The length of every window here, and the period of the bucket.
const MINUTE: Duration = Duration::from_secs(60);

/// A beginning of a window, far from the clock's zero.
const START: u64 = 1_789_999_980_000_000;

const SECOND: u64 = 1_000_000;
const DAY: u64 = 86_400 * SECOND;

/// A limit of so many units per minute by each algorithm that has a rate.
const KINDS: [fn(MicroTokens) -> Limit; 4] = [
    |units| Limit::TokenBucket { rate: units, period: MINUTE, burst: units },
    |units| Limit::FixedWindow { units, window: Window::Every(MINUTE) },
    |units| Limit::SlidingWindow { units, window: MINUTE },
    |units| Limit::SlidingLog { units, window: MINUTE },
];

/// Both stores, in session 1, where everything may be used.
struct Both {
    memory: MemoryStore,
    redis: RedisStore,
    connection: redis::Connection,
    runtime: tokio::runtime::Runtime,
    now: StoreTime,
    _server: Server,
}

impl Both {
    fn new() -> Self {
        let server = Server::start();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (redis, mut connection) = (store_on_test_clock(&server), server.connect());
        let (mut memory, now) = (MemoryStore::default(), StoreTime::from_micros(START));
        set_now(&mut connection, START);
        runtime.block_on(begin(&redis)).expect("begun");
        memory.open_session(now, &opening(1), "memory").expect("opened");
        let number = Number { session: 1, seq: memory.draw_seq(now, 1).expect("drawn") };
        memory.take(now, number).expect("taken");
        memory.finish(now, &genesis(number)).expect("finished");
        Self { memory, redis, connection, runtime, now, _server: server }
    }

    /// The clock of both stores shows so many microseconds after [`START`].
    fn at(&mut self, after: u64) {
        self.set(START + after);
    }

    fn set(&mut self, micros: u64) {
        self.now = StoreTime::from_micros(micros);
        set_now(&mut self.connection, micros);
    }

    fn ask_all(&mut self, charges: &[Charge]) -> Decision {
        let question = question(charges);
        let expected = self.memory.decide(self.now, &question);
        let got = self.runtime.block_on(self.redis.decide(&question));
        assert_eq!(got, Ok(expected.clone()), "{question:?}");
        let Reply::Decided(decision) = expected else { panic!("not decided: {expected:?}") };
        decision
    }

    fn ask(&mut self, limit: Limit, cost: u64) -> LimitDecision {
        self.ask_all(&[of("a", limit, tokens(cost))]).limits[0]
    }

    /// Whether each of these costs, one after the other, fits.
    fn fits(&mut self, limit: Limit, costs: &[u64]) -> Vec<bool> {
        costs.iter().map(|cost| self.ask(limit, *cost).fits).collect()
    }

    /// What Redis keeps of a subject: type, text and life.
    fn kept(&mut self, name: &str) -> (String, i64) {
        let key = Keys::new(&"eu".parse().expect("a name")).bucket(&subject(name));
        let dump: Option<Vec<u8>> = redis::cmd("DUMP").arg(&key).query(&mut self.connection).expect("it answers");
        let life = redis::cmd("PTTL").arg(&key).query(&mut self.connection).expect("it answers");
        (format!("{dump:?}"), life)
    }
}

fn of(name: &str, limit: Limit, cost: MicroTokens) -> Charge {
    Charge {
        budget: subject(name),
        limit,
        floor: limit.capacity(),
        lendable: Capacity::ZERO,
        former_floors: vec![],
        floor_ttl: None,
        cost,
        enforced: true,
    }
}

/// Runs `test` with each algorithm on fresh stores.
fn each(test: impl Fn(&mut Both, fn(MicroTokens) -> Limit)) {
    for kind in KINDS {
        test(&mut Both::new(), kind);
    }
}

#[test]
fn a_cost_above_the_limit_can_never_be_admitted_and_takes_nothing() {
    each(|both, kind| {
        let limit = kind(tokens(10));
        let refused = both.ask(limit, 11);
        assert!(!refused.fits && refused.retry_after.is_none() && refused.remaining == tokens(10), "{limit:?} {refused:?}");
        assert_eq!(both.fits(limit, &[10, 1]), [true, false], "{limit:?}");
    });
}

#[test]
fn a_refused_request_takes_nothing_of_its_limit() {
    each(|both, kind| {
        let limit = kind(tokens(10));
        assert_eq!(both.fits(limit, &[8, 5]), [true, false], "{limit:?}");
        assert_eq!(both.ask(limit, 0).remaining, tokens(2), "{limit:?}");
        assert_eq!(both.fits(limit, &[1, 1, 1]), [true, true, false], "{limit:?}");
    });
}

#[test]
fn a_refusal_by_one_limit_takes_nothing_of_another() {
    each(|both, kind| {
        for (place, other) in KINDS.into_iter().enumerate() {
            let named = |name: &str| format!("{name} {place}");
            let (user, site) = (of(&named("user"), kind(tokens(1)), tokens(1)), of(&named("site"), other(tokens(10)), tokens(1)));
            both.ask_all(std::slice::from_ref(&user));
            let before = both.ask_all(&[Charge { cost: MicroTokens::ZERO, ..site.clone() }]).limits[0].remaining;
            let refused = both.ask_all(&[user, site]);
            assert!(!refused.allowed && refused.limits[1].fits);
            assert_eq!(refused.limits[1].remaining, before);
        }
    });
}

#[test]
fn a_limit_of_nothing_refuses_every_cost_and_admits_a_look() {
    each(|both, kind| {
        let limit = kind(MicroTokens::ZERO);
        assert_eq!(both.fits(limit, &[1, 0]), [false, true], "{limit:?}");
    });
}

#[test]
fn a_look_takes_nothing_and_leaves_key_and_life_alone() {
    each(|both, kind| {
        let limit = kind(tokens(10));
        both.ask(limit, 9);
        let (kept, life) = both.kept("a");
        for _ in 0..10 {
            let look = both.ask(limit, 0);
            assert!(look.fits && look.remaining == tokens(1), "{limit:?} {look:?}");
        }
        let after = both.kept("a");
        assert!(after.0 == kept && after.1 <= life, "{limit:?}");
    });
}

#[test]
fn every_key_has_an_end_that_is_near() {
    each(|both, kind| {
        let limit = kind(tokens(10));
        both.ask(limit, 1);
        let (_, life) = both.kept("a");
        // two windows of the sliding one, and what is left of a minute's grace
        assert!(life > 0 && life <= 5 * 60_000, "{limit:?}: {life} ms");
    });
}

#[test]
fn waiting_as_told_is_enough_and_less_is_not() {
    each(|both, kind| {
        let limit = kind(tokens(3));
        both.at(700_000);
        assert_eq!(both.fits(limit, &[1, 2]), [true, true]);
        both.at(1_300_000);
        let wait = both.ask(limit, 2).retry_after.expect("it may fit later");
        assert!(wait > Duration::ZERO, "{limit:?}");
        let wait = u64::try_from(wait.as_micros()).expect("short");
        both.at(1_300_000 + wait - 1);
        assert!(!both.ask(limit, 2).fits, "{limit:?}: a microsecond before {wait} us");
        both.at(1_300_000 + wait);
        let admitted = both.ask(limit, 2);
        assert!(admitted.fits && admitted.retry_after.is_none(), "{limit:?}: after {wait} us");
    });
}

#[test]
fn a_clock_that_steps_back_drains_nothing_and_freezes_nothing() {
    each(|both, kind| {
        let limit = kind(tokens(10));
        both.at(5 * DAY);
        assert!(both.ask(limit, 5).fits);
        both.at(3 * DAY);
        let after = both.ask(limit, 1);
        assert!(after.fits && after.remaining >= tokens(4), "{limit:?}: {after:?}");
        // a fixed window never goes back, so its units come with the next one that is really new
        let whole = if limit.window_at(both.now).is_some() { 5 * DAY + 60 * SECOND } else { 3 * DAY + 121 * SECOND };
        both.at(whole);
        assert_eq!(both.ask(limit, 0).remaining, tokens(10), "{limit:?}");
    });
}

#[test]
fn a_clock_that_steps_forth_gives_a_limit_once() {
    each(|both, kind| {
        let limit = kind(tokens(10));
        assert!(both.ask(limit, 10).fits);
        both.at(2 * DAY);
        assert_eq!(both.fits(limit, &[10, 1]), [true, false], "{limit:?}");
    });
}

#[test]
fn around_a_boundary_only_a_fixed_window_admits_twice() {
    each(|both, kind| {
        let limit = kind(tokens(100));
        both.at(59_900_000);
        let before = (0..100).filter(|_| both.ask(limit, 1).fits).count();
        both.at(60_100_000);
        let after = (0..100).filter(|_| both.ask(limit, 1).fits).count();
        let right = match limit {
            Limit::FixedWindow { .. } => 100,
            _ => 0,
        };
        assert_eq!((before, after), (100, right), "{limit:?}");
    });
}

#[test]
fn the_window_before_weighs_in_a_limit_of_one_too() {
    let mut both = Both::new();
    let limit = Limit::SlidingWindow { units: tokens(1), window: Duration::from_secs(1) };
    for (after, fits) in [(900_000, true), (1_100_000, false), (2_000_000, true)] {
        both.at(after);
        assert_eq!(both.ask(limit, 1).fits, fits, "at {after} us");
    }
}

#[test]
fn the_greatest_limits_are_exact() {
    each(|both, kind| {
        let limit = kind(MicroTokens(MAX_EXACT));
        let most = of("a", limit, MicroTokens(MAX_EXACT - 1));
        let left = both.ask_all(&[most]).limits[0];
        assert!(left.fits && left.remaining == MicroTokens(1), "{limit:?} {left:?}");
        assert!(!both.ask_all(&[of("a", limit, MicroTokens(2))]).allowed, "{limit:?}");
        assert!(both.ask_all(&[of("a", limit, MicroTokens(1))]).allowed, "{limit:?}");
        assert!(both.kept("a").0.contains("Some"), "{limit:?}");
    });
}

#[test]
fn a_limit_raised_and_lowered_keeps_what_was_used() {
    // a bucket rises by its refill alone, see the tests of the limiter
    for kind in &KINDS[1..] {
        let mut both = Both::new();
        assert!(both.ask(kind(tokens(5)), 5).fits);
        assert_eq!(both.ask(kind(tokens(10)), 3).remaining, tokens(2));
        let lowered = both.ask(kind(tokens(4)), 1);
        assert!(!lowered.fits && lowered.remaining == MicroTokens::ZERO, "{lowered:?}");
    }
}

#[test]
fn a_limit_lowered_while_idle_has_its_units_again_after_a_period() {
    each(|both, kind| {
        assert!(both.ask(kind(tokens(5)), 0).fits);
        for minutes in [2, 4, 6] {
            both.at(minutes * 60 * SECOND);
            assert_eq!(both.fits(kind(tokens(2)), &[1, 1, 1]), [true, true, false]);
        }
    });
}

#[test]
fn a_slow_limit_is_kept_and_limits() {
    each(|both, kind| {
        let limit = kind(tokens(1));
        assert_eq!(both.fits(limit, &[1, 1, 1, 1, 1]), [true, false, false, false, false], "{limit:?}");
    });
}
