//! One bucket of one or several gateways: what is drawn from the region's budgets for it, and who gets it.

use super::actions::Said;
use crate::clock::LocalClock;
use crate::decide::{DecideError, PolicyDecision, Request};
use crate::http::Decider;
use quorate_limiter::hold::HoldId;
use quorate_limiter::matching::descriptors::Descriptor;
use quorate_limiter::quota::{self, Next, Over, Spender};
use quorate_shared::policy::{Limit, Shape};
use quorate_shared::time::LocalTime;
use quorate_shared::units::MicroTokens;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::Mutex;

/// A bucket that nobody asked for in this time is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// How often less is asked for, if so much cannot be drawn.
const TRIES: usize = 4;

/// One bucket.
pub(super) struct Group {
    attributes: BTreeMap<String, String>,
    sharing: Mutex<Sharing>,
}

#[derive(Default)]
struct Sharing {
    /// By the numbers of their gateways.
    spenders: BTreeMap<u64, Spender<Drawn>>,
    /// When it was looked at last, nothing limited it.
    unlimited: bool,
    /// Whose turn it is to get what cannot be divided.
    turn: usize,
}

/// By what a part is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Drawn {
    hold: HoldId,
    /// What one request costs; `None` if that is not the same of all budgets, which a settlement cannot tell apart.
    each: Option<MicroTokens>,
}

/// How the budgets of a bucket stand.
enum Standing {
    /// No policy limits it, or all of them only observe.
    Unlimited,
    /// A policy counts in a way of which nothing can be spent later than it was drawn.
    NotAhead,
    /// So many requests may be drawn, in parts that are told within this time.
    Left(u64, Duration),
}

impl Group {
    pub fn new(attributes: BTreeMap<String, String>) -> Self {
        Self { attributes, sharing: Mutex::default() }
    }

    pub fn attributes(&self) -> &BTreeMap<String, String> {
        &self.attributes
    }

    /// A gateway reports what it let pass and refused; what it is to hear.
    pub async fn reported<D: Decider>(&self, decider: &D, clock: &LocalClock, gateway: u64, counts: (u64, u64)) -> Option<Said> {
        let mut sharing = self.sharing.lock().await;
        let now = clock.now();
        let spender = sharing.spenders.entry(gateway).or_insert_with(|| Spender::new(now));
        spender.reported(now, counts.0, counts.1);
        if let Some(over) = spender.over(now) {
            settle(decider, over).await;
        }
        if spender.is_idle(now, FORGOTTEN) {
            sharing.spenders.remove(&gateway);
            return Some(Said::Forget);
        }
        match spender.next(now) {
            Next::Nothing if sharing.unlimited => self.unlimited(decider, &mut sharing).await,
            Next::Nothing => None,
            Next::Again(told) => Some(Said::Again(told)),
            Next::Draw { claim, beside } => self.draw(decider, clock, &mut sharing, gateway, claim, beside).await,
        }
    }

    /// A gateway is gone. Returns once what it has is settled.
    pub async fn gone<D: Decider>(&self, decider: &D, clock: &LocalClock, gateway: u64) {
        let left = self.sharing.lock().await.spenders.remove(&gateway);
        if let Some((until, over)) = left.and_then(Spender::gone) {
            tokio::time::sleep(until.since(clock.now())).await;
            settle(decider, over).await;
        }
    }

    async fn draw<D: Decider>(
        &self,
        decider: &D,
        clock: &LocalClock,
        sharing: &mut Sharing,
        gateway: u64,
        claim: u64,
        beside: u64,
    ) -> Option<Said> {
        let now = clock.now();
        let limits = self.look(decider).await;
        let (left, within) = match limits.as_deref().map(standing) {
            Ok(Standing::Unlimited) => {
                sharing.unlimited = true;
                return Some(Said::Everything);
            }
            Ok(Standing::Left(left, within)) => (left, within),
            Ok(Standing::NotAhead) | Err(_) => (0, Duration::ZERO),
        };
        // until the bound says so the gateway does what it is configured to do without an assignment
        if !within.is_zero() && limits.is_ok_and(|limits| !decider.may_assign(&limits)) {
            return sharing.spenders.get_mut(&gateway)?.again(now).map(Said::Again);
        }
        let share = sharing.share_of(gateway, left.saturating_sub(beside), now).min(claim);
        let taken = match within.is_zero() {
            true => None,
            false => self.take(decider, share, beside).await,
        };
        let spender = sharing.spenders.get_mut(&gateway)?;
        // what it still has is better than nothing
        let Some((drawn, requests)) = taken else { return spender.again(now).map(Said::Again).or(Some(Said::None)) };
        let (told, before) = spender.given(now, drawn, requests, beside, now.after(within));
        if let Some(before) = before {
            settle(decider, before).await;
        }
        Some(Said::Part(told))
    }

    /// Draws for so many requests beside those that a gateway may still make, or for fewer; for how many.
    async fn take<D: Decider>(&self, decider: &D, share: u64, beside: u64) -> Option<(Drawn, u64)> {
        let mut wanted = share;
        for _ in 0..TRIES {
            if wanted == 0 {
                return None;
            }
            let requests = wanted.saturating_add(beside);
            let verdict = decider.decide(&self.request(None, Some(requests), Some(quota::LONGEST))).await.ok()?;
            if let Some(hold) = verdict.reservation.filter(|_| verdict.allowed) {
                return Some((Drawn { hold, each: each(&verdict.limits, requests) }, requests));
            }
            wanted = fitting(&verdict.limits, requests).saturating_sub(beside).min(wanted / 2);
        }
        None
    }

    /// Of a bucket that nothing limited: the same again, if that is still so. Nobody is to be refused after a pause.
    async fn unlimited<D: Decider>(&self, decider: &D, sharing: &mut Sharing) -> Option<Said> {
        sharing.unlimited = matches!(self.look(decider).await.as_deref().map(standing), Ok(Standing::Unlimited));
        sharing.unlimited.then_some(Said::Everything)
    }

    /// Takes nothing.
    async fn look<D: Decider>(&self, decider: &D) -> Result<Vec<PolicyDecision>, DecideError> {
        Ok(decider.decide(&self.request(Some(MicroTokens::ZERO), None, None)).await?.limits)
    }

    fn request(&self, cost: Option<MicroTokens>, times: Option<u64>, reserve: Option<Duration>) -> Request {
        let descriptor = Descriptor { attributes: self.attributes.clone(), cost, times, limit: None };
        Request { descriptors: vec![descriptor], reserve, ..Request::default() }
    }
}

impl Sharing {
    /// What one gateway gets of so much, beside all others that want something by now.
    fn share_of(&mut self, gateway: u64, whole: u64, now: LocalTime) -> u64 {
        let claims: Vec<u64> = self.spenders.values().map(|spender| spender.claim(now)).collect();
        let place = self.spenders.keys().position(|number| *number == gateway);
        self.turn = self.turn.wrapping_add(1);
        let shares = quota::divide(whole, &claims, self.turn);
        place.and_then(|place| shares.get(place)).copied().unwrap_or_default()
    }
}

/// How the limits stand of a request that only looks. One is taken to cost a token of each.
fn standing(limits: &[PolicyDecision]) -> Standing {
    let mut left = None;
    let mut within = Duration::MAX;
    for limit in limits.iter().filter(|limit| limit.enforced) {
        // open without its store
        let Some(decision) = limit.decision else { continue };
        if limit.limit.shape() == Shape::Share {
            return Standing::NotAhead;
        }
        if let (Limit::FixedWindow { .. }, Some(ends)) = (limit.limit, decision.reset_after) {
            within = within.min(ends.saturating_sub(quota::ahead()));
        }
        left = Some(left.unwrap_or(u64::MAX).min(decision.remaining.tokens_floor()));
    }
    left.map_or(Standing::Unlimited, |left| Standing::Left(left, within))
}

/// What one of so many requests costs, if that is the same of all budgets.
fn each(limits: &[PolicyDecision], requests: u64) -> Option<MicroTokens> {
    let cost = limits.first()?.cost;
    limits.iter().all(|limit| limit.cost == cost).then_some(MicroTokens(cost.0 / requests.max(1)))
}

/// How many of so many requests, which were refused, would fit.
fn fitting(limits: &[PolicyDecision], requests: u64) -> u64 {
    let fit = |limit: &PolicyDecision| Some(limit.decision?.remaining.scale_floor(requests, limit.cost.0).0);
    limits.iter().filter(|limit| limit.refuses()).filter_map(fit).min().unwrap_or_default()
}

/// What cannot be settled stays drawn, and frees its room by itself.
async fn settle<D: Decider>(decider: &D, over: Over<Drawn>) {
    let Drawn { hold, each } = over.hold;
    let Some(used) = each.map(|each| MicroTokens(each.0.saturating_mul(over.used))) else { return };
    if let Err(error) = decider.settle(hold, used).await {
        tracing::debug!(%error, "a part of a gateway was not settled");
    }
}
