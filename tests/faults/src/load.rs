//! Requests to every region, sent when they are due, whatever became of those before (an open
//! loop), at rates that wander.

use crate::configuration::{BURST, MAX_HOLD, RATE};
use crate::places::REGIONS;
use crate::system::System;
use crate::told::{Limit, Outcome, Told};
use fastrand::Rng;
use quorate_shared::api::CheckAnswer;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// Requests of one kind under way in one region; more are left out, and counted.
const UNDER_WAY: usize = 400;

/// An answer that comes later is none.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Requests in a second in each region that are together more than the limits.
const MUCH: [(Limit, u32); 3] = [(Limit::Bucket, 24), (Limit::Window, 6), (Limit::Slots, 6)];

/// What rates are drawn from.
const RATES: [(Limit, [u32; 4]); 3] = [(Limit::Bucket, [4, 16, 36, 72]), (Limit::Window, [0, 2, 6, 12]), (Limit::Slots, [0, 2, 4, 8])];

/// The load of a run, and what its clients were told. Ends with this value.
#[derive(Debug)]
pub struct Load {
    clock: Clock,
    told: Arc<Mutex<Vec<Told>>>,
    left_out: Arc<AtomicU64>,
    rates: Arc<Rates>,
    senders: JoinSet<()>,
    wandering: Option<JoinHandle<()>>,
}

type Rates = BTreeMap<(&'static str, Limit), watch::Sender<u32>>;

/// The clock of a run.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    begun: Instant,
    /// What wall clocks showed then, since 1970.
    pub wall: Duration,
}

impl Clock {
    /// Begins now.
    pub fn begin() -> Self {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
        Self { begun: Instant::now(), wall }
    }

    /// Since it began.
    pub fn now(&self) -> Duration {
        self.begun.elapsed()
    }
}

impl Load {
    /// A load that sends nothing yet.
    pub fn on(system: &System) -> Self {
        let (mut rates, mut senders) = (Rates::new(), JoinSet::new());
        let (clock, told, left_out) = (Clock::begin(), Arc::<Mutex<Vec<Told>>>::default(), Arc::<AtomicU64>::default());
        for region in REGIONS {
            let client = reqwest::Client::builder().no_proxy().timeout(TIMEOUT).build().expect("a client");
            let urls: Vec<String> = system.agents(region).into_iter().map(|agent| system.url(agent)).collect();
            for limit in Limit::ALL {
                let (rate, seen) = watch::channel(0);
                rates.insert((region, limit), rate);
                let door = Door { limit, region, urls: urls.clone(), client: client.clone(), clock, told: told.clone() };
                senders.spawn(send(Arc::new(door), seen, left_out.clone()));
            }
        }
        Self { clock, told, left_out, rates: Arc::new(rates), senders, wandering: None }
    }

    /// From now on rates are drawn anew every one to three seconds, in each region for itself. One
    /// time in four nobody asks until buckets are full, and then everybody: what may be used is used at once.
    pub fn wander(&mut self, seed: u64) {
        let (rates, mut rng) = (self.rates.clone(), Rng::with_seed(seed));
        self.wandering = Some(tokio::spawn(async move {
            loop {
                if rng.u8(0..4) == 0 {
                    set_all(&rates, |_| 0);
                    tokio::time::sleep(Duration::from_secs(1) * BURST / RATE).await;
                    set_all(&rates, |choices| choices[choices.len() - 1]);
                } else {
                    set_all(&rates, |choices| choices[rng.usize(0..choices.len())]);
                }
                tokio::time::sleep(Duration::from_millis(rng.u64(1_000..3_000))).await;
            }
        }));
    }

    /// From now on as much in each region as is together more than the limits.
    pub fn settle(&mut self) {
        self.stop_wandering();
        for ((_, limit), rate) in self.rates.iter() {
            let much = MUCH.iter().find(|(of, _)| of == limit).map_or(0, |(_, much)| *much);
            rate.send_replace(much);
        }
    }

    fn stop_wandering(&mut self) {
        if let Some(task) = self.wandering.take() {
            task.abort();
        }
    }

    /// The clock of the run.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Sends no more, waits for the answers that are under way, and gives all that was told, and
    /// how many requests were left out since too many were under way.
    pub async fn stop(mut self) -> (Vec<Told>, u64) {
        self.stop_wandering();
        self.rates = Arc::default();
        while let Some(ended) = self.senders.join_next().await {
            ended.expect("the load does not fail");
        }
        let told = std::mem::take(&mut *self.told.lock().unwrap_or_else(PoisonError::into_inner));
        (told, self.left_out.load(Ordering::Relaxed))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop_wandering();
    }
}

fn set_all(rates: &Rates, mut choose: impl FnMut(&[u32]) -> u32) {
    for ((_, limit), rate) in rates {
        let choices = RATES.iter().find(|(of, _)| of == limit).map(|(_, choices)| choose(choices));
        rate.send_replace(choices.unwrap_or_default());
    }
}

/// Where requests of one kind enter one region.
#[derive(Debug)]
struct Door {
    limit: Limit,
    region: &'static str,
    urls: Vec<String>,
    client: reqwest::Client,
    clock: Clock,
    told: Arc<Mutex<Vec<Told>>>,
}

async fn send(door: Arc<Door>, mut rate: watch::Receiver<u32>, left_out: Arc<AtomicU64>) {
    let mut under_way = JoinSet::new();
    let mut due = tokio::time::Instant::now();
    for n in 0.. {
        // until one is sent
        loop {
            let per_second = *rate.borrow_and_update();
            tokio::select! {
                changed = rate.changed() => {
                    if changed.is_err() {
                        while under_way.join_next().await.is_some() {}
                        return;
                    }
                    due = tokio::time::Instant::now();
                }
                () = tokio::time::sleep_until(due), if per_second > 0 => {
                    due += Duration::from_secs(1) / per_second;
                    break;
                }
                Some(_) = under_way.join_next() => {}
            }
        }
        if under_way.len() < UNDER_WAY {
            let door = door.clone();
            under_way.spawn(async move { door.ask(n).await });
        } else {
            left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Door {
    async fn ask(&self, n: usize) {
        let url = &self.urls[n % self.urls.len()];
        let body = json!({"attributes": {"route": self.limit.name(), "tenant": "acme"}});
        let sent = self.clock.now();
        let answer = match self.client.post(format!("{url}/v1/check")).json(&body).send().await {
            Ok(response) => read(response).await,
            Err(_) => (Outcome::Unanswered, None),
        };
        let (outcome, slot) = answer;
        let mut told = Told { limit: self.limit, region: self.region, sent, answered: self.clock.now(), outcome, released: None };
        if let Some(slot) = slot {
            // an eighth of the slots is never given back
            let held = Duration::from_millis(100 + n as u64 * 37 % 400) + if n.is_multiple_of(8) { MAX_HOLD } else { Duration::ZERO };
            tokio::time::sleep(held).await;
            told.released = Some(self.clock.now());
            // whether it arrives does not matter: from now on the client does not count on it
            let _ = self.client.post(format!("{url}/v1/release")).json(&json!({"slot": slot})).send().await;
        }
        self.told.lock().unwrap_or_else(PoisonError::into_inner).push(told);
    }
}

async fn read(response: reqwest::Response) -> (Outcome, Option<String>) {
    let status = response.status().as_u16();
    let Ok(body) = response.bytes().await else { return (Outcome::Unanswered, None) };
    match status {
        200 => {
            let answer: CheckAnswer = serde_json::from_slice(&body).expect("the body of a 200");
            let mode = answer.limits.first().map(|limit| limit.mode);
            // an agent without policies would let everything pass
            mode.map_or((Outcome::Failed(200), None), |mode| (Outcome::Admitted(mode), answer.slot))
        }
        429 => (Outcome::Refused, None),
        503 => (Outcome::Unavailable, None),
        other => (Outcome::Failed(other), None),
    }
}
