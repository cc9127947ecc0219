//! docs/protocol.md, "One heartbeat" and "A lease ends": once nothing fails any more, every region
//! is leased again, and capacity goes where it is wanted.

use super::{Violation, Watch};
use crate::simulation::Micros;
use crate::simulation::SECOND;
use crate::simulation::region::Region;
use quorate_ledger::Ledger;
use quorate_shared::policy::Shape;
use quorate_shared::policy::floors::RegionShare;
use quorate_shared::units::{Capacity, MicroTokens};
use std::time::Duration;

const RULE: &str = "what was broken heals";

/// So many heartbeats of each region, at least, it may take at most, where past use is forgotten at once.
///
/// A message may be under way for eight seconds more, a lease lasts for six at most, and if one is to end before
/// capacity moves, it takes a heartbeat each until that is found, given up elsewhere, known, and used. The rest is for
/// those that are sent early.
pub const HEARTBEATS: u64 = 24;

/// The same where past use counts for `drain`: as much more as two drains last, one for a change
/// of policies and one for what was given up.
pub fn heartbeats(drain: Duration) -> u64 {
    HEARTBEATS + 2 * drain.as_secs()
}

/// As many more where all coordinators may have been restored: they answer nobody for as long as the longest lease and
/// past use last, stretched by ρ, and then a change of their own comes before any other.
pub fn after_restore(drain: Duration) -> u64 {
    8 + drain.as_secs()
}

/// So long it may take at most if a region stays cut off: its floors hold for eight seconds by themselves after a leader was
/// elected, what it took counts for four more, and then comes the set that brings back what is missing.
pub const WITHOUT_ONE: Micros = 30 * SECOND;

/// What is not well yet; nothing once all is. One region is `hot`; another may be cut off, and changes must do without it.
pub fn unwell(now: Micros, watch: &Watch, ledger: &Ledger, regions: &[Region], (hot, cut_off): (usize, Option<usize>)) -> Option<String> {
    match cut_off {
        None => unhealed(now, watch, ledger, regions, hot).or_else(|| without_number(ledger)),
        Some(cut_off) => pending(ledger).or_else(|| not_leased(now, regions.iter().enumerate().filter(|(r, _)| *r != cut_off))),
    }
}

fn pending(ledger: &Ledger) -> Option<String> {
    let (version, waits_for) = ledger.pending_policies()?;
    Some(format!("policy set {version} is still pending: it waits for {waits_for:?}"))
}

fn not_leased<'a>(now: Micros, mut regions: impl Iterator<Item = (usize, &'a Region)>) -> Option<String> {
    regions.find(|(_, region)| !region.is_leased(now)).map(|(_, region)| format!("{} is not leased", region.name))
}

/// A policy that is enforced, and of which no number is promised: some region does not know it yet.
fn without_number(ledger: &Ledger) -> Option<String> {
    let set = ledger.active_policies();
    let enforced = |name: &str| set.policies.iter().any(|policy| policy.name.as_str() == name && !policy.lets_pass());
    let open = ledger.bounds(None).policies.into_iter().find(|p| p.bound.unbounded && enforced(&p.policy))?;
    let whys = open.bound.terms.into_iter().filter(|term| term.amount.is_none()).map(|term| term.why);
    Some(format!("{} is unbounded: {}", open.policy, whys.collect::<Vec<_>>().join("; ")))
}

fn unhealed(now: Micros, watch: &Watch, ledger: &Ledger, regions: &[Region], hot: usize) -> Option<String> {
    if let Some(what) = pending(ledger).or_else(|| not_leased(now, regions.iter().enumerate())) {
        return Some(what);
    }
    // units do not come back, so nothing is to be reached in a window
    let terms = watch.terms(0).filter(|terms| terms.limit.shape() != Shape::Allowance)?;
    let target = target(ledger, terms, regions, hot)?;
    let has = watch.usable(hot, 0).total();
    // without a token of burst no rate can be used
    let few = burst_within_reach(ledger, terms, regions, hot) < MicroTokens::TOKEN;
    // the allocator leaves as it is what lacks less than a sixteenth
    let nearly = MicroTokens(target.rate.0 - target.rate.0 / 16);
    let reached = few || has.rate >= nearly && has.burst >= MicroTokens::TOKEN;
    (!reached).then(|| format!("{} can use {has:?} of {}; wanted is {target:?}", regions[hot].name, terms.budget))
}

/// What the one region that asks may save up at most: its floor, the pool, and what others may lend.
fn burst_within_reach(ledger: &Ledger, terms: &super::Terms, regions: &[Region], hot: usize) -> MicroTokens {
    terms.floors[hot].plus(terms.pool).plus(lendable_to(ledger, terms, &regions[hot]).unwrap_or_default()).burst
}

/// What all others may lend to a region.
fn lendable_to(ledger: &Ledger, terms: &super::Terms, borrower: &Region) -> Option<Capacity> {
    let set = ledger.active_policies();
    let shares = set.shares(set.policy(&terms.budget.policy)?, terms.limit);
    Some(shares.iter().filter(|(name, _)| **name != borrower.name).map(|(_, share)| share.lendable).sum())
}

/// What the allocator is to give the one region that asks for all of it: its floor, the pool, and
/// of every other floor the rate that may be lent. Bursts stay where they are.
fn target(ledger: &Ledger, terms: &super::Terms, regions: &[Region], hot: usize) -> Option<Capacity> {
    let lendable = lendable_to(ledger, terms, &regions[hot])?;
    let all = terms.floors[hot].plus(terms.pool).plus(Capacity { burst: MicroTokens::ZERO, ..lendable });
    match terms.whole == terms.limit.capacity() {
        true => Some(all),
        // of floors beyond the limit it borrows no more than makes the limit's rate, of which some is set aside for agents
        false => {
            let divided = terms.limit.capacity().minus(set_aside(ledger, terms)?);
            Some(Capacity { burst: terms.floors[hot].burst, ..all.min(divided.max(terms.floors[hot])) })
        }
    }
}

/// What agents of all regions may spend by themselves.
fn set_aside(ledger: &Ledger, terms: &super::Terms) -> Option<Capacity> {
    let set = ledger.active_policies();
    Some(set.shares(set.policy(&terms.budget.policy)?, terms.limit).values().map(RegionShare::reserved).sum())
}

/// The violation, if it takes longer.
pub fn too_long(at: Micros, heartbeats: u64, what: String) -> Violation {
    Violation { at, rule: RULE, what: format!("{heartbeats} heartbeats of each region after the last fault: {what}") }
}
