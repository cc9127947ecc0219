//! What the clock of the Redis host shows, as far as can be told from here.
//!
//! Good enough to name the window that a script will find open: the script checks it, and says what
//! its clock shows if it is another one.

use parking_lot::Mutex;
use quorate_shared::time::StoreTime;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// An estimate of the clock that scripts go by.
#[derive(Debug, Default)]
pub struct StoreWall {
    seen: Mutex<Option<Seen>>,
}

/// What a script said, and when it was sent: the next one takes about as long to get there.
#[derive(Clone, Copy, Debug)]
struct Seen {
    shown: StoreTime,
    sent: Instant,
}

impl StoreWall {
    /// What a script that is sent at `sent` will find, by what the last one found; by this host's own
    /// clock before the first.
    pub fn at(&self, sent: Instant) -> StoreTime {
        match *self.seen.lock() {
            Some(seen) => seen.shown.after(sent.saturating_duration_since(seen.sent)),
            None => StoreTime::ZERO.after(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO)),
        }
    }

    /// A script that was sent at `sent` found the clock showing this.
    pub fn learn(&self, sent: Instant, shown: StoreTime) {
        let mut seen = self.seen.lock();
        if seen.is_none_or(|last| last.sent <= sent) {
            *seen = Some(Seen { shown, sent });
        }
    }
}

/// What to tell one script, and what again if that was not the window that it found open.
#[derive(Debug)]
pub struct Guesses<'a> {
    wall: &'a StoreWall,
    sent: Instant,
    found: StoreTime,
    as_found: bool,
}

impl StoreWall {
    /// For a script that is about to be sent.
    pub fn guesses(&self) -> Guesses<'_> {
        Guesses { wall: self, sent: Instant::now(), found: StoreTime::ZERO, as_found: false }
    }
}

impl Guesses<'_> {
    /// The next guess; the script is sent now. After a miss first what the script found, since a clock
    /// that was put back counts as standing; then again what it will find if it runs.
    pub fn next(&mut self) -> StoreTime {
        self.sent = Instant::now();
        if self.as_found { self.found } else { self.wall.at(self.sent) }
    }

    /// The script found this instead.
    pub fn missed(&mut self, found: StoreTime) {
        self.wall.learn(self.sent, found);
        (self.found, self.as_found) = (found, !self.as_found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_that_was_sent_says_what_the_next_will_find() {
        let (wall, begun) = (StoreWall::default(), Instant::now());
        let later = |ms| begun + Duration::from_millis(ms);
        wall.learn(later(10), StoreTime::from_micros(5_000_000));
        assert_eq!(wall.at(later(12)), StoreTime::from_micros(5_002_000));
        // overtaken on its way back
        wall.learn(later(9), StoreTime::from_micros(1));
        assert_eq!(wall.at(later(12)), StoreTime::from_micros(5_002_000));
        // the clock was put back
        wall.learn(later(13), StoreTime::from_micros(4_000_000));
        assert_eq!(wall.at(later(13)), StoreTime::from_micros(4_000_000));
    }

    #[test]
    fn after_a_miss_the_clock_is_first_taken_for_standing_and_then_for_running() {
        let wall = StoreWall::default();
        let (mut guesses, shown) = (wall.guesses(), StoreTime::from_micros(7_000_000));
        guesses.next();
        guesses.missed(shown);
        assert_eq!(guesses.next(), shown);
        let later = StoreTime::from_micros(8_000_000);
        guesses.missed(later);
        assert!(guesses.next() >= later);
    }
}
