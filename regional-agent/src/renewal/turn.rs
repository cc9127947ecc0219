//! The turn of an agent that reaches no coordinator ends before its time, if another agent of its region reaches one.

use super::BeatError;
use crate::coordinators::Coordinators;
use crate::region::{Region, State};
use quorate_limiter::lease_book::LeaseBook;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Between two tries of an agent that follows a lease which nobody renews.
const TRY: Duration = Duration::from_millis(500);

/// An agent that no coordinator answers leaves its turn to one that reaches them, if there is one.
pub(super) async fn give_way(region: &Region, outcome: &Result<bool, BeatError>) {
    let now = region.clock.now();
    let gives_up = {
        let State { presence, book, .. } = &mut *region.state.lock();
        match outcome {
            Ok(_) => {
                presence.turn.answered(now);
                presence.gives_back = false;
            }
            Err(BeatError::Unsent(_)) => {
                let (session, succeeded) = (book.as_ref().map_or(0, LeaseBook::session), presence.is_succeeded());
                presence.gives_back |= presence.turn.unanswered(now, presence.lease, session, succeeded);
            }
            Err(_) => {}
        }
        presence.gives_back
    };
    if gives_up && region.look_at_store().await.is_ok() {
        tracing::warn!(region = %region.name, agent = region.agent, "no coordinator answers this agent: one that reaches them renews");
    }
}

/// Says of an agent that follows whether it reaches a coordinator, while nobody renews the lease; until cancelled.
pub async fn keep_trying(region: &Region, coordinators: &Coordinators, stop: CancellationToken) {
    let tries = async {
        loop {
            let silent = region.follows() && !region.is_unplugged() && region.state.lock().presence.is_silent(region.clock.now());
            let reaches = silent && coordinators.are_reached().await;
            region.state.lock().presence.reaches = reaches;
            tokio::time::sleep(TRY).await;
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = tries => {}
    }
}
