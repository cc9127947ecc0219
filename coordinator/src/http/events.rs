//! `GET /v1/events`: the state for the page, each second and at changes, as server-sent events.

use super::budgets::{Sort, Wanted};
use super::lately::{Change, Changes};
use super::policies::Versions;
use super::refusal::Refusal;
use super::{App, views};
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use quorate_shared::api::{Bounds, Budgets, Cluster, PolicyBound, RegionState, Regions};
use quorate_shared::problem::Problem;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;

/// As many streams at once.
const MAX_STREAMS: usize = 64;
/// Without a change there is one event in this time.
const PERIOD: Duration = Duration::from_secs(1);
/// With changes there is at most one event in this time.
const LEAST_GAP: Duration = Duration::from_millis(250);
/// The page takes a stream for lost that is silent for 5 s.
const LONGEST_GAP: Duration = Duration::from_secs(4);
/// Of the time between two events, so much at least does not go into them: the more there is to tell, the less often.
const REST: u32 = 9;
/// Budgets in an event: those most in demand.
const BUDGETS: usize = 10;
/// Changes in an event: the newest.
const CHANGES: usize = 20;

/// One state for all streams: a slow reader misses states, and holds nobody up.
#[derive(Debug)]
pub struct Events {
    newest: watch::Sender<Arc<str>>,
    wake: Notify,
    places: Arc<Semaphore>,
    closing: CancellationToken,
}

#[derive(Serialize)]
struct Summary {
    cluster: Cluster,
    policy_set: Versions,
    regions: Vec<RegionState>,
    policies: Vec<PolicyBound>,
    budgets: Budgets,
    changes: Vec<Change>,
}

impl Events {
    /// No streams yet; all end with `closing`.
    pub fn new(closing: CancellationToken) -> Self {
        let (newest, _) = watch::channel(Arc::from(""));
        Self { newest, wake: Notify::new(), places: Arc::new(Semaphore::new(MAX_STREAMS)), closing }
    }

    /// Something has changed.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// How many streams are open.
    pub fn streams(&self) -> usize {
        MAX_STREAMS.saturating_sub(self.places.available_permits())
    }
}

/// Opens a stream.
#[utoipa::path(get, path = "/v1/events", tag = "views", responses((status = 200, content_type = "text/event-stream", description = "What the page shows, as it changes."), (status = "default", body = Problem, content_type = "application/problem+json", description = "Why not.")))]
pub async fn stream(State(app): State<Arc<App>>) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Refusal> {
    let place = app.events.places.clone().try_acquire_owned().map_err(|_| Refusal::too_many_streams(MAX_STREAMS))?;
    let reader = Reader { states: app.events.newest.subscribe(), closing: app.events.closing.clone(), _place: place };
    app.events.wake();
    Ok(Sse::new(unfold(reader, Reader::next)).keep_alive(KeepAlive::default()))
}

struct Reader {
    states: watch::Receiver<Arc<str>>,
    closing: CancellationToken,
    _place: OwnedSemaphorePermit,
}

impl Reader {
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        tokio::select! {
            () = self.closing.cancelled() => return None,
            changed = self.states.changed() => changed.ok()?,
        }
        let state = self.states.borrow_and_update().clone();
        Some((Ok(Event::default().event("state").data(state)), self))
    }
}

/// Keeps all streams supplied until the coordinator closes.
pub async fn feed(app: Arc<App>) {
    let mut leadership = app.node.leadership();
    let mut period = tokio::time::interval(PERIOD);
    period.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = app.events.closing.cancelled() => return,
            _ = period.tick() => {}
            () = app.events.wake.notified() => {}
            changed = leadership.changed() => if changed.is_err() { return },
        }
        let begun = Instant::now();
        app.lately.look(&app);
        if app.events.newest.receiver_count() > 0 {
            match serde_json::to_string(&summary(&app).await) {
                Ok(text) => drop(app.events.newest.send_replace(text.into())),
                Err(error) => tracing::error!(%error, "the state cannot be written"),
            }
        }
        tokio::select! {
            () = app.events.closing.cancelled() => return,
            () = tokio::time::sleep(gap(begun.elapsed())) => {}
        }
    }
}

/// Until the next event, after one that took so long.
fn gap(took: Duration) -> Duration {
    took.saturating_mul(REST).clamp(LEAST_GAP, LONGEST_GAP)
}

/// What only the leader can date.
async fn of_leader<T: DeserializeOwned>(app: &App, path: &str) -> Option<T> {
    let answer = app.ask_leader(path).await?;
    serde_json::from_slice(&answer).ok()
}

async fn summary(app: &App) -> Summary {
    let regions: Regions = of_leader(app, "/v1/regions").await.unwrap_or_else(|| views::regions_here(app));
    let bounds: Bounds = of_leader(app, "/v1/bound").await.unwrap_or_else(|| views::bounds_here(app));
    let changes: Changes = of_leader(app, "/v1/changes").await.unwrap_or_else(|| app.lately.newest(CHANGES));
    let cluster = views::cluster_here(app);
    app.node.read(|ledger| Summary {
        cluster,
        policy_set: Versions::of(ledger),
        regions: regions.regions,
        policies: bounds.policies,
        budgets: Wanted::first(BUDGETS, Sort::Demand).page(ledger),
        changes: changes.changes.into_iter().take(CHANGES).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_is_told_less_often_and_no_stream_seems_lost() {
        let ms = Duration::from_millis;
        let gaps = [0, 20, 100, 10_000].map(|took| gap(ms(took)));
        assert_eq!(gaps, [ms(250), ms(250), ms(900), ms(4_000)]);
    }
}
