//! Whose each live session is. A region is one agent's, or that of several which share its store and
//! its session; another credential with a session of its own is somebody else's agent by mistake. So are two
//! agents of one credential on stores of their own: their sessions overtake each other, again and again.

use super::refusal::Refusal;
use parking_lot::Mutex;
use quorate_shared::api::Regions;
use quorate_shared::heartbeat::Heartbeat;
use quorate_shared::names::RegionName;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A session that was overtaken before this was overtaken by somebody who is there, too.
const SHORT: Duration = Duration::from_secs(10);

/// So many short sessions in a row, each ended by the agent of the one before it, are no accident. Agents of one store
/// take turns that are longer, those that are restarted one after the other do not come back, and one that starts
/// again and again is alone.
const MOST: u32 = 3;

/// A conflict is shown for so long after a session was last overtaken.
const SHOWN: Duration = Duration::from_secs(60);

/// What `GET /v1/regions` says of such a region as its mode.
const CONFLICT: &str = "conflict";

/// The sessions that this node has renewed as the leader, and by whose heartbeats.
#[derive(Debug, Default)]
pub struct Claims(Mutex<BTreeMap<RegionName, Claim>>);

#[derive(Clone, Debug)]
struct Claim {
    credential: String,
    agent: String,
    nonce: u64,
    begun: Instant,
    renewed: Instant,
    /// Whose the session before was.
    before: String,
    /// Short sessions in a row that the agent of the one before it ended.
    leaps: u32,
}

impl Claim {
    fn first(sender: &Sender, credential: &str, now: Instant) -> Self {
        let (agent, credential) = (sender.agent.clone(), credential.to_owned());
        Self { credential, agent, nonce: sender.nonce, begun: now, renewed: now, before: String::new(), leaps: 0 }
    }

    /// The next session, which ends this one.
    fn next(&self, sender: &Sender, credential: &str, now: Instant) -> Self {
        let leaps = now.saturating_duration_since(self.begun) < SHORT && sender.agent == self.before && sender.agent != self.agent;
        let (before, leaps) = (self.agent.clone(), if leaps { self.leaps + 1 } else { 0 });
        Self { before, leaps, ..Self::first(sender, credential, now) }
    }

    fn is_conflict(&self, now: Instant) -> bool {
        self.leaps >= MOST && now.saturating_duration_since(self.begun) < SHOWN
    }
}

/// Who sent a heartbeat.
#[derive(Clone, Debug)]
pub struct Sender {
    region: RegionName,
    agent: String,
    nonce: u64,
}

impl Sender {
    /// Of this one.
    pub fn of(heartbeat: &Heartbeat) -> Self {
        Self { region: heartbeat.region.clone(), agent: heartbeat.agent.clone(), nonce: heartbeat.nonce }
    }

    /// Of which region.
    pub fn region(&self) -> &RegionName {
        &self.region
    }
}

impl Claims {
    /// Checks a heartbeat before it is put to the log.
    ///
    /// # Errors
    /// 409 if the region was renewed within `lease` by another credential in another session.
    pub fn check(&self, heartbeat: &Heartbeat, credential: &str, lease: Duration, now: Instant) -> Result<(), Refusal> {
        let claims = self.0.lock();
        let other = claims.get(&heartbeat.region).filter(|claim| {
            let is_live = now.saturating_duration_since(claim.renewed) < lease;
            is_live && claim.credential != credential && claim.nonce != heartbeat.nonce
        });
        match other {
            None => Ok(()),
            Some(claim) => {
                let (region, holder) = (&heartbeat.region, &claim.credential);
                tracing::error!(%region, credential, holder, agent = heartbeat.agent, "two agents claim one region; this one is refused");
                Err(Refusal::region_claimed(region.as_str()))
            }
        }
    }

    /// A heartbeat has renewed its region.
    pub fn renewed(&self, sender: Sender, credential: &str, now: Instant) {
        let mut claims = self.0.lock();
        let claim = match claims.get(&sender.region) {
            None => Claim::first(&sender, credential, now),
            Some(claim) if claim.nonce == sender.nonce => Claim { credential: credential.to_owned(), renewed: now, ..claim.clone() },
            Some(claim) => claim.next(&sender, credential, now),
        };
        if claim.leaps == MOST && claim.begun == now {
            let (agent, other) = (&claim.agent, &claim.before);
            tracing::error!(region = %sender.region, agent, other, "two stores serve one region: their agents' sessions overtake each other");
        }
        claims.insert(sender.region, claim);
    }

    /// Puts what was found into the view of the regions.
    pub fn show(&self, regions: &mut Regions, now: Instant) {
        let claims = self.0.lock();
        for region in &mut regions.regions {
            if claims.iter().any(|(name, claim)| name.as_str() == region.region && claim.is_conflict(now)) {
                CONFLICT.clone_into(&mut region.mode);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_shared::api::RegionState;
    use quorate_shared::heartbeat::{Number, StoreReport};

    const LEASE: Duration = Duration::from_secs(5);

    fn heartbeat(nonce: u64) -> Heartbeat {
        Heartbeat::silent(
            "eu".parse().expect("a name"),
            "a".to_owned(),
            Number { session: 1, seq: 1 },
            nonce,
            StoreReport::new("redis", true),
        )
    }

    #[test]
    fn another_credential_with_a_session_of_its_own_is_refused_while_the_lease_runs() {
        let (claims, now) = (Claims::default(), Instant::now());
        let check = |nonce, credential, after| claims.check(&heartbeat(nonce), credential, LEASE, now + after).is_ok();
        assert!(check(1, "one", Duration::ZERO));
        claims.renewed(Sender::of(&heartbeat(1)), "one", now);
        assert!(check(2, "one", Duration::ZERO), "a new session of the same agent");
        assert!(check(1, "two", Duration::ZERO), "another agent of the same session");
        assert!(!check(2, "two", Duration::ZERO));
        assert!(!check(2, "two", LEASE - Duration::from_millis(1)));
        assert!(check(2, "two", LEASE), "it was not heard for a lease");
    }

    /// The mode that is shown after sessions of these agents, each of so many seconds.
    fn mode_after(sessions: &[(&str, u64)], later: Duration) -> String {
        let (claims, mut now) = (Claims::default(), Instant::now());
        for (nonce, (agent, seconds)) in (1..).zip(sessions) {
            let sender = Sender { agent: (*agent).to_owned(), ..Sender::of(&heartbeat(nonce)) };
            claims.renewed(sender.clone(), "one", now);
            now += Duration::from_secs(*seconds);
            claims.renewed(sender, "one", now);
        }
        let region = |name: &str| RegionState { region: name.to_owned(), mode: "leased".to_owned(), ..RegionState::default() };
        let mut regions = Regions { regions: vec![region("eu"), region("us")] };
        claims.show(&mut regions, now + later);
        assert_eq!(regions.regions[1].mode, "leased", "nobody was heard of it");
        regions.regions.swap_remove(0).mode
    }

    #[test]
    fn sessions_that_overtake_each_other_are_a_conflict_for_a_minute() {
        let leaps = [("a", 1_000), ("b", 1), ("a", 2), ("b", 1), ("a", 1)];
        assert_eq!(mode_after(&leaps[..4], Duration::ZERO), "leased", "it may be an accident");
        assert_eq!(mode_after(&leaps, Duration::ZERO), CONFLICT);
        assert_eq!(mode_after(&leaps, SHOWN), "leased", "one side has stopped");
    }

    #[test]
    fn restarts_and_turns_are_no_conflict() {
        assert_eq!(mode_after(&[("a", 2); 20], Duration::ZERO), "leased", "it starts again and again");
        let turns = [("a", 1), ("b", 1), ("c", 1), ("d", 1), ("a", 1), ("b", 1), ("c", 1), ("d", 1)];
        assert_eq!(mode_after(&turns, Duration::ZERO), "leased", "one after the other");
        let long = [("a", 11), ("b", 11), ("a", 11), ("b", 11), ("a", 11), ("b", 11)];
        assert_eq!(mode_after(&long, Duration::ZERO), "leased");
    }
}
