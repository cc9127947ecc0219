//! A response on its way into the store, step by step (R3).

use super::Region;
use crate::setting;
use quorate_limiter::lease_book::Application;
use quorate_limiter::matching::PolicyTable;
use quorate_limiter::record::{ChangedPolicy, Finish, HoldingsChange, Refusal, Settlement};
use quorate_shared::heartbeat::{Grant, Holding, Number, Response};
use quorate_shared::mistake::{self, Mistake};
use quorate_shared::names::BudgetId;
use quorate_shared::time::LocalTime;
use std::sync::Arc;

/// A response on its way into the store.
#[derive(Clone, Debug)]
pub(super) struct Applying {
    pub application: Application,
    pub table: Arc<PolicyTable>,
    pub changed: Vec<ChangedPolicy>,
    pub step: Step,
}

/// What comes next in the application of a response. It was taken by the store when it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Reduce,
    Finish,
    Increase,
}

impl Region {
    /// Takes up a response.
    pub(super) fn begin(&mut self, response: &Response, received: LocalTime) {
        let before = self.book.policies();
        let Ok(application) = self.book.receive(response, received) else { return };
        self.disk.add(response);
        let same = response.policies == self.table.in_force() && response.former.is_empty();
        let table = match same {
            true => self.table.clone(),
            false => Arc::new(self.disk.table(&setting::name(self.which), response.policies).expect("the response brought the sets")),
        };
        let changed = match before == response.policies || before.active == 0 {
            true => Vec::new(),
            false => table.changed_since(before, (self.table.in_force() == before).then_some(&*self.table), |_| false),
        };
        if mistake::made(Mistake::HorizonsBeforeReductions) {
            self.book.applied(application.clone(), received, self.limit.drain());
        }
        let taken = self.store.take(self.store_time(received), application.stamp.number);
        let gives_up = !application.reductions.is_empty() || !application.fewer_units.is_empty();
        let step = if gives_up { Step::Reduce } else { Step::Finish };
        self.applying = taken.ok().map(|()| Applying { application, table, changed, step });
    }

    /// True while a response is being applied.
    pub fn is_applying(&self) -> bool {
        self.applying.is_some()
    }

    /// The next step of the application. If the store refuses, book and store may differ: another session.
    pub fn step(&mut self, now: LocalTime) {
        let Some(mut applying) = self.applying.take() else { return };
        let (number, application) = (applying.application.stamp.number, &applying.application);
        let done = match applying.step {
            Step::Reduce => self.write(number, &application.reductions, &application.fewer_units, now),
            Step::Finish => self.finish(&applying, now),
            Step::Increase => self.write(number, &application.increases, &application.more_units, now),
        };
        if done.is_err() {
            return self.restart(now);
        }
        let takes_on = !application.increases.is_empty() || !application.more_units.is_empty();
        let next = match applying.step {
            Step::Reduce => Some(Step::Finish),
            Step::Finish if takes_on => Some(Step::Increase),
            Step::Finish | Step::Increase => None,
        };
        if let Some(step) = next {
            applying.step = step;
            self.applying = Some(applying);
        } else if let Some((response, received)) = self.waiting.take() {
            self.begin(&response, received);
        }
    }

    fn finish(&mut self, applying: &Applying, now: LocalTime) -> Result<(), Refusal> {
        let application = &applying.application;
        let finish = Finish {
            stamp: application.stamp,
            policies: application.policies,
            full: application.full,
            genesis: application.genesis,
            lapsed: self.book.lapsed(application, now),
            changed: applying.changed.clone(),
            named: None,
            renewal: application.renewal(),
            clock_at_least: application.clock_at_least,
        };
        self.store.finish(self.store_time(now), &finish)?;
        self.book.applied(application.clone(), now, self.limit.drain());
        self.go_by(applying.table.clone());
        Ok(())
    }

    fn write(&mut self, number: Number, holdings: &[(BudgetId, Holding)], grants: &[Grant], now: LocalTime) -> Result<(), Refusal> {
        let settle =
            |(budget, holding): &(BudgetId, Holding)| Settlement { budget: budget.clone(), holding: holding.clone(), standing: None };
        let settlements = holdings.iter().map(settle).collect();
        let change = HoldingsChange { number, view: self.book.view(now), drift: self.drift, settlements, grants: grants.to_vec() };
        self.store.write(self.store_time(now), &change)
    }
}
