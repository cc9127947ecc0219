//! Clients that reserve an estimate, and say later what it came to.

use super::{Event, World};
use crate::simulation::invariants::Violation;
use crate::simulation::invariants::reservations::{Reserved, check_repeated};
use crate::simulation::{Micros, SECOND};
use quorate_limiter::decision::Charge;
use quorate_limiter::hold::{HoldId, NewHold, SettleReply};
use quorate_shared::policy::Shape;
use quorate_shared::units::MicroTokens;
use std::ops::Range;
use std::time::Duration;

/// How long an estimate may be settled, in seconds: one of these.
const LIVES: &[u64] = &[1, 3, 4, 6, 8, 20];

impl World {
    /// Asks for an estimate; if it is admitted, it is settled later.
    pub(super) fn reserve(&mut self, r: usize, places: Range<usize>, estimate: MicroTokens) -> Result<(), Violation> {
        let burst = self.watch.terms(places.start).map_or(estimate, |terms| terms.limit.capacity().burst);
        let life = Duration::from_secs(self.chance.pick(LIVES));
        let hold = NewHold { id: HoldId::from_bits(u128::from(self.requests.0)), life, most: burst.max(estimate) };
        let verdict = self.regions[r].ask(places, estimate, Some(hold), self.now);
        if verdict.refused {
            self.hurry(r);
        }
        let admitted = verdict.admitted.clone();
        self.conclude(r, verdict, estimate)?;
        for (place, charge) in admitted {
            let window = self.regions[r].window(&charge, self.now);
            let reserved = Reserved { id: hold.id, place, cost: self.true_cost(&charge, hold.most), charge, window, settled: None };
            self.watch.reserve(self.now, r, &reserved);
            let span = self.chance.pick(&[SECOND / 10, SECOND, 4 * SECOND, 8 * SECOND]);
            let after = self.chance.between(1, span);
            self.schedule(after, Event::Settle { r, reserved: Box::new(reserved) });
        }
        Ok(())
    }

    fn true_cost(&mut self, charge: &Charge, most: MicroTokens) -> MicroTokens {
        match self.chance.per_mille(600) {
            true => MicroTokens(self.chance.between(0, charge.cost.0)),
            false => MicroTokens(self.chance.between(charge.cost.0, most.0)),
        }
    }

    /// A client says what an estimate came to; perhaps not for the first time.
    pub(super) fn settle(&mut self, r: usize, reserved: Reserved) -> Result<(), Violation> {
        const AGAIN: Micros = SECOND / 2;
        if self.regions[r].agent.is_none() || self.now < self.regions[r].paused_until {
            self.schedule(AGAIN, Event::Settle { r, reserved: Box::new(reserved) });
            return Ok(());
        }
        if reserved.settled.is_none() && reserved.cost > reserved.charge.cost && reserved.charge.limit.shape() == Shape::Flow {
            // a bucket is settled as of its last access: that of a request, by the lease in force
            let verdict = self.regions[r].ask(reserved.place..reserved.place + 1, MicroTokens::TOKEN, None, self.now);
            self.requests.0 += 1;
            self.conclude(r, verdict, MicroTokens::TOKEN)?;
        }
        let (region, place) = (&mut self.regions[r], reserved.place);
        // what is there is told by the lease in force now
        let grounds = region.question(place..place + 1, MicroTokens::ZERO, false, self.now).map(|asked| asked.question);
        let (reply, run) = (region.store.settle(self.now, reserved.id, reserved.cost, grounds.as_ref()), region.store.run());
        self.tell(Some(r), || format!("settles {} of {} by {}: {reply:?}", reserved.charge.cost, reserved.place, reserved.cost));
        check_repeated(self.now, &reserved, &reply, run)?;
        let SettleReply::Settled(settled) = reply else { return Ok(()) };
        if reserved.settled.is_none() {
            self.watch.settle(self.now, r, &self.regions[r], &reserved, &settled)?;
        }
        if self.chance.per_mille(300) {
            let reserved = Reserved { settled: Some((settled, run)), ..reserved };
            self.schedule(AGAIN, Event::Settle { r, reserved: Box::new(reserved) });
        }
        Ok(())
    }
}
