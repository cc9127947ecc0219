//! What became of the requests of a run.

use crate::system::{BURST, RATE, REGIONS};
use quorate_faults::checker::bucket::{Admission, overshoot};
use quorate_shared::api::DecisionMode;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// One request. Instants count from the beginning of the run.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Where it was sent to.
    pub region: &'static str,
    /// Not after it left.
    pub sent: Duration,
    /// Not before its answer was there, or the failure to get one.
    pub answered: Duration,
    /// Its answer.
    pub outcome: Outcome,
}

/// How a request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// 200, with the mode of its limit.
    Admitted(DecisionMode),
    /// 429.
    Refused,
    /// Any other status.
    Failed(u16),
    /// No answer, so nobody knows.
    Unanswered,
}

impl Record {
    /// The mode of an admission; a refusal does not name any.
    pub fn mode(&self) -> Option<DecisionMode> {
        match self.outcome {
            Outcome::Admitted(mode) => Some(mode),
            _ => None,
        }
    }
}

/// The requests of a run, in the order of their answers.
#[derive(Clone, Debug, Default)]
pub struct Records(pub Vec<Record>);

impl Records {
    /// Admitted in one region by answers in a span of the run.
    pub fn admitted(&self, region: &str, during: &Range<Duration>) -> usize {
        self.in_region(region).filter(|r| during.contains(&r.answered) && r.mode().is_some()).count()
    }

    /// Requests to one region.
    pub fn in_region(&self, region: &str) -> impl Iterator<Item = &Record> {
        self.0.iter().filter(move |r| r.region == region)
    }

    /// Requests of which anything but 200 and 429 was said.
    pub fn failures(&self) -> impl Iterator<Item = &Record> {
        self.0.iter().filter(|r| matches!(r.outcome, Outcome::Failed(_)))
    }

    /// # Panics
    /// If an interval of the run admitted more than the limit allows.
    pub fn expect_no_overshoot(&self) {
        let admitted = self.0.iter().filter(|r| r.mode().is_some());
        let admissions: Vec<Admission> = admitted.map(|r| Admission { sent: r.sent, answered: r.answered }).collect();
        let excess = overshoot(RATE.into(), BURST.into(), &admissions);
        println!("{} of {} admitted; room left in the fullest interval: {} tokens", admissions.len(), self.0.len(), -excess as f64 / 1e6);
        assert!(excess <= 0, "{} tokens beyond the limit", excess as f64 / 1e6);
    }
}

/// A line for each half second: of each region the admissions by mode, refusals and failures.
impl fmt::Display for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const STEP: Duration = Duration::from_millis(500);
        writeln!(f, "admitted leased + on the floor / refused ! failed ? unanswered")?;
        let end = self.0.iter().map(|r| r.answered).max().unwrap_or_default();
        let mut from = Duration::ZERO;
        while from <= end {
            write!(f, "{:5.1}s", from.as_secs_f64())?;
            for region in REGIONS {
                let during = from..from + STEP;
                let count =
                    |of: fn(Outcome) -> bool| self.in_region(region).filter(|r| during.contains(&r.answered) && of(r.outcome)).count();
                let leased = count(|o| o == Outcome::Admitted(DecisionMode::Leased));
                let other = count(|o| matches!(o, Outcome::Admitted(mode) if mode != DecisionMode::Leased));
                let refused = count(|o| o == Outcome::Refused);
                write!(f, "   {region} {leased:3} + {other:2} / {refused:2}")?;
                let (failed, unanswered) = (count(|o| matches!(o, Outcome::Failed(_))), count(|o| o == Outcome::Unanswered));
                write!(f, " ! {failed:2} ? {unanswered:2}")?;
            }
            writeln!(f)?;
            from += STEP;
        }
        Ok(())
    }
}
