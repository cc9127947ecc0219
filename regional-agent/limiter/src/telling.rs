//! Which heartbeats said something, where not all that there is to say fits into one.

/// An unbroken run of heartbeats that said it: the newest one that there was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    run: Option<(u64, u64)>,
}

impl Told {
    /// Heartbeat `seq` says it; `before` was the one before that.
    pub fn say(&mut self, seq: u64, before: u64) {
        let first = self.run.filter(|(_, last)| *last == before).map_or(seq, |(first, _)| first);
        self.run = Some((first, seq));
    }

    /// True if nobody was told.
    pub const fn is_news(self) -> bool {
        self.run.is_none()
    }

    /// True if heartbeat `seq` said it, so that whoever has answered that knows it. Of an older run nothing is
    /// remembered: it is said again.
    pub fn in_heartbeat(self, seq: u64) -> bool {
        self.run.is_some_and(|(first, last)| (first..=last).contains(&seq))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_heartbeats_that_said_it_tell() {
        let mut told = Told::default();
        assert!(told.is_news() && !told.in_heartbeat(0));
        told.say(3, 1);
        told.say(5, 3);
        let in_run = |told: Told| (2..=8).filter(|seq| told.in_heartbeat(*seq)).collect::<Vec<_>>();
        assert_eq!(in_run(told), [3, 4, 5], "there was no heartbeat 4, so nobody has answered it");
        told.say(8, 7);
        assert_eq!(in_run(told), [8], "heartbeat 7 did not say it");
    }
}
