//! Which subjects are asked for most, by policy: the space-saving sketch of Metwally, Agrawal and El Abbadi (2005).
//!
//! It keeps a fixed number of counters for each policy, whatever subjects there are. Every subject with more than
//! one part in [`COUNTERS`] of the requests has one of them. Requests fade: after each [`HALF_LIFE`] they count half.

use quorate_shared::names::{BudgetId, PolicyName, SubjectHash};
use quorate_shared::time::LocalTime;
use std::collections::BTreeMap;
use std::time::Duration;

/// Counters for each policy.
pub const COUNTERS: usize = 64;

/// After so long a request counts half.
pub const HALF_LIFE: Duration = Duration::from_secs(10);

/// The subjects of every policy that are asked for most.
#[derive(Clone, Debug, Default)]
pub struct HotKeys {
    policies: BTreeMap<PolicyName, Sketch>,
    faded: LocalTime,
}

/// A subject that is asked for more than others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotKey {
    /// Of which policy.
    pub policy: PolicyName,
    /// Which subject.
    pub subject: SubjectHash,
    /// At least so many millionths of the policy's requests.
    pub share_ppm: u64,
}

#[derive(Clone, Debug, Default)]
struct Sketch {
    counters: BTreeMap<SubjectHash, Counter>,
    total: u64,
}

/// A subject was asked for at most `count` times, and at least `count − error` times.
#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    count: u64,
    error: u64,
}

impl HotKeys {
    /// A request at `now` for this budget.
    pub fn count(&mut self, now: LocalTime, budget: &BudgetId) {
        self.fade(now);
        match self.policies.get_mut(&budget.policy) {
            Some(sketch) => sketch.count(&budget.subject),
            None => self.policies.entry(budget.policy.clone()).or_default().count(&budget.subject),
        }
    }

    /// Of each policy the `most` subjects that surely have the greatest shares, greatest first.
    pub fn top(&mut self, now: LocalTime, most: usize) -> Vec<HotKey> {
        self.fade(now);
        self.policies.iter().flat_map(|(policy, sketch)| sketch.top(policy, most)).collect()
    }

    fn fade(&mut self, now: LocalTime) {
        while now.since(self.faded) >= HALF_LIFE {
            if self.policies.is_empty() {
                self.faded = now;
                return;
            }
            self.policies.retain(|_, sketch| sketch.fade());
            self.faded = self.faded.after(HALF_LIFE);
        }
    }
}

impl Sketch {
    fn count(&mut self, subject: &SubjectHash) {
        self.total = self.total.saturating_add(1);
        if let Some(counter) = self.counters.get_mut(subject) {
            counter.count = counter.count.saturating_add(1);
            return;
        }
        let mut counter = Counter { count: 1, error: 0 };
        if self.counters.len() >= COUNTERS
            && let Some((least, known)) = self.counters.iter().min_by_key(|(_, known)| known.count).map(|(s, c)| (*s, *c))
        {
            // whoever takes a counter over may have been asked for as often as the one before
            self.counters.remove(&least);
            counter = Counter { count: known.count.saturating_add(1), error: known.count };
        }
        self.counters.insert(*subject, counter);
    }

    fn top(&self, policy: &PolicyName, most: usize) -> Vec<HotKey> {
        let share = |counter: &Counter| (counter.count - counter.error).saturating_mul(1_000_000) / self.total.max(1);
        let key =
            |(subject, counter): (&SubjectHash, &Counter)| HotKey { policy: policy.clone(), subject: *subject, share_ppm: share(counter) };
        let mut keys: Vec<HotKey> = self.counters.iter().map(key).filter(|key| key.share_ppm > 0).collect();
        keys.sort_by(|a, b| b.share_ppm.cmp(&a.share_ppm).then_with(|| a.subject.cmp(&b.subject)));
        keys.truncate(most);
        keys
    }

    /// False once nothing is left.
    fn fade(&mut self) -> bool {
        self.total /= 2;
        for counter in self.counters.values_mut() {
            (counter.count, counter.error) = (counter.count / 2, counter.error / 2);
        }
        self.counters.retain(|_, counter| counter.count > 0);
        self.total > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_shared::names::SubjectKey;

    fn budget(policy: &str, subject: u64) -> BudgetId {
        let policy: PolicyName = policy.parse().expect("a name");
        let subject = SubjectHash::of(&SubjectKey::new([0; 32]), &policy, [subject.to_string().as_str()]);
        BudgetId { policy, generation: 1, subject }
    }

    fn at(seconds: u64) -> LocalTime {
        LocalTime::ZERO.after(Duration::from_secs(seconds))
    }

    #[test]
    fn a_subject_that_is_asked_for_often_is_found_among_many_that_are_asked_for_once() {
        let mut keys = HotKeys::default();
        for n in 0..20_000 {
            keys.count(at(1), &budget("write", if n % 5 == 0 { 7 } else { 1_000 + n }));
        }
        let top = keys.top(at(1), 3);
        assert_eq!(top[0].subject, budget("write", 7).subject);
        assert!((190_000..=200_000).contains(&top[0].share_ppm), "{top:?}");
        assert!(top.iter().skip(1).all(|key| key.share_ppm < 20_000), "{top:?}");
    }

    #[test]
    fn memory_does_not_grow_with_subjects() {
        let mut keys = HotKeys::default();
        for n in 0..20_000 {
            keys.count(at(1), &budget(["a", "b"][n as usize % 2], n));
        }
        assert!(keys.policies.len() == 2 && keys.policies.values().all(|sketch| sketch.counters.len() == COUNTERS));
    }

    #[test]
    fn what_was_hot_fades() {
        let mut keys = HotKeys::default();
        for _ in 0..1_000 {
            keys.count(at(1), &budget("a", 1));
        }
        for _ in 0..1_000 {
            keys.count(at(61), &budget("a", 2));
        }
        assert_eq!(keys.top(at(61), 1)[0].subject, budget("a", 2).subject);
        assert!(keys.top(at(10_000), 9).is_empty() && keys.policies.is_empty());
    }
}
