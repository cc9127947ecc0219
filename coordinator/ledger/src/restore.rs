//! Coordinators that were restored from a backup: what they granted, lent and were told since it was made nobody knows.
//!
//! So nothing is believed of it but the policy sets. For as long as a lease that was granted before, or past use under it,
//! can count, no heartbeat is answered, so regions fall back to their floors. Then a region goes by the smaller of the set
//! that it knows, whichever that is, and the restored one, which becomes active once every region has confirmed it
//! (R9). Of windows that had begun by then nothing is granted.

use crate::Ledger;
use crate::command::{Author, Outcome};
use crate::ledger::Founding;
use crate::policies::{PolicyBook, PolicyVersion};
use crate::session::{LeftAt, Session};
use quorate_shared::heartbeat::{Answer, Heartbeat, LONGEST_LEASE, Office, Stamp};
use quorate_shared::mistake::{self, Mistake};
use quorate_shared::names::{PolicyName, RegionName, SubjectKey};
use quorate_shared::time::{Drift, LeaderTime, WindowLabel};
use quorate_shared::units::MAX_EXACT;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// How a backup is written down.
pub const BACKUP_FORMAT: u32 = 1;

/// No version is greater where one is to come after it: scripts hold it, and an agent may claim any.
const MOST_VERSION: u64 = MAX_EXACT / 2;

/// So many versions of the policy set are kept: a set may be large, and a backup is one entry of the log.
const KEPT_VERSIONS: usize = 10;

/// An echo is of one of the newest so many offices; an older one says nothing, and the next one will.
const OFFICES: usize = 64;

/// What is kept of a cluster outside of it: what people decided. As secret as the subjects: it holds their key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backup {
    /// [`BACKUP_FORMAT`].
    pub format: u32,
    /// For hashing subjects.
    pub subject_key: SubjectKey,
    /// `L`.
    pub lease: Duration,
    /// ρ.
    pub drift: Drift,
    /// The kept versions of the policy set, oldest first.
    pub history: Vec<PolicyVersion>,
}

/// Why a backup was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum NotRestored {
    /// It is of a later program.
    #[error("the backup is of format {found}, and this program knows format {BACKUP_FORMAT}")]
    Format {
        /// Which.
        found: u32,
    },
    /// It holds no policy set.
    #[error("the backup holds no policy set")]
    Empty,
    /// No version can come after one of its sets.
    #[error("the backup holds version {found} of the policies; none is above {MOST_VERSION}")]
    Version {
        /// Which.
        found: u64,
    },
    /// Policies were changed in the cluster that was to be replaced.
    #[error(
        "policies were changed here up to version {newest}: a backup is restored into a cluster that has none but those it was founded with"
    )]
    InUse {
        /// The newest.
        newest: u64,
    },
}

/// What a restored ledger knows of the time before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Restored {
    /// The newest offices of this cluster: what was stamped in others was said by coordinators that are lost.
    offices: VecDeque<Office>,
    /// The first date in this office by which nothing was answered yet; `None` once heartbeats are.
    quiet_since: Option<LeaderTime>,
    quiet: bool,
    /// For how long what was granted before can count.
    quiet_for: Duration,
    /// The newest version in the backup.
    known: u64,
    /// True once some region knew a later one, so that no budget goes on.
    anew: bool,
    /// The greatest beginning of a window that any region had opened until the restored set was active.
    opened: BTreeMap<PolicyName, WindowLabel>,
}

impl Backup {
    /// Whether this program can go on from it.
    ///
    /// # Errors
    /// If it is of another format, or empty.
    pub fn check(&self) -> Result<(), NotRestored> {
        match self.history.is_empty() {
            _ if self.format != BACKUP_FORMAT => Err(NotRestored::Format { found: self.format }),
            true => Err(NotRestored::Empty),
            false => match self.history.iter().map(|kept| kept.set.version).max() {
                Some(found) if found > MOST_VERSION => Err(NotRestored::Version { found }),
                _ => Ok(()),
            },
        }
    }
}

impl Ledger {
    /// What is to be kept outside of the cluster; `None` before it is founded.
    pub fn backup(&self) -> Option<Backup> {
        let Founding { subject_key, lease, drift, .. } = self.founding()?;
        let history = self.policies.history.iter().rev().take(KEPT_VERSIONS).rev().cloned().collect();
        Some(Backup { format: BACKUP_FORMAT, subject_key: subject_key.clone(), lease: *lease, drift: *drift, history })
    }

    /// Puts a backup in the place of everything. `longest_lease` is the longest that `L` can have been since it was made,
    /// and no set can have had a version of `version` or more.
    pub(crate) fn apply_restore(&mut self, backup: &Backup, longest_lease: Duration, version: u64, by: &Author) -> Outcome {
        let Some(newest) = backup.history.last() else { return Outcome::NotRestored(NotRestored::Empty) };
        if let Err(why) = backup.check() {
            return Outcome::NotRestored(why);
        }
        if self.newest_policies().version > 1 {
            return Outcome::NotRestored(NotRestored::InUse { newest: self.newest_policies().version });
        }
        let Backup { subject_key, lease, drift, history, .. } = backup;
        let sets = history.iter().map(|version| &version.set).chain([self.newest_policies()]);
        let drain = sets.flat_map(|set| &set.policies).map(|policy| policy.limit.drain()).max().unwrap_or_default();
        let longest_lease = longest_lease.max(*lease).min(LONGEST_LEASE);
        let known_here: BTreeSet<RegionName> = self.regions.keys().cloned().collect();
        let founding =
            Founding { subject_key: subject_key.clone(), lease: *lease, drift: *drift, former_leases: Some((*lease, longest_lease)) };
        let version = version.max(newest.set.version.saturating_add(1));
        let mut policies = PolicyBook { history: history.clone(), ..PolicyBook::default() };
        policies.restore(&newest.set, version, by, subject_key);
        let restored = Restored {
            offices: VecDeque::new(),
            quiet_since: None,
            quiet: true,
            quiet_for: drift.stretch(longest_lease).saturating_add(drift.stretch(drain)),
            known: newest.set.version,
            anew: false,
            opened: BTreeMap::new(),
        };
        let (level, clock) = (self.level, self.clock.clone());
        *self = Self { level, clock, founding: Some(founding), policies, restored: Some(restored), ..Self::default() };
        // whoever is not known otherwise may go by a set that was made since
        self.departed.rest = Some(LeftAt::unknown());
        self.call_back_named();
        for region in known_here {
            self.regions.entry(region).or_insert_with(|| Session::unheard(LeftAt::unknown()));
        }
        Outcome::Policies { version, waits_for: self.unconfirmed_regions() }
    }

    /// True while nothing is known of what regions hold: no set is in force.
    pub fn is_restoring(&self) -> bool {
        self.restored.is_some() && self.policies.active.set.version == 0
    }

    /// Regions of which something may be in force.
    pub fn known_regions(&self) -> impl Iterator<Item = &RegionName> {
        let named = self.policies.active.set.regions.keys().chain(self.newest_policies().regions.keys());
        self.regions.keys().chain(named)
    }

    /// True of a region that may go by a set of which nothing is known, or agents of which may.
    pub(crate) fn may_go_by_unknown(&self, session: &Session) -> bool {
        self.restored.is_some() && session.may_count_by_forgotten()
    }

    /// A new office: when the quiet began its clock does not show.
    pub(crate) fn note_office(&mut self) {
        let Some(restored) = &mut self.restored else { return };
        restored.quiet_since = None;
        restored.offices.push_back(self.clock.office);
        let surplus = restored.offices.len().saturating_sub(OFFICES);
        restored.offices.drain(..surplus);
    }

    /// The heartbeat, without what echoes answers of coordinators that are lost.
    pub(crate) fn heard<'a>(&self, beat: &'a Heartbeat) -> Cow<'a, Heartbeat> {
        let Some(restored) = &self.restored else { return Cow::Borrowed(beat) };
        let is_ours = |stamp: &Stamp| restored.offices.contains(&stamp.office) || mistake::made(Mistake::LostEchoBelieved);
        let drained = beat.drained.iter().map(|(_, stamp)| stamp);
        if beat.echo.iter().chain(&beat.floors_drained).chain(drained).all(is_ours) {
            return Cow::Borrowed(beat);
        }
        let mut ours = beat.clone();
        ours.echo = ours.echo.filter(is_ours);
        ours.floors_drained = ours.floors_drained.filter(is_ours);
        ours.drained.retain(|(_, stamp)| is_ours(stamp));
        Cow::Owned(ours)
    }

    /// The answer to a heartbeat dated `at`, while what was granted before may count.
    pub(crate) fn quiet_answer(&mut self, at: LeaderTime) -> Option<Answer> {
        let restored = self.restored.as_mut().filter(|restored| restored.quiet)?;
        let since = *restored.quiet_since.get_or_insert(at);
        let end = since.after(restored.quiet_for);
        if at > end || mistake::made(Mistake::NoQuietAfterRestore) {
            restored.quiet = false;
            return None;
        }
        Some(Answer::Restoring { remaining: end.since(at) })
    }

    /// What a heartbeat shows of the time before: windows that had begun, and sets that came after the backup. A policy
    /// may have had budgets of another kind by those, so that none of the restored set goes on.
    pub(crate) fn note_before(&mut self, beat: &Heartbeat) {
        if !self.is_restoring() {
            return;
        }
        let Some((restored, founding)) = self.restored.as_mut().zip(self.founding.as_ref()) else { return };
        for window in &beat.windows {
            let opened = restored.opened.entry(window.policy.clone()).or_default();
            *opened = (*opened).max(window.label).max(window.last);
            let last = self.last_windows.entry((window.policy.clone(), window.generation)).or_default();
            *last = (*last).max(window.label).max(window.last);
        }
        let pending = self.policies.newest().version;
        let Some(read) = beat.policies.filter(|read| *read > restored.known && *read != pending) else { return };
        if (read > pending || !restored.anew) && self.policies.begin_all_anew(read.min(MOST_VERSION), &founding.subject_key) {
            restored.anew = true;
            self.regions.values_mut().for_each(Session::forget_what_it_confirmed);
        }
    }

    /// True of a window that had begun before the restored set was active: what was spent of it nobody knows.
    pub(crate) fn began_before_restore(&self, policy: &PolicyName, label: WindowLabel) -> bool {
        self.restored.as_ref().is_some_and(|restored| restored.opened.get(policy).is_some_and(|last| label <= *last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Command;
    use crate::testing::{LEASE, World, at, budget, by, set, set_of, tokens};
    use quorate_shared::heartbeat::{OpenWindow, PoliciesInForce, Response};
    use quorate_shared::policy::{Limit, PolicySet, Window};
    use quorate_shared::time::StoreTime;

    /// The least version of a restored set.
    const VERSION: u64 = 1_000;

    fn name(name: &str) -> RegionName {
        name.parse().expect("a name")
    }

    fn restore(ledger: &mut Ledger, backup: Backup) -> Outcome {
        ledger.apply(1, &Command::Restore { backup: Box::new(backup), longest_lease: LEASE, version: VERSION, by: by() })
    }

    /// A world that goes on from the backup of another, in which both regions were leased.
    fn restored_from(mut world: World) -> World {
        let backup = world.ledger.backup().expect("founded");
        world.ledger = Ledger::default();
        let Outcome::Policies { version, waits_for } = restore(&mut world.ledger, backup) else { panic!("not taken") };
        assert_eq!((version, waits_for), (VERSION, vec![name("eu"), name("us")]));
        world.office = Office { term: 1, process: 2 };
        world
    }

    fn restored() -> World {
        let mut world = World::new(100, 1_000_000);
        for ms in [100, 200] {
            world.beat("eu", ms, 0);
            world.beat("us", ms, 0);
        }
        restored_from(world)
    }

    fn answer(world: &mut World, ms: u64, beat: Heartbeat) -> Outcome {
        let stamped = world.ledger.stamp(beat, world.office, at(ms));
        world.ledger.apply(1, &Command::Heartbeat(Box::new(stamped)))
    }

    /// Lets what was granted before run out.
    fn pass_quiet(world: &mut World) -> u64 {
        let beat = world.heartbeat("eu", 0, Default::default());
        let Outcome::Heartbeat(Answer::Restoring { remaining }) = answer(world, 0, beat) else { panic!("it was answered") };
        let quiet = Drift::default().stretch(LEASE);
        assert_eq!(remaining, quiet);
        let last = world.heartbeat("us", 0, Default::default());
        let quiet = u64::try_from(quiet.as_millis()).expect("short");
        assert_eq!(answer(world, quiet, last), Outcome::Heartbeat(Answer::Restoring { remaining: quiet_left(quiet) }));
        quiet + 1
    }

    fn quiet_left(ms: u64) -> Duration {
        Drift::default().stretch(LEASE).saturating_sub(Duration::from_millis(ms))
    }

    fn send(world: &mut World, region: &'static str, ms: u64) -> Response {
        let beat = world.heartbeat(region, 0, Default::default());
        world.send(region, ms, beat)
    }

    #[test]
    fn a_restored_set_is_active_once_every_region_has_confirmed_it_in_an_answer_of_these_coordinators() {
        let mut world = restored();
        let from = pass_quiet(&mut world);
        let pending = PoliciesInForce { active: 0, next: Some(VERSION), also: None };
        // the first heartbeat echoes what those before had answered
        let first = send(&mut world, "eu", from);
        assert_eq!((first.policies, first.full, first.genesis), (pending, true, false));
        assert_eq!(send(&mut world, "us", from).policies, pending);
        assert!(world.bound(from).bound.unbounded, "what regions go by nobody knows");
        assert_eq!(send(&mut world, "eu", from + 10).policies, pending);
        assert_eq!(send(&mut world, "us", from + 10).policies, PoliciesInForce { active: VERSION, next: None, also: None });
        assert!(world.bound(from + 10).bound.unbounded, "eu has not heard that it is active, and may go by other policies");
        send(&mut world, "eu", from + 20);
        send(&mut world, "us", from + 20);
        send(&mut world, "eu", from + 30);
        assert_eq!(world.bound(from + 30).bound.overshoot_bound, Some(0.0));
    }

    #[test]
    fn a_new_leader_begins_the_quiet_anew() {
        let mut world = restored();
        let beat = world.heartbeat("eu", 0, Default::default());
        answer(&mut world, 0, beat);
        world.office.process = 3;
        let beat = world.heartbeat("eu", 0, Default::default());
        let quiet = Drift::default().stretch(LEASE);
        assert_eq!(answer(&mut world, 60_000, beat), Outcome::Heartbeat(Answer::Restoring { remaining: quiet }));
    }

    #[test]
    fn a_region_that_is_not_heard_of_is_waited_for_or_fenced_one_that_the_backup_does_not_name_too() {
        let mut world = restored();
        let from = pass_quiet(&mut world);
        for ms in [0, 10] {
            send(&mut world, "eu", from + ms);
            send(&mut world, "ap", from + ms);
        }
        assert_eq!(world.ledger.unconfirmed_regions(), [name("us")]);
        let fence = Command::Fence { region: name("us"), by: by() };
        assert_eq!(world.ledger.apply(1, &fence), Outcome::Done);
        assert_eq!(world.ledger.active_policies().version, VERSION);
        // by this set it has no floor, but nobody knows what it lets pass
        assert!(Session::unheard(world.ledger.left[&name("ap")]).may_go_by_forgotten());
    }

    #[test]
    fn no_budget_goes_on_if_a_region_knows_a_set_that_came_after_the_backup() {
        let mut world = restored();
        let from = pass_quiet(&mut world);
        assert_eq!(world.ledger.newest_policies().policies[0].generation, budget().generation);
        send(&mut world, "us", from);
        let beat = Heartbeat { policies: Some(2), ..world.heartbeat("eu", 0, Default::default()) };
        world.send("eu", from + 10, beat);
        let set = world.ledger.newest_policies();
        assert_eq!((set.version, set.policies[0].generation), (VERSION + 1, VERSION + 1));
        let waits = |world: &World| world.ledger.unconfirmed_regions();
        send(&mut world, "us", from + 20);
        assert_eq!(waits(&world), [name("eu"), name("us")], "what us confirmed is not this set");
        send(&mut world, "us", from + 30);
        send(&mut world, "eu", from + 30);
        assert_eq!(world.ledger.active_policies().version, VERSION + 1);
    }

    #[test]
    fn a_version_that_an_agent_makes_up_leaves_room_for_others() {
        let mut world = restored();
        let from = pass_quiet(&mut world);
        for (ms, read) in [(0, u64::MAX), (10, u64::MAX), (20, u64::MAX - 1)] {
            let beat = Heartbeat { policies: Some(read), ..world.heartbeat("eu", 0, Default::default()) };
            world.send("eu", from + ms, beat);
        }
        assert!(world.ledger.newest_policies().version <= MOST_VERSION + 3);
    }

    #[test]
    fn nothing_is_granted_of_a_window_that_had_begun_before() {
        let window = Window::Every(Duration::from_secs(60));
        let mut world = World::under(set_of(Limit::FixedWindow { units: tokens(100), window }, 0));
        let label = |minute: u64| WindowLabel::beginning_at(StoreTime::from_micros(minute * 60_000_000));
        let beat = |world: &mut World, region, ms, minute| {
            let open = OpenWindow { policy: budget().policy, generation: 1, label: label(minute), last: label(minute) };
            let beat = Heartbeat { windows: vec![open], ..world.heartbeat(region, 10, Default::default()) };
            world.send(region, ms, beat).grants.first().map_or(tokens(0), |grant| grant.granted)
        };
        let beats = |world: &mut World, from: u64, minute| {
            let turns = [0, 10, 20, 30].into_iter().flat_map(|ms| [("eu", ms), ("us", ms)]);
            turns.map(|(region, ms)| beat(world, region, from + ms, minute)).max()
        };
        assert!(beats(&mut world, 100, 5) > Some(tokens(0)));
        let mut world = restored_from(world);
        let from = pass_quiet(&mut world);
        assert_eq!(beats(&mut world, from, 5), Some(tokens(0)), "what was spent of it nobody knows");
        assert_eq!(world.ledger.active_policies().version, VERSION);
        assert_eq!(beats(&mut world, from + 100, 5), Some(tokens(0)));
        assert!(beats(&mut world, from + 200, 6) > Some(tokens(0)));
    }

    #[test]
    fn a_backup_is_taken_by_a_new_cluster_and_if_it_can_be_read() {
        let mut world = World::new(100, 1_000_000);
        let backup = world.ledger.backup().expect("founded");
        let later = Backup { format: BACKUP_FORMAT + 1, ..backup.clone() };
        assert_eq!(restore(&mut world.ledger, later), Outcome::NotRestored(NotRestored::Format { found: BACKUP_FORMAT + 1 }));
        let empty = Backup { history: Vec::new(), ..backup.clone() };
        assert_eq!(restore(&mut world.ledger, empty), Outcome::NotRestored(NotRestored::Empty));
        let mut absurd = backup.clone();
        absurd.history[0].set = std::sync::Arc::new(PolicySet { version: u64::MAX, ..set(50, 1_000_000) });
        assert_eq!(restore(&mut world.ledger, absurd), Outcome::NotRestored(NotRestored::Version { found: u64::MAX }));
        world.change(1, set(50, 1_000_000));
        assert_eq!(restore(&mut world.ledger, backup), Outcome::NotRestored(NotRestored::InUse { newest: 2 }));
        assert_eq!(world.ledger.active_policies().version, 2, "nothing was changed");
    }
}
