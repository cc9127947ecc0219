//! What happened, for those who ask afterwards: `GET /v1/audit`.

use crate::api::CapacityTokens;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use utoipa::ToSchema;

/// One thing that happened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AuditEvent {
    /// Unix time in milliseconds: of what people ordered when they did, of all else when the coordinator that answers
    /// applied it.
    pub at_ms: u64,
    /// Raft term of the entry of the log that did it.
    pub term: u64,
    /// Index of that entry.
    pub index: u64,
    /// What.
    pub kind: AuditKind,
    /// Name of the credential that ordered it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// Why, in their words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Which region it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Which policy it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Which subject, as a hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Of the policy set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// What a region holds of a budget from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holding: Option<AuditHolding>,
    /// How many tokens a region may spend of a window from then on, its floor included; 0: its floor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub units: Option<f64>,
    /// When that window begins, as Unix time in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_begins_at_ms: Option<u64>,
    /// What else is to be said, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// What a region holds of one budget beyond its floor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AuditHolding {
    /// Of the pool.
    pub pool: CapacityTokens,
    /// Of its floor, lent to others.
    pub lent: CapacityTokens,
    /// Of other floors, by lender.
    pub borrowed: BTreeMap<String, CapacityTokens>,
}

/// What can happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AuditKind {
    /// The cluster was founded.
    Founded,
    /// The ledger goes by newer rules.
    LevelRaised,
    /// Somebody replaced the policy set.
    PoliciesChanged,
    /// A policy set is in force.
    PoliciesActive,
    /// Somebody let the cluster go on from a backup.
    Restored,
    /// Somebody said that a region serves nothing.
    FenceOrdered,
    /// That counts from now on.
    RegionFenced,
    /// Somebody changed the length of the leases.
    LeaseChanged,
    /// Somebody let grants go on of budgets of which an internal check had failed.
    AlarmsCleared,
    /// An internal check failed: nothing is granted of the budget.
    CheckFailed,
    /// Somebody ordered that the members of the cluster, or its leader, be others.
    MembersOrdered,
    /// The members of the cluster are others.
    MembersChanged,
    /// A region opened a session.
    SessionBegan,
    /// A region was not heard of in time: what it held returned.
    LeaseEnded,
    /// A region was offered another holding of a budget.
    Granted,
    /// A region was granted another number of units of a window.
    UnitsGranted,
    /// What this coordinator did not see: it was sent the state, not the entries that led to it. Ask the others.
    Gap,
    /// Written by a later version of this program.
    #[default]
    #[serde(other)]
    Other,
}

impl AuditKind {
    /// All that this program writes.
    pub const ALL: [Self; 17] = [
        Self::Founded,
        Self::LevelRaised,
        Self::PoliciesChanged,
        Self::PoliciesActive,
        Self::Restored,
        Self::FenceOrdered,
        Self::RegionFenced,
        Self::LeaseChanged,
        Self::AlarmsCleared,
        Self::CheckFailed,
        Self::MembersOrdered,
        Self::MembersChanged,
        Self::SessionBegan,
        Self::LeaseEnded,
        Self::Granted,
        Self::UnitsGranted,
        Self::Gap,
    ];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Founded => "founded",
            Self::LevelRaised => "level-raised",
            Self::PoliciesChanged => "policies-changed",
            Self::PoliciesActive => "policies-active",
            Self::Restored => "restored",
            Self::FenceOrdered => "fence-ordered",
            Self::RegionFenced => "region-fenced",
            Self::LeaseChanged => "lease-changed",
            Self::AlarmsCleared => "alarms-cleared",
            Self::CheckFailed => "check-failed",
            Self::MembersOrdered => "members-ordered",
            Self::MembersChanged => "members-changed",
            Self::SessionBegan => "session-began",
            Self::LeaseEnded => "lease-ended",
            Self::Granted => "granted",
            Self::UnitsGranted => "units-granted",
            Self::Gap => "gap",
            Self::Other => "other",
        }
    }

    /// True of what happens all the time, and is kept for less long: grants, and the sessions of regions.
    pub const fn is_routine(self) -> bool {
        matches!(self, Self::SessionBegan | Self::LeaseEnded | Self::Granted | Self::UnitsGranted)
    }
}

impl fmt::Display for AuditKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for AuditKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|kind| kind.name() == text);
        known.ok_or_else(|| format!("one of {}", Self::ALL.map(Self::name).join(", ")))
    }
}

/// `GET /v1/audit`: newest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AuditPage {
    /// What happened.
    pub events: Vec<AuditEvent>,
    /// `cursor` of the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::IntoDeserializer;
    use serde::de::value::{Error, StrDeserializer};

    fn read(text: &str) -> AuditKind {
        let text: StrDeserializer<'_, Error> = text.into_deserializer();
        AuditKind::deserialize(text).expect("any text is a kind")
    }

    #[test]
    fn a_kind_is_written_and_read_by_one_name() {
        for kind in AuditKind::ALL {
            assert_eq!(read(kind.name()), kind);
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        assert_eq!(read("something-new"), AuditKind::Other);
        assert!("other".parse::<AuditKind>().is_err());
    }
}
