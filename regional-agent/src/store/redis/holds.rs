//! Holds in Redis: settling what a decision keeps beside its charges.
//!
//! A hold is settled in two steps. It is read first, since it names the keys that it was charged to and a script
//! may touch no key that it was not told of. The script goes on only if the hold is still as it was read, and
//! leaves the answer in its place, for a repeated settlement. What is there to pay for more than an estimate the asker
//! tells by its lease as it is after the reading, and until when by the clock that was read with the hold: a script that
//! comes too late finds nothing there.

use super::record::budget;
use super::session::Call;
use super::wire::{self, Words, unreadable};
use super::{RedisStore, left, shares};
use crate::store::StoreError;
use crate::store::keep::Attempt;
use quorate_limiter::hold::{Grounds, HoldId, SettleReply, Settled};
use quorate_shared::names::BudgetId;
use quorate_shared::policy::Shape;
use quorate_shared::units::{MAX_EXACT, MicroTokens};
use std::time::Instant;

/// How often a settlement begins anew because another one came in between: that one has settled the hold.
const TRIES: usize = 2;

impl RedisStore {
    /// See [`crate::store::Store::settle`].
    pub async fn settle(
        &self,
        hold: HoldId,
        cost: MicroTokens,
        grounds: impl Fn(Vec<BudgetId>) -> Option<Grounds>,
    ) -> Result<SettleReply, StoreError> {
        let _place = self.link.admit()?;
        let until = Instant::now() + self.decision_timeout;
        let key = self.keys.hold(hold);
        for _ in 0..TRIES {
            let read = redis::pipe().cmd("TIME").get(&key).to_owned();
            let (shown, text): ((u64, u64), Option<String>) = self.link.query(&read, left(until)).await?;
            let Some(text) = text else { return Ok(SettleReply::Ended) };
            if let Some(settled) = settled(&text)? {
                return Ok(SettleReply::Settled(settled));
            }
            if let Some(most) = most(&text)?.filter(|most| cost > *most) {
                return Ok(SettleReply::Beyond(most));
            }
            let keys = self.charged_keys(&key, &text);
            let grounds = ground_words(shown, &text, &grounds)?;
            let call = Call { script: &self.scripts.settle, keys, arguments: [vec![text, cost.0.to_string()], grounds].concat() };
            let (status, mut words) = Words::of(self.link.call(&call, left(until)).await?)?;
            match status.as_str() {
                "settled" => return Ok(SettleReply::Settled(outcome(&mut words)?)),
                "no-record" => return Ok(SettleReply::NoRecord),
                "changed" => {}
                other => return Err(unreadable(other)),
            }
        }
        Ok(SettleReply::Ended)
    }

    /// See [`crate::store::Store::release`].
    pub async fn release(&self, slot: HoldId) -> Result<bool, StoreError> {
        let _place = self.link.admit()?;
        let until = Instant::now() + self.decision_timeout;
        let key = self.keys.slot(slot);
        let query: (Option<String>,) = self.link.query(redis::pipe().get(&key), left(until)).await?;
        let Some(text) = query.0 else { return Ok(false) };
        let keys = self.charged_keys(&key, &text);
        let call = Call { script: &self.scripts.release, keys, arguments: vec![text] };
        let (status, mut words) = Words::of(self.link.call(&call, left(until)).await?)?;
        match status.as_str() {
            "released" => words.flag(),
            // another one was faster
            "changed" => Ok(false),
            "no-record" => Err(StoreError::Unreachable("no session with the store yet".into())),
            other => Err(unreadable(other)),
        }
    }

    /// See [`crate::store::Store::holds`].
    pub async fn holds(&self, slot: HoldId, attempt: &Attempt, until: Instant) -> Result<bool, StoreError> {
        let key = self.keys.slot(slot);
        let query: (Option<String>,) = self.link.query(redis::pipe().get(&key), left(until)).await?;
        let text = query.0.unwrap_or_default();
        let mut keys = self.charged_keys(&key, &text);
        keys.insert(2, self.keys.attempt(&attempt.key));
        let call = Call { script: &self.scripts.held, keys, arguments: vec![text, slot.to_string()] };
        let (status, mut words) = Words::of(self.link.call(&call, left(until)).await?)?;
        match status.as_str() {
            "held" => words.flag(),
            "no-record" => Ok(false),
            other => Err(unreadable(other)),
        }
    }

    /// The record, what is held, and every key that it names.
    fn charged_keys(&self, key: &str, text: &str) -> Vec<String> {
        [self.keys.lease.as_str(), key].into_iter().chain(charged(text)).map(str::to_owned).collect()
    }
}

/// The keys that a hold names.
fn charged(text: &str) -> impl Iterator<Item = &str> {
    text.lines().skip(1).filter_map(|line| line.split(' ').next())
}

/// By what the asker tells what is there, for `settle.lua`; `shown` is what the clock showed before it was asked.
fn ground_words(shown: (u64, u64), text: &str, grounds: impl Fn(Vec<BudgetId>) -> Option<Grounds>) -> Result<Vec<String>, StoreError> {
    let budgets = charged(text).map(|key| budget(key.rsplit_once(":bucket:").map_or(key, |(_, budget)| budget)));
    let budgets: Vec<BudgetId> = budgets.collect::<Result<_, _>>()?;
    let count = budgets.len();
    let nothing = || vec![["-"; 5].map(str::to_owned).to_vec(); count].concat();
    let Some(grounds) = grounds(budgets.clone()) else {
        return Ok([["0"; 7].map(str::to_owned).to_vec(), nothing()].concat());
    };
    let (question, view) = (&grounds.question, &grounds.question.view);
    let holds_for = u64::try_from(grounds.holds_for().as_micros()).unwrap_or(MAX_EXACT).min(MAX_EXACT);
    let mut words = vec![
        (shown.0 * 1_000_000 + shown.1).to_string(),
        holds_for.to_string(),
        format!("{}:{}", view.number.session, view.nonce),
        view.number.seq.to_string(),
        wire::policies_text(view.policies),
        wire::flag(view.leased),
        wire::flag(view.whole_floor),
    ];
    for budget in &budgets {
        let charge = question.charges.iter().find(|charge| charge.budget == *budget && charge.limit.shape() == Shape::Share);
        match charge.filter(|charge| !question.has_ended(charge)) {
            Some(charge) => words.extend(shares::terms(charge, view, question.drift)),
            None => words.extend(["-"; 5].map(str::to_owned)),
        }
    }
    Ok(words)
}

/// The greatest true cost of a hold; none of one that was kept before there was any.
fn most(text: &str) -> Result<Option<MicroTokens>, StoreError> {
    let Some((_, most)) = text.lines().next().and_then(|first| first.split_once(' ')) else { return Ok(None) };
    most.parse().map(|most| Some(MicroTokens(most))).map_err(|_| unreadable(text))
}

/// What came of a hold that is settled.
fn settled(text: &str) -> Result<Option<Settled>, StoreError> {
    let Some(words) = text.strip_prefix("settled ") else { return Ok(None) };
    let (first, mut words) = Words::of(std::iter::once("").chain(words.split(' ')).map(str::to_owned).collect())?;
    debug_assert!(first.is_empty());
    outcome(&mut words).map(Some)
}

fn outcome(words: &mut Words) -> Result<Settled, StoreError> {
    Ok(Settled { cost: words.micro_tokens()?, returned: words.micro_tokens()?, owed: words.micro_tokens()? })
}
