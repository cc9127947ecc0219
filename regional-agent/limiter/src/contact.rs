//! When the coordinators were last heard. Floors with an end of their own (`floor-ttl`) hold for so long from then on (R9).

use quorate_shared::heartbeat::PoliciesInForce;
use quorate_shared::time::LocalTime;
use std::time::Duration;

/// The newest response in force: which policy sets it said, and an instant before its heartbeat was sent.
///
/// It renews the floors of the sets that it said and of no others: by an older set others may have been given them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contact(Option<(PoliciesInForce, LocalTime)>);

impl Contact {
    /// A response that said these sets is in force; its heartbeat was sent after `before`.
    pub fn renew(&mut self, sets: PoliciesInForce, before: LocalTime) {
        let earlier = self.heard_by(sets).unwrap_or(before);
        self.0 = Some((sets, before.max(earlier)));
    }

    /// An instant before the sending of the last heartbeat whose response said these sets; `None`: nobody knows.
    pub fn heard_by(&self, sets: PoliciesInForce) -> Option<LocalTime> {
        self.0.filter(|(said, _)| *said == sets).map(|(_, before)| before)
    }

    /// See [`crate::decision::LeaseView::unheard_for`].
    pub fn unheard_for(&self, sets: PoliciesInForce, now: LocalTime) -> Duration {
        unheard_for(self.heard_by(sets), now)
    }
}

/// How long ago that was; longer than anything if nobody knows.
pub(crate) fn unheard_for(heard: Option<LocalTime>, now: LocalTime) -> Duration {
    heard.map_or(Duration::MAX, |before| now.since(before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_renews_the_floors_of_the_sets_that_it_said_alone() {
        let sets = |active| PoliciesInForce { active, next: None, also: None };
        let second = |n: u64| LocalTime::from_micros(n * 1_000_000);
        let mut contact = Contact::default();
        let unheard = |contact: &Contact, active| contact.unheard_for(sets(active), second(20)).as_secs();
        assert_eq!(unheard(&contact, 1), u64::MAX);
        contact.renew(sets(1), second(10));
        contact.renew(sets(1), second(9));
        assert_eq!([1, 2].map(|active| unheard(&contact, active)), [10, u64::MAX]);
        contact.renew(sets(2), second(8));
        assert_eq!([1, 2].map(|active| unheard(&contact, active)), [u64::MAX, 12]);
    }
}
