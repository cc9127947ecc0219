//! When an agent that no coordinator answers leaves the renewing to another agent of its region, which may reach one.
//!
//! Each turn begins a session, and a session that nobody answers gives the region less than its floor for as long as
//! somebody may have borrowed of that. So a turn is given up only to somebody who reaches a coordinator, once they have
//! been silent for half a lease, and once for each time that they fall silent.

use quorate_shared::heartbeat::Number;
use quorate_shared::time::LocalTime;
use std::time::Duration;

/// So many heartbeats in a row were not answered: one coordinator that is gone is no reason, the next one is asked.
const LEAST_TRIES: u32 = 2;

/// After so long the same agent may give up another turn, though nothing was renewed since the last: longer than any
/// promise to leave alone what was lent.
const AGAIN: Duration = Duration::from_secs(120);

/// What one agent knows of its turns.
#[derive(Clone, Debug, Default)]
pub struct Turn {
    /// When it was last answered, or its turn began.
    answered: LocalTime,
    /// Heartbeats since.
    unanswered: u32,
    given_up: Option<GivenUp>,
}

/// A turn that ended before its time.
#[derive(Clone, Copy, Debug)]
struct GivenUp {
    at: LocalTime,
    /// Its last session.
    session: u64,
}

impl Turn {
    /// This agent renews from now on.
    pub fn begins(&mut self, now: LocalTime) {
        (self.answered, self.unanswered) = (now, 0);
    }

    /// A coordinator answered.
    pub fn answered(&mut self, now: LocalTime) {
        *self = Self { answered: now, ..Self::default() };
    }

    /// No coordinator answered, or none that takes this agent for one of its region; `succeeded` if another agent of the
    /// region reaches one. True if that one should try.
    pub fn unanswered(&mut self, now: LocalTime, lease: Duration, session: u64, succeeded: bool) -> bool {
        self.unanswered = self.unanswered.saturating_add(1);
        let silent = self.unanswered >= LEAST_TRIES && now.since(self.answered) >= lease / 2;
        let gives_up = succeeded && silent && self.given_up.is_none_or(|before| now.since(before.at) >= AGAIN);
        if gives_up {
            self.given_up = Some(GivenUp { at: now, session });
        }
        gives_up
    }

    /// This response is in force in the region. One of a later session was given to another agent: it reaches them.
    pub fn saw(&mut self, applied: Number) {
        self.given_up = self.given_up.filter(|before| applied.seq == 0 || applied.session <= before.session);
    }

    /// True if this agent takes a lock that was given back. For a lease after it gave one back itself it leaves it to
    /// others; then nobody else is there to take it.
    pub fn stands(&self, now: LocalTime, lease: Duration) -> bool {
        self.given_up.is_none_or(|before| now.since(before.at) >= lease)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(5);

    fn ms(n: u64) -> LocalTime {
        LocalTime::ZERO.after(Duration::from_millis(n))
    }

    /// Tries each second from `from` up to `until`; gives when the turn was given up.
    fn tries(turn: &mut Turn, from: u64, until: u64, session: u64) -> Vec<u64> {
        (from..until).step_by(1_000).filter(|at| turn.unanswered(ms(*at), LEASE, session, true)).collect()
    }

    #[test]
    fn a_turn_is_given_up_after_half_a_lease_of_silence_and_not_before() {
        let mut turn = Turn::default();
        turn.begins(ms(10_000));
        turn.answered(ms(20_000));
        assert_eq!(tries(&mut turn, 21_000, 24_000, 1), [23_000], "half a lease is 2.5 s");
        turn.answered(ms(30_000));
        assert!(!turn.unanswered(ms(39_000), LEASE, 1, true), "one try alone says little");
    }

    #[test]
    fn a_turn_is_kept_where_nobody_else_reaches_a_coordinator() {
        let mut turn = Turn::default();
        assert!((0..100).all(|second| !turn.unanswered(ms(second * 1_000), LEASE, 1, false)));
        assert!(turn.unanswered(ms(100_000), LEASE, 1, true));
    }

    #[test]
    fn who_gave_up_a_turn_leaves_the_lock_to_others_for_a_lease() {
        let mut turn = Turn::default();
        assert!(turn.stands(ms(1), LEASE));
        assert_eq!(tries(&mut turn, 3_000, 5_000, 1), [4_000]);
        assert!(!turn.stands(ms(8_999), LEASE) && turn.stands(ms(9_000), LEASE));
    }

    #[test]
    fn where_nobody_is_answered_after_all_turns_do_not_go_round() {
        let mut turn = Turn::default();
        assert_eq!(tries(&mut turn, 3_000, 9_000, 1).len(), 1);
        turn.begins(ms(12_000));
        assert!(tries(&mut turn, 12_000, 120_000, 3).is_empty(), "it has given one up already");
        assert_eq!(tries(&mut turn, 120_000, 130_000, 3), [124_000], "every promise is over");
    }

    #[test]
    fn what_another_agent_renewed_shows_that_turns_help() {
        let mut turn = Turn::default();
        assert_eq!(tries(&mut turn, 3_000, 5_000, 7), [4_000]);
        let number = |session, seq| Number { session, seq };
        turn.saw(number(7, 9));
        turn.saw(number(8, 0));
        assert!(!turn.stands(ms(5_000), LEASE), "nothing was renewed since");
        turn.saw(number(8, 1));
        assert!(turn.stands(ms(5_000), LEASE));
        turn.begins(ms(20_000));
        assert_eq!(tries(&mut turn, 21_000, 30_000, 9), [23_000]);
    }
}
