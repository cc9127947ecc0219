//! The model finds what goes wrong without a rule: each mistake has a setting in which a promise is broken. Each is a
//! test of its own: together they take long on a busy machine.

use super::exploration::Exploration;
use super::setting::Setting;
use super::{of_windows, running_apart, setting, with};
use quorate_shared::mistake::Mistake;
use stateright::{Checker, Expectation, HasDiscoveries, Model};

/// Mistakes that the model can see, each with the least setting that shows it: not what happens to buckets, nor what takes
/// more heartbeats in a row.
macro_rules! missed {
    ($($name:ident: $mistake:ident in $setting:expr;)*) => {
        $(
            #[test]
            fn $name() {
                is_missed(Mistake::$mistake, $setting);
            }
        )*
    };
}

missed! {
    a_lease_timed_from_the_receipt_breaks_a_promise: LeaseHorizonFromReceipt in setting([1, 1]);
    a_lend_horizon_of_this_heartbeat_breaks_a_promise: PromiseOfThisHeartbeat in setting([1, 1]);
    offers_summed_instead_of_holdings_break_a_promise: OfferedSummed in setting([1, 1]);
    a_loan_used_until_the_lease_ends_breaks_a_promise: BorrowedUntilLease in setting([1, 1]);
    a_floor_timed_from_the_sending_breaks_a_promise: FloorHorizonFromSending in setting([2, 1]);
    a_loan_timed_from_the_receipt_breaks_a_promise: LenderHorizonFromReceipt in setting([2, 1]);
    a_lender_that_forgets_breaks_a_promise: LentForgotten in setting([2, 1]);
    horizons_before_reductions_break_a_promise: HorizonsBeforeReductions in overlapping([1, 1]);
    an_echo_before_reductions_breaks_a_promise: EchoBeforeReductions in overlapping([2, 1]);
    a_second_agent_s_lease_timed_from_what_it_saw_breaks_a_promise: LeaseHorizonFromSight in with(setting([1, 1]), |left| left.looks = 1);
    no_margin_for_drift_breaks_a_promise: NoDriftMargin in running_apart([1, 1]);
    promises_kept_over_a_term_break_a_promise: PromiseKeptOverOffice in with(setting([1, 1]), |left| left.elections = 1);
    sessions_that_a_term_ends_break_a_promise: NewOfficeEndsSessions in with(setting([1, 1]), |left| left.elections = 1);
    a_lost_store_taken_for_an_empty_one_breaks_a_promise: LossTakenForEmpty in with(setting([1, 1]), |left| left.losses = 1);
    the_whole_floor_after_a_loss_breaks_a_promise: WholeFloorAfterLoss in with(setting([1, 1]), |left| left.losses = 1);
    a_region_that_is_not_waited_for_breaks_a_promise: RegionNotWaitedFor in with(setting([0, 1]), |left| left.changes = 1);
    units_read_early_break_a_promise: SpentReadEarly in with(of_windows([2, 1]), |left| left.swings = 1);
    labels_left_out_break_a_promise: LabelsLeftOut in with(of_windows([3, 1]), |left| left.swings = 1);
    a_new_policy_in_a_used_window_breaks_a_promise: NewPolicyInUsedWindow in with(of_windows([2, 1]), |left| left.changes = 1);
}

fn overlapping(beats: [u8; 2]) -> Setting {
    Setting { one_at_a_time: false, stepwise: true, ..setting(beats) }
}

/// Some promise is broken while the mistake is made.
fn is_missed(mistake: Mistake, setting: Setting) {
    let setting = Setting { mistake: Some(mistake), ..setting };
    let checker = Exploration::of(setting).checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let promises = checker.model().properties().into_iter().filter(|p| p.expectation != Expectation::Sometimes);
    let broken: Vec<&str> = promises.map(|p| p.name).filter(|name| checker.discovery(name).is_some()).collect();
    println!("{broken:?} after {} states", checker.unique_state_count());
    assert!(!broken.is_empty(), "not missed: {}", mistake.text());
}
