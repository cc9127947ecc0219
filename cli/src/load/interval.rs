//! How far a limit was exceeded, over every interval of a run.
//!
//! A limit of rate `R` and burst `B` promises that over any interval `[a, b]` no more than
//! `B + R·(b − a)` is admitted. From outside only this can be said of a request: it was decided at some
//! instant between its sending and its answer. So it surely falls in `[a, b]` if it was sent at `a` or later and
//! answered at `b` or earlier, and the measure is
//!
//! ```text
//! max over a ≤ b of  Σ cost(sent ≥ a, answered ≤ b) − B − R·(b − a),   not below 0
//! ```
//!
//! It never reports an excess that did not happen. The maximum lies at an `a` that is a sending
//! and a `b` that is an answer, so a sweep of `a` from the last sending to the first, with a
//! segment tree over the answers, finds it exactly in `O(n log n)`.

use quorate_shared::policy::Limit;
use quorate_shared::units::MicroTokens;
use std::time::Duration;

/// One admitted request of one budget. Instants count from the beginning of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Not after the request left.
    pub sent: Duration,
    /// Not before its answer arrived.
    pub answered: Duration,
    /// What it took.
    pub cost: MicroTokens,
}

/// The worst interval of one budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overshoot {
    /// Admitted beyond `B + R·(b − a)`, rounded up; never zero.
    pub amount: MicroTokens,
    /// `a`.
    pub from: Duration,
    /// `b`.
    pub to: Duration,
}

/// The largest excess over `limit` in any interval, or `None` if there was none.
///
/// Instants are widened to whole microseconds, so an interval is never taken to be shorter than it was.
pub fn overshoot(limit: Limit, admissions: &[Admission]) -> Option<Overshoot> {
    let scale = Scale::of(limit);
    let mut spans: Vec<Span> = admissions.iter().map(Span::of).collect();
    let mut answers: Vec<i128> = spans.iter().map(|s| s.answered).collect();
    answers.sort_unstable();
    answers.dedup();
    let mut tree = MaxTree::new(answers.len());
    spans.sort_unstable_by_key(|s| std::cmp::Reverse(s.sent));
    let mut worst: Option<(i128, i128, i128)> = None;
    for span in &spans {
        let place = answers.partition_point(|b| *b < span.answered);
        tree.open(place, -scale.rate * span.answered);
        tree.add_from(place, span.cost * scale.period);
        let Some((value, at)) = tree.max() else { continue };
        let excess = value + scale.rate * span.sent - scale.burst * scale.period;
        if excess > worst.map_or(0, |(w, _, _)| w) {
            worst = Some((excess, span.sent, answers[at]));
        }
    }
    worst.map(|(excess, from, to)| Overshoot { amount: scale.tokens_ceil(excess), from: instant(from), to: instant(to) })
}

/// Amounts are counted in micro-tokens times the limit's period in microseconds, so that nothing is divided.
struct Scale {
    rate: i128,
    period: i128,
    burst: i128,
}

impl Scale {
    fn of(limit: Limit) -> Self {
        let capacity = limit.capacity();
        let period = i128::try_from(limit.period().as_micros()).unwrap_or(i128::MAX).max(1);
        Self { rate: i128::from(capacity.rate.0), period, burst: i128::from(capacity.burst.0) }
    }

    fn tokens_ceil(&self, excess: i128) -> MicroTokens {
        let whole = excess / self.period + i128::from(excess % self.period > 0);
        MicroTokens(u64::try_from(whole).unwrap_or(u64::MAX))
    }
}

/// An admission in microseconds.
struct Span {
    sent: i128,
    answered: i128,
    cost: i128,
}

impl Span {
    fn of(admission: &Admission) -> Self {
        let sent = admission.sent.as_micros();
        let answered = admission.answered.max(admission.sent).as_nanos().div_ceil(1_000);
        let micros = |n: u128| i128::try_from(n).unwrap_or(i128::MAX);
        Self { sent: micros(sent), answered: micros(answered), cost: i128::from(admission.cost.0) }
    }
}

fn instant(micros: i128) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}

/// A segment tree over places: a value for each that is open, adding to all from one on, the greatest of all.
struct MaxTree {
    leaves: usize,
    /// Greatest value below a node, without what its ancestors have to add; `None` below closed leaves only.
    best: Vec<Option<i128>>,
    /// To be added to all below a node; of a closed leaf, what was added so far.
    pending: Vec<i128>,
}

impl MaxTree {
    fn new(places: usize) -> Self {
        let leaves = places.next_power_of_two().max(1);
        Self { leaves, best: vec![None; 2 * leaves], pending: vec![0; 2 * leaves] }
    }

    /// Lets a place count, at `value` plus all that was or will be added to it. Again: nothing.
    fn open(&mut self, place: usize, value: i128) {
        let mut node = self.leaves + place;
        if self.best[node].is_some() {
            return;
        }
        self.best[node] = Some(value + self.pending[node]);
        while node > 1 {
            node /= 2;
            self.refresh(node);
        }
    }

    /// Adds `amount` to every place from `place` on.
    fn add_from(&mut self, place: usize, amount: i128) {
        let mut node = self.leaves + place;
        self.add_below(node, amount);
        while node > 1 {
            if node.is_multiple_of(2) {
                self.add_below(node + 1, amount);
            }
            node /= 2;
            self.refresh(node);
        }
    }

    /// The greatest value and its place.
    fn max(&self) -> Option<(i128, usize)> {
        let value = self.best[1]?;
        let mut node = 1;
        while node < self.leaves {
            let left = 2 * node;
            node = if self.best[left] >= self.best[left + 1] { left } else { left + 1 };
        }
        Some((value, node - self.leaves))
    }

    fn add_below(&mut self, node: usize, amount: i128) {
        self.pending[node] += amount;
        self.best[node] = self.best[node].map(|v| v + amount);
    }

    fn refresh(&mut self, node: usize) {
        let below = self.best[2 * node].max(self.best[2 * node + 1]);
        self.best[node] = below.map(|v| v + self.pending[node]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bucket(rate: u64, period: Duration, burst: u64) -> Limit {
        Limit::TokenBucket { rate: MicroTokens(rate), period, burst: MicroTokens(burst) }
    }

    fn tokens(n: u64) -> u64 {
        n * MicroTokens::TOKEN.0
    }

    fn admission(sent_us: u64, answered_us: u64, cost: u64) -> Admission {
        Admission { sent: Duration::from_micros(sent_us), answered: Duration::from_micros(answered_us), cost: MicroTokens(cost) }
    }

    /// The definition, word for word, over all pairs.
    fn by_definition(limit: Limit, admissions: &[Admission]) -> Option<MicroTokens> {
        let (period, capacity) = (limit.period().as_micros() as i128, limit.capacity());
        let mut worst = 0;
        for a in admissions.iter().map(|x| x.sent) {
            for b in admissions.iter().map(|x| x.answered).filter(|b| *b >= a) {
                let inside = admissions.iter().filter(|x| x.sent >= a && x.answered <= b);
                let cost: i128 = inside.map(|x| i128::from(x.cost.0)).sum();
                let span = (b - a).as_micros() as i128;
                worst = worst.max((cost - i128::from(capacity.burst.0)) * period - i128::from(capacity.rate.0) * span);
            }
        }
        (worst > 0).then(|| MicroTokens(worst.div_euclid(period) as u64 + u64::from(worst.rem_euclid(period) > 0)))
    }

    fn admissions() -> impl Strategy<Value = Vec<Admission>> {
        let one = (0..300_u64, 0..80_u64, 0..5_u64).prop_map(|(sent, took, cost)| admission(sent, sent + took, cost));
        prop::collection::vec(one, 0..60)
    }

    proptest! {
        #[test]
        fn the_sweep_agrees_with_the_definition(list in admissions(), rate in 0..30_u64, period in 1..200_u64, burst in 1..12_u64) {
            let limit = bucket(rate, Duration::from_micros(period), burst);
            let found = overshoot(limit, &list);
            prop_assert_eq!(found.map(|o| o.amount), by_definition(limit, &list));
        }

        #[test]
        fn the_interval_named_is_one_that_shows_the_excess(list in admissions(), rate in 0..30_u64) {
            let limit = bucket(rate, Duration::from_micros(50), 3);
            if let Some(o) = overshoot(limit, &list) {
                let inside: Vec<Admission> = list.iter().copied().filter(|x| x.sent >= o.from && x.answered <= o.to).collect();
                let cost: u64 = inside.iter().map(|x| x.cost.0).sum();
                let allowed = 3 * 50 + rate * (o.to - o.from).as_micros() as u64;
                prop_assert_eq!(o.amount.0, (cost * 50 - allowed).div_ceil(50));
            }
        }
    }

    #[test]
    fn a_planted_excess_is_found_in_its_interval() {
        // 10/s with a burst of 5, kept to exactly for 20 s; then three more at once at 7 s.
        let limit = bucket(tokens(10), Duration::from_secs(1), tokens(5));
        let mut list: Vec<Admission> = (0..5).map(|_| admission(0, 0, tokens(1))).collect();
        list.extend((1..=200).map(|k| admission(k * 100_000, k * 100_000, tokens(1))));
        assert_eq!(overshoot(limit, &list), None);
        list.extend((0..3).map(|_| admission(7_000_000, 7_000_000, tokens(1))));
        let found = overshoot(limit, &list).expect("three too many");
        assert_eq!(found.amount, MicroTokens(tokens(3)));
        assert!(found.from <= Duration::from_secs(7) && found.to >= Duration::from_secs(7), "{found:?}");
    }

    #[test]
    fn what_may_have_been_decided_outside_the_interval_is_no_excess() {
        let limit = bucket(tokens(1), Duration::from_secs(1), tokens(1));
        // Two answers at one instant; the first request was under way long enough for the bucket to refill.
        assert_eq!(overshoot(limit, &[admission(0, 1_000_000, tokens(1)), admission(1_000_000, 1_000_000, tokens(1))]), None);
        let both_at_once = [admission(999_999, 1_000_000, tokens(1)), admission(1_000_000, 1_000_000, tokens(1))];
        assert_eq!(overshoot(limit, &both_at_once).map(|o| o.amount), Some(MicroTokens(999_999)));
    }

    #[test]
    fn part_of_a_microsecond_lengthens_the_interval() {
        let limit = bucket(1_000_000, Duration::from_micros(1), 1_000_000);
        let nanos = |sent, answered| Admission {
            sent: Duration::from_nanos(sent),
            answered: Duration::from_nanos(answered),
            cost: MicroTokens(2_000_000),
        };
        assert_eq!(overshoot(limit, &[nanos(1_900, 2_000)]), None);
        assert_eq!(overshoot(limit, &[nanos(2_000, 2_100)]), None);
        assert_eq!(overshoot(limit, &[nanos(2_000, 2_000)]).map(|o| o.amount), Some(MicroTokens(1_000_000)));
    }

    #[test]
    fn nothing_admitted_is_no_excess() {
        assert_eq!(overshoot(bucket(0, Duration::from_secs(1), 1), &[]), None);
    }

    #[test]
    fn the_largest_amounts_do_not_overflow() {
        let limit = bucket(quorate_shared::units::MAX_EXACT, Duration::from_secs(36 * 3600), 1);
        let list = vec![admission(0, 1, quorate_shared::units::MAX_EXACT); 1_000];
        assert!(overshoot(limit, &list).is_some());
    }
}
