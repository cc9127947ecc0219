//! What was used beyond limits because nobody could know in time: costs above their estimates, and slots that
//! ended while their requests may have run on. Kept by the store, so that all agents of a region add to it.
//!
//! The same stands in `store/scripts/excess.lua` of the agent; a test plays both.

use quorate_shared::heartbeat::Excess;
use quorate_shared::names::{BudgetId, PolicyName};
use quorate_shared::time::StoreTime;
use quorate_shared::units::{MAX_EXACT, MicroTokens};
use std::collections::BTreeMap;
use std::time::Duration;

/// What happened is remembered for the rest of such a span, and of the next: spans begin at multiples of their length.
pub const SPAN: Duration = Duration::from_secs(3_600);

/// Budgets that are told apart at most; of each policy those beyond are added up as if they were one.
pub const MOST_EXCESSES: usize = 100;

/// Sums by budget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExcessBook {
    /// By policy and generation, and by the budget's subject, or `*` for all that are not told apart.
    of: BTreeMap<(String, String), Sums>,
}

/// The sums of one budget, of the latest span and of the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    /// How many spans there were before it.
    span: u64,
    settled: [MicroTokens; 2],
    outlived: [MicroTokens; 2],
}

impl Sums {
    /// As of a later span; `None` if nothing of it is remembered. A clock that stepped back forgets nothing.
    fn as_of(self, span: u64) -> Option<Self> {
        let passed = |[latest, _]: [MicroTokens; 2]| [MicroTokens::ZERO, latest];
        match span.saturating_sub(self.span) {
            0 => Some(self),
            1 => Some(Self { span, settled: passed(self.settled), outlived: passed(self.outlived) }),
            _ => None,
        }
    }
}

/// A text that is no such book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not what was used beyond limits")]
pub struct Unreadable;

impl ExcessBook {
    /// Adds what was `settled` beyond an estimate and was not there, and slots that ended without being given back.
    pub fn note(&mut self, now: StoreTime, budget: &BudgetId, settled: MicroTokens, outlived: MicroTokens) {
        if settled == MicroTokens::ZERO && outlived == MicroTokens::ZERO {
            return;
        }
        let span = span_of(now);
        self.of = std::mem::take(&mut self.of).into_iter().filter_map(|(name, sums)| Some((name, sums.as_of(span)?))).collect();
        let mut name = (format!("{}:{}", budget.policy, budget.generation), budget.subject.to_string());
        if self.of.len() >= MOST_EXCESSES && !self.of.contains_key(&name) {
            name.1 = "*".to_owned();
        }
        let sums = self.of.entry(name).or_insert(Sums { span, ..Sums::default() });
        add(&mut sums.settled[0], settled);
        add(&mut sums.outlived[0], outlived);
    }

    /// Of each policy the most of one of its budgets, as far as they are told apart.
    pub fn by_policy(&self, now: StoreTime) -> Vec<Excess> {
        let mut policies: BTreeMap<PolicyName, Excess> = BTreeMap::new();
        for (of, _) in self.of.keys() {
            let Some(policy) = of.split(':').next().and_then(|name| name.parse::<PolicyName>().ok()) else { continue };
            let [settled, outlived] = self.most_of(of, span_of(now));
            let excess = policies.entry(policy.clone()).or_insert(Excess { policy, settled, outlived });
            (excess.settled, excess.outlived) = (excess.settled.max(settled), excess.outlived.max(outlived));
        }
        policies.into_values().filter(|excess| !excess.is_zero()).collect()
    }

    /// The most of one budget, and what may be of the same one among those that are not told apart.
    fn most_of(&self, of: &str, span: u64) -> [MicroTokens; 2] {
        let (mut most, mut others) = ([MicroTokens::ZERO; 2], [MicroTokens::ZERO; 2]);
        for ((_, subject), sums) in self.of.iter().filter(|((its, _), _)| its == of) {
            let Some(sums) = sums.as_of(span) else { continue };
            let both = [sums.settled, sums.outlived].map(|[latest, before]| latest.saturating_add(before));
            let to = if subject == "*" { &mut others } else { &mut most };
            *to = [to[0].max(both[0]), to[1].max(both[1])];
        }
        [most[0].saturating_add(others[0]), most[1].saturating_add(others[1])]
    }

    /// Reads what a script wrote: a line for each budget.
    ///
    /// # Errors
    /// If it is not that.
    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        text.lines().map(line).collect::<Option<_>>().map(|of| Self { of }).ok_or(Unreadable)
    }
}

fn line(line: &str) -> Option<((String, String), Sums)> {
    let (name, numbers) = line.split_once(' ')?;
    let numbers: Vec<u64> = numbers.split(' ').map(|number| number.parse().ok()).collect::<Option<_>>()?;
    let [span, settled, settled_before, outlived, outlived_before] = numbers.try_into().ok()?;
    let (of, subject) = name.rsplit_once(':')?;
    let both = |latest, before| [MicroTokens(latest), MicroTokens(before)];
    let sums = Sums { span, settled: both(settled, settled_before), outlived: both(outlived, outlived_before) };
    Some(((of.to_owned(), subject.to_owned()), sums))
}

fn add(sum: &mut MicroTokens, more: MicroTokens) {
    *sum = sum.saturating_add(more).min(MicroTokens(MAX_EXACT));
}

fn span_of(now: StoreTime) -> u64 {
    Duration::from_micros(now.as_micros()).as_secs() / SPAN.as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_shared::names::{SubjectHash, SubjectKey};

    fn budget(subject: &str) -> BudgetId {
        let policy = "p".parse().expect("a name");
        let subject = SubjectHash::of(&SubjectKey::new([1; 32]), &policy, [subject]);
        BudgetId { policy, generation: 1, subject }
    }

    fn minute(n: u64) -> StoreTime {
        StoreTime::from_micros(n * 60_000_000)
    }

    fn figures(book: &ExcessBook, now: StoreTime) -> Vec<(u64, u64)> {
        book.by_policy(now).iter().map(|excess| (excess.settled.0, excess.outlived.0)).collect()
    }

    #[test]
    fn an_hour_is_remembered_and_less_than_two() {
        let mut book = ExcessBook::default();
        book.note(minute(59), &budget("a"), MicroTokens(3), MicroTokens(0));
        book.note(minute(61), &budget("a"), MicroTokens(4), MicroTokens(5));
        let at = [61, 119, 120, 179, 180].map(|n| figures(&book, minute(n)));
        assert_eq!(at, [vec![(7, 5)], vec![(7, 5)], vec![(4, 5)], vec![(4, 5)], vec![]]);
        assert_eq!(figures(&book, minute(1)), [(7, 5)], "a step back forgets nothing");
    }

    #[test]
    fn the_most_of_one_budget_is_told_and_not_the_sum_of_all() {
        let mut book = ExcessBook::default();
        for (subject, settled) in [("a", 3), ("b", 9), ("a", 4)] {
            book.note(minute(1), &budget(subject), MicroTokens(settled), MicroTokens(0));
        }
        assert_eq!(figures(&book, minute(1)), [(9, 0)]);
    }

    #[test]
    fn budgets_beyond_those_that_are_told_apart_count_as_one() {
        let mut book = ExcessBook::default();
        for subject in 0..MOST_EXCESSES + 5 {
            book.note(minute(1), &budget(&subject.to_string()), MicroTokens(2), MicroTokens(1));
        }
        assert_eq!((book.of.len(), figures(&book, minute(1))), (MOST_EXCESSES + 1, vec![(12, 6)]));
    }
}
