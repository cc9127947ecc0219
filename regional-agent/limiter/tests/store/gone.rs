//! Policies that come and go: what a record remembers of those that are gone.

use crate::region::Region;
use quorate_limiter::record::ChangedPolicy;
use quorate_shared::units::Capacity;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// The most that the record remembers while for so many days a policy takes the place of the one of the day before.
fn most_remembered(days: u64, anew: bool) -> usize {
    let mut region = Region::new();
    let mut most = 0;
    for day in 1..=days {
        region.pass(DAY);
        let kind = ("daily".parse().expect("a name"), day);
        let (policy, generation) = kind.clone();
        region.apply(vec![], |finish| {
            finish.changed = vec![ChangedPolicy { policy, generation, former: Capacity::ZERO, slows: true, anew }];
            finish.named = Some([kind].into());
        });
        most = most.max(region.store.record(region.now).expect("open").changes.len());
    }
    most
}

#[test]
fn a_record_does_not_grow_with_policies_that_come_and_go() {
    assert_eq!([most_remembered(100, false), most_remembered(200, false)], [31, 31], "a month of changes");
    assert_eq!([most_remembered(500, true), most_remembered(700, true)], [367, 367], "a year of budgets that began anew");
}

#[test]
fn a_policy_that_stays_is_remembered_however_long_ago_it_changed() {
    let mut region = Region::new();
    let kind = ("kept".parse().expect("a name"), 1);
    for year in 0..3 {
        let changed = (year == 0).then(|| {
            let (policy, generation) = kind.clone();
            ChangedPolicy { policy, generation, former: Capacity::ZERO, slows: false, anew: true }
        });
        region.apply(vec![], |finish| (finish.changed, finish.named) = (changed.into_iter().collect(), Some([kind.clone()].into())));
        assert!(region.store.record(region.now).expect("open").changes.contains_key(&kind));
        region.pass(400 * DAY);
    }
}
