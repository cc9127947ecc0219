//! Rules, as files say them.

use crate::documents::import::findings::Findings;
use quorate_shared::located::Place;
use std::time::Duration;

/// The rules of one domain.
#[derive(Clone, Debug)]
pub(super) struct Domain {
    /// Its name.
    pub name: String,
    /// The first file that it is in, and where that says so.
    pub file: String,
    /// Where its name is.
    pub at: Option<Place>,
    /// The rules of the first level.
    pub rules: Vec<Rule>,
}

/// One node of the tree.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    /// The file that it is in.
    pub file: String,
    /// Where in it.
    pub at: Option<Place>,
    /// The key of the entry.
    pub key: String,
    /// Its value, which may be a pattern; empty means any.
    pub value: String,
    /// What a request meets that ends here.
    pub limit: Option<RateLimit>,
    /// Counted and never refused; where that is said.
    pub shadow: Option<Place>,
    /// Values that meet the same pattern share one counter.
    pub shared: bool,
    /// The rules of the next level.
    pub rules: Vec<Rule>,
}

/// A limit.
#[derive(Clone, Debug)]
pub(super) struct RateLimit {
    /// How many requests in one window.
    pub units: u32,
    /// The window; `None` is no limit at all.
    pub unit: Option<Unit>,
    /// What it is called; may be empty.
    pub name: String,
    /// Names of limits that do not count a request which meets this one.
    pub replaces: Vec<String>,
}

/// A window. Each begins at a multiple of its length since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// In lower case.
    pub name: &'static str,
    /// Its length.
    pub length: Duration,
}

const DAY: u64 = 86_400;

const UNITS: [(&str, u64); 7] =
    [("second", 1), ("minute", 60), ("hour", 3_600), ("day", DAY), ("week", 7 * DAY), ("month", 30 * DAY), ("year", 365 * DAY)];

impl Unit {
    /// The unit of this name, in any case.
    pub(super) fn named(name: &str) -> Option<Self> {
        let (name, seconds) = UNITS.iter().find(|(unit, _)| unit.eq_ignore_ascii_case(name))?;
        Some(Self { name, length: Duration::from_secs(*seconds) })
    }

    /// True of one that a calendar has with another length.
    pub(super) fn is_of_calendars(self) -> bool {
        matches!(self.name, "month" | "year")
    }
}

impl Rule {
    /// Key and value in one, as the limiter compares them.
    pub(super) fn joined(&self) -> String {
        if self.value.is_empty() { self.key.clone() } else { format!("{}_{}", self.key, self.value) }
    }
}

impl Domain {
    /// Adds the rules of another file.
    pub(super) fn merge(&mut self, other: Self, findings: &mut Findings) {
        for rule in other.rules {
            refuse_twin(&self.rules, &rule, findings);
            self.rules.push(rule);
        }
    }
}

/// Reports a rule that is like another one of its level.
pub(super) fn refuse_twin(level: &[Rule], rule: &Rule, findings: &mut Findings) {
    let joined = rule.joined();
    let Some(twin) = level.iter().find(|other| other.joined() == joined) else { return };
    let place = twin.at.map(|at| format!("{}:{}", twin.file, at.line)).unwrap_or_default();
    let detail = if twin.key == rule.key {
        format!("another descriptor of this level has the same key and value, at {place}")
    } else {
        format!("key and value, joined by `_`, are the same as at {place}")
    };
    findings.refuse(rule.at, detail);
}
