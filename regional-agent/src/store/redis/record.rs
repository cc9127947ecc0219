//! The lease record as `HGETALL` gives it.

use super::wire::{policies, unreadable};
use crate::store::StoreError;
use quorate_limiter::bucket::{Change, Slowed};
use quorate_limiter::record::{Granted, Record};
use quorate_shared::heartbeat::{Holding, Number, Office, Stamp};
use quorate_shared::names::{BudgetId, PolicyName};
use quorate_shared::time::{LeaderTime, StoreTime, WindowLabel};
use quorate_shared::units::{Capacity, MicroTokens};
use std::collections::BTreeMap;
use std::str::FromStr;

/// Reads a record; none if there is no such key.
pub fn record(fields: &BTreeMap<String, String>) -> Result<Option<Record>, StoreError> {
    let Some(session) = fields.get("session") else { return Ok(None) };
    let session = value(session)?;
    let text = |name: &str| fields.get(name).map(String::as_str).ok_or_else(|| unreadable(&format!("a record without {name}")));
    let instant = |name: &str| fields.get(name).map(|text| value(text).map(StoreTime::from_micros)).transpose();
    let mut record = Record {
        session,
        nonce: value(text("nonce")?)?,
        seq: value(text("seq")?)?,
        taken: Number { session, seq: value(text("taken")?)? },
        applied: fields.get("applied").map(|text| stamp(session, text)).transpose()?,
        renewal: fields.get("renewal").map(|text| serde_json::from_str(text).map_err(|_| unreadable(text))).transpose()?,
        policies: policies(text("policies")?)?,
        epoch: value(text("epoch")?)?,
        renewed_at: instant("renewed_at")?,
        emptied_at: instant("emptied_at")?,
        burnt: text("burnt")? == "1",
        lost_at: instant("lost_at")?,
        clock: instant("clock")?.unwrap_or_default(),
        store: text("store")?.to_owned(),
        ..Record::default()
    };
    for (name, text) in fields {
        if let Some(id) = name.strip_prefix("b:") {
            record.holdings.insert(budget(id)?, holding(text)?);
        } else if let Some(id) = name.strip_prefix("c:") {
            record.changes.insert(policy(id)?, change(text)?);
        } else if let Some(window) = name.strip_prefix("g:") {
            record.grants.insert(window_of(window)?, granted(text)?);
        }
    }
    Ok(Some(record))
}

fn value<T: FromStr>(text: &str) -> Result<T, StoreError> {
    text.parse().map_err(|_| unreadable(text))
}

fn split<const N: usize>(text: &str, by: char) -> Result<[&str; N], StoreError> {
    let parts: Vec<&str> = text.split(by).collect();
    parts.try_into().map_err(|_| unreadable(text))
}

fn stamp(session: u64, text: &str) -> Result<Stamp, StoreError> {
    let [seq, term, process, at] = split(text, ' ')?;
    Ok(Stamp {
        number: Number { session, seq: value(seq)? },
        office: Office { term: value(term)?, process: value(process)? },
        at: LeaderTime::from_micros(value(at)?),
    })
}

/// A budget as the record and keys spell it.
pub fn budget(text: &str) -> Result<BudgetId, StoreError> {
    let [policy, generation, subject] = split(text, ':')?;
    Ok(BudgetId { policy: value(policy)?, generation: value(generation)?, subject: value(subject)? })
}

fn window_of(text: &str) -> Result<(BudgetId, WindowLabel), StoreError> {
    let (id, start) = text.rsplit_once(':').ok_or_else(|| unreadable(text))?;
    Ok((budget(id)?, WindowLabel::beginning_at(StoreTime::from_micros(value(start)?))))
}

fn granted(text: &str) -> Result<Granted, StoreError> {
    let [units, used_at_most] = split(text, ' ')?;
    Ok(Granted { units: MicroTokens(value(units)?), used_at_most: MicroTokens(value(used_at_most)?) })
}

fn policy(text: &str) -> Result<(PolicyName, u64), StoreError> {
    let [policy, generation] = split(text, ':')?;
    Ok((value(policy)?, value(generation)?))
}

fn capacity(rate: &str, burst: &str) -> Result<Capacity, StoreError> {
    Ok(Capacity::new(MicroTokens(value(rate)?), MicroTokens(value(burst)?)))
}

fn holding(text: &str) -> Result<Holding, StoreError> {
    let words: Vec<&str> = text.split(' ').collect();
    let [pool_rate, pool_burst, lent_rate, lent_burst, loans @ ..] = words.as_slice() else { return Err(unreadable(text)) };
    let (loans, []) = loans.as_chunks::<3>() else { return Err(unreadable(text)) };
    let loan = |[lender, rate, burst]: &[&str; 3]| Ok((value(lender)?, capacity(rate, burst)?));
    Ok(Holding {
        pool: capacity(pool_rate, pool_burst)?,
        lent: capacity(lent_rate, lent_burst)?,
        borrowed: loans.iter().map(loan).collect::<Result<_, StoreError>>()?,
    })
}

fn change(text: &str) -> Result<Change, StoreError> {
    let [at, rate, burst, slowed, anew_at] = split(text, ' ')?;
    let at = StoreTime::from_micros(value(at)?);
    let instant = |text| if text == "-" { Ok(None) } else { value(text).map(StoreTime::from_micros).map(Some) };
    Ok(Change { at, former: capacity(rate, burst)?, slowed: slowed_between(slowed, at)?, anew_at: instant(anew_at)? })
}

/// When refills were slowed for the first and for the last time; of an older record only the first is known.
fn slowed_between(text: &str, change: StoreTime) -> Result<Option<Slowed>, StoreError> {
    let instant = |text| value(text).map(StoreTime::from_micros);
    Ok(match text.split_once(',') {
        _ if text == "-" => None,
        Some((first, last)) => Some(Slowed { first: instant(first)?, last: instant(last)? }),
        None => Some(Slowed { first: instant(text)?, last: change }),
    })
}

#[cfg(test)]
mod tests {
    use super::super::wire::{budget_text, holding_text, policies_text};
    use super::*;
    use quorate_shared::heartbeat::PoliciesInForce;

    #[test]
    fn a_holding_reads_back_as_written() {
        let part = |rate, burst| Capacity::new(MicroTokens(rate), MicroTokens(burst));
        let most = quorate_shared::units::MAX_EXACT;
        let loans = [("eu", part(1, 2)), ("us-2", part(most, most))].map(|(name, loan)| (name.parse().expect("a name"), loan));
        let full = Holding { pool: part(3, 4), lent: part(5, 6), borrowed: loans.into() };
        assert_eq!(holding(&holding_text(&full)), Ok(full));
        assert_eq!(holding_text(&Holding::default()), "0 0 0 0");
        for bad in ["", "0 0 0", "0 0 0 0 eu", "0 0 0 0 eu 1", "0 0 0 x", "0 0 0 0 EU 1 1"] {
            assert!(holding(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_and_versions_read_back_as_written() {
        let id =
            BudgetId { policy: "write-api".parse().expect("a name"), generation: 12, subject: "0".repeat(32).parse().expect("a hash") };
        assert_eq!(budget(&budget_text(&id)), Ok(id));
        for next in [None, Some(8)] {
            let in_force = PoliciesInForce { active: 7, next, also: None };
            assert_eq!(policies(&policies_text(in_force)), Ok(in_force));
        }
    }

    #[test]
    fn a_record_with_a_part_missing_is_no_record_and_no_absence() {
        let fields = BTreeMap::from([("session".to_owned(), "3".to_owned())]);
        assert!(matches!(record(&fields), Err(StoreError::Refused(_))));
        assert_eq!(record(&BTreeMap::new()), Ok(None));
    }
}
