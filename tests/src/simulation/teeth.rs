//! Which mistake is caught by which seed: that the simulator would find what it is there to find.

use super::invariants::Violation;
use super::world::World;
use quorate_shared::mistake::{self, Mistake};

/// One mistake of docs/protocol.md and a seed that is known to catch it.
#[derive(Clone, Copy, Debug)]
pub struct Tooth {
    /// The rule that is left out.
    pub mistake: Mistake,
    /// A schedule that finds it.
    pub seed: u64,
    /// Some schedule before this one must find it too, if the known one no longer does.
    pub within: u64,
}

/// One for each mistake: the first seed that catches it, and about ten times as many.
pub const TEETH: &[Tooth] = &[
    tooth(Mistake::FloorHorizonFromSending, 12, 300),
    tooth(Mistake::LeaseHorizonFromReceipt, 51, 1_000),
    tooth(Mistake::LenderHorizonFromReceipt, 5, 300),
    tooth(Mistake::PromiseOfThisHeartbeat, 19, 300),
    tooth(Mistake::PromiseKeptOverOffice, 19, 300),
    tooth(Mistake::NewOfficeEndsSessions, 4, 300),
    tooth(Mistake::OfferedSummed, 1, 300),
    tooth(Mistake::OlderResponseAccepted, 3, 300),
    tooth(Mistake::HorizonsBeforeReductions, 2, 300),
    tooth(Mistake::EchoBeforeReductions, 5, 300),
    tooth(Mistake::BorrowedUntilLease, 5, 300),
    tooth(Mistake::NoDriftMargin, 152, 1_000),
    tooth(Mistake::LentForgotten, 1, 300),
    tooth(Mistake::LateApplication, 29, 300),
    tooth(Mistake::LevelRaisedWithGrant, 3, 300),
    tooth(Mistake::RefillOverLapse, 231, 3_000),
    tooth(Mistake::LossTakenForEmpty, 0, 300),
    tooth(Mistake::LossTakenForFull, 174, 3_000),
    tooth(Mistake::WholeFloorAfterLoss, 0, 300),
    tooth(Mistake::RegionNotWaitedFor, 0, 300),
    tooth(Mistake::OlderSessionAccepted, 0, 300),
    tooth(Mistake::HorizonsKeptOverReboot, 31, 1_000),
    tooth(Mistake::NoDrainAtSessionEnd, 104, 3_000),
    tooth(Mistake::DrainedByNominalShare, 152, 3_000),
    tooth(Mistake::AgedByAnother, 152, 3_000),
    tooth(Mistake::PromiseOfUndrained, 464, 6_000),
    tooth(Mistake::NewPolicyInUsedWindow, 9, 300),
    tooth(Mistake::LabelsLeftOut, 177, 3_000),
    tooth(Mistake::SpentReadEarly, 437, 8_000),
    tooth(Mistake::SeatsInFloors, 131, 1_000),
    tooth(Mistake::SeatsNotWaitedFor, 477, 10_000),
    tooth(Mistake::PastUseNotWaitedFor, 80, 10_000),
    tooth(Mistake::ChangedKindUnused, 53, 1_000),
    tooth(Mistake::PendingKindByNumber, 72, 1_000),
    tooth(Mistake::ConfirmedAnother, 370, 7_000),
    tooth(Mistake::FloorTtlFromReceipt, 1_013, 5_000),
    tooth(Mistake::FloorEndsWithSession, 154, 5_000),
    tooth(Mistake::NoQuietAfterRestore, 756, 8_000),
    tooth(Mistake::LostEchoBelieved, 377_077, 2_000_000),
    tooth(Mistake::LeaseHorizonFromSight, 118, 1_000),
    tooth(Mistake::EstimatesWithoutRoom, 9_599, 100_000),
    tooth(Mistake::ReturnedToAnotherEra, 689_272, 2_000_000),
    tooth(Mistake::SettledByLapsedParts, 75_644, 800_000),
    tooth(Mistake::SettledAgain, 376, 4_000),
];

const fn tooth(mistake: Mistake, seed: u64, within: u64) -> Tooth {
    Tooth { mistake, seed, within }
}

/// Runs one schedule while a mistake is made.
///
/// # Errors
/// The promise that was broken.
pub fn run_with(mistake: Mistake, seed: u64) -> Result<(), Violation> {
    mistake::make(Some(mistake));
    let outcome = World::new(seed).run();
    mistake::make(None);
    outcome.map(|_| ())
}

/// The first of these schedules that catches a mistake.
pub fn first_to_catch(mistake: Mistake, seeds: impl Iterator<Item = u64>) -> Option<(u64, Violation)> {
    seeds.into_iter().find_map(|seed| run_with(mistake, seed).err().map(|violation| (seed, violation)))
}
