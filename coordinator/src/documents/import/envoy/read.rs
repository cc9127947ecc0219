//! A file as rules.

use super::last_of_each;
use super::rules::{Domain, RateLimit, Rule, Unit, refuse_twin};
use crate::documents::import::findings::Findings;
use crate::documents::import::scalar::{Meaning, Origin};
use quorate_shared::located::{Key, Node, Place, Value};
use quorate_shared::text::cut;

/// The domain of a document that [`super::check`] passed.
pub(super) fn domain(document: &Node, origin: &Origin<'_>, findings: &mut Findings) -> Option<Domain> {
    let mut reader = Reader { origin, findings };
    let fields = reader.fields(document, &["domain", "descriptors"], "the document");
    let name = fields.get("domain").and_then(|at| reader.text(at)).unwrap_or_default();
    let at = fields.get("domain").or(Some(document)).and_then(|node| node.at);
    let rules = fields.get("descriptors").map(|at| reader.level(at)).unwrap_or_default();
    if name.is_empty() {
        reader.findings.refuse(at, "the domain is missing or empty");
        return None;
    }
    Some(Domain { name, file: findings.file.clone(), at, rules })
}

struct Reader<'a> {
    origin: &'a Origin<'a>,
    findings: &'a mut Findings,
}

/// The fields of a map that have a meaning there.
struct Fields<'n>(Vec<(&'n Key, &'n Node)>);

impl<'n> Fields<'n> {
    fn get(&self, name: &str) -> Option<&'n Node> {
        self.0.iter().find(|(key, _)| key.name == name).map(|(_, node)| *node)
    }
}

impl Reader<'_> {
    fn fields<'n>(&mut self, node: &'n Node, known: &[&str], what: &str) -> Fields<'n> {
        let last = last_of_each(node);
        if let Value::Map(entries) = &node.value {
            for (key, _) in entries.iter().filter(|(key, _)| !last.iter().any(|(counts, _)| std::ptr::eq(*counts, key))) {
                self.findings.note(key.at, format!("`{}` is there again below, and as before the last one counts", key.name));
            }
        }
        let (fields, others): (Vec<_>, Vec<_>) = last.into_iter().partition(|(key, _)| known.contains(&key.name.as_str()));
        for (key, value) in others {
            self.misplaced(key, value, what);
        }
        Fields(fields)
    }

    /// A key that the limiter knows and passes over here.
    fn misplaced(&mut self, key: &Key, value: &Node, what: &str) {
        let meant = match key.name.as_str() {
            "shadow_mode" if self.origin.scalar(value).is_some_and(|(meaning, _)| meaning == Meaning::Bool(true)) => {
                ", so this limit is enforced; it belongs beside `rate_limit`, as `mode: observe` in a policy"
            }
            "quota_mode" | "detailed_metric" | "value_to_metric" | "share_threshold" | "metadata" | "shadow_mode" => {
                "; it belongs beside `rate_limit`"
            }
            "unit" | "requests_per_unit" | "unlimited" | "replaces" => "; it belongs into `rate_limit`",
            _ => "",
        };
        self.findings.note(key.at, format!("`{}` has no meaning in {what} and was passed over before{meant}", key.name));
    }

    /// A scalar as it was written; nothing for nothing.
    fn text(&mut self, node: &Node) -> Option<String> {
        match self.origin.scalar(node) {
            Some((Meaning::Null, _)) => Some(String::new()),
            Some((_, written)) => Some(written.to_owned()),
            None => self.refuse(node, "expected a text"),
        }
    }

    fn flag(&mut self, node: &Node) -> Option<bool> {
        match self.origin.scalar(node) {
            Some((Meaning::Null, _)) => Some(false),
            Some((Meaning::Bool(flag), _)) => Some(flag),
            _ => self.refuse(node, "expected `true` or `false`, without quotes"),
        }
    }

    fn refuse<T>(&mut self, node: &Node, detail: &str) -> Option<T> {
        self.findings.refuse(node.at, detail);
        None
    }

    /// The items of a list, which [`super::check`] knows to be maps.
    fn items<'n>(&mut self, node: &'n Node) -> &'n [Node] {
        match &node.value {
            Value::List(items) => items,
            Value::Null => &[],
            _ => {
                self.findings.refuse(node.at, "expected a list");
                &[]
            }
        }
    }

    fn level(&mut self, node: &Node) -> Vec<Rule> {
        let mut level = Vec::new();
        for item in self.items(node) {
            let Some(rule) = self.rule(item) else { continue };
            refuse_twin(&level, &rule, self.findings);
            level.push(rule);
        }
        level
    }

    fn rule(&mut self, node: &Node) -> Option<Rule> {
        const KNOWN: [&str; 10] = [
            "key",
            "value",
            "rate_limit",
            "descriptors",
            "shadow_mode",
            "quota_mode",
            "detailed_metric",
            "value_to_metric",
            "share_threshold",
            "metadata",
        ];
        let fields = self.fields(node, &KNOWN, "a descriptor");
        let key = fields.get("key").and_then(|at| self.text(at)).unwrap_or_default();
        let value = fields.get("value").and_then(|at| self.text(at)).unwrap_or_default();
        let [shadow, quota, detailed, by_value, shared] =
            ["shadow_mode", "quota_mode", "detailed_metric", "value_to_metric", "share_threshold"]
                .map(|name| fields.get(name).filter(|at| self.flag(at) == Some(true)).and_then(|node| node.at));
        let limit = fields.get("rate_limit").and_then(|at| self.limit(at));
        if key.is_empty() {
            let at = fields.get("key").unwrap_or(node);
            return self.refuse(at, "the descriptor has no key, or an empty one");
        }
        let rules = fields.get("descriptors").map(|at| self.level(at)).unwrap_or_default();
        let rule = Rule { file: self.findings.file.clone(), at: node.at, key, value, limit, shadow, shared: shared.is_some(), rules };
        if shared.is_some() && !rule.joined().contains('*') {
            self.findings.refuse(shared, format!("`share_threshold` needs a `*` in the value, and `{}` has none", cut(&rule.joined())));
        }
        let limited = rule.limit.as_ref().is_some_and(|limit| limit.unit.is_some());
        let metadata = fields.get("metadata").filter(|node| node.value != Value::Null).and_then(|node| node.at);
        self.tell(
            limited,
            &[("shadow_mode", shadow), ("quota_mode", quota), ("metric", detailed), ("metric", by_value), ("metadata", metadata)],
        );
        Some(rule)
    }

    /// What is said of a rule and does not carry over.
    fn tell(&mut self, limited: bool, said: &[(&str, Option<Place>)]) {
        for (what, at) in said.iter().filter(|(_, at)| at.is_some()) {
            let detail = match (*what, limited) {
                ("shadow_mode", true) => continue,
                ("shadow_mode", false) => "`shadow_mode` means nothing where nothing is limited: deeper descriptors do not inherit it",
                ("quota_mode", true) => {
                    "`quota_mode` does not carry over: this is a limit as any other, and refuses a request also where another quota that the request meets is not spent"
                }
                ("quota_mode", false) => "`quota_mode` does not carry over",
                ("metadata", _) => "`metadata` does not carry over: it was sent back with a request that passed",
                _ => "names of metrics do not carry over: a policy is counted under its own name, and values of requests are in no metric",
            };
            self.findings.note(*at, detail);
        }
    }

    fn limit(&mut self, node: &Node) -> Option<RateLimit> {
        match node.value {
            Value::Map(_) => {}
            Value::Null => return None,
            Value::List(_) => return self.refuse(node, "`rate_limit` is a map, and not a list: a descriptor has one limit"),
            _ => return self.refuse(node, "`rate_limit` is a map, such as `{unit: minute, requests_per_unit: 10}`"),
        }
        let fields = self.fields(node, &["requests_per_unit", "unit", "unlimited", "name", "replaces"], "`rate_limit`");
        let name = fields.get("name").and_then(|at| self.text(at)).unwrap_or_default();
        let units = fields.get("requests_per_unit").map_or(Some(0), |at| self.units(at));
        let unlimited = fields.get("unlimited").is_some_and(|at| self.flag(at) == Some(true));
        let unit = self.unit(node, fields.get("unit"), unlimited);
        let replaces = fields.get("replaces").map(|at| self.replaces(at, &name)).unwrap_or_default();
        if !unlimited && fields.get("requests_per_unit").is_none() {
            self.findings.note(node.at, "`requests_per_unit` is missing, and as before that is 0: every request is refused");
        }
        Some(RateLimit { units: units?, unit: unit?, name, replaces })
    }

    fn units(&mut self, node: &Node) -> Option<u32> {
        let units = match self.origin.scalar(node) {
            Some((Meaning::Null, _)) => Some(0),
            Some((Meaning::Whole(Some(units)), _)) => u32::try_from(units).ok(),
            _ => None,
        };
        units.or_else(|| self.refuse(node, "expected a whole number from 0 to 4294967295, without quotes"))
    }

    /// The window, or `None` in it for no limit.
    fn unit(&mut self, limit: &Node, node: Option<&Node>, unlimited: bool) -> Option<Option<Unit>> {
        let name = node.map_or(Some(String::new()), |at| self.text(at))?;
        let at = node.unwrap_or(limit);
        match (Unit::named(&name), unlimited) {
            (None, true) => Some(None),
            (Some(unit), false) => Some(Some(unit)),
            (Some(_), true) => self.refuse(at, "`unlimited` and a `unit` exclude each other"),
            (None, false) if name.is_empty() => self.refuse(at, "`unit` is missing"),
            (None, false) => {
                let detail = format!("`{}` is not one of `second`, `minute`, `hour`, `day`, `week`, `month`, `year`", cut(&name));
                self.refuse(at, &detail)
            }
        }
    }

    fn replaces(&mut self, node: &Node, own: &str) -> Vec<String> {
        let mut names = Vec::new();
        for item in self.items(node) {
            let fields = self.fields(item, &["name"], "`replaces`");
            let name = fields.get("name").and_then(|at| self.text(at)).unwrap_or_default();
            if name.is_empty() {
                self.findings.refuse(item.at, "`replaces` has an empty name");
            } else if name == own {
                self.findings.refuse(item.at, format!("a limit does not replace itself, `{}`", cut(own)));
            } else if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}
