//! Limits files of Limitador: a list of limits.
//!
//! All limits of a namespace apply whose conditions hold and whose variables are there, as all
//! policies do that match; so each limit is one policy. Conditions and variables are written in CEL,
//! of which `condition.rs` reads what a match can say.

mod condition;
mod expression;

use super::draft::{Draft, Test};
use super::findings::{Findings, Note};
use super::{Imported, SourceFile, whole};
use crate::documents::parse;
use quorate_shared::located::{Located, Node, Report, Value};
use quorate_shared::names::RegionName;
use quorate_shared::text::cut;
use std::collections::BTreeSet;
use std::time::Duration;

/// The attribute that has the namespace: what Envoy calls the domain.
const NAMESPACE: &str = "domain";

/// The greatest limit that is counted exactly.
const MOST_UNITS: u64 = 9_007_199_254;

/// The longest window, in seconds.
const LONGEST: u64 = 100 * 365 * 86_400;

/// The policy set that limits as these files do.
///
/// # Errors
/// Everything in all files that Limitador would refuse one of them for.
pub fn import(files: &[SourceFile], regions: &[RegionName]) -> Result<Imported, Vec<Note>> {
    let mut findings = Findings::default();
    let mut limits = Limits::default();
    for file in files {
        findings.file.clone_from(&file.name);
        limits.read(file, &mut findings);
    }
    whole::set(&limits.drafts, regions, findings)
}

/// What attributes must look like, and which are counted apart.
type Matched = (Vec<(String, Test)>, Vec<String>);

/// What makes a limit the same as another one: all but how much, and its name.
type Identity = (String, u64, BTreeSet<String>, BTreeSet<String>);

#[derive(Debug, Default)]
struct Limits {
    drafts: Vec<Draft>,
    known: Vec<(Identity, String)>,
}

impl Limits {
    fn read(&mut self, file: &SourceFile, findings: &mut Findings) {
        let Some(text) = whole::utf8(file, findings) else { return };
        let document: Node = match parse(text.as_bytes()) {
            Ok(document) => document,
            Err(mistakes) => return mistakes.into_iter().for_each(|mistake| findings.refuse(mistake.at, mistake.detail)),
        };
        let report = Report::default();
        let read = self.all(&Located::root(&document, &report), &file.name);
        match report.finish(read) {
            Ok(((), warnings)) => warnings.into_iter().for_each(|warning| findings.note(warning.at, warning.detail)),
            Err(mistakes) => mistakes.into_iter().for_each(|mistake| findings.refuse(mistake.at, mistake.detail)),
        }
    }

    fn all(&mut self, document: &Located<'_>, file: &str) -> Option<()> {
        if matches!(document.value(), Value::Null) {
            return Some(());
        }
        if document.peek("kind").is_some_and(|kind| matches!(kind.value(), Value::Text(kind) if kind == "ConfigMap")) {
            document.refuse("this is a ConfigMap, and no list of limits: give what stands in its `data` as a file of its own");
            return None;
        }
        for item in document.list("a list of limits")? {
            let origin = item.line().map_or_else(|| file.to_owned(), |line| format!("{file}:{line}"));
            let Some(limit) = limit(&item) else { continue };
            if let Some((_, first)) = self.known.iter().find(|(identity, _)| *identity == limit.identity()) {
                item.warn(format!("this is the same limit as at {first}, of which as before only that one counts"));
                continue;
            }
            self.known.push((limit.identity(), origin.clone()));
            self.drafts.extend(limit.draft(&item, origin));
        }
        Some(())
    }
}

/// A limit as it is written.
#[derive(Debug)]
struct Limit {
    title: Option<String>,
    namespace: String,
    max_value: u64,
    seconds: u64,
    conditions: Vec<String>,
    variables: Vec<String>,
}

/// A limit, if it has no mistake.
fn limit(at: &Located<'_>) -> Option<Limit> {
    const KNOWN: [&str; 7] = ["id", "namespace", "max_value", "seconds", "name", "conditions", "variables"];
    let entries = at.entries("a map with `namespace`, `max_value`, `seconds`, `conditions` and `variables`")?;
    for (key, value) in entries.iter().filter(|(key, _)| !KNOWN.contains(key)) {
        let hint = value.meant(key, KNOWN).map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
        value.warn(format!("`{}` has no meaning in a limit and was passed over before{hint}", cut(key)));
    }
    let field = |name: &str| entries.iter().find(|(key, _)| *key == name).map(|(_, value)| value);
    let required = |name: &str| {
        let found = field(name);
        if found.is_none() {
            at.refuse(format!("`{name}` is missing"));
        }
        found
    };
    let optional = |name: &str| field(name).filter(|at| !matches!(at.value(), Value::Null)).map(|at| at.text("a text"));
    let namespace = required("namespace").and_then(|at| at.text("a text"));
    let max_value = field("max_value").map_or(Some(0), |at| at.whole(0..=u64::MAX));
    let seconds = required("seconds").and_then(|at| at.whole(0..=u64::MAX));
    let conditions = required("conditions").and_then(texts);
    let variables = required("variables").and_then(texts);
    let (id, name) = (optional("id"), optional("name"));
    Some(Limit {
        title: name.flatten().or(id.flatten()).map(str::to_owned),
        namespace: namespace?.to_owned(),
        max_value: max_value?,
        seconds: seconds?,
        conditions: conditions?,
        variables: variables?,
    })
}

/// None where nothing is written, as upstream reads it.
fn texts(at: &Located<'_>) -> Option<Vec<String>> {
    if matches!(at.value(), Value::Null) {
        return Some(Vec::new());
    }
    at.list("a list of expressions")?.iter().map(|item| item.text("an expression").map(str::to_owned)).collect()
}

impl Limit {
    fn identity(&self) -> Identity {
        let set = |texts: &[String]| texts.iter().cloned().collect();
        (self.namespace.clone(), self.seconds, set(&self.conditions), set(&self.variables))
    }

    /// As a policy; `None`, and told, where a policy cannot say it.
    fn draft(self, at: &Located<'_>, origin: String) -> Option<Draft> {
        let (matches, per) = match self.matches() {
            Ok(found) => found,
            Err(reason) => {
                at.warn(format!("this limit is left out: {reason}"));
                return None;
            }
        };
        if let Some(bare) = self.conditions.iter().chain(&self.variables).find(|expression| !expression.contains("descriptors")) {
            at.warn(format!("`{}` is read as of an attribute, as Limitador did before it looked into `descriptors` only", cut(bare)));
        }
        if self.max_value > MOST_UNITS {
            at.warn(format!("`max_value` is {}, and this counts up to {MOST_UNITS}", self.max_value));
        }
        let own = self.title.map_or_else(|| matches.iter().skip(1).map(|(key, _)| key).chain(&per).cloned().collect(), |title| vec![title]);
        Some(Draft {
            origin,
            title: std::iter::once(self.namespace).chain(own).collect(),
            matches,
            no_other_attributes: false,
            per,
            replaces: Vec::new(),
            units: self.max_value.min(MOST_UNITS),
            window: Duration::from_secs(self.seconds),
            overrides: Vec::new(),
            observe: false,
        })
    }

    /// What attributes must look like, and which are counted apart.
    fn matches(&self) -> Result<Matched, String> {
        if !(1..=LONGEST).contains(&self.seconds) {
            return Err(format!("a window of {} s is none: at least 1 s and at most 100 years", self.seconds));
        }
        let mut matches = vec![(NAMESPACE.to_owned(), Test::Exact(self.namespace.clone()))];
        for condition in &self.conditions {
            for (key, test) in condition::tests(condition)? {
                named(&key)?;
                condition::and(&mut matches, key, test).map_err(|reason| format!("`{}`: {reason}", cut(condition)))?;
            }
        }
        let mut per: Vec<String> = Vec::new();
        for variable in &self.variables {
            let key = condition::variable(variable)?;
            named(&key)?;
            if !per.contains(&key) {
                per.push(key);
            }
        }
        Ok((matches, per))
    }
}

/// What can be the name of an attribute that is not the namespace's.
fn named(key: &str) -> Result<(), String> {
    if key == NAMESPACE {
        return Err(format!("`{NAMESPACE}` is the attribute that has the namespace"));
    }
    if key.is_empty() || key.len() > 128 || key.chars().any(char::is_control) {
        return Err(format!("`{}` cannot be an attribute's name: that has 1 to 128 bytes and no control characters", cut(key)));
    }
    Ok(())
}
