//! Mistakes that the simulator makes on purpose, to show that it would find them.
//!
//! Each is a rule of docs/protocol.md left out. Without the cargo feature `mistakes`, which only
//! the package of the tests turns on, [`made`] is the constant `false` and costs nothing.

macro_rules! mistakes {
    ($($name:ident $text:literal,)*) => {
        /// One rule left out.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mistake {
            $(#[doc = $text] $name,)*
        }

        impl Mistake {
            /// Every mistake.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// In words.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

mistakes! {
    FloorHorizonFromSending "U timed from the sending",
    LeaseHorizonFromReceipt "D timed from the receipt",
    LenderHorizonFromReceipt "D_j timed from the receipt",
    PromiseOfThisHeartbeat "lend horizon of this heartbeat instead of the echoed one",
    PromiseKeptOverOffice "lend horizons kept across a term",
    NewOfficeEndsSessions "a new term ends sessions",
    OfferedSummed "offered summed instead of held",
    OlderResponseAccepted "an older response accepted",
    HorizonsBeforeReductions "horizons moved before reductions",
    EchoBeforeReductions "echo before reductions",
    BorrowedUntilLease "borrowed used until D alone",
    NoDriftMargin "no drift margin",
    LentForgotten "the lender forgets `lent` when U passes",
    LateApplication "a late application not refused",
    LevelRaisedWithGrant "level raised with the grant",
    RefillOverLapse "refill over a lapse at the leased rate",
    LossTakenForEmpty "store loss treated as an empty store",
    LossTakenForFull "store loss: buckets treated as full",
    WholeFloorAfterLoss "the whole floor after a store loss",
    RegionNotWaitedFor "policy not waited for in one region",
    OlderSessionAccepted "heartbeats of an older session accepted",
    HorizonsKeptOverReboot "horizons kept over a reboot",
    NoDrainAtSessionEnd "no drain at the end of a session",
    DrainedByNominalShare "drained reported against the nominal share",
    AgedByAnother "the newest response told as drained once the first one has aged",
    PromiseOfUndrained "a promise that follows the echo, not the drained response",
    NewPolicyInUsedWindow "a new allowance policy inside a window in use",
    LabelsLeftOut "labels left out of a response",
    SpentReadEarly "units spent read before the reduction",
    SeatsInFloors "what agents may spend by themselves not taken out of the floors",
    SeatsNotWaitedFor "a change confirmed while an agent by itself goes by the former set",
    PastUseNotWaitedFor "a smaller floor before past use has drained",
    ChangedKindUnused "a changed algorithm begins with nothing used",
    PendingKindByNumber "floors of two algorithms compared by their numbers",
    ConfirmedAnother "a withdrawn change taken for the one that took its place",
    FloorTtlFromReceipt "the end of a floor timed from the receipt",
    FloorEndsWithSession "a floor taken back at the end of the session, not of its own time",
    NoQuietAfterRestore "restored coordinators that answer at once",
    LostEchoBelieved "an echo of a lost coordinator's answer taken for one of its successor's",
    LeaseHorizonFromSight "D of a second agent timed from the question that showed the heartbeat",
    EstimatesWithoutRoom "estimates that take no room in their bucket",
    ReturnedToAnotherEra "an estimate given back into another era",
    SettledByLapsedParts "costs beyond an estimate paid for by parts that have lapsed",
    SettledAgain "a settlement that is repeated given back again",
}

/// True while `mistake` is to be made.
#[cfg(not(feature = "mistakes"))]
#[inline(always)]
pub const fn made(_: Mistake) -> bool {
    false
}

#[cfg(feature = "mistakes")]
mod switch {
    use super::Mistake;
    use std::cell::Cell;

    thread_local! {
        static MADE: Cell<Option<Mistake>> = const { Cell::new(None) };
    }

    /// True while `mistake` is to be made on this thread.
    pub fn made(mistake: Mistake) -> bool {
        MADE.get() == Some(mistake)
    }

    /// From now on this mistake is made on this thread, and no other.
    pub fn make(mistake: Option<Mistake>) {
        MADE.set(mistake);
    }
}

#[cfg(feature = "mistakes")]
pub use switch::{made, make};
