//! A relay for heartbeats that reads them: it loses them, loses their answers, sends them twice, and
//! keeps them for later.

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use quorate_shared::heartbeat::Answer;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;

/// What becomes of each heartbeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    /// It arrives, and is answered.
    #[default]
    Delivered,
    /// It arrives twice, and the first answer is given.
    Doubled,
    /// It arrives, and nobody hears of it.
    Unanswered,
    /// It does not arrive.
    Lost,
}

/// The relay: where one agent's heartbeats go, on their way to one coordinator. Ends with this value.
#[derive(Debug)]
pub struct Post {
    address: SocketAddr,
    office: Office,
    task: JoinHandle<()>,
}

#[derive(Clone, Debug)]
struct Office {
    coordinator: String,
    client: reqwest::Client,
    state: Arc<Mutex<Desk>>,
}

#[derive(Debug, Default)]
struct Desk {
    fate: Fate,
    kept: Vec<(String, Bytes)>,
}

impl Post {
    /// To the coordinator of this base URL; every heartbeat is delivered.
    pub async fn to(coordinator: String) -> Self {
        let client = reqwest::Client::builder().no_proxy().http2_prior_knowledge().timeout(Duration::from_secs(5)).build();
        let office = Office { coordinator, client: client.expect("a client"), state: Arc::default() };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let router = Router::new().route("/v1/regions/{region}/heartbeat", post(take)).with_state(office.clone());
        let task = tokio::spawn(async move {
            // it serves until it is aborted
            let _ = axum::serve(listener, router).await;
        });
        Self { address, office, task }
    }

    /// Its base URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What becomes of heartbeats from now on.
    pub fn set(&self, fate: Fate) {
        self.office.desk().fate = fate;
    }

    /// How many were seen, whatever became of them.
    pub fn seen(&self) -> usize {
        self.office.desk().kept.len()
    }

    /// Sends the coordinator a heartbeat that was seen before, counted from 0, and gives its answer.
    pub async fn again(&self, n: usize) -> Option<Answer> {
        let (region, body) = self.office.desk().kept.get(n).cloned()?;
        self.office.deliver(&region, body).await?.json().await.ok()
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Office {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn deliver(&self, region: &str, body: Bytes) -> Option<reqwest::Response> {
        let url = format!("{}/v1/regions/{region}/heartbeat", self.coordinator);
        self.client.post(url).header("content-type", "application/json").body(body).send().await.ok()
    }
}

async fn take(State(office): State<Office>, Path(region): Path<String>, body: Bytes) -> Response {
    let fate = {
        let mut desk = office.desk();
        desk.kept.push((region.clone(), body.clone()));
        desk.fate
    };
    if fate == Fate::Lost {
        return std::future::pending().await;
    }
    let answer = office.deliver(&region, body.clone()).await;
    match fate {
        Fate::Doubled => drop(office.deliver(&region, body).await),
        Fate::Unanswered => return std::future::pending().await,
        Fate::Delivered | Fate::Lost => {}
    }
    let Some(answer) = answer else { return StatusCode::BAD_GATEWAY.into_response() };
    match (answer.status().is_success(), answer.json::<Answer>().await) {
        (true, Ok(answer)) => Json(answer).into_response(),
        _ => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}
