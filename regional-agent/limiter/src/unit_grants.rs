//! The grants of allowances that one session knows of, and what is to be said of them.

use crate::telling::Told;
use quorate_shared::heartbeat::{Grant, MOST_SPENT, OpenWindow, Report, Spent};
use quorate_shared::names::BudgetId;
use quorate_shared::time::WindowLabel;
use quorate_shared::units::MicroTokens;
use std::collections::{BTreeMap, BTreeSet};

/// Grants by budget and window.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnitGrants {
    grants: BTreeMap<(BudgetId, WindowLabel), Known>,
    /// The newest heartbeat.
    newest: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    units: MicroTokens,
    /// Who said what was spent after the grant had come to nothing.
    told: Told,
    /// The newest heartbeat that said what was spent.
    said: u64,
    /// True once the coordinators have heard what was spent after the grant had come to nothing.
    settled: bool,
}

impl UnitGrants {
    /// What a region's store says that it was granted.
    pub fn open(stored: impl IntoIterator<Item = ((BudgetId, WindowLabel), MicroTokens)>) -> Self {
        let known = |(key, units)| (key, Known { units, ..Known::default() });
        Self { grants: stored.into_iter().map(known).collect(), newest: 0 }
    }

    /// Windows of which the units spent are to be said in each heartbeat.
    pub fn windows(&self) -> impl Iterator<Item = &(BudgetId, WindowLabel)> {
        self.grants.iter().filter(|(_, known)| !known.settled).map(|(key, _)| key)
    }

    /// Splits a response's grants into those that give something up and those that do not, while `windows` are the
    /// newest of the allowances in force. In a full one, what is not named is nothing; so is what windows left behind
    /// had, and what is left of policies that are in force no more. What a burnt window can
    /// have come to is given up too, since it counts as spent: it must be known before the response
    /// is echoed beside what was spent.
    pub fn compare(&self, offered: &[Grant], full: bool, windows: &[OpenWindow]) -> (Vec<Grant>, Vec<Grant>) {
        let over = |budget: &BudgetId, label| is_over(windows, budget, label);
        let named = |key: &(BudgetId, WindowLabel)| offered.iter().any(|g| g.budget == key.0 && g.label == key.1);
        let unnamed = |key: &(BudgetId, WindowLabel)| (full || !counts(windows, &key.0)) && !named(key);
        let gone = self.grants.keys().filter(|key| over(&key.0, key.1) || unnamed(key));
        let nothing = |(budget, label): &(BudgetId, WindowLabel)| Grant {
            budget: budget.clone(),
            label: *label,
            granted: MicroTokens::ZERO,
            used_at_most: MicroTokens::ZERO,
        };
        let current = offered.iter().filter(|g| !over(&g.budget, g.label)).cloned();
        let (mut less, more): (Vec<Grant>, Vec<Grant>) = current.partition(|g| g.granted < self.units(&g.budget, g.label));
        let burnt = more.iter().filter(|g| g.used_at_most > MicroTokens::ZERO);
        less.extend(burnt.map(|g| Grant { granted: self.units(&g.budget, g.label), ..g.clone() }));
        less.extend(gone.map(nothing));
        (less, more)
    }

    /// These grants are in force, and response `seq` is applied, to a heartbeat of these `windows`.
    pub fn applied(&mut self, grants: &[Grant], seq: u64, windows: &[OpenWindow]) {
        self.grants.retain(|(budget, label), _| counts(windows, budget) && !is_over(windows, budget, *label));
        for known in self.grants.values_mut() {
            known.settled |= known.told.in_heartbeat(seq);
        }
        // those of a policy that is new are in no heartbeat yet; of one that is in force no more nobody waits to hear
        let stays = |g: &&Grant| !is_over(windows, &g.budget, g.label) && (counts(windows, &g.budget) || g.granted > MicroTokens::ZERO);
        for grant in grants.iter().filter(stays) {
            // of nothing too the coordinators wait to hear what was spent
            self.grants.insert((grant.budget.clone(), grant.label), Known { units: grant.granted, ..Known::default() });
        }
    }

    /// What heartbeat `seq` says of what was `spent`: of [`MOST_SPENT`] windows at most, first of those whose demand
    /// it reports, then of those of which nothing was said for longest.
    pub fn tell(&mut self, seq: u64, mut spent: Vec<Spent>, reports: &[Report]) -> Vec<Spent> {
        let before = std::mem::replace(&mut self.newest, seq);
        let reported: BTreeSet<&BudgetId> = reports.iter().map(|report| &report.budget).collect();
        let said = |s: &Spent| self.grants.get(&(s.budget.clone(), s.label)).map_or(0, |known| known.said);
        spent.sort_by_cached_key(|s| (!reported.contains(&s.budget), said(s)));
        let left_out: BTreeSet<BudgetId> = spent.split_off(spent.len().min(MOST_SPENT)).into_iter().map(|s| s.budget).collect();
        for ((budget, _), known) in &mut self.grants {
            if !left_out.contains(budget) {
                known.said = seq;
                if known.units == MicroTokens::ZERO {
                    known.told.say(seq, before);
                }
            }
        }
        spent
    }

    fn units(&self, budget: &BudgetId, label: WindowLabel) -> MicroTokens {
        self.grants.get(&(budget.clone(), label)).map(|k| k.units).unwrap_or_default()
    }
}

/// True if one of these windows is of the budget's policy.
fn counts(windows: &[OpenWindow], budget: &BudgetId) -> bool {
    windows.iter().any(|w| w.policy == budget.policy && w.generation == budget.generation)
}

/// True of a window that the region has left behind.
fn is_over(windows: &[OpenWindow], budget: &BudgetId, label: WindowLabel) -> bool {
    windows.iter().any(|w| w.policy == budget.policy && w.generation == budget.generation && label < w.label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_shared::names::{PolicyName, SubjectHash, SubjectKey};
    use quorate_shared::time::StoreTime;

    /// The policy `p` is in force, and in its first window.
    fn in_force() -> Vec<OpenWindow> {
        let label = WindowLabel::default();
        vec![OpenWindow { policy: "p".parse().expect("a name"), generation: 1, label, last: label }]
    }

    fn grant(units: u64, used_at_most: u64) -> Grant {
        let policy = "p".parse().expect("a name");
        let budget = BudgetId { subject: SubjectHash::of(&SubjectKey::new([1; 32]), &policy, []), policy, generation: 1 };
        let label = WindowLabel::beginning_at(StoreTime::from_micros(7));
        Grant { budget, label, granted: MicroTokens(units), used_at_most: MicroTokens(used_at_most) }
    }

    #[test]
    fn what_a_burnt_window_can_have_come_to_is_known_before_its_grant_is_used() {
        let mut known = UnitGrants::default();
        known.applied(&[grant(3, 0)], 1, &in_force());
        let (less, more) = known.compare(&[grant(5, 4)], false, &in_force());
        assert_eq!((less, more), (vec![grant(3, 4)], vec![grant(5, 4)]));
        let (less, more) = known.compare(&[grant(5, 0)], false, &in_force());
        assert_eq!((less, more), (vec![], vec![grant(5, 0)]));
        let (less, more) = known.compare(&[grant(2, 4)], false, &in_force());
        assert_eq!((less, more), (vec![grant(2, 4)], vec![]));
    }

    #[test]
    fn nothing_is_left_of_the_grants_of_a_policy_that_is_gone() {
        let mut known = UnitGrants::default();
        known.applied(&[grant(3, 0)], 1, &[]);
        assert_eq!(known.windows().count(), 1, "it is so new that no heartbeat named a window of it");
        known.applied(&[], 2, &in_force());
        assert_eq!(known.compare(&[grant(4, 0)], false, &[]), (vec![], vec![grant(4, 0)]), "granted just now");

        let (less, more) = known.compare(&[], false, &[]);
        assert_eq!((&less, &more), (&vec![grant(0, 0)], &vec![]));
        known.applied(&less, 3, &[]);
        assert_eq!((known.windows().count(), known.grants.len()), (0, 0));
    }

    #[test]
    fn of_more_windows_than_a_heartbeat_holds_each_has_its_turn_and_reports_go_first() {
        let policy: PolicyName = "p".parse().expect("a name");
        let subject = |n: usize| SubjectHash::of(&SubjectKey::new([0; 32]), &policy, [n.to_string().as_str()]);
        let budget = |n: usize| BudgetId { policy: policy.clone(), generation: 1, subject: subject(n) };
        let label = WindowLabel::default();
        let mut grants = UnitGrants::open((0..MOST_SPENT + 500).map(|n| ((budget(n), label), MicroTokens::ZERO)));
        let spent = |grants: &UnitGrants| -> Vec<Spent> {
            let of = |(budget, label): &(BudgetId, WindowLabel)| Spent { budget: budget.clone(), label: *label, units: MicroTokens::TOKEN };
            grants.windows().map(of).collect()
        };
        let amount = MicroTokens::TOKEN;
        let last = grants.windows().map(|(budget, _)| budget.clone()).max().expect("many");
        let report = Report {
            budget: last.clone(),
            demand: amount,
            admitted: amount,
            refused: amount,
            largest: amount,
            estimated: MicroTokens::ZERO,
        };

        let first = grants.tell(1, spent(&grants), &[report]);
        assert_eq!((first.len(), &first[0].budget), (MOST_SPENT, &last));
        grants.applied(&[], 1, &in_force());
        assert_eq!(grants.windows().count(), 500, "those that were not said are still to be");
        assert!(grants.windows().all(|(budget, _)| first.iter().all(|s| s.budget != *budget)));
        assert_eq!(grants.tell(2, spent(&grants), &[]).len(), 500);
        grants.applied(&[], 2, &in_force());
        assert_eq!(grants.windows().count(), 0);
    }
}
