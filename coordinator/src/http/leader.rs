//! Which requests go to the leader, and what is answered where there is none.

use super::App;
use super::refusal::Refusal;
use crate::forward::{ForwardError, Forwardable};
use crate::raft::ProposeError;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use quorate_ledger::{Command, Outcome};
use std::sync::Arc;
use std::time::Duration;

/// More than the leader may take for a proposal.
const WRITE_TIMEOUT: Duration = Duration::from_secs(4);
/// After this a follower answers from its own state.
const READ_TIMEOUT: Duration = Duration::from_secs(1);

impl App {
    /// The leader's number and address, if it is another node.
    pub(super) fn leader_elsewhere(&self) -> Option<(u64, String)> {
        let leadership = self.node.leadership();
        let known = leadership.borrow();
        if known.here { None } else { known.leader.clone() }
    }

    /// Hands a write on to the leader.
    ///
    /// # Errors
    /// If there is none, it does not answer, or the request was handed on already.
    pub(super) async fn forward(&self, leader: Option<(u64, String)>, request: Forwardable, body: Bytes) -> Result<Response, Refusal> {
        if request.forwarded {
            return Err(Refusal::no_leader("another coordinator took this one for the leader; the leader is changing"));
        }
        let leader = leader.ok_or_else(|| Refusal::no_leader("the coordinators have no leader now"))?;
        self.forwarder.forward(leader, request, body, WRITE_TIMEOUT).await.map_err(|error| match error {
            ForwardError::Unreachable { .. } => Refusal::no_leader(error.to_string()),
            ForwardError::Unanswered { .. } => Refusal::outcome_unknown(error.to_string()),
        })
    }

    /// Has the leader carry out an operator's command: proposes it here and answers by what it came
    /// to, or hands the request on. `content` is the body of the request.
    ///
    /// # Errors
    /// If `answer` has none, or the command has no outcome.
    pub(super) async fn carry_out(
        &self,
        command: Command,
        request: Forwardable,
        content: Bytes,
        answer: impl FnOnce(Outcome) -> Result<Response, Refusal>,
    ) -> Result<Response, Refusal> {
        if !self.node.leadership().borrow().here {
            return self.forward(self.leader_elsewhere(), request, content).await;
        }
        match self.node.propose(command).await {
            Ok(outcome) => {
                self.events.wake();
                answer(outcome)
            }
            Err(ProposeError::NotLeader { leader: Some(leader) }) => self.forward(Some(leader), request, content).await,
            Err(error) => Err(refused(&error)),
        }
    }

    /// What the leader says to a question of this node's own.
    pub(super) async fn ask_leader(&self, path: &str) -> Option<Bytes> {
        let leader = self.leader_elsewhere()?;
        self.forwarder.ask(leader, path, READ_TIMEOUT).await.inspect_err(|error| tracing::debug!(%error, path)).ok()
    }
}

/// Lets the leader answer a read if there is one; else it is answered from the state of this node.
pub async fn ask_leader(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let Ok(forwardable) = <Forwardable as axum::extract::FromRequestParts<()>>::from_request_parts(&mut parts, &()).await;
    let leader = app.leader_elsewhere().filter(|_| !forwardable.forwarded);
    if let Some(leader) = leader {
        match app.forwarder.forward(leader, forwardable, Bytes::new(), READ_TIMEOUT).await {
            Ok(response) if response.status() != StatusCode::SERVICE_UNAVAILABLE => return response,
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "a read is answered without the leader"),
        }
    }
    next.run(Request::from_parts(parts, body)).await
}

/// A proposal that has no outcome and was not handed on.
pub fn refused(error: &ProposeError) -> Refusal {
    match error {
        ProposeError::NotLeader { .. } => Refusal::no_leader(error.to_string()),
        ProposeError::Unavailable { .. } => Refusal::outcome_unknown(error.to_string()),
        ProposeError::Level { .. } => Refusal::not_ready(&error.to_string()),
        ProposeError::TooLarge { most, .. } => Refusal::too_large(*most),
        ProposeError::Fatal(detail) => Refusal::stopped(detail),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_been_done_is_not_called_refused() {
        let kind = |error: ProposeError| refused(&error).kind().to_owned();
        assert_eq!(kind(ProposeError::NotLeader { leader: None }), "no-leader");
        assert_eq!(kind(ProposeError::Unavailable { waited: WRITE_TIMEOUT }), "outcome-unknown");
        assert_eq!(kind(ProposeError::Level { needs: 2, level: 1 }), "not-ready");
        assert_eq!(kind(ProposeError::TooLarge { bytes: 2, most: 1 }), "body-too-large");
        assert_eq!(kind(ProposeError::Fatal("disk".into())), "node-stopped");
    }
}
