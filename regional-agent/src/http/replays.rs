//! Answers kept for retries: the same `request_id` gets the first answer and charges nothing.
//!
//! The memory is this process's own: it keeps the last [`MOST_ANSWERS`] ids, each for
//! [`ANSWER_LIFE`], and is gone after a restart. Behind it the region's Redis remembers decisions
//! for all agents ([`crate::store::keep`]). Concurrent requests with one id wait for the
//! first. A decision goes on though the client that asked for it has hung up, so that its retry
//! finds the answer. What was not decided (503) is not kept: a retry is decided anew.
//!
//! Ids are of one caller: the same id of another caller is another id. Of ids and contents only
//! hashes are kept.

use super::answer::Answer;
use super::callers::Caller;
use crate::decide::Request;
use crate::store::keep::Attempt;
use parking_lot::Mutex;
use quorate_limiter::hold::HoldId;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Ids that are remembered; the oldest is forgotten first.
pub const MOST_ANSWERS: usize = 65_536;

/// How long an id is remembered.
pub const ANSWER_LIFE: Duration = Duration::from_secs(60);

/// 128 bits of the hash of a caller and a request id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key([u8; 16]);

impl Key {
    /// The key of this caller's `request_id`.
    pub fn of(caller: Caller, request_id: &str) -> Self {
        let mut hasher = blake3::Hasher::new();
        // none or 32 bytes: no id of one caller reads as that of another
        hasher.update(&[u8::from(!caller.bytes().is_empty())]);
        hasher.update(caller.bytes());
        hasher.update(request_id.as_bytes());
        Self(first_half(&hasher))
    }

    /// The attempt that a request with this content is, for the region's store.
    pub const fn attempt(self, content: Content) -> Attempt {
        Attempt { key: self.0, content: content.0 }
    }
}

/// 128 bits of the hash of what a request asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content([u8; 16]);

impl Content {
    /// The content of `request`.
    pub fn of(request: &Request) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&[u8::from(request.cost.is_some())]);
        hasher.update(&request.cost.unwrap_or_default().0.to_le_bytes());
        hasher.update(&request.reserve.map_or(0, |life| life.as_micros()).to_le_bytes());
        for text in request.attributes.iter().flat_map(|(name, value)| [name, value]) {
            // lengths keep two lists of texts from having one encoding
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        }
        Self(first_half(&hasher))
    }
}

fn first_half(hasher: &blake3::Hasher) -> [u8; 16] {
    let mut bytes = [0; 16];
    hasher.finalize_xof().fill(&mut bytes);
    bytes
}

/// What came of a request.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Decided: the answer holds for every retry.
    Decided(Answer),
    /// Not decided: a retry has another chance.
    Undecided(Answer),
}

impl Outcome {
    /// What to answer this time.
    pub fn answer(self) -> Answer {
        match self {
            Self::Decided(answer) | Self::Undecided(answer) => answer,
        }
    }
}

/// Why a request with an id has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// The id was used for another request.
    OtherContent,
    /// The first request with this id was never answered: its decision panicked.
    Failed,
}

/// The memory. Clones share it.
#[derive(Clone, Debug)]
pub struct Replays {
    kept: Arc<Mutex<Kept>>,
}

impl Default for Replays {
    fn default() -> Self {
        Self::new(MOST_ANSWERS, ANSWER_LIFE)
    }
}

impl Replays {
    /// A memory for `most` ids, each kept for `life`.
    pub fn new(most: usize, life: Duration) -> Self {
        Self { kept: Arc::new(Mutex::new(Kept { most, life, by_key: HashMap::new(), by_age: VecDeque::new(), serial: 0 })) }
    }

    /// The answer to the request `key` with this content: that of the first such request, or
    /// what comes of `deciding` if this is the first. Needs a Tokio runtime.
    ///
    /// # Errors
    /// If the key stands for other content, or the first request failed.
    pub async fn answer(
        &self,
        key: Key,
        content: Content,
        now: Instant,
        deciding: impl Future<Output = Outcome> + Send + 'static,
    ) -> Result<Answer, NoAnswer> {
        let mut answer = match self.turn(key, content, now) {
            Turn::Answered(answer) => return Ok(answer),
            Turn::OtherContent => return Err(NoAnswer::OtherContent),
            Turn::Wait(answer) => answer,
            Turn::First(first, answer) => {
                // on a task of its own: a client that hangs up does not stop it
                tokio::spawn(async move { first.conclude(deciding.await) });
                answer
            }
        };
        let answered = answer.wait_for(Option::is_some).await.map_err(|_| NoAnswer::Failed)?;
        answered.clone().ok_or(NoAnswer::Failed)
    }

    /// The slots that the answer to this request told of, if it is known, and the number of its entry.
    pub fn slots_told(&self, key: Key) -> Option<(HoldId, u64)> {
        match self.kept.lock().by_key.get(&key)? {
            Entry { serial, state: State::Decided(answer), .. } => Some((answer.slot()?, *serial)),
            Entry { state: State::Deciding(_), .. } => None,
        }
    }

    /// Forgets the entry of this number: who asks again is decided anew.
    pub fn forget(&self, key: Key, serial: u64) {
        self.kept.lock().forget(key, serial);
    }

    fn turn(&self, key: Key, content: Content, now: Instant) -> Turn {
        let mut kept = self.kept.lock();
        kept.forget_old(now);
        if let Some(entry) = kept.by_key.get(&key) {
            return match &entry.state {
                _ if entry.content != content => Turn::OtherContent,
                State::Deciding(answer) => Turn::Wait(answer.clone()),
                State::Decided(answer) => Turn::Answered(answer.clone()),
            };
        }
        let (sender, receiver) = watch::channel(None);
        let serial = kept.keep(key, content, State::Deciding(receiver.clone()), now);
        Turn::First(First { replays: self.clone(), key, serial, sender }, receiver)
    }
}

/// What a request with an id is to do.
enum Turn {
    /// It is decided.
    Answered(Answer),
    /// It is another request.
    OtherContent,
    /// It is being decided.
    Wait(watch::Receiver<Option<Answer>>),
    /// It is to be decided now.
    First(First, watch::Receiver<Option<Answer>>),
}

/// The right and the duty to decide a request. Dropped without a conclusion, it makes room for
/// another try.
struct First {
    replays: Replays,
    key: Key,
    serial: u64,
    sender: watch::Sender<Option<Answer>>,
}

impl First {
    fn conclude(self, outcome: Outcome) {
        if let Outcome::Decided(answer) = &outcome
            && let Some(entry) = self.replays.kept.lock().entry(self.key, self.serial)
        {
            entry.state = State::Decided(answer.clone());
        }
        self.sender.send_replace(Some(outcome.answer()));
    }
}

impl Drop for First {
    fn drop(&mut self) {
        let mut kept = self.replays.kept.lock();
        if kept.entry(self.key, self.serial).is_some_and(|entry| matches!(entry.state, State::Deciding(_))) {
            kept.by_key.remove(&self.key);
        }
    }
}

#[derive(Debug)]
struct Kept {
    most: usize,
    life: Duration,
    by_key: HashMap<Key, Entry>,
    /// In the order of arrival. May name entries that are gone: their serial tells.
    by_age: VecDeque<(Instant, Key, u64)>,
    serial: u64,
}

#[derive(Debug)]
struct Entry {
    serial: u64,
    content: Content,
    state: State,
}

#[derive(Debug)]
enum State {
    Deciding(watch::Receiver<Option<Answer>>),
    Decided(Answer),
}

impl Kept {
    fn keep(&mut self, key: Key, content: Content, state: State, now: Instant) -> u64 {
        while self.by_age.len() >= self.most.max(1) {
            self.forget_oldest();
        }
        self.serial += 1;
        self.by_key.insert(key, Entry { serial: self.serial, content, state });
        self.by_age.push_back((now, key, self.serial));
        self.serial
    }

    fn entry(&mut self, key: Key, serial: u64) -> Option<&mut Entry> {
        self.by_key.get_mut(&key).filter(|entry| entry.serial == serial)
    }

    fn forget(&mut self, key: Key, serial: u64) {
        if self.entry(key, serial).is_some() {
            self.by_key.remove(&key);
        }
    }

    fn forget_old(&mut self, now: Instant) {
        while self.by_age.front().is_some_and(|(since, ..)| now.saturating_duration_since(*since) >= self.life) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, key, serial)) = self.by_age.pop_front() {
            self.forget(key, serial);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::problems;
    use std::future::ready;
    use std::sync::atomic::{AtomicBool, Ordering};

    const CONTENT: Content = Content([0; 16]);

    fn key(n: u8) -> Key {
        Key([n; 16])
    }

    fn decided() -> Outcome {
        Outcome::Decided(Answer::problem(problems::quota_exceeded()))
    }

    /// True if the key was new, so that the request was decided.
    async fn is_new(replays: &Replays, n: u8, now: Instant) -> bool {
        let first = Arc::new(AtomicBool::new(false));
        let seen = first.clone();
        let deciding = async move {
            seen.store(true, Ordering::Relaxed);
            decided()
        };
        replays.answer(key(n), CONTENT, now, deciding).await.unwrap();
        first.load(Ordering::Relaxed)
    }

    /// Keys that are known, and places in the order of arrival.
    fn sizes(replays: &Replays) -> (usize, usize) {
        let kept = replays.kept.lock();
        (kept.by_key.len(), kept.by_age.len())
    }

    #[tokio::test]
    async fn an_answer_is_forgotten_after_its_life_and_not_before() {
        let (start, life) = (Instant::now(), Duration::from_secs(60));
        let replays = Replays::new(10, life);
        assert!(is_new(&replays, 1, start).await);
        assert!(!is_new(&replays, 1, start + life - Duration::from_nanos(1)).await);
        assert!(is_new(&replays, 1, start + life).await);
        assert_eq!(sizes(&replays), (1, 1));
    }

    #[tokio::test]
    async fn the_oldest_makes_room() {
        let start = Instant::now();
        let replays = Replays::new(3, Duration::from_secs(60));
        for n in 0..=3 {
            assert!(is_new(&replays, n, start).await);
        }
        assert!(!is_new(&replays, 1, start).await, "of four the last three are kept");
        assert!(is_new(&replays, 0, start).await, "the first was forgotten");
        assert_eq!(sizes(&replays), (3, 3));
    }

    #[tokio::test]
    async fn what_is_not_kept_takes_no_memory() {
        let start = Instant::now();
        let replays = Replays::new(3, Duration::from_secs(60));
        for n in 0..100 {
            let unavailable = ready(Outcome::Undecided(Answer::problem(problems::limiter_unavailable())));
            replays.answer(key(n), CONTENT, start, unavailable).await.unwrap();
        }
        tokio::task::yield_now().await;
        let (keys, places) = sizes(&replays);
        assert!(keys == 0 && places <= 3, "{keys} keys, {places} places");
    }

    #[tokio::test]
    async fn a_late_conclusion_does_not_touch_a_newer_request_with_the_same_key() {
        let (start, life) = (Instant::now(), Duration::from_secs(60));
        let replays = Replays::new(3, life);
        let Turn::First(old, _) = replays.turn(key(1), CONTENT, start) else { panic!("not the first") };
        let Turn::First(new, _) = replays.turn(key(1), CONTENT, start + life) else { panic!("not forgotten") };
        drop(old);
        assert!(matches!(replays.turn(key(1), CONTENT, start + life), Turn::Wait(_)), "still being decided");
        new.conclude(decided());
        assert!(matches!(replays.turn(key(1), CONTENT, start + life), Turn::Answered(_)));
    }

    #[test]
    fn different_requests_have_different_contents() {
        let request = |pairs: &[(&str, &str)], cost: Option<u64>| {
            let attributes = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            Content::of(&Request { attributes, cost: cost.map(quorate_shared::units::MicroTokens), ..Request::default() })
        };
        let contents = [
            request(&[], None),
            request(&[], Some(0)),
            request(&[], Some(1)),
            request(&[("a", "bc")], None),
            request(&[("ab", "c")], None),
            request(&[("a", "b"), ("c", "")], None),
            request(&[("a", ""), ("b", "c")], None),
        ];
        for (i, a) in contents.iter().enumerate() {
            assert!(contents[..i].iter().all(|b| a != b), "{i}");
        }
    }
}
