//! The seats of the region's agents.

use super::RedisStore;
use super::session::Call;
use super::wire::{self, Words, flag, policies, policies_text, unreadable};

use crate::store::{LeaseError, StoreError};
use quorate_limiter::election::AgentId;
use quorate_limiter::seats::{Given, SeatAnswer, SeatEntry, SeatWord, Seats};
use quorate_shared::time::StoreTime;

impl RedisStore {
    /// See [`crate::store::Store::seat`].
    pub async fn seat(&self, call: &SeatWord) -> Result<SeatAnswer, LeaseError> {
        answer(self.say_of_seat(call, false).await?).map_err(LeaseError::from)
    }

    /// See [`crate::store::Store::leave_seat`].
    pub async fn leave_seat(&self, call: &SeatWord) -> Result<(), LeaseError> {
        self.say_of_seat(call, true).await.map(drop)
    }

    async fn say_of_seat(&self, seat: &SeatWord, leaves: bool) -> Result<Words, LeaseError> {
        let keys = vec![self.keys.lease.clone(), self.keys.seats.clone()];
        let call = Call { script: &self.scripts.seat, keys, arguments: arguments(seat, leaves) };
        wire::done(self.link.call(&call, self.lease_timeout).await?)
    }
}

/// Arguments of `seat.lua`.
fn arguments(call: &SeatWord, leaves: bool) -> Vec<String> {
    let dash = || "-".to_owned();
    let (seat, under) = call.holds.unwrap_or_default();
    let mut words = vec![call.me.to_string(), policies_text(call.goes_by), call.clock.as_micros().to_string(), call.seats.to_string()];
    words.push(call.predecessor.map_or_else(dash, |id| id.to_string()));
    words.extend([seat.to_string(), under.to_string(), flag(call.genesis), call.born.to_string()]);
    words.push(call.settles.map_or_else(dash, |born| born.to_string()));
    words.push(flag(leaves));
    words.extend(call.lapsed.iter().flat_map(|(agent, entry)| [agent.to_string(), entry_text(entry)]));
    words
}

fn answer(mut words: Words) -> Result<SeatAnswer, StoreError> {
    let (shown, in_force) = (StoreTime::from_micros(words.number()?), policies(&words.text()?)?);
    let seat = u32::try_from(words.number()?).ok().filter(|seat| *seat > 0);
    let given = match words.number()? {
        0 => Given::Still,
        1 => Given::Anew,
        2 => Given::Fresh,
        other => return Err(unreadable(&other.to_string())),
    };
    let (born, settled) = (words.number()?, words.flag()?);
    let count = words.number()?;
    let entries = (0..count).map(|_| Ok((agent(&words.text()?)?, entry(&words.text()?)?))).collect::<Result<_, StoreError>>()?;
    Ok(SeatAnswer { seat, given, shown, in_force, seats: Seats { born, settled, entries } })
}

fn agent(text: &str) -> Result<AgentId, StoreError> {
    text.parse().map_err(|_| unreadable(text))
}

/// An entry as the store has it: seat, how often it was written, the clock, and the sets gone by.
fn entry_text(entry: &SeatEntry) -> String {
    format!("{} {} {} {}", entry.seat, entry.beats, entry.clock.as_micros(), policies_text(entry.goes_by))
}

fn entry(text: &str) -> Result<SeatEntry, StoreError> {
    let words: Vec<&str> = text.splitn(4, ' ').collect();
    let [seat, beats, clock, sets] = words.as_slice() else { return Err(unreadable(text)) };
    let number = |word: &str| word.parse::<u64>().map_err(|_| unreadable(text));
    Ok(SeatEntry {
        seat: u32::try_from(number(seat)?).map_err(|_| unreadable(text))?,
        beats: number(beats)?,
        clock: StoreTime::from_micros(number(clock)?),
        goes_by: policies(sets)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_shared::heartbeat::PoliciesInForce;

    #[test]
    fn an_entry_reads_back_as_written() {
        for next in [None, Some(8)] {
            let goes_by = PoliciesInForce { active: 7, next, also: None };
            let written = SeatEntry { seat: 3, beats: 9, clock: StoreTime::from_micros(1 << 52), goes_by };
            assert_eq!(entry(&entry_text(&written)), Ok(written));
        }
        for bad in ["", "1 2 3", "x 2 3 4", "1 2 3 x"] {
            assert!(entry(bad).is_err(), "{bad}");
        }
    }
}
