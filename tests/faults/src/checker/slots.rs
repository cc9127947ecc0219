//! By how much a limit on slots was exceeded at the worst instant of a run.
//!
//! A slot is surely held from its answer until it is given back, or until it ends by itself.

use std::time::Duration;

/// One slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Not after it left.
    pub sent: Duration,
    /// Not before its answer was there.
    pub answered: Duration,
    /// Not after it was given back.
    pub released: Duration,
}

/// Slots held at once at most, beyond `slots`; negative if there was room at every instant.
pub fn excess(slots: i64, longest: Duration, holds: &[Hold]) -> i64 {
    let mut changes = Vec::new();
    for hold in holds {
        let until = hold.released.min(hold.sent + longest);
        if until > hold.answered {
            // at one instant the end comes first
            changes.extend([(hold.answered, 1), (until, -1)]);
        }
    }
    changes.sort_unstable();
    let held = changes.iter().scan(0, |held, (_, change)| {
        *held += change;
        Some(*held)
    });
    held.max().unwrap_or_default() - slots
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(answered_ms: u64, released_ms: u64) -> Hold {
        let ms = Duration::from_millis;
        Hold { sent: ms(answered_ms.saturating_sub(10)), answered: ms(answered_ms), released: ms(released_ms) }
    }

    #[test]
    fn what_is_held_at_once_counts_and_what_follows_does_not() {
        let longest = Duration::from_secs(10);
        assert_eq!(excess(2, longest, &[hold(10, 100), hold(50, 150), hold(100, 200)]), 0);
        assert_eq!(excess(2, longest, &[hold(10, 101), hold(50, 150), hold(100, 200)]), 1);
        assert_eq!(excess(2, longest, &[]), -2);
    }

    #[test]
    fn what_ended_by_itself_is_held_no_more() {
        let longest = Duration::from_millis(100);
        assert_eq!(excess(1, longest, &[hold(10, 500), hold(100, 150)]), 0);
        assert_eq!(excess(1, longest, &[hold(10, 500), hold(99, 150)]), 1);
    }
}
