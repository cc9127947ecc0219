//! What each agent of a region has to report, and what the region reports as one.

use crate::region::{Region, State};
use crate::store::StoreError;
use crate::store::look::AGENT_LIFE;
use quorate_limiter::announced;
use quorate_limiter::election::AgentId;
use quorate_limiter::regional_reports::{Part, Share};
use quorate_shared::heartbeat::{Holding, Parts, Report};
use quorate_shared::names::BudgetId;
use quorate_shared::time::LocalTime;
use quorate_shared::units::MicroTokens;
use std::collections::{BTreeMap, BTreeSet};

/// What is told of budgets in a heartbeat.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    pub reports: Vec<Report>,
    pub parts: Vec<Parts>,
}

impl Region {
    /// What the whole region has to report in a heartbeat of `session`, with this agent's `own` part.
    pub(crate) async fn regional_share(&self, session: u64, own: Told) -> Result<Told, StoreError> {
        if !self.store.is_shared() {
            return Ok(own);
        }
        let forget = std::mem::take(&mut self.state.lock().presence.gone);
        // also of an agent that no look has shown yet: it counts on being read from the next number on
        let shares = self.store.reports(&forget).await?;
        let presence = &mut self.state.lock().presence;
        let Told { reports: own, parts: mut said } = own;
        let living: BTreeSet<AgentId> = presence.peers.iter().map(|peer| peer.id).collect();
        let mut parts = vec![Part { agent: presence.me, lives: true, reports: own }];
        for (agent, text) in shares {
            let lives = living.contains(&agent);
            if let Some(share) = serde_json::from_str::<Share>(&text).ok().filter(|_| agent != presence.me) {
                said.extend(share.parts);
                if share.session == session {
                    parts.push(Part { agent, lives, reports: share.reports });
                }
            }
            if !lives && agent != presence.me {
                presence.gone.push(agent);
            }
        }
        let parts_said = announced::together(said);
        let alone = parts.len() == 1 && !presence.has_peers() && presence.reports.is_empty(session);
        let reports = match parts.pop() {
            Some(own) if alone => own.reports,
            last => presence.reports.merge(session, parts.into_iter().chain(last).collect()),
        };
        Ok(Told { reports, parts: parts_said })
    }
}

impl State {
    /// What this agent has to report to the one that renews, if that has changed.
    pub(super) fn share(&mut self, now: LocalTime) -> Option<String> {
        let held: BTreeMap<BudgetId, Holding> = self.followed.as_ref().map(|f| f.holdings.clone()).unwrap_or_default();
        let reports = self.own_reports(now, |budget| held.contains_key(budget));
        let parts = self.announcements.named(now);
        let share = Share { session: self.counting_in, reports, parts: parts.clone() };
        let old = now.since(self.presence.shared_at) >= AGENT_LIFE / 2;
        let text = serde_json::to_string(&share).ok().filter(|text| old || *text != self.presence.shared)?;
        (self.presence.shared, self.presence.shared_at) = (text.clone(), now);
        self.presence.parts_on_the_way = Some(parts);
        Some(text)
    }

    /// What this agent has to say of the budgets in use. Where there are others, its part of what is worth
    /// a word is smaller.
    pub fn own_reports(&mut self, now: LocalTime, told_anyway: impl Fn(&BudgetId) -> bool) -> Vec<Report> {
        let agents = u64::try_from(self.presence.peers.len()).unwrap_or(u64::MAX).saturating_add(1);
        let Self { demand, table, .. } = self;
        let period = |budget: &BudgetId| table.terms(budget).map(|t| t.limit.period());
        let worth = |budget: &BudgetId| match told_anyway(budget) {
            true => None,
            false => table.terms(budget).map(|t| t.limit.amount(t.floor).saturating_sub(t.limit.amount(t.lendable))),
        };
        demand.reports(now, period, |budget| worth(budget).map(|least| MicroTokens(least.0 / agents)))
    }
}
