//! Which agent of a region renews its lease: the one that holds a lock in the region's store.
//!
//! The lock only keeps agents out of each other's way. That no two of them use one lease twice
//! rests on sessions (R1, R5) and on the store's refusal of what is late (R3), whoever holds it.
//!
//! No clock but the agent's own decides when a lock has been left: its holder counts it up at each
//! look, and who sees it stand still for long enough may take it, if it is still as it was seen. So
//! neither a step of the store's clock nor a store that was away ends anybody's turn.

use quorate_shared::time::LocalTime;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// One life of an agent, drawn at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AgentId(pub u64);

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for AgentId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u64::from_str_radix(text, 16).map(Self)
    }
}

/// The lock as a store has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// Fencing token: greater for each holder than for any before, as long as the store keeps its state.
    pub token: u64,
    /// Who renews; `None` if the last one gave the lock back.
    pub holder: Option<AgentId>,
    /// Counts the looks of the holder.
    pub beats: u64,
}

/// For how much of the lease a lock may stand still. Who takes it must open a session and be answered
/// before the lease is over.
const PART: u32 = 4;

/// The span after which a lock that stands still may be taken, for a lease of `lease`.
pub fn life(lease: Duration) -> Duration {
    (lease / PART).clamp(Duration::from_millis(200), Duration::from_secs(2))
}

/// How one agent sees the lock. Call [`Self::saw`] for each answer, then ask.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// `None`: there is none, or nobody has looked.
    lock: Option<Lock>,
    /// How long it has surely stood still, as far as the store answered.
    still: Duration,
    answered: Option<LocalTime>,
    /// True once the lock had a holder other than this agent.
    followed: bool,
}

impl Watch {
    /// A look that was sent at `sent` and answered at `received` showed this. Between two answers only as
    /// much counts as `most`: while the store, or this agent, did not run, nobody could count up.
    pub fn saw(&mut self, lock: Option<Lock>, me: AgentId, sent: LocalTime, received: LocalTime, most: Duration) {
        let passed = self.answered.map_or(Duration::ZERO, |before| sent.since(before)).min(most);
        self.still = if lock == self.lock { self.still.saturating_add(passed) } else { Duration::ZERO };
        self.followed |= lock.and_then(|lock| lock.holder).is_some_and(|holder| holder != me);
        (self.lock, self.answered) = (lock, Some(received));
    }

    /// The lock to be taken, if it is still as it was seen: its holder has let it stand still for `life`.
    pub fn challenged(&self, life: Duration) -> Option<Lock> {
        self.lock.filter(|lock| lock.holder.is_some() && self.still >= life)
    }

    /// True if a lock that is not there may be taken at once. A store that lost it may have lost it to an
    /// agent that lives, and knows more of what the region gave up; that one comes first.
    pub fn takes_none(&self, life: Duration) -> bool {
        !self.followed || self.lock.is_none() && self.still >= life / 2
    }

    /// The lock as last seen.
    pub fn lock(&self) -> Option<Lock> {
        self.lock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: Duration = Duration::from_millis(500);
    const LOOK: Duration = Duration::from_millis(100);
    const ME: AgentId = AgentId(7);

    fn ms(n: u64) -> LocalTime {
        LocalTime::ZERO.after(Duration::from_millis(n))
    }

    fn held(beats: u64) -> Option<Lock> {
        Some(Lock { token: 3, holder: Some(AgentId(1)), beats })
    }

    #[test]
    fn a_lock_that_stands_still_is_challenged_and_one_that_counts_up_is_not() {
        let mut watch = Watch::default();
        for look in 0..20 {
            watch.saw(held(look / 3), ME, ms(look * 100), ms(look * 100 + 5), LOOK);
            assert_eq!(watch.challenged(LIFE), None, "look {look}");
        }
        for look in 20..28 {
            watch.saw(held(9), ME, ms(look * 100), ms(look * 100 + 5), LOOK);
        }
        assert_eq!(watch.challenged(LIFE), held(9));
    }

    #[test]
    fn time_in_which_nobody_was_answered_is_no_silence_of_the_holder() {
        let mut watch = Watch::default();
        for minute in 0..4 {
            watch.saw(held(1), ME, ms(minute * 60_000), ms(minute * 60_000 + 5), LOOK);
        }
        assert_eq!(watch.challenged(LIFE), None);
    }

    #[test]
    fn a_lock_that_was_given_back_needs_no_challenge() {
        let mut watch = Watch::default();
        let free = Some(Lock { token: 3, holder: None, beats: 0 });
        for look in 0..20 {
            watch.saw(free, ME, ms(look * 100), ms(look * 100), LOOK);
        }
        assert_eq!(watch.challenged(LIFE), None);
    }

    #[test]
    fn who_followed_waits_a_while_before_it_takes_a_lock_that_is_gone() {
        let mut watch = Watch::default();
        watch.saw(None, ME, ms(0), ms(1), LOOK);
        assert!(watch.takes_none(LIFE), "nobody was there before");
        watch.saw(held(1), ME, ms(100), ms(101), LOOK);
        watch.saw(None, ME, ms(200), ms(201), LOOK);
        assert!(!watch.takes_none(LIFE));
        for look in 3..8 {
            watch.saw(None, ME, ms(look * 100), ms(look * 100 + 1), LOOK);
        }
        assert!(watch.takes_none(LIFE));
    }

    #[test]
    fn an_agent_is_read_as_it_is_written() {
        for id in [0, 1, u64::MAX] {
            assert_eq!(AgentId(id).to_string().parse(), Ok(AgentId(id)));
        }
    }
}
