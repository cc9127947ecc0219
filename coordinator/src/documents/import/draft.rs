//! A policy before it has a name and a text.

use quorate_shared::located::{Key, Node, Value};
use quorate_shared::text::DurationText;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::time::Duration;

/// The name of a policy at most, in bytes.
const LONGEST_NAME: usize = 63;

/// Digits of a digest that tell two names apart which would else be the same.
const MARK: usize = 8;

/// A policy that limits by fixed windows, which all limits of other limiters come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Draft {
    /// Where it comes from, for a comment.
    pub origin: String,
    /// What it is to be called if that can be.
    pub title: Vec<String>,
    /// What attributes must look like.
    pub matches: Vec<(String, Test)>,
    /// See [`quorate_shared::policy::Policy::no_other_attributes`].
    pub no_other_attributes: bool,
    /// One budget for each value of these.
    pub per: Vec<String>,
    /// Titles of those that do not count a request which this one matches.
    pub replaces: Vec<Vec<String>>,
    /// Of each window.
    pub units: u64,
    /// Its length.
    pub window: Duration,
    /// Other units for single values, of a policy with one attribute in `per`.
    pub overrides: Vec<(String, u64)>,
    /// Counted and never refused.
    pub observe: bool,
}

/// What a value must look like. In a pattern each `*` stands for any text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Test {
    /// Exactly this.
    Exact(String),
    /// Exactly one of these.
    OneOf(Vec<String>),
    /// Like the one pattern, and like none of the others.
    Like(String, Vec<String>),
}

impl Test {
    /// Any value at all.
    pub(super) fn any() -> Self {
        Self::Like("*".to_owned(), Vec::new())
    }

    /// In the shortest form that says it.
    fn node(&self) -> Node {
        match self {
            Self::Exact(value) if value.contains('*') => Node::list([Node::text(value)]),
            Self::Exact(value) => Node::text(value),
            Self::OneOf(values) => Node::list(values.iter().map(Node::text)),
            Self::Like(like, not) if not.is_empty() && like.find('*') == like.len().checked_sub(1) => Node::text(like),
            Self::Like(like, not) => {
                let like = (not.is_empty() || like != "*").then(|| ("like", Node::text(like)));
                let not = (!not.is_empty()).then(|| ("not", Node::list(not.iter().map(Node::text))));
                Node::map(like.into_iter().chain(not))
            }
        }
    }
}

impl Draft {
    /// As a policy of a document, which replaces those of these names.
    pub(super) fn node(&self, name: &str, replaces: &[&str]) -> Node {
        let mut fields = vec![("name", Node::text(name))];
        let implied = |(key, test): &&(String, Test)| !(self.per.contains(key) && *test == Test::any());
        let matches: Vec<_> = self.matches.iter().filter(implied).map(|(key, test)| (key.clone(), test.node())).collect();
        if !matches.is_empty() {
            fields.push(("match", Node::map(matches)));
        }
        if self.no_other_attributes {
            fields.push(("no-other-attributes", Node::new(Value::Bool(true))));
        }
        if !self.per.is_empty() {
            fields.push(("per", Node::list(self.per.iter().map(Node::text))));
        }
        if !replaces.is_empty() {
            fields.push(("replaces", Node::list(replaces.iter().map(Node::text))));
        }
        let window = Node::text(DurationText(self.window));
        let limit = [("algorithm", Node::text("fixed-window")), ("units", Node::number(self.units)), ("window", window)];
        fields.push(("limit", Node::map(limit)));
        if let (false, [attribute]) = (self.overrides.is_empty(), self.per.as_slice()) {
            fields.push(("overrides", Node::list(self.overrides.iter().map(|(value, units)| overriding(attribute, value, *units)))));
        }
        if self.observe {
            fields.push(("mode", Node::text("observe")));
        }
        Node::map(fields)
    }
}

fn overriding(attribute: &str, value: &str, units: u64) -> Node {
    let subject = (Key { name: attribute.to_owned(), at: None }, Node::text(value));
    Node::map([("subject", Node::new(Value::Map(vec![subject]))), ("limit", Node::map([("units", Node::number(units))]))])
}

/// Names that no two policies have.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeSet<String>);

impl Names {
    /// A name for a title. One that is too long or taken gets a mark that depends on the title
    /// only, so that it stays the same while others come and go.
    pub(super) fn name(&mut self, title: &[String]) -> String {
        let plain = slug(&title.join("-"));
        if plain.len() <= LONGEST_NAME && self.0.insert(plain.clone()) {
            return plain;
        }
        let mut digest = Sha256::new();
        for part in title {
            digest.update(part.len().to_le_bytes());
            digest.update(part);
        }
        let mut mark = hex(&digest.finalize());
        let head: String = plain.chars().take(LONGEST_NAME - MARK - 1).collect();
        loop {
            let name = format!("{}-{}", head.trim_end_matches('-'), &mark[..MARK]);
            if self.0.insert(name.clone()) {
                return name;
            }
            // the same title twice, or a digest that another has
            mark = hex(&Sha256::digest(&mark));
        }
    }
}

/// Lower-case letters, digits, and a hyphen for what is between them.
fn slug(text: &str) -> String {
    let mut slug = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.truncate(slug.trim_end_matches('-').len());
    if slug.is_empty() { "policy".to_owned() } else { slug }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_shared::names::PolicyName;

    #[test]
    fn every_title_becomes_another_name_that_can_be() {
        let mut names = Names::default();
        let long = "x".repeat(100);
        let titles: [&[&str]; 8] =
            [&["Edge", "user_id"], &["edge-user", "id"], &["edge-user", "id"], &["ключ"], &["*"], &[], &[&long, "a"], &[&long, "b"]];
        let given: Vec<String> =
            titles.iter().map(|title| names.name(&title.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>())).collect();
        assert_eq!(given[0], "edge-user-id");
        assert!(given[1].starts_with("edge-user-id-") && given[6].starts_with("xxx"), "{given:?}");
        assert!(given.iter().all(|name| name.parse::<PolicyName>().is_ok()), "{given:?}");
        assert_eq!(given.iter().collect::<BTreeSet<_>>().len(), given.len(), "{given:?}");
    }

    #[test]
    fn a_mark_depends_on_the_title_only() {
        let title = |text: &str| vec![text.repeat(70)];
        let (mut first, mut second) = (Names::default(), Names::default());
        second.name(&title("b"));
        assert_eq!(first.name(&title("a")), second.name(&title("a")));
    }
}
