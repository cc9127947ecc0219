//! Windows: units of a year are spent in three regions, where they are wanted, and never more of them.

use crate::system::{Floors, PATIENCE, REGIONS, System};
use quorate_faults::wait::until;
use quorate_shared::api::CheckAnswer;
use quorate_shared::policy::{CalendarUnit, TimeZone, Window};
use quorate_shared::time::StoreTime;
use serde_json::json;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Units of a window, in all regions together.
const UNITS: usize = 100;

/// Each region's static share, of a policy that has any.
const FLOOR: usize = 10;

/// Units that one region alone is to get: its floor, and most of what is in none.
const WANTED: usize = 60;

/// Requests for the units of a policy.
const REQUESTS: usize = 1_000;

/// One request and its answer.
struct Answer {
    status: u16,
    /// Seconds.
    retry_after: Option<u64>,
    body: Vec<u8>,
}

struct Client<'a> {
    system: &'a System,
    http: reqwest::Client,
}

impl<'a> Client<'a> {
    fn of(system: &'a System) -> Self {
        let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(5)).build().expect("a client");
        Self { system, http }
    }

    /// Takes a unit of the policy for this route.
    async fn ask(&self, region: &str, route: &str) -> Answer {
        let body = json!({"attributes": {"route": route, "tenant": "acme"}});
        let sent = self.http.post(format!("{}/v1/check", self.system.agent_url(region))).json(&body).send();
        let response = sent.await.expect("an answer");
        let header = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
        Answer { status: response.status().as_u16(), retry_after: header, body: response.bytes().await.expect("a body").to_vec() }
    }

    /// Asks in one region, again and again, until so many were admitted there; gives how often it asked.
    async fn ask_until(&self, region: &str, route: &str, admitted: usize) -> usize {
        let (mut asked, mut done) = (0, 0);
        until(&format!("{region} admits {admitted}"), PATIENCE, async || {
            asked += 1;
            let status = self.ask(region, route).await.status;
            assert!(matches!(status, 200 | 429), "{status}");
            done += usize::from(status == 200);
            (done >= admitted).then_some(())
        })
        .await;
        asked
    }

    /// Asks so often in each region in turn; gives what was admitted in each.
    async fn ask_everywhere(&self, route: &str, times: usize) -> [usize; 3] {
        let mut admitted = [0; 3];
        for n in 0..times {
            let status = self.ask(REGIONS[n % 3], route).await.status;
            assert!(matches!(status, 200 | 429), "{status}");
            admitted[n % 3] += usize::from(status == 200);
        }
        admitted
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_of_a_window_are_spent_where_they_are_wanted_and_never_more_of_them() {
    let system = System::start(Floors::WithPool).await;
    let client = Client::of(&system);
    for (route, floor) in [("yearly", FLOOR), ("pooled", 0)] {
        let asked = client.ask_until("us", route, WANTED).await;
        let (mut rest, mut sent) = ([0; 3], asked);
        until(&format!("all units of {route} are spent"), PATIENCE, async || {
            sent += 30;
            let more = client.ask_everywhere(route, 30).await;
            rest.iter_mut().zip(more).for_each(|(all, more)| *all += more);
            (WANTED + rest.iter().sum::<usize>() >= UNITS).then_some(())
        })
        .await;
        let beyond = client.ask_everywhere(route, REQUESTS.saturating_sub(sent)).await;
        println!("{route}: us was given {WANTED} in {asked} requests, then {rest:?} of {sent}, then {beyond:?} of {REQUESTS}");
        let all: usize = rest.iter().chain(&beyond).sum();
        assert_eq!(WANTED + all, UNITS, "{route}");
        let [_, eu, ap] = rest;
        assert!(eu >= floor && ap >= floor, "{route}: a floor is its region's, {rest:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_month_ends_where_the_clocks_of_its_time_zone_say_so() {
    let system = System::start(Floors::WithPool).await;
    let client = Client::of(&system);
    let window = Window::Calendar { unit: CalendarUnit::Month, zone: TimeZone::named("Europe/Berlin").expect("a zone") };
    let left_at = |now: Duration| window.end(window.at(StoreTime::ZERO.after(now))).since(StoreTime::ZERO.after(now));
    // a month may turn meanwhile
    let (told, (most, least)) = until("both requests fall into one month", PATIENCE, async || {
        let before = left_at(since_1970());
        let answers = [client.ask("us", "monthly").await, client.ask("us", "monthly").await];
        let after = left_at(since_1970());
        (after <= before).then_some((answers, (before, after)))
    })
    .await;
    let [first, second] = told;
    assert_eq!((first.status, second.status), (200, 429), "its floor is one unit, and all is in floors");
    let answer: CheckAnswer = serde_json::from_slice(&first.body).expect("the body of a 200");
    let reset = Duration::from_millis(answer.limits[0].reset_after_ms);
    assert!(least <= reset && reset <= most + Duration::from_millis(1), "{reset:?} of {least:?} to {most:?}");
    let wait = Duration::from_secs(second.retry_after.expect("of a refusal"));
    // rounded up to a second, after as many as five more, so that clients do not come back at one instant
    assert!(least <= wait && wait <= most + Duration::from_secs(6), "{wait:?} of {least:?} to {most:?}");
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970")
}
