//! What one agent may conclude from watching the seats.

use super::{SeatEntry, Seats};
use crate::election::AgentId;
use crate::reserve::SEAT_LIFE;
use quorate_shared::heartbeat::PoliciesInForce;
use quorate_shared::time::{Drift, LocalTime, StoreTime};
use std::collections::BTreeMap;
use std::time::Duration;

/// What an agent has seen of the seats.
#[derive(Clone, Debug)]
pub struct SeatWatch {
    /// How long a seat may be used without being confirmed.
    life: Duration,
    /// Since when they are kept under this number.
    born: Option<(u64, LocalTime)>,
    /// Each entry as it is, and since when.
    seen: BTreeMap<AgentId, (SeatEntry, LocalTime)>,
    /// Since when all who have a seat go by these sets.
    all_go_by: Option<(PoliciesInForce, LocalTime)>,
    settled: bool,
}

impl Default for SeatWatch {
    fn default() -> Self {
        Self::new(SEAT_LIFE)
    }
}

impl SeatWatch {
    /// Nothing is seen yet; a seat may be used for `life` without being confirmed.
    pub fn new(life: Duration) -> Self {
        Self { life, born: None, seen: BTreeMap::new(), all_go_by: None, settled: false }
    }

    /// An answer that came at `received` showed these; `in_force` are the sets that the region goes by.
    pub fn saw(&mut self, seats: &Seats, in_force: PoliciesInForce, received: LocalTime) {
        if self.born.is_none_or(|(born, _)| born != seats.born) {
            *self = Self { born: Some((seats.born, received)), ..Self::new(self.life) };
        }
        let mut seen = std::mem::take(&mut self.seen);
        let since = |(agent, entry): (&AgentId, &SeatEntry)| {
            let known = seen.remove(agent).filter(|(before, _)| before == entry);
            (*agent, known.unwrap_or((*entry, received)))
        };
        self.seen = seats.entries.iter().map(since).collect();
        self.settled = seats.settled;
        let all = seats.settled && seats.entries.values().all(|entry| goes_by(entry.goes_by, in_force));
        self.all_go_by = match self.all_go_by {
            _ if !all => None,
            Some((sets, since)) if sets == in_force => Some((sets, since)),
            _ => Some((in_force, received)),
        };
    }

    /// Entries of agents whose right has ended, if the store has them still as they were: to be removed.
    pub fn lapsed(&self, now: LocalTime, drift: Drift) -> Vec<(AgentId, SeatEntry)> {
        let is_over = |since: LocalTime| now >= since.after(drift.stretch(self.life));
        self.seen.iter().filter(|(_, (_, since))| is_over(*since)).map(|(agent, (entry, _))| (*agent, *entry)).collect()
    }

    /// The number under which the seats have been kept for so long that whoever had one before has it here, or
    /// has none.
    pub fn settles(&self, now: LocalTime, drift: Drift) -> Option<u64> {
        let (born, since) = self.born.filter(|_| !self.settled)?;
        (now >= since.after(drift.stretch(self.life))).then_some(born)
    }

    /// Since when every agent that has a seat goes by these sets, or has none any more (R9).
    pub fn all_go_by(&self, in_force: PoliciesInForce) -> Option<LocalTime> {
        self.all_go_by.filter(|(sets, _)| *sets == in_force).map(|(_, since)| since)
    }

    /// Windows that begin up to then may have been used by agents without the store.
    pub fn clock(&self) -> StoreTime {
        self.seen.values().map(|(entry, _)| entry.clock).max().unwrap_or_default()
    }

    /// Which seat each agent has.
    pub fn by_agent(&self) -> BTreeMap<AgentId, u32> {
        self.seen.iter().map(|(agent, (entry, _))| (*agent, entry.seat)).collect()
    }

    /// Under which number they are kept.
    pub fn born(&self) -> Option<u64> {
        self.born.map(|(born, _)| born)
    }
}

/// True if whoever goes by `sets` has no more than `in_force` gives, whichever of its two sets that is.
fn goes_by(sets: PoliciesInForce, in_force: PoliciesInForce) -> bool {
    sets.recency() >= in_force.recency()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRIFT: Drift = Drift::DEFAULT;

    fn sets(active: u64, next: Option<u64>) -> PoliciesInForce {
        PoliciesInForce { active, next, also: None }
    }

    fn seats(born: u64, settled: bool, entries: &[(u64, u64, PoliciesInForce)]) -> Seats {
        let entry = |(n, (agent, beats, goes_by)): (usize, &(u64, u64, PoliciesInForce))| {
            let clock = StoreTime::from_micros(*beats);
            (AgentId(*agent), SeatEntry { seat: n as u32 + 1, beats: *beats, goes_by: *goes_by, clock })
        };
        Seats { born, settled, entries: entries.iter().enumerate().map(entry).collect() }
    }

    fn at(seconds: u64) -> LocalTime {
        LocalTime::ZERO.after(Duration::from_secs(seconds))
    }

    /// A second more than a right lasts on any clock.
    fn life() -> u64 {
        DRIFT.stretch(SEAT_LIFE).as_secs() + 1
    }

    #[test]
    fn a_right_has_lapsed_once_its_entry_was_seen_to_stand_still_for_as_long() {
        let (mut watch, old) = (SeatWatch::default(), sets(3, None));
        watch.saw(&seats(7, true, &[(1, 10, old), (2, 20, old)]), old, at(100));
        assert_eq!(watch.clock(), StoreTime::from_micros(20));
        watch.saw(&seats(7, true, &[(1, 10, old), (2, 21, old)]), old, at(200));
        assert_eq!(watch.lapsed(at(100 + life() - 2), DRIFT), []);
        let lapsed = watch.lapsed(at(100 + life()), DRIFT);
        assert_eq!(lapsed.iter().map(|(agent, entry)| (agent.0, entry.beats)).collect::<Vec<_>>(), [(1, 10)]);
        watch.saw(&seats(8, true, &[(1, 10, old)]), old, at(300));
        assert_eq!(watch.lapsed(at(100 + life()), DRIFT), [], "another store begins anew");
        assert_eq!(watch.born(), Some(8));
    }

    #[test]
    fn seats_that_are_kept_anew_are_all_there_only_after_as_long() {
        let (mut watch, old) = (SeatWatch::default(), sets(3, None));
        watch.saw(&seats(7, false, &[]), old, at(100));
        assert_eq!((watch.all_go_by(old), watch.settles(at(100 + life() - 2), DRIFT)), (None, None));
        assert_eq!(watch.settles(at(100 + life()), DRIFT), Some(7));
        watch.saw(&seats(7, true, &[]), old, at(800));
        assert_eq!((watch.all_go_by(old), watch.settles(at(2_000), DRIFT)), (Some(at(800)), None));
    }

    #[test]
    fn a_change_is_gone_by_once_every_seat_goes_by_it() {
        let (mut watch, old, pending, new) = (SeatWatch::default(), sets(3, None), sets(3, Some(4)), sets(4, None));
        watch.saw(&seats(7, true, &[(1, 1, old), (2, 1, old)]), old, at(1));
        watch.saw(&seats(7, true, &[(1, 2, old), (2, 2, old)]), old, at(2));
        assert_eq!((watch.all_go_by(old), watch.all_go_by(pending)), (Some(at(1)), None));
        watch.saw(&seats(7, true, &[(1, 3, pending), (2, 3, old)]), pending, at(3));
        assert_eq!((watch.all_go_by(pending), watch.all_go_by(old)), (None, None));
        // what gives no more may be ahead
        watch.saw(&seats(7, true, &[(1, 4, new), (2, 4, pending)]), pending, at(4));
        watch.saw(&seats(7, true, &[(1, 5, new), (2, 5, pending)]), pending, at(5));
        assert_eq!(watch.all_go_by(pending), Some(at(4)));
        watch.saw(&seats(7, true, &[(1, 6, new)]), new, at(6));
        assert_eq!(watch.all_go_by(new), Some(at(6)), "the other has given its seat back");
    }
}
