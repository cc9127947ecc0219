//! What an agent asks of its store beside decisions, and how such a call may end.

use quorate_limiter::record::{Finish, HoldingsChange, Opening, Record, Refusal};
use quorate_shared::heartbeat::Number;

/// One call: it takes effect as a whole, or not at all.
#[derive(Clone, Debug)]
pub enum Call {
    /// Opens a session.
    Open(Opening),
    /// Begins to apply a response.
    Take(Number),
    /// Changes what is held.
    Write(Box<HoldingsChange>),
    /// Records a response as applied.
    Finish(Box<Finish>),
}

/// What the agent hears.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Done; a session that was opened comes with its record.
    Done(Option<Box<Record>>),
    /// Not done, by the rules.
    Refused(Refusal),
    /// Nobody knows whether it was done.
    Unknown,
}

/// A call on its way to the store.
#[derive(Clone, Debug)]
pub struct InFlight {
    /// Which call of all.
    pub ticket: u64,
    /// What is asked.
    pub call: Call,
    /// The run of the store that it was sent to: a connection does not outlive it.
    pub run: u64,
    /// False if the answer gets lost, as with an agent that has died since.
    pub answered: bool,
}
