//! Keys, arguments and answers of the scripts. Numbers travel as decimal text, both ways; but for questions
//! ([`super::questions`], [`super::answers`]).

use crate::store::keep::Hash;
use crate::store::{LeaseError, StoreError};
use quorate_limiter::bucket::{Period, exact};
use quorate_limiter::excess::ExcessBook;
use quorate_limiter::hold::HoldId;
use quorate_limiter::record::{Finish, FloorTerms, HoldingsChange, Opening, Refusal, Settlement};
use quorate_shared::heartbeat::{Grant, Holding, Number, PoliciesInForce, Stamp};
use quorate_shared::names::{BudgetId, PolicyName, RegionName};
use quorate_shared::policy::{Limit, Shape};
use quorate_shared::time::{Drift, StoreTime};
use quorate_shared::units::{Capacity, MAX_EXACT, MicroTokens};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

/// Bytes of a budget as text at most, but its policy: a generation, a subject, and what stands between.
const LONGEST_OF_BUDGET: usize = 20 + 32 + 2;

/// The keys of one region. `{REGION}` puts them all in one slot of a cluster.
#[derive(Debug)]
pub struct Keys {
    /// The lease record.
    pub lease: String,
    /// The seats of the region's agents.
    pub seats: String,
    /// Of who renews.
    pub lock: String,
    /// The region's agents.
    pub agents: String,
    /// What each of them has to report.
    pub reports: String,
    /// The policy sets that they share.
    pub policies: String,
    buckets: String,
    holds: String,
    slots: String,
    attempts: String,
}

impl Keys {
    /// Of `region`.
    pub fn new(region: &RegionName) -> Self {
        let of = |what: &str| format!("quorate:{{{region}}}:{what}");
        let [lock, agents, reports, policies] = ["renewer", "agents", "reports", "policies"].map(of);
        let [buckets, holds, slots, attempts] = ["bucket:", "hold:", "slot:", "attempt"].map(of);
        Self { lease: of("lease"), seats: of("seats"), lock, agents, reports, policies, buckets, holds, slots, attempts }
    }

    /// Of one hold.
    pub fn hold(&self, id: HoldId) -> String {
        format!("{}{id}", self.holds)
    }

    /// Of what was taken by one id.
    pub fn slot(&self, id: HoldId) -> String {
        format!("{}{id}", self.slots)
    }

    /// Of the answer to one attempt.
    pub fn attempt(&self, key: &Hash) -> String {
        format!("{}:{}", self.attempts, hex(key))
    }

    /// Of the number of attempts that are remembered.
    pub fn tally(&self) -> String {
        format!("{}s", self.attempts)
    }

    /// Of the bucket of one budget.
    pub fn bucket(&self, budget: &BudgetId) -> String {
        let mut key = String::with_capacity(self.buckets.len() + budget.policy.as_str().len() + LONGEST_OF_BUDGET);
        key.push_str(&self.buckets);
        push_budget(&mut key, budget);
        key
    }

    /// The record and these buckets.
    pub fn lease_and<'a>(&self, budgets: impl Iterator<Item = &'a BudgetId>) -> Vec<String> {
        std::iter::once(self.lease.clone()).chain(budgets.map(|budget| self.bucket(budget))).collect()
    }
}

/// A budget as keys and fields spell it; what the scripts take apart again.
pub fn budget_text(budget: &BudgetId) -> String {
    let mut text = String::new();
    push_budget(&mut text, budget);
    text
}

fn push_budget(text: &mut String, budget: &BudgetId) {
    text.push_str(budget.policy.as_str());
    // a String takes all that is written to it
    let _ = write!(text, ":{}:{}", budget.generation, budget.subject);
}

/// Policy sets in force as the record spells them; only ever compared.
pub fn policies_text(policies: PoliciesInForce) -> String {
    let versions = [Some(policies.active), policies.next, policies.also];
    versions.iter().flatten().map(u64::to_string).collect::<Vec<_>>().join(" ")
}

/// A holding as the record spells it: pool, lent, and each loan with its lender.
pub fn holding_text(holding: &Holding) -> String {
    let pair = |part: Capacity| format!("{} {}", exact(part).rate.0, exact(part).burst.0);
    let loans = holding.borrowed.iter().filter(|(_, loan)| !loan.is_zero());
    let mut words = vec![pair(holding.pool), pair(holding.lent)];
    words.extend(loans.map(|(lender, loan)| format!("{lender} {}", pair(*loan))));
    words.join(" ")
}

pub fn hex(hash: &Hash) -> String {
    format!("{:032x}", u128::from_be_bytes(*hash))
}

/// A truth value as scripts read it.
pub fn flag(value: bool) -> String {
    u8::from(value).to_string()
}

/// 10^6 less the drift: what is kept of a rate.
pub fn keep(drift: Drift) -> String {
    (1_000_000 - drift.ppm()).to_string()
}

/// Lenders whose promise stands, as ` eu us `.
pub fn lenders(standing: &BTreeSet<RegionName>) -> String {
    standing.iter().fold(" ".to_owned(), |text, lender| text + lender.as_str() + " ")
}

fn capacity(part: Capacity) -> [String; 2] {
    [exact(part).rate.0.to_string(), exact(part).burst.0.to_string()]
}

fn number(number: Number) -> [String; 2] {
    [number.session.to_string(), number.seq.to_string()]
}

fn period(limit: Limit) -> String {
    Period::of(limit).as_micros().to_string()
}

/// Arguments of `open.lua`.
pub fn opening(opening: &Opening) -> Vec<String> {
    vec![opening.session.to_string(), flag(opening.burn), policies_text(opening.policies), opening.nonce.to_string()]
}

/// Arguments of `take.lua`.
pub fn taken(response: Number) -> Vec<String> {
    number(response).into()
}

/// Arguments of `write.lua`, for some of the settlements of `change`.
pub fn holdings(change: &HoldingsChange, settlements: &[Settlement]) -> Vec<String> {
    let view = &change.view;
    let mut words: Vec<String> = number(change.number).into();
    words.extend([flag(view.leased), flag(view.whole_floor), keep(change.drift), lenders(&view.standing_lenders)]);
    words.extend(settlements.iter().flat_map(settlement));
    words
}

fn settlement(settlement: &Settlement) -> impl Iterator<Item = String> {
    let unknown = || ["0".to_owned(), "0".to_owned()];
    let (period, floor, lendable) = match settlement.standing {
        None => ("0".to_owned(), unknown(), unknown()),
        Some(FloorTerms { limit, floor, lendable }) if limit.shape() == Shape::Flow => (period(limit), capacity(floor), capacity(lendable)),
        // nothing refills: what counts is compared with what is held at each question
        Some(_) => ("0".to_owned(), unknown(), unknown()),
    };
    [holding_text(&settlement.holding), period].into_iter().chain(floor).chain(lendable)
}

/// Arguments of `grant.lua`, for some of the grants of a change.
pub fn grants(response: Number, grants: &[Grant]) -> Vec<String> {
    let mut words: Vec<String> = number(response).into();
    let units = |units: MicroTokens| units.0.min(MAX_EXACT).to_string();
    words.extend(grants.iter().flat_map(|grant| {
        let label = grant.label.start().as_micros().to_string();
        [budget_text(&grant.budget), label, units(grant.granted), units(grant.used_at_most)]
    }));
    words
}

/// Arguments of `finish.lua`.
pub fn finish(finish: &Finish) -> Result<Vec<String>, StoreError> {
    let Stamp { number: response, office, at } = finish.stamp;
    let mut words: Vec<String> = number(response).into();
    words.push(format!("{} {} {}", office.term, office.process, at.as_micros()));
    words.push(policies_text(finish.policies));
    words.extend([finish.full, finish.genesis, finish.lapsed].map(flag));
    words.push(serde_json::to_string(&finish.renewal).map_err(|e| unreadable(&e.to_string()))?);
    words.push(finish.clock_at_least.as_micros().to_string());
    words.push(finish.named.as_ref().map_or_else(|| "-".to_owned(), named));
    for changed in &finish.changed {
        words.push(format!("{}:{}", changed.policy, changed.generation));
        words.extend(capacity(changed.former));
        words.extend([changed.slows, changed.anew].map(flag));
    }
    Ok(words)
}

fn named(policies: &BTreeSet<(PolicyName, u64)>) -> String {
    policies.iter().map(|(policy, generation)| format!("{policy}:{generation} ")).collect()
}

/// An answer, word by word.
pub struct Words {
    rest: std::vec::IntoIter<String>,
}

impl Words {
    /// The first word of an answer, and the others.
    pub fn of(answer: Vec<String>) -> Result<(String, Self), StoreError> {
        let mut words = Self { rest: answer.into_iter() };
        Ok((words.text()?, words))
    }

    /// A word.
    pub fn text(&mut self) -> Result<String, StoreError> {
        self.rest.next().ok_or_else(|| unreadable("an answer that is too short"))
    }

    /// A number.
    pub fn number(&mut self) -> Result<u64, StoreError> {
        let text = self.text()?;
        text.parse().map_err(|_| unreadable(&text))
    }

    /// The id of a hold, or none.
    pub fn hold(&mut self) -> Result<Option<HoldId>, StoreError> {
        match self.text()?.as_str() {
            "-" => Ok(None),
            id => id.parse().map(Some).map_err(|_| unreadable(id)),
        }
    }

    /// A truth value.
    pub fn flag(&mut self) -> Result<bool, StoreError> {
        Ok(self.number()? == 1)
    }

    /// An instant.
    pub fn instant(&mut self) -> Result<StoreTime, StoreError> {
        self.number().map(StoreTime::from_micros)
    }

    /// An instant, or `-` for none.
    pub fn maybe_instant(&mut self) -> Result<Option<StoreTime>, StoreError> {
        let text = self.text()?;
        if text == "-" { Ok(None) } else { text.parse().map(|n| Some(StoreTime::from_micros(n))).map_err(|_| unreadable(&text)) }
    }

    /// An amount.
    pub fn micro_tokens(&mut self) -> Result<MicroTokens, StoreError> {
        self.number().map(MicroTokens)
    }

    /// What was used beyond limits.
    pub fn excesses(&mut self) -> Result<ExcessBook, StoreError> {
        let text = self.text()?;
        ExcessBook::parse(&text).map_err(|_| unreadable(&text))
    }

    /// Microseconds.
    pub fn span(&mut self) -> Result<Duration, StoreError> {
        self.number().map(Duration::from_micros)
    }
}

/// What cannot be read.
pub fn unreadable(what: &str) -> StoreError {
    StoreError::Refused(format!("unreadable: {what}"))
}

/// The answer of a lease operation that has nothing more to say than that it was done.
pub fn done(answer: Vec<String>) -> Result<Words, LeaseError> {
    let (status, mut words) = Words::of(answer)?;
    match status.as_str() {
        "done" => Ok(words),
        "superseded" => {
            let taken = Number { session: words.number()?, seq: words.number()? };
            Err(Refusal::Superseded { taken }.into())
        }
        "no-record" => Err(Refusal::NoRecord.into()),
        "not-elected" => Err(LeaseError::NotElected),
        other => Err(unreadable(other).into()),
    }
}

/// Reads what [`policies_text`] wrote.
pub fn policies(text: &str) -> Result<PoliciesInForce, StoreError> {
    let mut numbers = text.split(' ').map(|word| word.parse().map_err(|_| unreadable(text)));
    let active = numbers.next().ok_or_else(|| unreadable(text))??;
    Ok(PoliciesInForce { active, next: numbers.next().transpose()?, also: numbers.next().transpose()? })
}
