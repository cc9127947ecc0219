//! Two stores that serve one region of the same name: their sessions overtake each other for ever, and each would
//! spend the region's floor. The side that came last notices first, admits nothing any more, and says so.

use crate::region::Region;
use crate::renewal::BeatError;
use quorate_shared::heartbeat::Number;
use quorate_shared::time::LocalTime;
use std::time::Duration;

/// What such an agent says of itself as its mode.
pub const CONFLICT: &str = "conflict";

/// A session that was overtaken before this was overtaken by somebody who is there, too. A store that lost its
/// state, or an agent that forgot how far its sessions had come, is overtaken once.
const SHORT: Duration = Duration::from_secs(10);

/// So many short sessions in a row are no accident. Whoever had the region before has had a long one first.
const MOST: u32 = 3;

/// How the sessions that an agent opened ended.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    opened: LocalTime,
    short: u32,
    conflict: bool,
}

impl Claims {
    /// A session was opened.
    pub fn opened(&mut self, now: LocalTime) {
        self.opened = now;
    }

    /// The coordinators accepted a greater session that this region's store does not know. True if another store
    /// serves the region.
    pub fn overtaken(&mut self, now: LocalTime) -> bool {
        self.short = if now.since(self.opened) < SHORT { self.short + 1 } else { 0 };
        self.conflict |= self.short >= MOST;
        self.conflict
    }

    /// True once another store serves the region, until this process ends.
    pub fn conflict(&self) -> bool {
        self.conflict
    }
}

impl Region {
    /// The coordinators know a greater session of this region than its store does. True if that is because
    /// another store serves it: then this agent stops.
    pub(crate) async fn stops_after(&self, sent: Number, newest: Number) -> bool {
        let now = self.clock.now();
        if newest.session <= sent.session || !self.state.lock().claims.overtaken(now) {
            return false;
        }
        tracing::error!(
            region = %self.name, agent = self.agent, %sent, %newest,
            "another store serves a region of this name, and its sessions overtake this one's: this agent admits nothing from now on. \
             Give the regions different names, or stop the agents of one store; then start this agent again"
        );
        self.state.lock().contact.last_error = Some(BeatError::OtherStore.to_string());
        self.retire();
        self.leave().await;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(n: u64) -> LocalTime {
        LocalTime::ZERO.after(Duration::from_secs(n))
    }

    #[test]
    fn who_came_last_notices_first() {
        let (mut old, mut new) = (Claims::default(), Claims::default());
        old.opened(second(1_000));
        let mut now = 2_000;
        loop {
            new.opened(second(now));
            if old.overtaken(second(now + 1)) {
                panic!("it was there before");
            }
            old.opened(second(now + 1));
            now += 2;
            if new.overtaken(second(now)) {
                break;
            }
        }
        assert!(new.conflict() && !old.conflict());
    }

    #[test]
    fn one_who_had_forgotten_how_far_it_was_is_no_conflict() {
        let mut claims = Claims::default();
        for time in 0..50 {
            claims.opened(second(time * 100));
            assert!(!claims.overtaken(second(time * 100 + 1)));
            claims.opened(second(time * 100 + 2));
            assert!(!claims.overtaken(second(time * 100 + 90)));
        }
    }
}
