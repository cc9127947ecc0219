//! Parts of a budget that gateways spend by themselves: who gets how much, until when, and what of it may still be out.
//!
//! A part is drawn from the region's buckets before it is told to a gateway, as an estimate that holds its room there. So
//! nothing that a gateway spends is spent twice, whatever becomes of it or of the messages in between:
//!
//! - A gateway spends one part at a time: the next one takes the place of the last. What the last had left may be spent
//!   until the gateway has heard of the next one, so that much of what is drawn for the next one is not told.
//! - A part ends by itself [`TIME_TO_LIVE`] after the gateway heard of it last. The agent counts it as out until that
//!   must have been reported, and then reckons with what was.
//!
//! Calls, in this order: [`Spender::reported`] with each report, [`Spender::over`] and what it says settled, then
//! [`Spender::next`]; what is drawn goes to [`Spender::given`].

use quorate_shared::policy::Limit;
use quorate_shared::time::{Drift, LocalTime};
use quorate_shared::units::MicroTokens;
use std::time::Duration;

/// For how long a gateway may spend a part since it heard of it last.
pub const TIME_TO_LIVE: Duration = Duration::from_secs(3);

/// A message that was sent is heard within this time, either way, or the gateway is gone.
pub const TRANSIT: Duration = Duration::from_secs(1);

/// So long a part is told again and again to a gateway that does not use it up.
pub const LIFE: Duration = Duration::from_secs(10);

/// After this a part is over, whatever happened: nothing is spent later than that after it was drawn.
pub const LONGEST: Duration = Duration::from_secs(16);

/// A part must not be told later than this before something ends that it was drawn from.
pub fn ahead() -> Duration {
    Drift::MAX.stretch(TIME_TO_LIVE) + TRANSIT
}

/// What refills of a budget of this limit, all regions together, from the moment when a part was drawn until nothing can be
/// spent of it any more; `None` of windows, which count each unit by when it was drawn. By so much gateways may exceed it.
pub fn refilled_beside(limit: Limit) -> Option<MicroTokens> {
    let Limit::TokenBucket { rate, period, .. } = limit else { return None };
    let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    Some(rate.scale_floor(micros(LIFE + ahead()), micros(period).max(1)).saturating_add(MicroTokens(1)))
}

/// What a gateway asks for of which nothing is known yet.
pub const FIRST: u64 = 10;

/// Divides `whole` among claims, so that nobody gets more than it claims and nobody who gets less could get more without
/// somebody else falling below it (max-min). What cannot be divided evenly goes by one to those from `turn` on.
pub fn divide(whole: u64, claims: &[u64], turn: usize) -> Vec<u64> {
    let mut by_size: Vec<usize> = (0..claims.len()).collect();
    by_size.sort_by_key(|place| claims[*place]);
    let mut given = claims.to_vec();
    let (mut left, mut sharing) = (whole, claims.len() as u64);
    for (met, place) in by_size.iter().enumerate() {
        let even = left / sharing;
        if claims[*place] > even {
            by_size[met..].iter().for_each(|place| given[*place] = even);
            left -= even * sharing;
            break;
        }
        left -= claims[*place];
        sharing -= 1;
    }
    // the remainders of all that want more are equal, so turns decide
    for place in (0..claims.len()).cycle().skip(turn % claims.len().max(1)).take(claims.len()) {
        if left > 0 && given[place] < claims[place] {
            given[place] += 1;
            left -= 1;
        }
    }
    given
}

/// What a gateway was given to spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part<H> {
    /// By what it is settled.
    hold: H,
    /// Drawn from the region's buckets.
    drawn: u64,
    /// Told to the gateway: without what the part before had left.
    told: u64,
    /// When it was last told.
    sent: LocalTime,
    /// Not told again from then on: its life is over, or the window that it was drawn from.
    last: LocalTime,
    /// Reported since it was told first.
    used: u64,
    serial: u32,
}

impl<H> Part<H> {
    /// What may still be spent of it.
    fn left(&self) -> u64 {
        self.drawn.saturating_sub(self.used)
    }

    /// Until when it may be spent, and what was spent of it be reported, as far as anybody can tell.
    fn out_until(&self) -> LocalTime {
        self.sent.after(ahead()).after(TRANSIT)
    }
}

/// What is to be done with a part that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Over<H> {
    /// By what it is settled.
    pub hold: H,
    /// How many requests were made of it, at most.
    pub used: u64,
}

/// What a gateway is to hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing: what it has ends by itself.
    Nothing,
    /// That its part lives on.
    Again(Told),
    /// A new part, for which so much is to be drawn if it can be had.
    Draw {
        /// For its requests.
        claim: u64,
        /// And so much for what it may still have.
        beside: u64,
    },
}

/// A part in the gateway's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Requests.
    pub requests: u64,
    /// Of one gateway and bucket, no two parts that follow one another have the same.
    pub serial: u32,
}

/// One gateway that spends of one bucket. `H` names what was drawn.
#[derive(Clone, Debug)]
pub struct Spender<H> {
    part: Option<Part<H>>,
    /// Made and refused in the last report's time.
    asked: u64,
    /// Since then nothing was asked for.
    idle_since: Option<LocalTime>,
    heard: LocalTime,
    serial: u32,
}

impl<H: Copy> Spender<H> {
    /// One of which nothing is known.
    pub fn new(now: LocalTime) -> Self {
        Self { part: None, asked: 0, idle_since: None, heard: now, serial: 0 }
    }

    /// It reports what it let pass and what it refused since its last report.
    pub fn reported(&mut self, now: LocalTime, passed: u64, refused: u64) {
        self.asked = passed.saturating_add(refused);
        self.heard = now;
        self.idle_since = if self.asked > 0 { None } else { self.idle_since.or(Some(now)) };
        if let Some(part) = &mut self.part {
            part.used = part.used.saturating_add(passed);
        }
    }

    /// A part of which nothing can be spent any more.
    pub fn over(&mut self, now: LocalTime) -> Option<Over<H>> {
        self.part.take_if(|part| part.left() == 0 || now > part.out_until()).map(|part| Over::of(&part))
    }

    /// The gateway is gone: what it has, and when that is over. Nobody will say what was used of it.
    pub fn gone(self) -> Option<(LocalTime, Over<H>)> {
        self.part.map(|part| (part.out_until(), Over { hold: part.hold, used: part.drawn }))
    }

    /// What it should have for as many requests as it had last, and half as many again.
    pub fn claim(&self, now: LocalTime) -> u64 {
        let wanted = self.asked.saturating_add(self.asked / 2).max(FIRST);
        let left = self.part.as_ref().filter(|part| now < part.last).map_or(0, Part::left);
        let silent = now.since(self.heard) > TIME_TO_LIVE;
        if silent || self.idle_since.is_some() || left >= self.asked.saturating_add(self.asked / 4).max(1) { 0 } else { wanted }
    }

    /// What it is to hear now.
    pub fn next(&mut self, now: LocalTime) -> Next {
        match self.claim(now) {
            0 => self.again(now).map_or(Next::Nothing, Next::Again),
            claim => Next::Draw { claim, beside: self.part.as_ref().map_or(0, Part::left) },
        }
    }

    /// The part that it has, once more, if that may be told still.
    pub fn again(&mut self, now: LocalTime) -> Option<Told> {
        let part = self.part.as_mut().filter(|part| now < part.last)?;
        part.sent = now;
        Some(Told { requests: part.told, serial: part.serial })
    }

    /// So much was drawn for it, of which `beside` is for what it may still have, to be told no later than `until`. Returns
    /// what it is told, and the part before: what may still be spent of that the new one covers.
    pub fn given(&mut self, now: LocalTime, hold: H, drawn: u64, beside: u64, until: LocalTime) -> (Told, Option<Over<H>>) {
        self.serial = self.serial.wrapping_add(1);
        let told = drawn.saturating_sub(beside);
        let last = until.min(now.after(LIFE));
        let part = Part { hold, drawn, told, sent: now, last, used: 0, serial: self.serial };
        let before = self.part.replace(part).map(|before| Over::of(&before));
        (Told { requests: told, serial: self.serial }, before)
    }

    /// It has nothing, and has asked for nothing for so long.
    pub fn is_idle(&self, now: LocalTime, span: Duration) -> bool {
        self.part.is_none() && self.idle_since.is_some_and(|since| now.since(since) >= span)
    }
}

impl<H: Copy> Over<H> {
    fn of(part: &Part<H>) -> Self {
        Self { hold: part.hold, used: part.used.min(part.drawn) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(millis: u64) -> LocalTime {
        LocalTime::from_micros(millis * 1_000)
    }

    const END: LocalTime = LocalTime::from_micros(u64::MAX);

    #[test]
    fn a_part_is_over_within_its_longest() {
        assert!(LIFE + ahead() + TRANSIT < LONGEST);
    }

    #[test]
    fn small_claims_are_met_and_the_rest_is_even() {
        assert_eq!(divide(100, &[10, 80, 90], 0), [10, 45, 45]);
        assert_eq!(divide(100, &[10, 20, 30], 0), [10, 20, 30]);
        assert_eq!(divide(0, &[10, 20], 0), [0, 0]);
        assert_eq!(divide(100, &[], 0), [0_u64; 0]);
        assert_eq!([divide(2, &[5, 5, 5], 0), divide(2, &[5, 5, 5], 1), divide(2, &[5, 5, 5], 2)], [[1, 1, 0], [0, 1, 1], [1, 0, 1]]);
    }

    proptest! {
        #[test]
        fn a_division_is_whole_within_claims_and_fair(whole in 0_u64..1_000, claims in prop::collection::vec(0_u64..300, 0..9), turn in 0_usize..20) {
            let given = divide(whole, &claims, turn);
            let sum: u64 = given.iter().sum();
            prop_assert_eq!(sum, whole.min(claims.iter().sum()));
            for (i, (mine, claim)) in given.iter().zip(&claims).enumerate() {
                prop_assert!(mine <= claim);
                if mine < claim {
                    prop_assert!(given.iter().all(|theirs| *theirs <= mine + 1), "{} has less than others: {:?}", i, given);
                }
            }
        }

        /// Whatever a gateway does with what it heard, in time or late: what it spends was drawn and not given back.
        #[test]
        fn nothing_is_spent_that_was_given_back(steps in prop::collection::vec((0_u64..2_500, 0_u64..40, any::<bool>(), 0_u64..30), 1..60)) {
            let (mut now, mut spender) = (0, Spender::<u64>::new(at(0)));
            // of the gateway: what it may spend, until when; told but not heard
            let (mut has, mut until, mut unheard) = (0_u64, 0_u64, None::<Told>);
            let (mut drawn, mut back, mut spent, mut serial) = (0_u64, 0_u64, 0_u64, 0);
            let mut holds = std::collections::BTreeMap::new();
            for (wait, wants, hears, available) in steps {
                now += wait;
                // one that is not heard in time is lost with its connection
                if let Some(told) = unheard.take().filter(|_| hears && wait <= 1_000) {
                    if told.serial != serial {
                        (has, serial) = (told.requests, told.serial);
                    }
                    until = now + 3_000;
                }
                let mut passed = 0;
                if now < until {
                    passed = wants.min(has);
                    has -= passed;
                }
                spent += passed;
                spender.reported(at(now), passed, wants - passed);
                let settle = |over: Option<Over<u64>>, holds: &mut std::collections::BTreeMap<u64, u64>, back: &mut u64| {
                    if let Some(over) = over {
                        *back += holds.remove(&over.hold).expect("settled once") - over.used;
                    }
                };
                settle(spender.over(at(now)), &mut holds, &mut back);
                match spender.next(at(now)) {
                    Next::Nothing => {}
                    Next::Again(told) => unheard = Some(told),
                    Next::Draw { claim, beside } => {
                        let can = available.min(claim) + beside;
                        if can > beside {
                            drawn += can;
                            holds.insert(drawn, can);
                            let (told, before) = spender.given(at(now), drawn, can, beside, END);
                            settle(before, &mut holds, &mut back);
                            unheard = Some(told);
                        }
                    }
                }
                let out: u64 = holds.values().sum();
                prop_assert!(spent <= drawn - back, "{} spent of {} drawn and {} given back", spent, drawn, back);
                let may = if now < until { has } else { 0 };
                prop_assert!(may <= out, "{} may be spent, and {} hold room", may, out);
            }
        }
    }

    #[test]
    fn what_is_used_up_is_settled_at_once_and_what_is_left_is_reckoned_with() {
        let mut spender = Spender::new(at(0));
        spender.reported(at(0), 0, 1);
        assert_eq!(spender.next(at(0)), Next::Draw { claim: FIRST, beside: 0 });
        assert_eq!(spender.given(at(0), 'a', 10, 0, END), (Told { requests: 10, serial: 1 }, None));
        spender.reported(at(500), 8, 0);
        assert_eq!(spender.over(at(500)), None);
        assert_eq!(spender.next(at(500)), Next::Draw { claim: 12, beside: 2 }, "two may be spent before it hears");
        let before = Over { hold: 'a', used: 8 };
        assert_eq!(spender.given(at(500), 'b', 14, 2, END), (Told { requests: 12, serial: 2 }, Some(before)));
        spender.reported(at(1_000), 14, 6);
        assert_eq!(spender.over(at(1_000)), Some(Over { hold: 'b', used: 14 }));
        assert_eq!(spender.next(at(1_000)), Next::Draw { claim: 30, beside: 0 });
    }

    #[test]
    fn a_part_that_suffices_lives_on_and_one_that_ended_is_settled_at_what_was_used() {
        let mut spender = Spender::new(at(0));
        spender.reported(at(0), 0, 1);
        spender.given(at(0), 'a', 10, 0, END);
        spender.reported(at(500), 2, 0);
        assert_eq!(spender.next(at(500)), Next::Again(Told { requests: 10, serial: 1 }));
        spender.reported(at(5_700), 1, 0);
        assert_eq!(spender.over(at(5_700)), None, "told at 0.5 s, it may be heard at 2.5 s and spent until 5.8 s");
        assert_eq!(spender.over(at(5_801)), Some(Over { hold: 'a', used: 3 }));
    }

    #[test]
    fn what_nobody_asks_for_ends_after_its_life() {
        let mut spender = Spender::new(at(0));
        spender.reported(at(0), 0, 1);
        spender.given(at(0), 'a', 10, 0, END);
        let mut told = 0;
        for half_second in 1..=40 {
            let now = at(half_second * 500);
            spender.reported(now, 0, 0);
            if let Some(over) = spender.over(now) {
                assert_eq!((over, told, half_second), (Over { hold: 'a', used: 0 }, 19, 30), "told at 9.5 s, it is out until 14.8 s");
            }
            told += u32::from(matches!(spender.next(now), Next::Again(_)));
        }
        assert!(spender.is_idle(at(60_500), Duration::from_secs(60)) && !spender.is_idle(at(60_499), Duration::from_secs(60)));
    }

    #[test]
    fn a_gateway_that_is_gone_keeps_what_it_has_until_that_ends() {
        let mut spender = Spender::new(at(0));
        spender.reported(at(0), 0, 1);
        spender.given(at(0), 'a', 10, 0, END);
        spender.reported(at(100), 4, 0);
        assert_eq!(spender.gone(), Some((at(5_300), Over { hold: 'a', used: 10 })));
        assert_eq!(Spender::<char>::new(at(0)).gone(), None);
    }

    #[test]
    fn what_was_drawn_from_a_window_is_not_told_beyond_its_end() {
        let mut spender = Spender::new(at(0));
        spender.reported(at(0), 0, 1);
        spender.given(at(0), 'a', 10, 0, at(900));
        spender.reported(at(899), 1, 0);
        assert!(matches!(spender.next(at(899)), Next::Again(_)));
        spender.reported(at(900), 1, 0);
        assert_eq!(spender.next(at(900)), Next::Draw { claim: FIRST, beside: 8 }, "of the next window, and what may be out as well");
    }
}
