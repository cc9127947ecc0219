//! What the last change of a policy's limits says of a bucket that was not asked for since.

use super::{Bucket, Fill, GRACE, History, Terms, greatest, least, shortened, since};
use crate::record::{ANEW_MEMORY, CHANGE_MEMORY};
use quorate_shared::time::StoreTime;
use quorate_shared::units::{Capacity, MicroTokens};

/// The last change of a policy's limits, with what is to be remembered of those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// When the region applied it.
    pub at: StoreTime,
    /// The least floor of one of its budgets before, by rate and by burst.
    pub former: Capacity,
    /// Changes, of those that bear on this one, that slowed a refill: a bucket that has gone since may not have been
    /// full.
    pub slowed: Option<Slowed>,
    /// When the budgets began anew under a name that had others before, by a clock that never shows
    /// less than a window that was used: what those counted is not in these. Not forgotten while a set in force names them.
    pub anew_at: Option<StoreTime>,
}

/// When refills were slowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slowed {
    /// For the first time.
    pub first: StoreTime,
    /// For the last time.
    pub last: StoreTime,
}

impl Change {
    /// A change at `now` that follows this one. `former` is the least floor between the two; `slows`: one of the
    /// refills is slower from now on.
    #[must_use]
    pub fn followed(self, now: StoreTime, former: Capacity, slows: bool) -> Self {
        let first = self.slowed.map_or(now, |slowed| slowed.first);
        let slowed = if slows { Some(Slowed { first, last: now }) } else { self.slowed };
        Self { at: now, former: self.former.min(former), slowed, anew_at: self.anew_at }
    }

    /// A change at `now` of what held for long.
    pub fn first(now: StoreTime, former: Capacity, slows: bool) -> Self {
        Self { at: now, former, slowed: slows.then_some(Slowed { first: now, last: now }), anew_at: None }
    }
}

impl Change {
    /// True if it is so long ago that it means nothing for policies that nobody asks for.
    pub(crate) fn is_past(&self, now: StoreTime) -> bool {
        now.since(self.at) > CHANGE_MEMORY && self.anew_at.is_none_or(|then| now.since(then) > ANEW_MEMORY)
    }

    /// The least own rate before this change, as far back as is remembered, and since.
    pub(super) fn slowest(&self, terms: &Terms) -> MicroTokens {
        terms.own_rate.min(shortened(self.former.minus(terms.lent).rate, terms.drift))
    }

    /// The most that was in a bucket for certain at `then`, if it was empty `from` then on: refilled at the least of
    /// rates, and within the least of bursts.
    fn regained(&self, from: StoreTime, then: StoreTime, terms: &Terms) -> Fill {
        let cap = self.former.minus(terms.lent).burst;
        Fill::default().refilled(cap, then.since(from).min(CHANGE_MEMORY), self.slowest(terms), terms.period)
    }

    /// The most that a bucket holds for certain, by this change: at that instant it held the former own part, unless
    /// it had been emptied before, or was there and has gone since.
    pub(super) fn ceiling(&self, stored: Option<&Bucket>, terms: &Terms, history: &History, now: StoreTime) -> Fill {
        let emptied = history.emptied_at.filter(|then| *then <= self.at);
        let former = Fill::at(self.former.minus(terms.lent).burst);
        let held = emptied.map_or(former, |then| self.regained(then, self.at, terms));
        let ceiling = since(held, self.at, terms, now);
        if stored.is_some() { ceiling } else { least(ceiling, self.forgotten(terms, now)) }
    }

    /// The same of a bucket that was there, partly used, and has gone since. It was full when it had [`GRACE`] to go,
    /// unless its refill was slowed while it was kept for as long as filling it took before, or it had none of its own.
    fn forgotten(&self, terms: &Terms, now: StoreTime) -> Fill {
        let former = Fill::at(self.former.minus(terms.lent).burst);
        let long_ago = |then: StoreTime| now.since(then) > GRACE;
        let at_least = match self.slowed.filter(|slowed| long_ago(slowed.first)) {
            Some(slowed) => self.regained(slowed.last, now, terms).capped(terms.entitlement.burst),
            None if long_ago(self.at) && self.slowest(terms) == MicroTokens::ZERO => Fill::default(),
            None if long_ago(self.at) => former.refilled(terms.entitlement.burst, GRACE, terms.own_rate, terms.period),
            None => return since(former, self.at, terms, now),
        };
        greatest(at_least, since(Fill::default(), self.at, terms, now))
    }
}
