//! Regions whose agents say that their store fails.
//!
//! A number for a heartbeat comes from the store, so without it nothing is renewed. The agent then repeats the
//! last number that was answered, which renews nothing (R1) and says how the store is. That is for display:
//! it is in no log, and of the leader alone.

use parking_lot::Mutex;
use quorate_shared::api::Regions;
use quorate_shared::heartbeat::Heartbeat;
use quorate_shared::names::RegionName;
use std::collections::BTreeSet;

/// Regions whose agents say that their store fails.
#[derive(Debug, Default)]
pub struct Ailing(Mutex<BTreeSet<RegionName>>);

impl Ailing {
    /// What a heartbeat says that renews nothing. True if it is news.
    pub fn hear(&self, heartbeat: &Heartbeat) -> bool {
        !heartbeat.store.healthy && self.0.lock().insert(heartbeat.region.clone())
    }

    /// A heartbeat of this region was taken up: its store has given it a number.
    pub fn recovered(&self, region: &RegionName) {
        self.0.lock().remove(region);
    }

    /// Puts what was heard into the view of the regions.
    pub fn show(&self, regions: &mut Regions) {
        let ailing = self.0.lock();
        for region in &mut regions.regions {
            region.store.healthy &= !ailing.iter().any(|name| name.as_str() == region.region);
        }
    }
}
