//! What is put off, and then refused, when there is more to do than this node can do at once:
//! heartbeats come before views, since no lease hangs on a view.

use super::App;
use super::refusal::Refusal;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Views that wait for their turn; more are refused.
const WAITING: usize = 64;
/// A view that has waited so long for its turn is refused.
const PATIENCE: Duration = Duration::from_secs(1);
/// Heartbeats under way; more are refused.
const HEARTBEATS: usize = 4_096;
/// Heartbeats that wait for the log at once. What is in the log costs as much whether its agent still
/// waits for the answer or not; what waits outside costs nothing.
const PROPOSALS: usize = 128;
/// A heartbeat that has waited so long for its turn is refused: its agent gives up after a second.
const HEARTBEAT_PATIENCE: Duration = Duration::from_millis(250);

/// How much may be under way.
#[derive(Debug)]
pub struct Room {
    heartbeats: Arc<Semaphore>,
    proposals: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    turns: Arc<Semaphore>,
    patience: Duration,
}

impl Default for Room {
    /// Views get half of the cores, and at least one at a time.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self::new(HEARTBEATS, WAITING, (cores / 2).max(1), PATIENCE)
    }
}

impl Room {
    fn new(heartbeats: usize, waiting: usize, turns: usize, patience: Duration) -> Self {
        let places = |n| Arc::new(Semaphore::new(n));
        Self { heartbeats: places(heartbeats), proposals: places(PROPOSALS), waiting: places(waiting), turns: places(turns), patience }
    }

    /// A place for one heartbeat.
    ///
    /// # Errors
    /// If as many are under way as there may be.
    pub fn heartbeat(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        let place = self.heartbeats.clone().try_acquire_owned();
        place.map_err(|_| Refusal::overloaded("too many heartbeats are under way"))
    }

    /// A turn for one heartbeat to be put to the log.
    ///
    /// # Errors
    /// If none has come in time.
    pub async fn proposal(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        match tokio::time::timeout(HEARTBEAT_PATIENCE, self.proposals.clone().acquire_owned()).await {
            Ok(Ok(turn)) => Ok(turn),
            _ => Err(Refusal::overloaded("the log does not take as many heartbeats as there are")),
        }
    }

    /// A turn for one view.
    async fn view(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        let waiting = self.waiting.clone().try_acquire_owned();
        let _waiting = waiting.map_err(|_| Refusal::overloaded("too many views are asked for"))?;
        match tokio::time::timeout(self.patience, self.turns.clone().acquire_owned()).await {
            Ok(Ok(turn)) => Ok(turn),
            _ => Err(Refusal::overloaded("too many views are asked for")),
        }
    }
}

/// Answers a view in its turn, and on a thread of its own: what it sums up must not keep the threads
/// that answer heartbeats.
pub async fn in_turn(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let turn = match app.room.view().await {
        Ok(turn) => turn,
        Err(refusal) => return refusal.into_response(),
    };
    let runtime = Handle::current();
    let view = tokio::task::spawn_blocking(move || {
        let answer = runtime.block_on(next.run(request));
        drop(turn);
        answer
    });
    match view.await {
        Ok(response) => response,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Refusal::stopped("the process ends").into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3_600);

    #[tokio::test]
    async fn a_view_waits_for_its_turn_and_one_too_many_is_refused_at_once() {
        let room = Room::new(1, 1, 1, LONG);
        let turn = room.view().await.expect("the first");
        let second = room.view();
        tokio::pin!(second);
        assert!(tokio::time::timeout(Duration::ZERO, &mut second).await.is_err(), "it waits");
        assert_eq!(room.view().await.map_err(|refusal| refusal.status().as_u16()).err(), Some(503));
        drop(turn);
        drop(second.await.expect("its turn has come"));
    }

    #[tokio::test]
    async fn a_view_that_waits_too_long_is_refused_and_leaves_its_place() {
        let room = Room::new(1, 1, 1, Duration::ZERO);
        let _turn = room.view().await.expect("the first");
        for _ in 0..2 {
            assert!(room.view().await.is_err());
        }
    }

    #[tokio::test]
    async fn a_heartbeat_too_many_for_the_log_is_refused_before_its_agent_gives_up() {
        let room = Room::new(1, 1, 1, LONG);
        let mut turns = Vec::new();
        for _ in 0..PROPOSALS {
            turns.push(room.proposal().await.expect("a turn"));
        }
        assert!(room.proposal().await.is_err());
        turns.pop();
        assert!(room.proposal().await.is_ok());
    }

    #[test]
    fn views_take_no_place_of_heartbeats() {
        let room = Room::new(2, 0, 0, LONG);
        let places = [room.heartbeat(), room.heartbeat()].map(|place| place.expect("a place"));
        assert!(room.heartbeat().is_err());
        drop(places);
        assert!(room.heartbeat().is_ok());
    }
}
