//! The model finds what goes wrong without a rule: each mistake has a setting in which a promise is broken.

use super::exploration::Exploration;
use super::setting::Setting;
use super::{of_windows, running_apart, setting, with};
use quorate_shared::mistake::Mistake;
use stateright::{Checker, Expectation, HasDiscoveries, Model};

/// The least setting that shows a mistake, of those that the model can see: not what happens to buckets, nor
/// what takes more heartbeats in a row.
fn shown_by(mistake: Mistake) -> Option<Setting> {
    let overlapping = |beats| Setting { one_at_a_time: false, stepwise: true, ..setting(beats) };
    let shown = match mistake {
        Mistake::LeaseHorizonFromReceipt | Mistake::PromiseOfThisHeartbeat | Mistake::OfferedSummed | Mistake::BorrowedUntilLease => {
            setting([1, 1])
        }
        Mistake::FloorHorizonFromSending | Mistake::LenderHorizonFromReceipt | Mistake::LentForgotten => setting([2, 1]),
        Mistake::HorizonsBeforeReductions => overlapping([1, 1]),
        Mistake::EchoBeforeReductions => overlapping([2, 1]),
        Mistake::LeaseHorizonFromSight => with(setting([1, 1]), |left| left.looks = 1),
        Mistake::NoDriftMargin => running_apart([1, 1]),
        Mistake::PromiseKeptOverOffice | Mistake::NewOfficeEndsSessions => with(setting([1, 1]), |left| left.elections = 1),
        Mistake::LossTakenForEmpty | Mistake::WholeFloorAfterLoss => with(setting([1, 1]), |left| left.losses = 1),
        Mistake::RegionNotWaitedFor => with(setting([0, 1]), |left| left.changes = 1),
        Mistake::SpentReadEarly => with(of_windows([2, 1]), |left| left.swings = 1),
        Mistake::LabelsLeftOut => with(of_windows([3, 1]), |left| left.swings = 1),
        Mistake::NewPolicyInUsedWindow => with(of_windows([2, 1]), |left| left.changes = 1),
        _ => return None,
    };
    Some(Setting { mistake: Some(mistake), ..shown })
}

/// Which promises are broken within a setting.
fn broken_in(setting: Setting) -> Vec<&'static str> {
    let checker = Exploration::of(setting).checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let promises = checker.model().properties().into_iter().filter(|p| p.expectation != Expectation::Sometimes);
    promises.map(|p| p.name).filter(|name| checker.discovery(name).is_some()).collect()
}

#[test]
fn each_rule_that_is_left_out_is_missed() {
    let shown: Vec<Setting> = Mistake::ALL.iter().filter_map(|mistake| shown_by(*mistake)).collect();
    assert_eq!(shown.len(), 19, "mistakes that the model can see");
    for setting in shown {
        let mistake = setting.mistake.map(Mistake::text);
        let broken = broken_in(setting);
        println!("{mistake:?}: {broken:?}");
        assert!(!broken.is_empty(), "not missed: {mistake:?}");
    }
}
