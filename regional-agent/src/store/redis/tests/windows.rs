//! Fixed windows, as they stand in Redis.

use super::*;
use quorate_limiter::decision::LimitDecision;
use quorate_shared::policy::{CalendarUnit, TimeZone, Window};
use quorate_shared::units::{Capacity, MAX_EXACT};
use std::collections::BTreeMap;
use std::time::Instant;

/// A charge of one unit; the floor is the whole limit.
fn units(name: &str, units: MicroTokens, window: Window) -> Charge {
    let limit = Limit::FixedWindow { units, window };
    Charge { limit, floor: limit.capacity(), lendable: Capacity::ZERO, ..charge(name, tokens(1), Duration::from_secs(1), tokens(1)) }
}

async fn check(store: &RedisStore, charge: &Charge) -> LimitDecision {
    decide(store, std::slice::from_ref(charge)).await.limits[0]
}

fn kept(connection: &mut redis::Connection, store: &RedisStore, charge: &Charge) -> String {
    redis::cmd("GET").arg(store.keys.bucket(&charge.budget)).query(connection).expect("there")
}

#[tokio::test]
async fn in_real_time_every_window_gives_its_units_and_not_one_more() {
    let server = Server::start();
    let (store, mut connection) = (store(&server), server.connect());
    begin(&store).await.expect("begun");
    let charge = units("a", tokens(5), Window::Every(Duration::from_millis(250)));
    let mut admitted: BTreeMap<String, u64> = BTreeMap::new();
    let begun = Instant::now();
    while admitted.len() < 4 && begun.elapsed() < Duration::from_secs(20) {
        if check(&store, &charge).await.fits {
            let label = kept(&mut connection, &store, &charge).split(' ').next().map(str::to_owned);
            *admitted.entry(label.expect("a word")).or_default() += 1;
        }
    }
    assert!(admitted.len() >= 4, "windows go on: {admitted:?}");
    assert!(admitted.values().all(|n| *n <= 5), "{admitted:?}");
    assert!(admitted.values().any(|n| *n == 5), "{admitted:?}");
}

#[tokio::test]
async fn units_are_exact_up_to_the_greatest_number() {
    let server = Server::start();
    let (store, mut connection) = (store_on_test_clock(&server), server.connect());
    set_now(&mut connection, 1_790_000_000_000_001);
    begin(&store).await.expect("begun");
    let charge = units("a", MicroTokens(MAX_EXACT), Window::Calendar { unit: CalendarUnit::Year, zone: TimeZone::UTC });
    let all_but_one = check(&store, &Charge { cost: MicroTokens(MAX_EXACT - 1), ..charge.clone() }).await;
    assert_eq!((all_but_one.fits, all_but_one.remaining), (true, MicroTokens(1)));
    let one = Charge { cost: MicroTokens(1), ..charge.clone() };
    assert!(check(&store, &one).await.fits);
    assert!(!check(&store, &one).await.fits);
    // 2026 began at 1,767,225,600
    assert_eq!(kept(&mut connection, &store, &charge), format!("1767225600000000 {MAX_EXACT} -"));
}

#[tokio::test]
async fn what_was_spent_ends_a_minute_after_its_window_and_a_look_leaves_no_trace() {
    let server = Server::start();
    let (store, mut connection) = (store(&server), server.connect());
    begin(&store).await.expect("begun");
    let charge = units("a", tokens(5), Window::Calendar { unit: CalendarUnit::Month, zone: TimeZone::UTC });
    let look = Charge { cost: MicroTokens(0), ..charge.clone() };
    assert!(check(&store, &look).await.fits);
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).expect("it answers");
    assert_eq!(keys, std::slice::from_ref(&store.keys.lease));
    let ends_in = check(&store, &charge).await.reset_after.expect("known").as_micros().div_ceil(1_000);
    let life: u64 = redis::cmd("PTTL").arg(store.keys.bucket(&charge.budget)).query(&mut connection).expect("it has an end");
    let left = ends_in + 60_000 - u128::from(life);
    assert!(left < 10_000, "{left} ms after it was written");
}

#[tokio::test]
async fn a_clock_that_was_put_back_keeps_the_window_that_was_used() {
    let server = Server::start();
    let (store, mut connection) = (store_on_test_clock(&server), server.connect());
    set_now(&mut connection, 1_790_000_060_000_000);
    begin(&store).await.expect("begun");
    let charge = units("a", tokens(1), Window::Every(Duration::from_secs(20)));
    assert!(check(&store, &charge).await.fits);
    // an hour back, for as long as it takes
    set_now(&mut connection, 1_790_000_060_000_000 - 3_600_000_000);
    let refused = check(&store, &charge).await;
    assert!(!refused.fits && refused.retry_after > Some(Duration::from_secs(3_600)), "{refused:?}");
    assert!(matches!(store.usage(&[charge], NO_DRIFT).await, Ok(usages) if usages.of.len() == 1));
}
