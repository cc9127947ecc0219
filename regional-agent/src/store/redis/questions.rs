//! Questions on the way to `decide.lua`: many in one call, each distinct part of them once.

use super::shares;
use super::windows;
use super::wire::{self, Keys};
use crate::store::keep::{Hash, Keep};
use quorate_limiter::bucket::{Period, exact};
use quorate_limiter::decision::{Charge, LeaseView, Question};
use quorate_limiter::hold::NewHold;
use quorate_shared::heartbeat::{Number, PoliciesInForce};
use quorate_shared::names::PolicyName;
use quorate_shared::policy::Limit;
use quorate_shared::time::{Drift, StoreTime};
use quorate_shared::units::{Capacity, MAX_EXACT};
use redis::Cmd;

/// Charges of one question at most, as its bytes tell them.
const MOST_CHARGES: usize = u8::MAX as usize;

/// A question as it is sent.
#[derive(Clone, Debug)]
pub struct Asked {
    view: View,
    charges: Vec<Asking>,
    /// What each charge is counted by, then what is kept beside.
    keys: Vec<String>,
    /// What is to be kept; empty: nothing.
    beside: Vec<String>,
}

/// What a view says to a script.
#[derive(Clone, Debug, PartialEq, Eq)]
struct View {
    leased: bool,
    whole_floor: bool,
    number: Number,
    nonce: u64,
    policies: PoliciesInForce,
    drift: Drift,
    standing: String,
}

/// One charge.
#[derive(Clone, Debug)]
struct Asking {
    way: Way,
    cost: u64,
}

/// How a charge is counted: the same for most subjects of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Way {
    policy: PolicyName,
    generation: u64,
    enforced: bool,
    counting: Counting,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Counting {
    Bucket { floor: Capacity, lendable: Capacity, period: Period },
    Other(Vec<String>),
}

impl Asked {
    /// A question, and what is to be kept beside it, for a store whose clock shows `at`; none of one with more charges
    /// than can be told.
    pub fn new(question: &Question, keep: &Keep, keys: &Keys, at: StoreTime) -> Option<Self> {
        if question.charges.len() > MOST_CHARGES {
            return None;
        }
        let charges =
            question.charges.iter().map(|charge| Asking { way: Way::of(question, charge, at), cost: charge.cost.0.min(MAX_EXACT + 1) });
        let beside = beside(keep, keys);
        let mut all: Vec<String> = Vec::with_capacity(question.charges.len() + beside.len());
        all.extend(question.charges.iter().map(|charge| keys.bucket(&charge.budget)));
        let words = if beside.is_empty() { Vec::new() } else { kept(question, keep).into() };
        all.extend(beside);
        Some(Self { view: View::of(&question.view, question.drift), charges: charges.collect(), keys: all, beside: words })
    }

    /// True if all its charges are on buckets, and nothing is kept beside.
    pub fn is_of_buckets(&self) -> bool {
        self.beside.is_empty() && self.charges.iter().all(|charge| matches!(charge.way.counting, Counting::Bucket { .. }))
    }

    /// How many keys it touches.
    pub fn keys(&self) -> usize {
        self.keys.len()
    }
}

impl View {
    fn of(view: &LeaseView, drift: Drift) -> Self {
        let LeaseView { leased, whole_floor, number, nonce, policies, ref standing_lenders, .. } = *view;
        Self { leased, whole_floor, number, nonce, policies, drift, standing: wire::lenders(standing_lenders) }
    }

    fn write(&self, command: &mut Cmd) {
        command.arg(wire::flag(self.leased)).arg(wire::flag(self.whole_floor));
        command.arg(format!("{}:{}", self.number.session, self.nonce)).arg(self.number.seq);
        command.arg(wire::policies_text(self.policies)).arg(wire::keep(self.drift)).arg(&self.standing);
    }
}

impl Way {
    fn of(question: &Question, charge: &Charge, at: StoreTime) -> Self {
        let (view, drift) = (&question.view, question.drift);
        let counting = match charge.limit {
            _ if question.has_ended(charge) => Counting::Other(vec!["ended".to_owned()]),
            Limit::SlidingLog { .. } => Counting::Other(shares::log(charge, view, drift)),
            Limit::Concurrency { .. } => Counting::Other(shares::slots(charge, view, drift)),
            Limit::SlidingWindow { window, .. } => Counting::Other(shares::sliding(charge, window, view, drift)),
            Limit::FixedWindow { window, .. } => Counting::Other(windows::window(charge, window.at(at))),
            Limit::TokenBucket { .. } => {
                Counting::Bucket { floor: exact(charge.floor), lendable: exact(charge.lendable), period: Period::of(charge.limit) }
            }
        };
        let budget = &charge.budget;
        Self { policy: budget.policy.clone(), generation: budget.generation, enforced: charge.enforced, counting }
    }

    fn write(&self, command: &mut Cmd) {
        command.arg(format!("{}:{}", self.policy, self.generation)).arg(wire::flag(self.enforced));
        match &self.counting {
            Counting::Other(words) => command.arg(words.len()).arg(words),
            Counting::Bucket { floor, lendable, period } => {
                let mut bytes = Vec::with_capacity(33);
                for amount in [floor.rate, floor.burst, lendable.rate, lendable.burst] {
                    push(&mut bytes, amount.0, 7);
                }
                push(&mut bytes, period.as_micros(), 5);
                command.arg(2).arg("bucket").arg(bytes)
            }
        };
    }
}

/// The last bytes of a number, the greatest first.
fn push(bytes: &mut Vec<u8>, number: u64, size: usize) {
    bytes.extend_from_slice(&number.to_be_bytes()[8 - size..]);
}

/// Writes a call of `decide.lua`, but its name: the keys, what the caller knows of the store, and the arguments.
pub fn write(command: &mut Cmd, lease: &str, known: &str, asked: &[Asked]) {
    let (mut views, mut ways, mut questions) = (Vec::new(), Vec::new(), Vec::with_capacity(asked.len()));
    for one in asked {
        let mut bytes = Vec::with_capacity(4 + 9 * one.charges.len());
        push(&mut bytes, place_of(&one.view, &mut views), 2);
        push(&mut bytes, (one.keys.len() - one.charges.len()) as u64, 1);
        push(&mut bytes, one.charges.len() as u64, 1);
        for charge in &one.charges {
            push(&mut bytes, place_of(&charge.way, &mut ways), 2);
            push(&mut bytes, charge.cost, 7);
        }
        questions.push(bytes);
    }
    command.arg(1 + asked.iter().map(Asked::keys).sum::<usize>()).arg(lease);
    asked.iter().for_each(|one| _ = command.arg(&one.keys));
    let mut counts = Vec::with_capacity(6);
    [views.len(), ways.len(), asked.len()].into_iter().for_each(|count| push(&mut counts, count as u64, 2));
    command.arg(known).arg(counts);
    views.into_iter().for_each(|view| view.write(command));
    ways.into_iter().for_each(|way| way.write(command));
    for (one, bytes) in asked.iter().zip(questions) {
        command.arg(bytes).arg(&one.beside);
    }
}

/// Where it is among those that are told, the first being 1; it is added if it is not there.
fn place_of<'a, T: PartialEq>(one: &'a T, all: &mut Vec<&'a T>) -> u64 {
    let place = all.iter().rposition(|other| *other == one).unwrap_or_else(|| {
        all.push(one);
        all.len() - 1
    });
    place as u64 + 1
}

/// The keys of what is to be kept.
fn beside(keep: &Keep, keys: &Keys) -> Vec<String> {
    let hold = keep.beside.hold.map(|hold| keys.hold(hold.id));
    let slot = keep.beside.slot.map(|id| keys.slot(id));
    let attempt = keep.attempt.map(|attempt| [keys.attempt(&attempt.key), keys.tally()]);
    hold.into_iter().chain(slot).chain(attempt.into_iter().flatten()).collect()
}

/// What is to be kept, in the words of `keep.lua`.
fn kept(question: &Question, keep: &Keep) -> [String; 7] {
    let none = || "-".to_owned();
    let hold = |hold: NewHold| [hold.id.to_string(), hold.life.as_millis().to_string(), hold.most.0.to_string()];
    let [id, life, most] = keep.beside.hold.map_or_else(|| [none(), none(), none()], hold);
    let (content, charges) =
        keep.attempt.map_or((none(), none()), |attempt| (wire::hex(&attempt.content), wire::hex(&charges_hash(question))));
    let slot = keep.beside.slot.map_or_else(none, |id| id.to_string());
    let ends = question.charges.iter().any(|charge| charge.floor_ttl.is_some());
    let floors = match question.charges.iter().any(|charge| question.has_ended(charge)) {
        true => "ended".to_owned(),
        false => wire::flag(ends),
    };
    [floors, id, life, most, slot, content, charges]
}

/// Of the budgets that are charged, how they are counted, and how much.
fn charges_hash(question: &Question) -> Hash {
    let mut hasher = blake3::Hasher::new();
    for charge in &question.charges {
        let how = if question.has_ended(charge) { "ended" } else { charge.limit.algorithm() };
        let text = format!("{} {how} {} {}\n", wire::budget_text(&charge.budget), charge.cost.0, charge.enforced);
        hasher.update(text.as_bytes());
    }
    let mut hash = Hash::default();
    hasher.finalize_xof().fill(&mut hash);
    hash
}
