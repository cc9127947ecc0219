//! Rules as policies.

use super::level::{Way, ways};
use super::rules::{Domain, RateLimit, Rule, Unit};
use crate::documents::import::draft::{Draft, Test};
use crate::documents::import::findings::Findings;
use quorate_shared::policy::Pattern;
use quorate_shared::text::cut;
use std::collections::{BTreeMap, BTreeSet};

/// The attribute that has the domain of a request.
const DOMAIN: &str = "domain";

/// The policies of all domains.
pub(super) fn drafts(domains: &[Domain], findings: &mut Findings) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for domain in domains {
        let mut replaced = BTreeSet::new();
        replaced_names(&domain.rules, &mut replaced);
        let mut converter = Converter { domain, findings, drafts: &mut drafts, orders: BTreeMap::new(), replaced };
        converter.level(&domain.rules, &Path::default());
    }
    drafts
}

/// The way from the domain to a level.
#[derive(Clone, Debug, Default)]
struct Path {
    ways: Vec<Way>,
    title: Vec<String>,
}

impl Path {
    fn to(&self, way: &Way, rule: &Rule) -> Self {
        let mut path = self.clone();
        path.ways.push(way.clone());
        path.title.extend([rule.key.clone(), rule.value.clone()].into_iter().filter(|part| !part.is_empty()));
        path
    }

    fn has(&self, key: &str) -> bool {
        key == DOMAIN || self.ways.iter().any(|way| way.key == key)
    }

    /// The attributes whose values are counted apart.
    fn per(&self) -> Vec<String> {
        self.ways.iter().filter(|way| way.apart).map(|way| way.key.clone()).collect()
    }

    fn keys(&self) -> Vec<String> {
        self.ways.iter().map(|way| way.key.clone()).collect()
    }
}

struct Converter<'a> {
    domain: &'a Domain,
    findings: &'a mut Findings,
    drafts: &'a mut Vec<Draft>,
    /// Sets of keys that are limited together, in the order in which they came first.
    orders: BTreeMap<Vec<String>, Vec<String>>,
    /// Names of limits that others replace.
    replaced: BTreeSet<String>,
}

impl Converter<'_> {
    fn level(&mut self, rules: &[Rule], path: &Path) {
        let ways = ways(rules, self.findings);
        let folds: Vec<Fold> = rules.iter().map(|rule| fold(rules, rule, path, &self.replaced)).collect();
        let folded = |i: usize| folds.iter().any(|fold| fold.contains(&i));
        for (i, (rule, ways)) in rules.iter().zip(&ways).enumerate() {
            for way in ways {
                if !self.can_be_said(rule, way, path) {
                    continue;
                }
                let here = path.to(way, rule);
                if let (Some(limit), false) = (&rule.limit, folded(i)) {
                    let overriding: &[usize] = if way.apart { &folds[i] } else { &[] };
                    self.limit(rule, limit, &here, overriding.iter().filter_map(|i| rules.get(*i)).collect());
                }
                self.level(&rule.rules, &here);
            }
        }
    }

    fn can_be_said(&mut self, rule: &Rule, way: &Way, path: &Path) -> bool {
        self.findings.file.clone_from(&rule.file);
        let reason = if path.has(&way.key) {
            format!("`{}` is there already, as the domain or above, and a request has one value of each attribute", cut(&way.key))
        } else if way.key.len() > 128 || way.key.chars().any(char::is_control) {
            "the key cannot be an attribute's name: that has at most 128 bytes and no control characters".to_owned()
        } else {
            return true;
        };
        self.findings.note(rule.at, format!("this descriptor is left out, with those in it: {reason}"));
        false
    }

    fn limit(&mut self, rule: &Rule, limit: &RateLimit, path: &Path, overriding: Vec<&Rule>) {
        self.findings.file.clone_from(&rule.file);
        let Some(unit) = limit.unit else {
            if !limit.replaces.is_empty() {
                self.findings.note(rule.at, "`replaces` of what has no limit does not carry over: there is no policy of it");
            }
            return;
        };
        self.tell_of_unit(rule, unit);
        self.tell_of_order(rule, path);
        let excepted = |test: &Test| match test {
            Test::Like(like, not) => {
                let not = not.iter().filter(|value| !overriding.iter().any(|rule| rule.value == **value)).cloned();
                Test::Like(like.clone(), not.collect())
            }
            other => other.clone(),
        };
        let last = path.ways.len().saturating_sub(1);
        let test = |(i, way): (usize, &Way)| (way.key.clone(), if i == last { excepted(&way.test) } else { way.test.clone() });
        let domain = (DOMAIN.to_owned(), Test::Exact(self.domain.name.clone()));
        let title = if limit.name.is_empty() { path.title.clone() } else { vec![limit.name.clone()] };
        let replaces = self.replaced(rule, limit);
        self.drafts.push(Draft {
            origin: rule.at.map_or_else(|| rule.file.clone(), |at| format!("{}:{}", rule.file, at.line)),
            title: std::iter::once(self.domain.name.clone()).chain(title).collect(),
            matches: std::iter::once(domain).chain(path.ways.iter().enumerate().map(test)).collect(),
            no_other_attributes: true,
            per: path.per(),
            replaces,
            units: u64::from(limit.units),
            window: unit.length,
            overrides: overriding.iter().filter_map(|rule| Some((rule.value.clone(), u64::from(rule.limit.as_ref()?.units)))).collect(),
            observe: rule.shadow.is_some(),
        });
    }

    /// Titles of the limits that it replaces, which have a policy of their own each.
    fn replaced(&mut self, rule: &Rule, limit: &RateLimit) -> Vec<Vec<String>> {
        let (there, gone): (Vec<&String>, _) = limit.replaces.iter().partition(|name| is_named(&self.domain.rules, name));
        for name in gone {
            let name = cut(name);
            self.findings.note(rule.at, format!("`replaces` names `{name}`, and no limit of this domain that is a policy has that name"));
        }
        there.into_iter().map(|name| vec![self.domain.name.clone(), name.clone()]).collect()
    }

    fn tell_of_unit(&mut self, rule: &Rule, unit: Unit) {
        if unit.is_of_calendars() {
            let (name, days) = (unit.name, unit.length.as_secs() / 86_400);
            self.findings.note(
                rule.at,
                format!("a {name} is {days} days, counted from 1 January 1970, as before; one of the calendar would be `window: {name}`"),
            );
        }
    }

    /// Attributes have no order, so that two rules for the same keys in another order both apply.
    fn tell_of_order(&mut self, rule: &Rule, path: &Path) {
        let keys = path.keys();
        let mut sorted = keys.clone();
        sorted.sort();
        let first = self.orders.entry(sorted).or_insert_with(|| keys.clone());
        if *first != keys {
            let (here, there) = (keys.join(", "), first.join(", "));
            self.findings.note(
                rule.at,
                format!("a request's attributes have no order: this limit for {here} and those for {there} now apply together"),
            );
        }
    }
}

fn replaced_names(rules: &[Rule], names: &mut BTreeSet<String>) {
    for rule in rules {
        names.extend(rule.limit.iter().flat_map(|limit| limit.replaces.iter().cloned()));
        replaced_names(&rule.rules, names);
    }
}

/// True if a limit that counts has this name.
fn is_named(rules: &[Rule], name: &str) -> bool {
    let its = |limit: &RateLimit| limit.name == name && limit.unit.is_some();
    rules.iter().any(|rule| rule.limit.as_ref().is_some_and(its) || is_named(&rule.rules, name))
}

/// The rules of a level that become overrides of another one.
type Fold = Vec<usize>;

/// The rules for single values of a key that differ from the one for any value in how many requests
/// they allow, and in nothing else. An override is for a whole subject, so no other value may be
/// counted apart.
fn fold(rules: &[Rule], bare: &Rule, path: &Path, replaced: &BTreeSet<String>) -> Fold {
    let Some(RateLimit { unit: Some(unit), .. }) = bare.limit else { return Vec::new() };
    // a name by which it is replaced, and what it replaces, are those of a whole policy
    let plain = |limit: &RateLimit| !replaced.contains(&limit.name) && limit.replaces.is_empty();
    if !bare.limit.as_ref().is_some_and(plain) {
        return Vec::new();
    }
    if !bare.value.is_empty() || path.has(&bare.key) || !path.per().is_empty() {
        return Vec::new();
    }
    let patterns: Vec<Pattern> = rules
        .iter()
        .filter(|rule| rule.key == bare.key && rule.value.contains('*'))
        .map(|rule| Pattern::new(rule.value.as_str()))
        .collect();
    let as_any = |rule: &Rule| {
        let one_value = rule.key == bare.key && !rule.value.is_empty() && !rule.value.contains('*');
        let limit = rule.limit.as_ref().is_some_and(|limit| limit.unit == Some(unit) && plain(limit));
        // what a pattern takes from the rule for any value, an override cannot give back
        let left = !patterns.iter().any(|pattern| pattern.matches(&rule.value));
        one_value && limit && left && rule.shadow.is_some() == bare.shadow.is_some()
    };
    rules.iter().enumerate().filter(|(_, rule)| as_any(rule)).map(|(i, _)| i).collect()
}
