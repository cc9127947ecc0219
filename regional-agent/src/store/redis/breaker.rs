//! A circuit breaker: a store that keeps failing is not asked until it has answered a probe.
//!
//! Only the states; who counts time and sends the probes is the [link](super::link).

/// Failures one after the other that open it.
pub const FAILURES: u32 = 5;

/// The state of a breaker. Any answer closes it, whoever asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breaker {
    /// Questions are asked.
    Closed {
        /// Since the last answer.
        failures: u32,
    },
    /// No question is asked.
    Open,
    /// No question is asked but one probe, which is under way.
    HalfOpen,
}

/// What an outcome changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Questions are asked no more: somebody has to probe.
    Opened,
    /// Questions are asked again.
    Closed,
}

impl Default for Breaker {
    fn default() -> Self {
        Self::Closed { failures: 0 }
    }
}

impl Breaker {
    /// True if questions are asked.
    pub const fn is_closed(self) -> bool {
        matches!(self, Self::Closed { .. })
    }

    /// True if a probe is to be sent now; one at a time.
    pub fn probes(&mut self) -> bool {
        let due = *self == Self::Open;
        if due {
            *self = Self::HalfOpen;
        }
        due
    }

    /// The store answered.
    pub fn succeeded(&mut self) -> Option<Change> {
        let was_closed = self.is_closed();
        *self = Self::default();
        (!was_closed).then_some(Change::Closed)
    }

    /// The store failed.
    pub fn failed(&mut self) -> Option<Change> {
        match *self {
            Self::Closed { failures } if failures + 1 < FAILURES => {
                *self = Self::Closed { failures: failures + 1 };
                None
            }
            Self::Closed { .. } => {
                *self = Self::Open;
                Some(Change::Opened)
            }
            Self::HalfOpen | Self::Open => {
                *self = Self::Open;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> Breaker {
        let mut breaker = Breaker::default();
        let changes: Vec<_> = (0..FAILURES).map(|_| breaker.failed()).collect();
        assert_eq!(changes.iter().rposition(Option::is_none), Some(FAILURES as usize - 2));
        assert_eq!(changes.last(), Some(&Some(Change::Opened)));
        breaker
    }

    #[test]
    fn it_opens_after_failures_that_no_answer_interrupts() {
        let mut breaker = Breaker::default();
        for _ in 0..3 {
            for _ in 1..FAILURES {
                assert_eq!(breaker.failed(), None);
            }
            assert_eq!(breaker.succeeded(), None);
        }
        assert!(breaker.is_closed() && !open().is_closed());
    }

    #[test]
    fn one_probe_is_under_way_at_a_time_and_none_while_closed() {
        assert!(!Breaker::default().probes());
        let mut breaker = open();
        assert!(breaker.probes() && !breaker.probes());
        assert_eq!((breaker.failed(), breaker.is_closed()), (None, false));
        assert!(breaker.probes());
    }

    #[test]
    fn an_answer_closes_it_and_the_count_begins_anew() {
        let mut breaker = open();
        assert!(breaker.probes());
        assert_eq!((breaker.succeeded(), breaker.succeeded()), (Some(Change::Closed), None));
        assert_eq!(breaker, Breaker::Closed { failures: 0 });
        let mut late = open();
        assert_eq!(late.succeeded(), Some(Change::Closed));
    }

    #[test]
    fn late_failures_of_questions_asked_before_change_nothing() {
        let mut breaker = open();
        assert_eq!(breaker.failed(), None);
        assert_eq!(breaker, Breaker::Open);
    }
}
