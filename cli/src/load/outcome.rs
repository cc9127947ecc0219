//! What became of each request.

use super::schedule::Planned;
use quorate_shared::api::{CheckAnswer, DecisionMode};
use quorate_shared::problem::Problem;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// Names of policies, shared by all answers that name the same.
pub type PolicyNames = Arc<[String]>;

/// One request and what became of it. Instants count from the beginning of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// As it was planned.
    pub planned: Planned,
    /// Not after it left.
    pub sent: Duration,
    /// Not before its answer arrived, or its failure was noticed.
    pub answered: Duration,
    /// What became of it.
    pub outcome: Outcome,
}

impl Sample {
    /// By how much it was sent after its time.
    pub fn late(&self) -> Duration {
        self.sent.saturating_sub(self.planned.at)
    }

    /// From sending to answer.
    pub fn latency(&self) -> Duration {
        self.answered.saturating_sub(self.sent)
    }
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Allowed.
    Admitted {
        /// Every policy that matched.
        policies: PolicyNames,
        /// The weakest ground that any of the decisions rests on; `None` if none matched.
        mode: Option<DecisionMode>,
    },
    /// Refused by a limit.
    Refused {
        /// The policies that refused.
        policies: PolicyNames,
    },
    /// Surely not charged: it never arrived, or the answer was neither yes nor no. Which.
    Failed(String),
    /// It may have been admitted: no answer came. Why.
    Unknown(Silence),
}

/// Why no answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Silence {
    /// Not in time.
    TimedOut,
    /// The connection broke, or the answer made no sense.
    Broken,
}

impl Outcome {
    /// Reads an agent's answer.
    pub fn read(status: u16, body: &[u8]) -> Self {
        match status {
            200 => Self::admitted(body),
            429 => Self::refused(body),
            _ => {
                let kind = serde_json::from_slice::<Problem>(body).map(|p| p.kind);
                let kind = kind.as_deref().ok().and_then(|kind| kind.rsplit('/').next());
                Self::Failed(format!("{status} {}", kind.unwrap_or("without a problem type")))
            }
        }
    }

    fn admitted(body: &[u8]) -> Self {
        let Ok(answer) = serde_json::from_slice::<CheckAnswer>(body) else { return Self::Unknown(Silence::Broken) };
        let mode = answer.limits.iter().map(|limit| limit.mode).max_by_key(|mode| weakness(*mode));
        Self::Admitted { policies: answer.limits.into_iter().map(|limit| limit.policy).collect(), mode }
    }

    fn refused(body: &[u8]) -> Self {
        let problem = serde_json::from_slice::<Problem>(body).unwrap_or_else(|_| Problem::new(429, "", ""));
        let policies = match problem.violated_policies.is_empty() {
            true => problem.policy.into_iter().collect(),
            false => problem.violated_policies.into(),
        };
        Self::Refused { policies }
    }
}

fn weakness(mode: DecisionMode) -> u8 {
    match mode {
        DecisionMode::Leased => 0,
        DecisionMode::Floor => 1,
        DecisionMode::Emergency => 2,
        DecisionMode::Open => 3,
    }
}

/// Keeps one copy of each list of names.
#[derive(Debug, Default)]
pub struct Interner(HashSet<PolicyNames>);

impl Interner {
    /// The same outcome, with a shared list.
    pub fn share(&mut self, outcome: &mut Outcome) {
        let (Outcome::Admitted { policies, .. } | Outcome::Refused { policies }) = outcome else { return };
        match self.0.get(policies) {
            Some(known) => *policies = known.clone(),
            None => {
                self.0.insert(policies.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_apart() {
        let yes = br#"{"decision":"allow","limits":[
            {"policy":"a","limit":1,"remaining":0,"reset_after_ms":1,"mode":"floor","observed":false},
            {"policy":"b","limit":1,"remaining":0,"reset_after_ms":1,"mode":"leased","observed":false}],"slot":null}"#;
        let both: PolicyNames = ["a".to_owned(), "b".to_owned()].into();
        assert_eq!(Outcome::read(200, yes), Outcome::Admitted { policies: both.clone(), mode: Some(DecisionMode::Floor) });
        let no = br#"{"type":"x/quota-exceeded","title":"t","status":429,"policy":"a","violated-policies":["a","b"]}"#;
        assert_eq!(Outcome::read(429, no), Outcome::Refused { policies: both });
        let closed = br#"{"type":"https://quorate.dev/problems/limiter-unavailable","title":"t","status":503}"#;
        assert_eq!(Outcome::read(503, closed), Outcome::Failed("503 limiter-unavailable".into()));
        assert_eq!(Outcome::read(502, b"<html>"), Outcome::Failed("502 without a problem type".into()));
        assert_eq!(Outcome::read(200, b"{"), Outcome::Unknown(Silence::Broken));
    }

    #[test]
    fn equal_lists_are_kept_once() {
        let refused = || Outcome::Refused { policies: ["a".to_owned()].into() };
        let (mut first, mut second) = (refused(), refused());
        let mut interner = Interner::default();
        interner.share(&mut first);
        interner.share(&mut second);
        match (&first, &second) {
            (Outcome::Refused { policies: a }, Outcome::Refused { policies: b }) => assert!(Arc::ptr_eq(a, b)),
            other => panic!("{other:?}"),
        }
    }
}
