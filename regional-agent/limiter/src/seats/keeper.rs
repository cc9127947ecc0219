//! The seats in memory: what the Redis script does, in pure Rust.

use super::{Given, SeatAnswer, SeatEntry, SeatWord, Seats};
use crate::record::{Record, Refusal};
use quorate_shared::heartbeat::PoliciesInForce;
use quorate_shared::time::StoreTime;

/// The seats that a store keeps.
#[derive(Clone, Debug, Default)]
pub struct SeatKeeper {
    seats: Seats,
    /// The greatest seat that anybody ever had.
    ever: u32,
    /// The sets in force when nobody can have had one before. By later ones others may have had what a seat has.
    first: Option<PoliciesInForce>,
    /// The store that keeps them, and when its state was last lost: after another loss they are kept anew.
    state: (String, Option<StoreTime>),
}

impl SeatKeeper {
    /// Takes an agent's word, and gives its answer.
    ///
    /// # Errors
    /// If the store has no record of the region's session.
    pub fn take(&mut self, now: StoreTime, record: Option<&Record>, word: &SeatWord) -> Result<SeatAnswer, Refusal> {
        let record = record.ok_or(Refusal::NoRecord)?;
        self.settle(record, word);
        let (seat, given) = self.seat_for(record, word);
        if let Some(seat) = seat {
            let beats = self.seats.entries.get(&word.me).map_or(0, |entry| entry.beats) + 1;
            self.seats.entries.insert(word.me, SeatEntry { seat, beats, goes_by: word.goes_by, clock: word.clock });
            self.ever = self.ever.max(seat);
        }
        self.seats.settled |= self.are_all_here(record, word);
        Ok(SeatAnswer { seat, given, shown: now, in_force: record.policies, seats: self.seats.clone() })
    }

    /// The agent gives its seat back.
    pub fn leave(&mut self, record: &Record, word: &SeatWord) {
        self.settle(record, word);
        self.seats.entries.remove(&word.me);
    }

    fn settle(&mut self, record: &Record, word: &SeatWord) {
        let state = (record.store.clone(), record.lost_at);
        if self.state != state || self.seats == Seats::default() {
            let seats = Seats { born: word.born, ..Seats::default() };
            *self = Self { seats, ever: 0, first: None, state };
        }
        if word.genesis && word.goes_by == record.policies {
            self.first = Some(record.policies);
        }
        self.seats.settled |= word.genesis || word.settles == Some(self.seats.born);
        for (agent, entry) in word.lapsed.iter().filter(|(agent, _)| *agent != word.me) {
            if self.seats.entries.get(agent) == Some(entry) {
                self.seats.entries.remove(agent);
            }
        }
        if let Some(over) = word.predecessor {
            self.seats.entries.remove(&over);
        }
    }

    /// True if each seat that there is was found to be somebody's since the state was lost. By the sets that a response
    /// has brought since then, whoever has another one has nothing by it.
    fn are_all_here(&self, record: &Record, word: &SeatWord) -> bool {
        let is_here = |seat| self.seats.entries.values().any(|entry| entry.seat == seat);
        !record.burnt && word.goes_by == record.policies && word.seats > 0 && (1..=word.seats).all(is_here)
    }

    fn seat_for(&self, record: &Record, word: &SeatWord) -> (Option<u32>, Given) {
        let Seats { born, settled, ref entries } = self.seats;
        if let Some(own) = entries.get(&word.me) {
            return (Some(own.seat), Given::Still);
        }
        let taken = |seat: u32| entries.values().any(|entry| entry.seat == seat);
        match word.holds {
            Some((seat, under)) if !settled && under != born && !taken(seat) => (Some(seat), Given::Still),
            _ if settled && word.goes_by == record.policies => {
                let seat = (1..=word.seats).find(|seat| !taken(*seat));
                (seat, if self.first == Some(record.policies) && seat > Some(self.ever) { Given::Fresh } else { Given::Anew })
            }
            _ => (None, Given::Still),
        }
    }
}
