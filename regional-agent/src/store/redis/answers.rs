//! What `decide.lua` says to one question: bytes if there are only buckets and nothing special about them, else words.

use super::shares;
use super::windows::{self, Told};
use super::wire::{Words, policies, unreadable};
use crate::store::StoreError;
use crate::store::keep::{Again, Keep, Said};
use quorate_limiter::bucket::{Fill, Period, Standing};
use quorate_limiter::decision::{Charge, Decision, LimitDecision, Question, Reply};
use quorate_shared::heartbeat::Number;
use quorate_shared::policy::Limit;
use quorate_shared::units::{Capacity, MicroTokens};
use redis::Value;
use std::time::Duration;

/// Bytes of one charge: rate, burst and shortened rate, whether they rest on a lease; whether it fits, level, fraction.
const CHARGE: usize = 3 * 7 + 1 + 1 + 7 + 5;

/// What is said to a question.
pub fn said(question: &Question, keep: &Keep, answer: Value) -> Result<Told<Said>, StoreError> {
    match answer {
        Value::BulkString(bytes) => {
            let reply = Reply::Decided(of_buckets(question, &bytes)?);
            Ok(Told::Right(Said::First { reply, remembered: true }))
        }
        words => said_in_words(question, keep, redis::from_redis_value(words).map_err(|error| unreadable(&error.to_string()))?),
    }
}

fn of_buckets(question: &Question, bytes: &[u8]) -> Result<Decision, StoreError> {
    let short = || unreadable("bytes of another length");
    let (status, rest) = bytes.split_first().ok_or_else(short)?;
    let allowed = match status {
        b'A' => true,
        b'R' => false,
        _ => return Err(unreadable("bytes that say neither yes nor no")),
    };
    let (charges, []) = rest.as_chunks::<CHARGE>() else { return Err(short()) };
    if charges.len() != question.charges.len() {
        return Err(short());
    }
    let limits = question.charges.iter().zip(charges).map(|(charge, bytes)| of_bucket(charge, bytes)).collect();
    Ok(Decision { allowed, limits })
}

fn of_bucket(charge: &Charge, bytes: &[u8; CHARGE]) -> LimitDecision {
    let number = |from: usize, to: usize| bytes[from..to].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let amount = |from| MicroTokens(number(from, from + 7));
    let standing = Standing {
        fits: bytes[22] == 1,
        capacity: Capacity::new(amount(0), amount(7)),
        rate: amount(14),
        fill: Fill { level: amount(23), fraction: number(30, 35) },
        used_lease: bytes[21] == 1,
        ..Standing::default()
    };
    standing.decision(charge.cost, Period::of(charge.limit))
}

fn said_in_words(question: &Question, keep: &Keep, answer: Vec<String>) -> Result<Told<Said>, StoreError> {
    let (status, mut words) = Words::of(answer)?;
    if status == "other-window" {
        return Ok(Told::OtherWindow(words.instant()?));
    }
    decided(question, keep, &status, words).map(Told::Right)
}

fn decided(question: &Question, keep: &Keep, status: &str, mut words: Words) -> Result<Said, StoreError> {
    let first = |reply| Said::First { reply, remembered: true };
    match status {
        "decided" => {
            let reply = Reply::Decided(decision(question, &mut words)?);
            Ok(Said::First { reply, remembered: keep.attempt.is_none() || words.flag()? })
        }
        "repeated" => again(question, &mut words).map(Said::Again),
        "other-content" => Ok(Said::OtherContent),
        "other-policies" => Ok(first(Reply::OtherPolicies(policies(&words.text()?)?))),
        "other-lease" => Ok(first(Reply::OtherLease(Number { session: words.number()?, seq: words.number()? }))),
        "no-record" => Ok(first(Reply::NoRecord)),
        "failed" => Err(StoreError::Refused(words.text()?)),
        other => Err(unreadable(other)),
    }
}

fn decision(question: &Question, words: &mut Words) -> Result<Decision, StoreError> {
    let allowed = words.flag()?;
    let limit = |charge: &Charge| match question.has_ended(charge) {
        true => Ok(LimitDecision { fits: words.flag()?, ..LimitDecision::ended(charge.cost) }),
        false => limit_decision(charge, words),
    };
    let limits: Result<_, _> = question.charges.iter().map(limit).collect();
    Ok(Decision { allowed, limits: limits? })
}

fn again(question: &Question, words: &mut Words) -> Result<Again, StoreError> {
    let same_charges = words.flag()?;
    let (hold, slot) = (words.hold()?, words.hold()?);
    match same_charges {
        true => decision(question, words).map(|decision| Again { hold, slot, allowed: decision.allowed, decision: Some(decision) }),
        false => Ok(Again { hold, slot, allowed: words.flag()?, decision: None }),
    }
}

fn limit_decision(charge: &Charge, words: &mut Words) -> Result<LimitDecision, StoreError> {
    match charge.limit {
        Limit::SlidingLog { .. } | Limit::Concurrency { .. } => shares::log_decision(charge, words),
        Limit::SlidingWindow { window, .. } => shares::sliding_decision(charge, window, words),
        Limit::FixedWindow { .. } => windows::decision(charge, words),
        Limit::TokenBucket { .. } => bucket_decision(charge, words),
    }
}

fn bucket_decision(charge: &Charge, words: &mut Words) -> Result<LimitDecision, StoreError> {
    let standing = Standing {
        fits: words.flag()?,
        capacity: Capacity::new(words.micro_tokens()?, words.micro_tokens()?),
        rate: words.micro_tokens()?,
        fill: Fill { level: words.micro_tokens()?, fraction: words.number()? },
        used_lease: words.flag()?,
        ..Standing::default()
    };
    let more = words.text()?;
    let standing = if more == "-" { standing } else { with_estimates(standing, &more)? };
    Ok(standing.decision(charge.cost, Period::of(charge.limit)))
}

fn with_estimates(standing: Standing, text: &str) -> Result<Standing, StoreError> {
    let numbers: Result<Vec<u64>, _> = text.split(' ').map(str::parse).collect();
    let Ok([out, room_in, slow, settled_in]) = numbers.as_deref() else { return Err(unreadable(text)) };
    let [room_in, slow, settled_in] = [room_in, slow, settled_in].map(|micros| Duration::from_micros(*micros));
    Ok(Standing { out: MicroTokens(*out), room_in, slow, settled_in, ..standing })
}
