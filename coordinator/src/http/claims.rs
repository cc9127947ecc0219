//! Whose each live session is. A region is one agent's, or that of several which share its store and
//! its session; another credential with a session of its own is somebody else's agent by mistake.

use super::refusal::Refusal;
use parking_lot::Mutex;
use quorate_shared::heartbeat::Heartbeat;
use quorate_shared::names::RegionName;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The sessions that this node has renewed as the leader, and by whose heartbeats.
#[derive(Debug, Default)]
pub struct Claims(Mutex<BTreeMap<RegionName, Claim>>);

#[derive(Clone, Debug)]
struct Claim {
    credential: String,
    nonce: u64,
    renewed: Instant,
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
    pub fn renewed(&self, region: RegionName, nonce: u64, credential: &str, now: Instant) {
        self.0.lock().insert(region, Claim { credential: credential.to_owned(), nonce, renewed: now });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        claims.renewed("eu".parse().expect("a name"), 1, "one", now);
        assert!(check(2, "one", Duration::ZERO), "a new session of the same agent");
        assert!(check(1, "two", Duration::ZERO), "another agent of the same session");
        assert!(!check(2, "two", Duration::ZERO));
        assert!(!check(2, "two", LEASE - Duration::from_millis(1)));
        assert!(check(2, "two", LEASE), "it was not heard for a lease");
    }
}
