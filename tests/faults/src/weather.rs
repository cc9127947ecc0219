//! What becomes of what one process sends another.

use crate::places::Place;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// One direction of the connections that one process makes to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// Nothing is refused and nothing arrives, until this ends: then it does, late.
    pub lost: bool,
    /// How long everything takes.
    pub latency: Duration,
    /// Bytes a second at most.
    pub trickle: Option<u32>,
}

/// The connections that one process makes to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weather {
    /// From who connects.
    pub there: Way,
    /// To who connects.
    pub back: Way,
    /// Connections are reset, new ones too.
    pub cut: bool,
    /// Connections that were made before the last of so many storms are reset.
    pub storms: u64,
}

/// What goes wrong between processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Connections are reset, new ones too.
    Cut,
    /// Nothing arrives that the first send the second, on whoever's connection.
    Lost,
    /// It takes so much longer, in each direction.
    Late(Duration),
    /// So many bytes a second at most, in each direction.
    Trickle(u32),
}

/// Something that goes wrong between the first processes and the second, whoever connects.
#[derive(Clone, Debug)]
pub struct Trouble {
    /// The first.
    pub these: Vec<Place>,
    /// The second.
    pub those: Vec<Place>,
    /// What.
    pub kind: Kind,
}

/// A trouble that can be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TroubleId(u64);

/// The weather everywhere. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Climate(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// From one region to another and back.
    round_trip: Duration,
    troubles: BTreeMap<TroubleId, Trouble>,
    begun: u64,
    links: BTreeMap<(Place, Place), watch::Sender<Weather>>,
}

impl Climate {
    /// Nothing goes wrong. Between regions messages take half of `round_trip`.
    pub fn fair(round_trip: Duration) -> Self {
        Self(Arc::new(Mutex::new(State { round_trip, troubles: BTreeMap::new(), begun: 0, links: BTreeMap::new() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The weather between two processes, as it changes.
    pub fn between(&self, caller: Place, called: Place) -> watch::Receiver<Weather> {
        let mut state = self.state();
        let now = state.weather(caller, called, 0);
        state.links.entry((caller, called)).or_insert_with(|| watch::Sender::new(now)).subscribe()
    }

    /// Something goes wrong from now on.
    pub fn begin(&self, trouble: Trouble) -> TroubleId {
        let mut state = self.state();
        state.begun += 1;
        let id = TroubleId(state.begun);
        state.troubles.insert(id, trouble);
        state.tell();
        id
    }

    /// It is over.
    pub fn end(&self, id: TroubleId) {
        let mut state = self.state();
        state.troubles.remove(&id);
        state.tell();
    }

    /// Resets all connections that there are between these and those.
    pub fn storm(&self, these: &[Place], those: &[Place]) {
        let state = self.state();
        let hit = |a: &Place, b: &Place| these.contains(a) && those.contains(b) || these.contains(b) && those.contains(a);
        state.links.iter().filter(|((a, b), _)| hit(a, b)).for_each(|(_, link)| link.send_modify(|weather| weather.storms += 1));
    }
}

impl State {
    fn tell(&self) {
        for ((caller, called), link) in &self.links {
            link.send_if_modified(|weather| {
                let next = self.weather(*caller, *called, weather.storms);
                std::mem::replace(weather, next) != next
            });
        }
    }

    fn weather(&self, caller: Place, called: Place, storms: u64) -> Weather {
        let latency = if caller.region() == called.region() { Duration::ZERO } else { self.round_trip / 2 };
        let mut weather = Weather { storms, ..Weather::default() };
        (weather.there.latency, weather.back.latency) = (latency, latency);
        for trouble in self.troubles.values() {
            trouble.spoil(&mut weather, caller, called);
        }
        weather
    }
}

impl Trouble {
    fn spoil(&self, weather: &mut Weather, caller: Place, called: Place) {
        let there = self.these.contains(&caller) && self.those.contains(&called);
        let back = self.these.contains(&called) && self.those.contains(&caller);
        match self.kind {
            _ if !there && !back => {}
            Kind::Cut => weather.cut = true,
            Kind::Lost => {
                weather.there.lost |= there;
                weather.back.lost |= back;
            }
            Kind::Late(by) => {
                weather.there.latency += by;
                weather.back.latency += by;
            }
            Kind::Trickle(rate) => {
                for way in [&mut weather.there, &mut weather.back] {
                    way.trickle = Some(way.trickle.map_or(rate, |other| other.min(rate)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Place = Place::Coordinator(1);
    const TWO: Place = Place::Coordinator(2);

    #[test]
    fn what_one_sends_is_lost_on_whoevers_connection_and_nothing_else_is() {
        let climate = Climate::fair(Duration::from_millis(80));
        let (to, from) = (climate.between(ONE, TWO), climate.between(TWO, ONE));
        let id = climate.begin(Trouble { these: vec![ONE], those: vec![TWO], kind: Kind::Lost });
        assert_eq!((to.borrow().there.lost, to.borrow().back.lost), (true, false));
        assert_eq!((from.borrow().there.lost, from.borrow().back.lost), (false, true));
        climate.end(id);
        assert!(!to.borrow().there.lost && !from.borrow().back.lost);
        assert_eq!(to.borrow().there.latency, Duration::from_millis(40));
    }

    #[test]
    fn troubles_add_up_and_end_one_by_one() {
        let climate = Climate::fair(Duration::ZERO);
        let link = climate.between(ONE, TWO);
        let trouble = |kind| Trouble { these: vec![ONE, TWO], those: vec![ONE, TWO], kind };
        let cut = climate.begin(trouble(Kind::Cut));
        climate.begin(trouble(Kind::Trickle(100)));
        climate.begin(trouble(Kind::Trickle(50)));
        climate.storm(&[TWO], &[ONE]);
        assert!(link.borrow().cut && link.borrow().storms == 1 && link.borrow().back.trickle == Some(50));
        climate.end(cut);
        assert!(!link.borrow().cut && link.borrow().storms == 1 && link.borrow().there.trickle == Some(50));
    }
}
