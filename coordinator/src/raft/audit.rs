//! The account of what the log did: written as entries are applied, kept beside the log, read newest first.
//!
//! It is made of entries and what they came to, so every coordinator makes the same one. One that was sent a snapshot in
//! the place of entries says so in its own ([`AuditKind::Gap`]).

use super::format;
use super::types::Member;
use quorate_ledger::{Author, Command, Note, Outcome};
use quorate_shared::api::CapacityTokens;
use quorate_shared::audit::{AuditEvent, AuditHolding, AuditKind};
use quorate_shared::heartbeat::Holding;
use quorate_shared::names::{BudgetId, RegionName};
use quorate_shared::text::DurationText;
use std::fmt;
use std::io;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

/// As many are kept of what people ordered, and of what happens once in a while.
pub const MOST_ACTS: u64 = 100_000;
/// As many are kept of grants and sessions.
pub const MOST_ROUTINE: u64 = 200_000;
/// As many are looked through for one answer.
const MOST_READ: usize = 50_000;

/// Where an event stands: the index of its entry, and its place among what that entry did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Index in the log.
    pub index: u64,
    /// From 0 on.
    pub part: u32,
}

/// One event as it is stored.
pub struct Row {
    /// Where.
    pub place: Place,
    /// Whether it is among what happens all the time.
    pub routine: bool,
    /// The event.
    pub bytes: Vec<u8>,
}

/// An entry that was applied.
pub struct Applied<'a> {
    /// Of its log id.
    pub term: u64,
    /// Of its log id.
    pub index: u64,
    /// What it was.
    pub command: &'a Command,
    /// What it came to.
    pub outcome: &'a Outcome,
    /// What it did.
    pub notes: &'a [Note],
}

/// Which events are wanted.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Not before this, as Unix time in milliseconds.
    pub since_ms: Option<u64>,
    /// Before this.
    pub until_ms: Option<u64>,
    /// Of this policy alone.
    pub policy: Option<String>,
    /// Of this subject alone, by its hash.
    pub subject: Option<String>,
    /// Of this region alone.
    pub region: Option<String>,
    /// Of this kind alone.
    pub kind: Option<AuditKind>,
    /// Before this place.
    pub before: Option<Place>,
    /// So many at most.
    pub limit: usize,
}

impl Applied<'_> {
    /// What there is to keep of it.
    pub fn events(&self) -> Vec<AuditEvent> {
        let base = AuditEvent { at_ms: now_ms(), term: self.term, index: self.index, ..AuditEvent::default() };
        let act = self.act().map(|act| AuditEvent { term: self.term, index: self.index, ..act });
        act.into_iter().chain(self.notes.iter().map(|note| of_note(note, &base))).collect()
    }

    /// What somebody ordered, unless it was refused.
    fn act(&self) -> Option<AuditEvent> {
        match (self.command, self.outcome) {
            (Command::Found { lease, .. }, _) => {
                let detail = format!("lease {}", DurationText(*lease));
                Some(AuditEvent { at_ms: now_ms(), kind: AuditKind::Founded, detail, ..AuditEvent::default() })
            }
            (Command::Level { to }, Outcome::Done) => {
                let detail = format!("level {to}");
                Some(AuditEvent { at_ms: now_ms(), kind: AuditKind::LevelRaised, detail, ..AuditEvent::default() })
            }
            (Command::Policies { by, .. }, Outcome::Policies { version, waits_for }) => {
                Some(AuditEvent { version: Some(*version), detail: waits(waits_for), ..ordered(AuditKind::PoliciesChanged, by) })
            }
            (Command::Restore { by, .. }, Outcome::Policies { version, waits_for }) => {
                Some(AuditEvent { version: Some(*version), detail: waits(waits_for), ..ordered(AuditKind::Restored, by) })
            }
            (Command::Fence { region, by }, Outcome::Done) => {
                Some(AuditEvent { region: Some(region.to_string()), ..ordered(AuditKind::FenceOrdered, by) })
            }
            (Command::Lease { lease, by }, Outcome::Done) => {
                Some(AuditEvent { detail: format!("lease {}", DurationText(*lease)), ..ordered(AuditKind::LeaseChanged, by) })
            }
            (Command::Members { order, by }, _) => Some(AuditEvent { detail: order.to_string(), ..ordered(AuditKind::MembersOrdered, by) }),
            (Command::ClearAlarm { policy, subject, by }, Outcome::AlarmsCleared { cleared, standing }) => Some(AuditEvent {
                policy: policy.as_ref().map(ToString::to_string),
                subject: subject.map(|subject| subject.to_string()),
                detail: format!("{} cleared, {} fail the check still", cleared.len(), standing.len()),
                ..ordered(AuditKind::AlarmsCleared, by)
            }),
            _ => None,
        }
    }
}

/// An entry that changed the members.
pub fn members<'a>(term: u64, index: u64, members: impl Iterator<Item = (&'a u64, &'a Member)>) -> AuditEvent {
    let listed: Vec<String> = members.map(|(id, member)| format!("{id} at {}", member.address)).collect();
    let base = AuditEvent { at_ms: now_ms(), term, index, ..AuditEvent::default() };
    AuditEvent { kind: AuditKind::MembersChanged, detail: listed.join(", "), ..base }
}

/// A snapshot that took the place of entries up to an index.
pub fn gap(term: u64, index: u64, after: Option<u64>) -> AuditEvent {
    let from = after.map_or(0, |after| after.saturating_add(1));
    let detail = format!("entries {from} to {index} came as a snapshot");
    AuditEvent { at_ms: now_ms(), term, index, kind: AuditKind::Gap, detail, ..AuditEvent::default() }
}

/// The events of one entry, to be stored.
///
/// # Errors
/// If one cannot be written.
pub fn rows(events: &[AuditEvent]) -> io::Result<Vec<Row>> {
    let row = |(part, event): (u32, &AuditEvent)| {
        let place = Place { index: event.index, part };
        Ok(Row { place, routine: event.kind.is_routine(), bytes: format::encode(event)? })
    };
    (0..).zip(events).map(row).collect()
}

/// The wanted events of those stored, newest first, and where to go on if there may be more. Looks at [`MOST_READ`] of
/// them at most.
///
/// # Errors
/// If one cannot be read.
pub fn page(
    newest_first: impl Iterator<Item = io::Result<(Place, Vec<u8>)>>,
    wanted: &Wanted,
) -> io::Result<(Vec<AuditEvent>, Option<Place>)> {
    let (mut events, mut last) = (Vec::new(), None);
    for (read, stored) in newest_first.enumerate() {
        if events.len() >= wanted.limit || read >= MOST_READ {
            return Ok((events, last));
        }
        let (place, bytes) = stored?;
        let event: AuditEvent = format::decode(&bytes)?;
        if wanted.takes(&event) {
            events.push(event);
        }
        last = Some(place);
    }
    Ok((events, None))
}

impl Wanted {
    fn takes(&self, event: &AuditEvent) -> bool {
        let is = |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        self.since_ms.is_none_or(|since| event.at_ms >= since)
            && self.until_ms.is_none_or(|until| event.at_ms < until)
            && self.kind.is_none_or(|kind| event.kind == kind)
            && is(&self.policy, &event.policy)
            && is(&self.subject, &event.subject)
            && is(&self.region, &event.region)
    }
}

fn of_note(note: &Note, base: &AuditEvent) -> AuditEvent {
    let base = base.clone();
    let of_region = |kind, region: &RegionName| AuditEvent { kind, region: Some(region.to_string()), ..base.clone() };
    let of_budget = |event: AuditEvent, budget: &BudgetId| AuditEvent {
        policy: Some(budget.policy.to_string()),
        subject: Some(budget.subject.to_string()),
        ..event
    };
    match note {
        Note::Granted { region, budget, holding } => {
            AuditEvent { holding: Some(shown(holding)), ..of_budget(of_region(AuditKind::Granted, region), budget) }
        }
        Note::GrantedUnits { region, budget, label, units } => AuditEvent {
            units: Some(units.tokens()),
            window_begins_at_ms: Some(label.start().as_micros() / 1_000),
            ..of_budget(of_region(AuditKind::UnitsGranted, region), budget)
        },
        Note::SessionBegan { region, session } => {
            AuditEvent { detail: format!("session {session}"), ..of_region(AuditKind::SessionBegan, region) }
        }
        Note::LeaseEnded { region } => of_region(AuditKind::LeaseEnded, region),
        Note::Fenced { region } => of_region(AuditKind::RegionFenced, region),
        Note::Activated { version } => AuditEvent { kind: AuditKind::PoliciesActive, version: Some(*version), ..base },
        Note::CheckFailed { budget, what } => {
            of_budget(AuditEvent { kind: AuditKind::CheckFailed, detail: what.clone(), ..base.clone() }, budget)
        }
    }
}

fn ordered(kind: AuditKind, by: &Author) -> AuditEvent {
    AuditEvent { kind, at_ms: by.when_ms, who: Some(by.who.clone()), why: by.why.clone(), ..AuditEvent::default() }
}

fn waits(regions: &[RegionName]) -> String {
    let names: Vec<&str> = regions.iter().map(RegionName::as_str).collect();
    if names.is_empty() { String::new() } else { format!("waits for {}", names.join(", ")) }
}

fn shown(holding: &Holding) -> AuditHolding {
    let borrowed = holding.borrowed.iter().map(|(lender, loan)| (lender.to_string(), CapacityTokens::from(*loan)));
    AuditHolding { pool: holding.pool.into(), lent: holding.lent.into(), borrowed: borrowed.collect() }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index, self.part)
    }
}

impl FromStr for Place {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = || {
            let (index, part) = text.split_once('.')?;
            Some(Self { index: index.parse().ok()?, part: part.parse().ok()? })
        };
        read().ok_or("not a cursor of an earlier answer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(index: u64, kind: AuditKind, region: &str) -> AuditEvent {
        AuditEvent { at_ms: 1_000 * index, index, kind, region: Some(region.to_owned()), ..AuditEvent::default() }
    }

    fn stored(events: &[AuditEvent]) -> impl Iterator<Item = io::Result<(Place, Vec<u8>)>> {
        let rows: Vec<Row> = events.iter().flat_map(|event| rows(std::slice::from_ref(event)).expect("written")).collect();
        rows.into_iter().rev().map(|row| Ok((row.place, row.bytes)))
    }

    #[test]
    fn a_page_has_what_is_wanted_and_the_next_goes_on_where_it_ended() {
        let all: Vec<AuditEvent> = (1..=9).map(|n| event(n, AuditKind::Granted, if n % 2 == 0 { "eu" } else { "us" })).collect();
        let wanted = Wanted { region: Some("eu".into()), limit: 2, ..Wanted::default() };
        let (events, next) = page(stored(&all), &wanted).expect("read");
        assert_eq!(events.iter().map(|e| e.index).collect::<Vec<_>>(), [8, 6]);
        assert_eq!(next, Some(Place { index: 6, part: 0 }));
        let (events, next) = page(stored(&all[..5]), &wanted).expect("read");
        assert_eq!((events.iter().map(|e| e.index).collect::<Vec<_>>(), next), (vec![4, 2], Some(Place { index: 2, part: 0 })));
        let (events, next) = page(stored(&all[..1]), &wanted).expect("read");
        assert_eq!((events.len(), next), (0, None));
        let span = Wanted { since_ms: Some(3_000), until_ms: Some(5_000), limit: 9, ..Wanted::default() };
        let (events, _) = page(stored(&all), &span).expect("read");
        assert_eq!(events.iter().map(|e| e.index).collect::<Vec<_>>(), [4, 3]);
    }

    #[test]
    fn who_looks_for_what_is_rare_goes_on_later() {
        let all: Vec<AuditEvent> = (1..=MOST_READ as u64 + 10).map(|n| event(n, AuditKind::Granted, "eu")).collect();
        let wanted = Wanted { kind: Some(AuditKind::Founded), limit: 1, ..Wanted::default() };
        let (events, next) = page(stored(&all), &wanted).expect("read");
        assert_eq!((events.len(), next), (0, Some(Place { index: 11, part: 0 })));
    }

    #[test]
    fn a_cursor_reads_back_as_written_and_nothing_else_does() {
        let place = Place { index: u64::MAX, part: 7 };
        assert_eq!(place.to_string().parse(), Ok(place));
        for bad in ["", "1", "1.", "x.1", "1.1.1", "-1.0"] {
            assert!(bad.parse::<Place>().is_err(), "{bad}");
        }
    }
}
