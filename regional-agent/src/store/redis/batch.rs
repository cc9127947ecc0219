//! Questions in batches: while one call is on its way, those that come meanwhile gather for the next.
//!
//! What questions have in common is then read once, and neither the agent nor the Redis pays for a call of each. Nobody
//! waits for others to come: a question that finds nothing on its way is sent at once.

use super::link::Link;
use super::looks::{MARK, shown_sight};
use super::questions::{self, Asked};
use super::script::Scripts;
use super::wire::unreadable;
use crate::store::StoreError;
use parking_lot::Mutex;
use quorate_limiter::follower::Sight;
use quorate_traces::Joined;
use redis::Value;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::oneshot;
use tracing::{Instrument, Span, info_span};

/// Questions in one batch at most: a longer one would keep the Redis from others.
const MOST_QUESTIONS: usize = 64;

/// Keys of one batch at most, unless a single question has more.
const MOST_KEYS: usize = 256;

/// Batches on their way at most: a second one only if a whole batch waits, so that a Redis that is far is asked enough.
const MOST_FLIGHTS: usize = 8;

/// What is said to one question, and what is shown of the lease.
type Answer = Result<(Value, Option<Sight>), StoreError>;

/// The questions that wait, and the batches that are on their way.
#[derive(Debug)]
pub struct Batches {
    link: Arc<Link>,
    scripts: Arc<Scripts>,
    lease: String,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    flights: usize,
}

/// A question that is not sent yet.
#[derive(Debug)]
struct Waiting {
    asked: Asked,
    until: Instant,
    answer: oneshot::Sender<Answer>,
    span: Span,
}

impl Waiting {
    /// True if somebody still waits for an answer.
    fn is_wanted(&self, now: Instant) -> bool {
        now < self.until && !self.answer.is_closed()
    }
}

impl Queue {
    /// Takes the next batch; what nobody waits for any more is never asked.
    fn take(&mut self, now: Instant) -> Vec<Waiting> {
        let (mut batch, mut keys) = (Vec::with_capacity(self.waiting.len().min(MOST_QUESTIONS)), 0);
        while let Some(next) = self.waiting.pop_front_if(|next| batch.is_empty() || keys + next.asked.keys() <= MOST_KEYS) {
            if !next.is_wanted(now) {
                continue;
            }
            keys += next.asked.keys();
            batch.push(next);
            if batch.len() == MOST_QUESTIONS {
                break;
            }
        }
        batch
    }

    /// True if another batch is to be sent; it then counts as on its way.
    fn takes_off(&mut self) -> bool {
        let due = self.flights == 0 || (self.flights < MOST_FLIGHTS && self.waiting.len() >= MOST_QUESTIONS);
        self.flights += usize::from(due);
        due
    }
}

/// Sends batches until nobody waits.
struct Flight {
    batches: Arc<Batches>,
    landed: bool,
}

impl Flight {
    async fn fly(mut self) {
        while let Some(batch) = self.next() {
            self.batches.send(batch).await;
            // who was just answered, and who is about to ask, comes first: more go together
            tokio::task::yield_now().await;
        }
    }

    /// The next batch; none if nobody waits, and then it has landed: who comes from now on finds nothing on its way.
    fn next(&mut self) -> Option<Vec<Waiting>> {
        let mut queue = self.batches.queue.lock();
        let batch = queue.take(Instant::now());
        if batch.is_empty() {
            queue.flights -= 1;
            self.landed = true;
            return None;
        }
        Some(batch)
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if !self.landed {
            self.batches.queue.lock().flights -= 1;
        }
    }
}

impl Batches {
    /// For the record of this key.
    pub fn new(link: Arc<Link>, scripts: Arc<Scripts>, lease: String) -> Self {
        Self { link, scripts, lease, queue: Mutex::default() }
    }

    /// Asks one question, and waits `until` then for its answer.
    ///
    /// # Errors
    /// After [`StoreError::Timeout`], and after a connection that broke, it may have been charged, or may yet be. Whoever
    /// gives up before does not stop the batch that the question is in.
    pub async fn ask(self: &Arc<Self>, asked: Asked, until: Instant) -> Answer {
        let (answer, answered) = oneshot::channel();
        let takes_off = {
            let mut queue = self.queue.lock();
            queue.waiting.push_back(Waiting { asked, until, answer, span: Span::current() });
            queue.takes_off()
        };
        if takes_off {
            tokio::spawn(Flight { batches: Arc::clone(self), landed: false }.fly());
        }
        // a question that was dropped unasked had run out of its time
        self.link.attempt(until, async { answered.await.unwrap_or(Err(StoreError::Timeout)) }).await
    }

    /// Sends one batch.
    async fn send(&self, batch: Vec<Waiting>) {
        let Some(until) = batch.iter().map(|waiting| waiting.until).max() else { return };
        let span = span_of(&batch);
        let (asked, answers): (Vec<Asked>, Vec<_>) = batch.into_iter().map(|waiting| (waiting.asked, waiting.answer)).unzip();
        let mark = self.link.mark();
        let script = if asked.iter().all(Asked::is_of_buckets) { &self.scripts.decide_buckets } else { &self.scripts.decide };
        let sending = self.link.send(|session| async move {
            let known = session.known(mark);
            let write = |command: &mut redis::Cmd| questions::write(command, &self.lease, &known, &asked);
            session.evaluate(&self.scripts, script, write).await
        });
        let said = tokio::time::timeout_at(until.into(), sending).instrument(span).await.unwrap_or(Err(StoreError::Timeout));
        let said = split(said, answers.len());
        for (answer, said) in answers.into_iter().zip(said) {
            // who has given up needs none
            let _ = answer.send(said);
        }
    }
}

/// A child of what asked first, linked to all that ask.
fn span_of(batch: &[Waiting]) -> Span {
    let mut asking = Joined::default();
    batch.iter().for_each(|waiting| asking.add(&waiting.span));
    let questions = batch.len();
    asking.parent(|first| {
        info_span!(target: quorate_traces::TARGET, parent: first, "batch", otel.kind = "client", db.system.name = "redis", db.operation.batch.size = questions)
    })
}

/// What is said to each of so many questions.
fn split(said: Result<Value, StoreError>, questions: usize) -> Vec<Answer> {
    match said.and_then(|value| read(value, questions)) {
        Ok(answers) => answers.into_iter().map(Ok).collect(),
        Err(error) => vec![Err(error); questions],
    }
}

/// The answer of `decide.lua`: what it shows of the lease, and what it says to each; or one thing to all.
fn read(value: Value, questions: usize) -> Result<Vec<(Value, Option<Sight>)>, StoreError> {
    let Value::Array(mut answers) = value else { return Err(unreadable(&format!("{value:?}"))) };
    let first: String = answers.first().and_then(|first| redis::from_redis_value_ref(first).ok()).unwrap_or_default();
    if !first.starts_with(MARK) {
        return Ok(vec![(Value::Array(answers), None); questions]);
    }
    let sight = shown_sight(&first)?;
    answers.remove(0);
    match answers.len() == questions {
        true => Ok(answers.into_iter().map(|answer| (answer, Some(sight))).collect()),
        false => Err(unreadable(&format!("{} answers to {questions} questions", answers.len()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(all: &[&str]) -> Value {
        Value::Array(all.iter().map(|text| Value::BulkString(text.as_bytes().to_vec())).collect())
    }

    #[test]
    fn each_question_gets_its_own_answer_and_what_concerns_all_goes_to_all() {
        let each = read(texts(&["@3 8 7 99", "A", "R"]), 2).expect("both");
        assert_eq!(
            each.iter().map(|(said, _)| said.clone()).collect::<Vec<_>>(),
            [Value::BulkString(b"A".into()), Value::BulkString(b"R".into())]
        );
        assert!(each.iter().all(|(_, sight)| sight.is_some_and(|sight| sight.nonce == 99)));
        assert_eq!(read(texts(&["no-record"]), 2), Ok(vec![(texts(&["no-record"]), None); 2]));
    }

    #[test]
    fn answers_that_are_too_few_or_none_are_nobodys() {
        for bad in [texts(&["@3 8 7 99", "A"]), texts(&["@3 8"]), Value::Nil, Value::Int(1)] {
            assert!(matches!(read(bad, 2), Err(StoreError::Refused(_))));
        }
        assert_eq!(split(Err(StoreError::Timeout), 2), [Err(StoreError::Timeout), Err(StoreError::Timeout)]);
    }
}
