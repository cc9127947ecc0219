//! Which request goes to which agent at which instant. Computed ahead of the clock, so that no slow answer moves it.

use super::fleet::Fleet;
use super::shape::Demand;
use super::trace::TraceRequest;
use quorate_shared::names::RegionName;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// What a request says of itself.
pub type Attributes = BTreeMap<String, String>;

/// One request to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Since the beginning of the run.
    pub at: Duration,
    /// Index of the agent in its [`Fleet`].
    pub agent: usize,
    /// Index of its attributes among the kinds of the run.
    pub kind: usize,
}

/// A run that is known from end to end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// The different sets of attributes.
    pub kinds: Vec<Attributes>,
    /// The requests, by instant.
    pub plan: Vec<Planned>,
}

/// Regions of a trace that no agent serves.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no agent for region {}; name one by --agents REGION=URL,…", list(.0))]
pub struct UnservedRegions(pub BTreeSet<RegionName>);

fn list(regions: &BTreeSet<RegionName>) -> String {
    regions.iter().map(RegionName::as_str).collect::<Vec<_>>().join(", ")
}

impl Replay {
    /// Each request at `offset / speed`, to an agent of its region, in turn if there are several;
    /// with the attributes `route`, `method` and `client`, and `more`.
    pub fn new(trace: &[TraceRequest], speed: f64, fleet: &Fleet, more: &Attributes) -> Result<Self, UnservedRegions> {
        let unserved: BTreeSet<RegionName> = trace.iter().map(|r| &r.region).filter(|r| fleet.agents_of(r).is_empty()).cloned().collect();
        if !unserved.is_empty() {
            return Err(UnservedRegions(unserved));
        }
        let mut in_order: Vec<&TraceRequest> = trace.iter().collect();
        in_order.sort_by_key(|r| r.offset);
        let mut turns = Turns::default();
        let mut kinds = Kinds::default();
        let mut plan = Vec::with_capacity(trace.len());
        for request in in_order {
            let agent = turns.next(&fleet.agents_of(&request.region), &request.region);
            let at = Duration::try_from_secs_f64(request.offset.as_secs_f64() / speed).unwrap_or(Duration::MAX);
            plan.push(Planned { at, agent, kind: kinds.index(attributes(request, more)) });
        }
        Ok(Self { kinds: kinds.list, plan })
    }
}

fn attributes(request: &TraceRequest, more: &Attributes) -> Attributes {
    let own = [("route", &request.route), ("method", &request.method), ("client", &request.client)];
    let own = own.into_iter().map(|(name, value)| (name.to_owned(), value.clone()));
    more.clone().into_iter().chain(own).collect()
}

/// Which of several agents of a region is next.
#[derive(Default)]
struct Turns(HashMap<RegionName, usize>);

impl Turns {
    fn next(&mut self, agents: &[usize], region: &RegionName) -> usize {
        let turn = self.0.entry(region.clone()).or_default();
        let agent = agents[*turn % agents.len()];
        *turn += 1;
        agent
    }
}

#[derive(Default)]
struct Kinds {
    list: Vec<Attributes>,
    known: HashMap<Attributes, usize>,
}

impl Kinds {
    fn index(&mut self, attributes: Attributes) -> usize {
        *self.known.entry(attributes).or_insert_with_key(|new| {
            self.list.push(new.clone());
            self.list.len() - 1
        })
    }
}

/// Endless even arrivals that follow a [`Demand`]: each region's first request goes as soon as it has demand, the next
/// when its demand has grown by one more. All of kind 0. Ends only where there is no demand.
#[derive(Clone, Debug)]
pub struct Paced {
    demand: Demand,
    regions: Vec<PacedRegion>,
}

#[derive(Clone, Debug)]
struct PacedRegion {
    agents: Vec<usize>,
    /// Requests sent so far.
    count: u64,
    /// Part of a request by which the region is behind, so that regions do not send at the same instants.
    phase: f64,
    next: Option<Duration>,
}

impl Paced {
    /// Arrivals at the agents of `fleet`, whose regions are those of `demand`.
    pub fn new(demand: Demand, fleet: &Fleet) -> Self {
        let names = fleet.regions();
        let phase = |i: usize| i as f64 / names.len() as f64;
        let region = |(i, name): (usize, &RegionName)| PacedRegion { agents: fleet.agents_of(name), count: 0, phase: phase(i), next: None };
        let mut paced = Self { demand, regions: names.iter().enumerate().map(region).collect() };
        for i in 0..paced.regions.len() {
            paced.advance(i, Duration::ZERO);
        }
        paced
    }

    fn advance(&mut self, region: usize, from: Duration) {
        let due = self.regions[region].count as f64 + self.regions[region].phase;
        self.regions[region].next = when_sent(&self.demand, region, due, from);
    }
}

impl Iterator for Paced {
    type Item = Planned;

    fn next(&mut self) -> Option<Planned> {
        let due = self.regions.iter().enumerate().filter_map(|(i, r)| Some((r.next?, i)));
        let (at, i) = due.min()?;
        let region = &mut self.regions[i];
        let turn = usize::try_from(region.count).unwrap_or(usize::MAX) % region.agents.len();
        let agent = region.agents[turn];
        region.count += 1;
        self.advance(i, at);
        Some(Planned { at, agent, kind: 0 })
    }
}

/// The first instant after `from` by which the demand of `region` exceeds `count`, to a microsecond or better;
/// `None` if that takes more than a day.
fn when_sent(demand: &Demand, region: usize, count: f64, from: Duration) -> Option<Duration> {
    const LONGEST: Duration = Duration::from_secs(86_400);
    let mut step = Duration::from_millis(1);
    while demand.sent_by(region, from + step) <= count {
        step = step.checked_mul(2).filter(|s| *s <= LONGEST)?;
    }
    let (mut low, mut high) = (from, from + step);
    while high - low > Duration::from_nanos(500) {
        let middle = low + (high - low) / 2;
        match demand.sent_by(region, middle) <= count {
            true => low = middle,
            false => high = middle,
        }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::fleet::Agent;
    use crate::load::shape::Shape;

    fn name(text: &str) -> RegionName {
        text.parse().expect("a name")
    }

    fn fleet(regions: &[&str]) -> Fleet {
        Fleet::new(regions.iter().map(|r| Agent { region: name(r), url: format!("http://{r}") }).collect())
    }

    fn request(offset: u64, region: &str, route: &str) -> TraceRequest {
        let text = |s: &str| s.to_owned();
        TraceRequest {
            offset: Duration::from_secs(offset),
            region: name(region),
            client: text("c"),
            method: text("GET"),
            route: text(route),
        }
    }

    #[test]
    fn a_trace_goes_to_its_regions_at_its_speed() {
        let trace = [request(10, "eu", "b"), request(0, "us", "a"), request(10, "us", "a"), request(10, "us", "b")];
        let more = Attributes::from([("tenant".into(), "acme".into()), ("route".into(), "overridden".into())]);
        let replay = Replay::new(&trace, 1_000.0, &fleet(&["us", "eu", "us"]), &more).expect("all are served");
        let ms = Duration::from_millis;
        let planned = |at, agent, kind| Planned { at: ms(at), agent, kind };
        assert_eq!(replay.plan, [planned(0, 0, 0), planned(10, 1, 1), planned(10, 2, 0), planned(10, 0, 1)]);
        assert_eq!(replay.kinds.len(), 2);
        assert_eq!(replay.kinds[0]["route"], "a");
        assert_eq!(replay.kinds[0]["tenant"], "acme");
        assert_eq!(replay.kinds[0].len(), 4);
    }

    #[test]
    fn regions_without_an_agent_are_named() {
        let trace = [request(0, "us", "a"), request(0, "ap", "a"), request(0, "br", "a")];
        let refused = Replay::new(&trace, 1.0, &fleet(&["us"]), &Attributes::new()).expect_err("two are not served");
        assert_eq!(refused.0, BTreeSet::from([name("ap"), name("br")]));
    }

    #[test]
    fn even_arrivals_are_evenly_spaced() {
        let demand = Demand::new(Shape::Steady, 100.0, 2, Duration::from_secs(60));
        let first: Vec<Planned> = Paced::new(demand, &fleet(&["us", "eu"])).take(101).collect();
        for (a, b) in first.iter().zip(&first[1..]) {
            let gap = b.at - a.at;
            assert!(gap.abs_diff(Duration::from_millis(10)) < Duration::from_micros(3), "{gap:?}");
            assert_ne!(a.agent, b.agent);
        }
    }

    #[test]
    fn arrivals_follow_the_demand_and_never_go_back() {
        let demand = Demand::new(Shape::FollowTheSun, 300.0, 3, Duration::from_secs(10));
        let hour: Vec<Planned> = Paced::new(demand, &fleet(&["us", "eu", "ap"])).take_while(|p| p.at < Duration::from_secs(35)).collect();
        assert!(hour.is_sorted_by_key(|p| p.at));
        for region in 0..3 {
            let sent = hour.iter().filter(|p| p.agent == region).count() as f64;
            let expected = demand.sent_by(region, Duration::from_secs(35));
            assert!((sent - expected).abs() <= 1.0, "region {region}: {sent} and {expected}");
        }
    }

    #[test]
    fn no_demand_sends_nothing() {
        let demand = Demand::new(Shape::Steady, 0.0, 1, Duration::from_secs(1));
        assert_eq!(Paced::new(demand, &fleet(&["us"])).next(), None);
    }
}
