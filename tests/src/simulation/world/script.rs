//! A chain of events that chance alone does not find: the rate of a region that stands still goes
//! elsewhere, is used there, and comes back to it.
//!
//! Needed for the rule that time without a lease is not leased time (docs/protocol.md, "Shapes"): a
//! bucket that nobody looks at from before its lease ends until after it is back must not count the
//! whole span at the leased rate.

use super::requests::Mood;
use super::{Event, World};
use crate::simulation::SECOND;
use crate::simulation::fault::Fault;

/// One act after the other.
const ACTS: u8 = 6;

impl World {
    /// One act: region `away` saves up what it holds, stands still until its lease has ended and region
    /// `here` has saved up and used the same, then wakes up and uses what it has.
    pub(super) fn act(&mut self, act: u8, away: usize) {
        let here = (away + 1) % self.regions.len();
        let lasts = match act {
            0 => {
                self.moods.fill(Mood::Idle);
                self.moods[away] = Mood::Vain;
                self.chance.between(3 * SECOND, 5 * SECOND)
            }
            1 => {
                self.faults.count(Fault::AgentPaused);
                self.regions[away].paused_until = self.now + 10 * SECOND;
                self.moods[away] = Mood::Idle;
                self.moods[here] = Mood::Vain;
                self.chance.between(6 * SECOND, 7 * SECOND)
            }
            2 => {
                self.moods[here] = Mood::Hot;
                self.chance.between(SECOND / 2, SECOND)
            }
            3 => {
                self.moods[here] = Mood::Idle;
                self.faults.count(Fault::AgentKilled);
                self.regions[here].crash();
                self.touch(here);
                self.schedule(1_000, Event::Start { r: here });
                self.chance.between(SECOND / 2, SECOND)
            }
            4 => {
                self.regions[away].paused_until = self.now;
                self.schedule_beat(away, 1, true);
                self.chance.between(SECOND / 4, SECOND / 2)
            }
            _ => {
                self.moods[away] = Mood::Hot;
                self.chance.between(SECOND, 2 * SECOND)
            }
        };
        self.schedule(lasts, if act + 1 < ACTS { Event::Act { act: act + 1, away } } else { Event::Moods });
    }
}
