//! What coordinators know of parts that gateways spend by themselves: nothing is assigned of a policy before its bound has a
//! term for that.
//!
//! The agent that renews names policies in its heartbeats, and believes its answer. One that follows writes its policies
//! down for the one that renews, which reads that after it drew the number of a heartbeat. So what was written down before
//! the store showed number `n` as the newest is in every heartbeat after `n`, and heard once a response to one is applied.

use quorate_shared::heartbeat::{Number, Parts};
use quorate_shared::names::PolicyName;
use quorate_shared::time::LocalTime;
use quorate_shared::units::MicroTokens;
use std::collections::BTreeMap;
use std::time::Duration;

/// A policy is named for so long after the last part of it was wanted: longer than any part lives.
const NAMED: Duration = Duration::from_secs(60);

/// The policies of which this agent assigns parts, and what is known of them.
#[derive(Debug, Default)]
pub struct Announcements {
    of: BTreeMap<PolicyName, Announcement>,
}

#[derive(Debug)]
struct Announcement {
    /// What is to be in the bound.
    most: MicroTokens,
    /// What is in it.
    heard: MicroTokens,
    /// The newest number drawn when `most` was first written down for another agent.
    written: Option<Number>,
    wanted: LocalTime,
}

impl Announcements {
    /// A part is wanted of a policy whose bound must have `most` for that. True if it has.
    pub fn may_assign(&mut self, now: LocalTime, policy: &PolicyName, most: MicroTokens) -> bool {
        let zero = MicroTokens::ZERO;
        let known = self.of.entry(policy.clone()).or_insert(Announcement { most: zero, heard: zero, written: None, wanted: now });
        known.wanted = now;
        if most > known.most {
            (known.most, known.written) = (most, None);
        }
        known.heard >= most
    }

    /// What is to be said at `now`. A policy of which nothing was wanted for a while is forgotten: it begins anew.
    pub fn named(&mut self, now: LocalTime) -> Vec<Parts> {
        self.of.retain(|_, known| now.since(known.wanted) <= NAMED);
        self.of.iter().map(|(policy, known)| Parts { policy: policy.clone(), most: known.most }).collect()
    }

    /// A heartbeat that said so was answered.
    pub fn answered(&mut self, said: &[Parts]) {
        for parts in said {
            if let Some(known) = self.of.get_mut(&parts.policy) {
                known.heard = known.heard.max(parts.most);
            }
        }
    }

    /// What the agent that renews can read: `said` was written down, and after that the store showed `drawn` as the newest
    /// number and `applied` as the newest response.
    pub fn saw(&mut self, said: &[Parts], drawn: Number, applied: Number) {
        for parts in said {
            let Some(known) = self.of.get_mut(&parts.policy).filter(|known| known.most == parts.most) else { continue };
            let written = *known.written.get_or_insert(drawn);
            if written.session != drawn.session {
                known.written = Some(drawn);
            } else if applied > written {
                known.heard = known.most;
            }
        }
    }

    /// The coordinators were founded anew: they know nothing.
    pub fn forget(&mut self) {
        self.of.clear();
    }
}

/// What all agents of a region say: the most of each policy.
pub fn together(said: impl IntoIterator<Item = Parts>) -> Vec<Parts> {
    let mut most: BTreeMap<PolicyName, MicroTokens> = BTreeMap::new();
    for parts in said {
        let known = most.entry(parts.policy).or_default();
        *known = parts.most.max(*known);
    }
    most.into_iter().map(|(policy, most)| Parts { policy, most }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(name: &str) -> PolicyName {
        name.parse().expect("a name")
    }

    fn parts(name: &str, most: u64) -> Parts {
        Parts { policy: policy(name), most: MicroTokens(most) }
    }

    fn at(seconds: u64) -> LocalTime {
        LocalTime::from_micros(seconds * 1_000_000)
    }

    fn number(session: u64, seq: u64) -> Number {
        Number { session, seq }
    }

    #[test]
    fn nothing_is_assigned_before_an_answer_and_nothing_more_than_was_said() {
        let mut known = Announcements::default();
        assert!(!known.may_assign(at(0), &policy("p"), MicroTokens(5)));
        let said = known.named(at(0));
        assert_eq!(said, [parts("p", 5)]);
        assert!(!known.may_assign(at(1), &policy("p"), MicroTokens(7)), "of another subject");
        known.answered(&said);
        assert!(known.may_assign(at(1), &policy("p"), MicroTokens(5)) && !known.may_assign(at(1), &policy("p"), MicroTokens(7)));
        assert!(!known.may_assign(at(1), &policy("q"), MicroTokens(1)));
        let said = known.named(at(1));
        known.answered(&said);
        assert!(known.may_assign(at(1), &policy("p"), MicroTokens(7)) && known.may_assign(at(1), &policy("q"), MicroTokens(1)));
    }

    #[test]
    fn what_is_not_wanted_any_more_is_said_for_longer_than_a_part_lives_and_then_begins_anew() {
        let mut known = Announcements::default();
        known.may_assign(at(0), &policy("p"), MicroTokens(5));
        known.answered(&[parts("p", 5)]);
        assert_eq!(known.named(at(60)).len(), 1);
        assert_eq!(known.named(at(61)), []);
        assert!(!known.may_assign(at(61), &policy("p"), MicroTokens(5)));
        assert!(NAMED > crate::quota::LONGEST * 2);
    }

    #[test]
    fn one_that_follows_waits_for_a_response_to_a_heartbeat_whose_number_was_drawn_after_its_writing() {
        let mut known = Announcements::default();
        known.may_assign(at(0), &policy("p"), MicroTokens(5));
        let said = known.named(at(0));
        for (drawn, applied, heard) in [((1, 8), (1, 7), false), ((1, 8), (1, 8), false), ((1, 9), (1, 8), false), ((1, 9), (1, 9), true)] {
            known.saw(&said, number(drawn.0, drawn.1), number(applied.0, applied.1));
            assert_eq!(known.may_assign(at(0), &policy("p"), MicroTokens(5)), heard, "{drawn:?} {applied:?}");
        }
    }

    #[test]
    fn another_session_and_a_greater_amount_are_waited_for_anew() {
        let mut known = Announcements::default();
        let p = policy("p");
        known.may_assign(at(0), &p, MicroTokens(5));
        let said = known.named(at(0));
        known.saw(&said, number(1, 8), number(1, 7));
        known.saw(&said, number(2, 1), number(2, 1));
        assert!(!known.may_assign(at(0), &p, MicroTokens(5)), "its heartbeat 1 may have been composed before the writing");
        known.may_assign(at(0), &p, MicroTokens(6));
        known.saw(&said, number(2, 3), number(2, 3));
        assert!(!known.may_assign(at(0), &p, MicroTokens(5)), "what was written is not what is to be said");
        let said = known.named(at(0));
        known.saw(&said, number(2, 3), number(2, 3));
        known.saw(&said, number(2, 4), number(2, 4));
        assert!(known.may_assign(at(0), &p, MicroTokens(6)));
        known.forget();
        assert!(!known.may_assign(at(0), &p, MicroTokens(1)));
    }

    #[test]
    fn agents_of_a_region_say_the_most_of_each_policy() {
        let all = [parts("q", 1), parts("p", 5), parts("p", 3), parts("q", 2)];
        assert_eq!(together(all), [parts("p", 5), parts("q", 2)]);
    }
}
