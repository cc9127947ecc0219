//! A look at the region's lease, its lock and its agents, and the policy sets that they share.

use super::RedisStore;
use super::session::Call;
use super::wire::{Words, done, policies, unreadable};
use crate::store::look::{Bid, Leased, Look, Looked, Peer};
use crate::store::{LeaseError, StoreError};
use quorate_limiter::election::{AgentId, Lock};
use quorate_limiter::follower::Sight;
use quorate_shared::heartbeat::Number;
use quorate_shared::time::StoreTime;
use std::collections::BTreeMap;
use std::time::Instant;

/// What a sight begins with, in an answer to questions.
pub(super) const MARK: char = '@';

impl RedisStore {
    /// See [`crate::store::Store::look`].
    pub async fn look(&self, look: &Look) -> Result<Looked, StoreError> {
        let keys = [&self.keys.lease, &self.keys.lock, &self.keys.agents, &self.keys.reports, &self.keys.policies];
        let call = Call { script: &self.scripts.look, keys: keys.map(Clone::clone).into(), arguments: looking(look, false) };
        let sent = Instant::now();
        let looked = looked(self.link.call(&call, self.lease_timeout).await?)?;
        if let Some(shown) = looked.time {
            self.wall.learn(sent, shown);
        }
        if let Some(leased) = &looked.lease {
            self.link.saw_drawn(leased.sight.drawn);
        }
        let held = looked.lock.filter(|lock| lock.holder == Some(look.me));
        *self.ticket.lock() = held.map(|lock| (lock.token, look.me));
        Ok(looked)
    }

    /// See [`crate::store::Store::leave`].
    pub async fn leave(&self, look: &Look) -> Result<(), StoreError> {
        let keys = [&self.keys.lease, &self.keys.lock, &self.keys.agents, &self.keys.reports, &self.keys.policies];
        let call = Call { script: &self.scripts.look, keys: keys.map(Clone::clone).into(), arguments: looking(look, true) };
        self.link.call(&call, self.lease_timeout).await.map(drop)
    }

    /// What a session is opened with: the lock that the agent holds, if any.
    pub(super) fn ticket(&self) -> String {
        self.ticket.lock().map_or_else(|| "-".to_owned(), |(token, me)| format!("{token} {me}"))
    }

    /// See [`crate::store::Store::reports`].
    pub async fn reports(&self, forget: &[AgentId]) -> Result<Vec<(AgentId, String)>, StoreError> {
        let mut query = redis::pipe();
        query.hgetall(&self.keys.reports);
        for id in forget {
            query.hdel(&self.keys.reports, id.to_string()).ignore();
        }
        let all: (BTreeMap<String, String>,) = self.link.query(&query, self.lease_timeout).await?;
        Ok(all.0.into_iter().filter_map(|(id, text)| Some((id.parse().ok()?, text))).collect())
    }

    /// See [`crate::store::Store::shelve`].
    pub async fn shelve(&self, response: Number, tag: &str, sets: &str) -> Result<(), LeaseError> {
        let keys = vec![self.keys.lease.clone(), self.keys.policies.clone()];
        let arguments = vec![response.session.to_string(), response.seq.to_string(), tag.to_owned(), sets.to_owned()];
        let call = Call { script: &self.scripts.shelve, keys, arguments };
        done(self.link.call(&call, self.lease_timeout).await?).map(drop)
    }

    /// See [`crate::store::Store::shelved`].
    pub async fn shelved(&self) -> Result<Option<String>, StoreError> {
        let query: (Option<String>,) = self.link.query(redis::pipe().get(&self.keys.policies), self.lease_timeout).await?;
        Ok(query.0)
    }
}

/// Arguments of `look.lua`.
fn looking(look: &Look, leaves: bool) -> Vec<String> {
    let flag = super::wire::flag;
    let Bid { free, none, challenged, predecessor, gives_back } = look.bid;
    let ends = if leaves {
        "1"
    } else if gives_back {
        "2"
    } else {
        "0"
    };
    let dash = || "-".to_owned();
    vec![
        look.me.to_string(),
        look.name.clone(),
        look.urges.to_string(),
        flag(look.reaches),
        flag(free),
        flag(none),
        challenged.map_or_else(dash, lock_text),
        predecessor.map_or_else(dash, |id| id.to_string()),
        ends.to_owned(),
        look.reports.clone().unwrap_or_default(),
        look.known.map_or_else(dash, |known| format!("{} {} {}", known.applied.session, known.applied.seq, known.nonce)),
    ]
}

/// A lock as the store has it.
fn lock_text(lock: Lock) -> String {
    let holder = lock.holder.map_or_else(|| "-".to_owned(), |id| id.to_string());
    format!("{} {holder} {}", lock.token, lock.beats)
}

fn lock(text: &str) -> Result<Option<Lock>, StoreError> {
    if text == "-" {
        return Ok(None);
    }
    let words: Vec<&str> = text.split(' ').collect();
    let [token, holder, beats] = words.as_slice() else { return Err(unreadable(text)) };
    let number = |word: &str| word.parse().map_err(|_| unreadable(text));
    let holder = match *holder {
        "-" => None,
        id => Some(id.parse().map_err(|_| unreadable(text))?),
    };
    Ok(Some(Lock { token: number(token)?, holder, beats: number(beats)? }))
}

/// The answer of `look.lua`.
fn looked(answer: Vec<String>) -> Result<Looked, StoreError> {
    let (status, mut words) = Words::of(answer)?;
    if status != "seen" {
        return Err(unreadable(&status));
    }
    let time = Some(StoreTime::from_micros(words.number()?));
    let lock = lock(&words.text()?)?;
    let lease = if words.flag()? { Some(leased(&mut words)?) } else { None };
    let count = words.number()?;
    let peers = (0..count).map(|_| peer(&mut words)).collect::<Result<_, _>>()?;
    Ok(Looked { time, lock, lease, peers })
}

fn leased(words: &mut Words) -> Result<Leased, StoreError> {
    let some = |text: String| (text != "-").then_some(text);
    let sight = sight(&words.text()?)?;
    let in_force = policies(&words.text()?)?;
    let shelf = some(words.text()?);
    let renewal = some(words.text()?).map(|text| serde_json::from_str(&text).map_err(|_| unreadable(&text))).transpose()?;
    Ok(Leased { sight, policies: in_force, shelf, renewal })
}

fn peer(words: &mut Words) -> Result<Peer, StoreError> {
    let id = words.text()?;
    let id = id.parse().map_err(|_| unreadable(&id))?;
    Ok(Peer { id, urges: words.number()?, reaches: words.flag()?, name: words.text()? })
}

/// Session, newest number drawn, newest response applied, and nonce.
fn sight(text: &str) -> Result<Sight, StoreError> {
    let numbers: Result<Vec<u64>, _> = text.split(' ').map(str::parse).collect();
    let Ok([session, drawn, applied, nonce]) = numbers.as_deref() else { return Err(unreadable(text)) };
    let number = |seq: &u64| Number { session: *session, seq: *seq };
    Ok(Sight { drawn: number(drawn), applied: number(applied), nonce: *nonce })
}

/// What the answer to a batch begins with.
pub(super) fn shown_sight(word: &str) -> Result<Sight, StoreError> {
    sight(word.strip_prefix(MARK).ok_or_else(|| unreadable(word))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_reads_back_as_written() {
        for held in [Lock { token: 3, holder: Some(AgentId(u64::MAX)), beats: 9 }, Lock { token: 4, holder: None, beats: 0 }] {
            assert_eq!(lock(&lock_text(held)), Ok(Some(held)));
        }
        assert_eq!(lock("-"), Ok(None));
        for bad in ["", "1 2", "x - 1", "1 - 2 3", "1 zz 2"] {
            assert!(lock(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_sight_is_told_from_other_words() {
        let number = |seq| Number { session: 3, seq };
        assert_eq!(shown_sight("@3 8 7 99"), Ok(Sight { drawn: number(8), applied: number(7), nonce: 99 }));
        assert!(shown_sight("@3 8").is_err() && shown_sight("3 8 7 99").is_err());
    }
}
