//! Requests to every region, each at a rate of its own, until told otherwise.

use crate::records::{Outcome, Record, Records};
use crate::system::{BURST, DEMAND, PATIENCE, RATE, REGIONS, System, may_use};
use quorate_faults::wait::until;
use quorate_shared::api::CheckAnswer;
use serde_json::json;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Requests under way in one region at most; beyond that the load waits.
const UNDER_WAY: usize = 200;

/// The load of a run, and what became of it. Ends with this value.
#[derive(Debug)]
pub struct Load {
    begun: Instant,
    rates: BTreeMap<&'static str, watch::Sender<u32>>,
    records: Arc<Mutex<Vec<Record>>>,
    senders: JoinSet<()>,
}

impl Load {
    /// A load that sends nothing yet. Each request takes one token of [`crate::system::POLICIES`].
    pub fn on(system: &System) -> Self {
        let mut load = Self { begun: Instant::now(), rates: BTreeMap::new(), records: Arc::default(), senders: JoinSet::new() };
        for region in REGIONS {
            let (rate, rate_seen) = watch::channel(0);
            load.rates.insert(region, rate);
            let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(5)).build().expect("a client");
            let urls = system.urls_of(region).iter().map(|url| format!("{url}/v1/check")).collect();
            let door = Door { region, urls, asked: Arc::default(), client, begun: load.begun };
            load.senders.spawn(send(door, rate_seen, load.records.clone()));
        }
        load
    }

    /// From now on so many requests a second in one region.
    pub fn set(&self, region: &str, per_second: u32) {
        self.rates[region].send_replace(per_second);
    }

    /// From now on so many requests a second in each region.
    pub fn set_all(&self, per_second: u32) {
        REGIONS.iter().for_each(|region| self.set(region, per_second));
    }

    /// Demand moves to one region until that holds the pool and loans.
    pub async fn lean_on(&self, region: &str, system: &System) {
        self.set_all(5);
        self.set(region, DEMAND);
        until(&format!("{region} holds pool and loans"), PATIENCE, async || {
            system.status(region).await.filter(|status| may_use(status) >= 65.0)
        })
        .await;
    }

    /// Nobody asks in one region until its bucket is full, then everybody in all: whatever may
    /// be used is used at once.
    pub async fn save_up_and_rush(&self, region: &str) {
        self.set(region, 0);
        self.measure(Duration::from_secs(1) * BURST / RATE).await;
        self.set_all(DEMAND);
        self.set(region, 2 * RATE);
    }

    /// Time since the run began.
    pub fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// What was answered so far.
    pub fn records(&self) -> Records {
        Records(self.records.lock().expect("nobody panicked").clone())
    }

    /// Lets so much of the run pass and gives it, for a measurement.
    pub async fn measure(&self, span: Duration) -> Range<Duration> {
        let from = self.now();
        tokio::time::sleep(span).await;
        from..from + span
    }

    /// Waits until these regions have together admitted `least` a second over the last `span`.
    pub async fn served(&self, regions: &[&str], least: f64, span: Duration) {
        let from = self.now() + span;
        until(&format!("{regions:?} admit {least} a second"), PATIENCE, async || {
            let now = self.now();
            let records = self.records.lock().expect("nobody panicked");
            let newest = records.iter().rev().take_while(|record| record.answered + 2 * span > now);
            let admitted = newest.filter(|r| regions.contains(&r.region) && r.mode().is_some() && r.answered + span > now).count();
            (now >= from && admitted as f64 >= least * span.as_secs_f64()).then_some(())
        })
        .await;
    }

    /// Sends no more, waits for the answers that are under way, and gives all.
    pub async fn stop(mut self) -> Records {
        self.rates.clear();
        while let Some(ended) = self.senders.join_next().await {
            ended.expect("the load does not fail");
        }
        let records = self.records();
        println!("{records}");
        records
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.senders.is_empty() {
            println!("{}", self.records());
        }
    }
}

/// Where one region is asked.
#[derive(Clone, Debug)]
struct Door {
    region: &'static str,
    /// Its agents, asked in turn.
    urls: Vec<String>,
    asked: Arc<AtomicUsize>,
    client: reqwest::Client,
    begun: Instant,
}

async fn send(door: Door, mut rate: watch::Receiver<u32>, records: Arc<Mutex<Vec<Record>>>) {
    let mut under_way = JoinSet::new();
    let mut due = tokio::time::Instant::now();
    loop {
        let per_second = *rate.borrow_and_update();
        tokio::select! {
            changed = rate.changed() => {
                if changed.is_err() {
                    break;
                }
                due = tokio::time::Instant::now();
            }
            () = tokio::time::sleep_until(due), if per_second > 0 && under_way.len() < UNDER_WAY => {
                due += Duration::from_secs(1) / per_second;
                let (door, records) = (door.clone(), records.clone());
                under_way.spawn(async move {
                    let record = door.ask().await;
                    records.lock().expect("nobody panicked").push(record);
                });
            }
            Some(asked) = under_way.join_next() => asked.expect("asking does not fail"),
        }
    }
    while let Some(asked) = under_way.join_next().await {
        asked.expect("asking does not fail");
    }
}

impl Door {
    async fn ask(&self) -> Record {
        let body = json!({"attributes": {"route": "write", "tenant": "acme"}});
        let url = &self.urls[self.asked.fetch_add(1, Ordering::Relaxed) % self.urls.len()];
        let sent = self.begun.elapsed();
        let outcome = match self.client.post(url).json(&body).send().await {
            Ok(response) => read(response).await,
            Err(_) => Outcome::Unanswered,
        };
        Record { region: self.region, sent, answered: self.begun.elapsed(), outcome }
    }
}

pub async fn read(response: reqwest::Response) -> Outcome {
    let status = response.status().as_u16();
    let Ok(body) = response.bytes().await else { return Outcome::Unanswered };
    match status {
        200 => {
            let answer: CheckAnswer = serde_json::from_slice(&body).expect("the body of a 200");
            assert_eq!(answer.limits.len(), 1, "one policy matches");
            Outcome::Admitted(answer.limits[0].mode)
        }
        429 => Outcome::Refused,
        other => Outcome::Failed(other),
    }
}
