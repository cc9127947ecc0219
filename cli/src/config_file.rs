//! Configuration files: TOML to tree, and its mistakes in their lines.

use anyhow::Context;
use quorate_agent::config::AgentConfig;
use quorate_coordinator::config::CoordinatorConfig;
use quorate_coordinator::documents;
use quorate_shared::located::{Key, Lines, Mistake, Node, Value};
use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A configuration file at most.
const MAX_BYTES: usize = 1 << 20;

/// Of a file that is no TOML, so many mistakes are told.
const SYNTAX_MISTAKES: usize = 5;

/// Reads `coordinator.toml`. Relative paths in it are taken from its folder.
///
/// # Errors
/// It cannot be read, or all its mistakes, each in its line.
pub fn coordinator(path: &Path) -> anyhow::Result<CoordinatorConfig> {
    Ok(read(path, CoordinatorConfig::from_node)?.relative_to(folder(path)))
}

/// Reads `agent.toml`. Relative paths in it are taken from its folder.
///
/// # Errors
/// It cannot be read, or all its mistakes, each in its line.
pub fn agent(path: &Path) -> anyhow::Result<AgentConfig> {
    Ok(read(path, AgentConfig::from_node)?.relative_to(folder(path)))
}

fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

fn read<T>(path: &Path, from_node: impl FnOnce(&Node) -> Result<T, Vec<Mistake>>) -> anyhow::Result<T> {
    let name = path.display().to_string();
    let text = std::fs::read(path).with_context(|| format!("cannot read {name}"))?;
    let config = parse(&text).and_then(|document| from_node(&document));
    config.map_err(|mistakes| anyhow::anyhow!("{}", shown(&name, &text, &mistakes).trim_end()))
}

/// Mistakes in their lines, but for lines in which a credential may stand: this goes to a log.
fn shown(name: &str, text: &[u8], mistakes: &[Mistake]) -> String {
    let credential = |m: &Mistake| ["/tokens", "/store"].iter().any(|field| m.pointer.starts_with(field));
    let show = |m: &Mistake| documents::show(name, if credential(m) { b"" } else { text }, std::slice::from_ref(m));
    mistakes.iter().map(show).collect()
}

/// Reads TOML into a tree.
///
/// # Errors
/// All that is no TOML, or one mistake if the file is too large or not UTF-8.
fn parse(text: &[u8]) -> Result<Node, Vec<Mistake>> {
    let whole = |at, detail: String| Mistake { pointer: String::new(), at, detail };
    if text.len() > MAX_BYTES {
        return Err(vec![whole(None, format!("the file has {} bytes; at most {MAX_BYTES}", text.len()))]);
    }
    let text = documents::utf8(text).map_err(|at| vec![whole(Some(at), "this is not UTF-8".into())])?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (table, errors) = DeTable::parse_recoverable(text);
    let tree = Tree { text, lines: Lines::of(text) };
    if errors.is_empty() {
        let span = table.span();
        return Ok(tree.table(span, table.into_inner()));
    }
    let mistake =
        |e: &toml::de::Error| whole(e.span().map(|span| tree.lines.place(span.start)), format!("cannot be read as TOML: {}", e.message()));
    let mut mistakes: Vec<Mistake> = errors.iter().map(mistake).collect();
    // what follows the first in a line, or many others, mostly follows from it
    mistakes.sort_by_key(|m| m.at);
    mistakes.dedup_by_key(|m| m.at.map(|at| at.line));
    mistakes.truncate(SYNTAX_MISTAKES);
    Err(mistakes)
}

/// A text and where its lines begin.
struct Tree<'a> {
    text: &'a str,
    lines: Lines<'a>,
}

impl Tree<'_> {
    fn table(&self, span: Range<usize>, table: DeTable<'_>) -> Node {
        let entry = |(key, value): (Spanned<std::borrow::Cow<'_, str>>, _)| {
            let at = Some(self.lines.place(key.span().start));
            (Key { name: key.into_inner().into_owned(), at }, self.node(value))
        };
        self.at(span, Value::Map(table.into_iter().map(entry).collect()))
    }

    fn node(&self, value: Spanned<DeValue<'_>>) -> Node {
        let span = value.span();
        let as_written = || self.text.get(span.clone()).unwrap_or_default().to_owned();
        let value = match value.into_inner() {
            DeValue::Table(table) => return self.table(span, table),
            DeValue::Array(items) => Value::List(items.into_iter().map(|item| self.node(item)).collect()),
            DeValue::String(text) => Value::Text(text.into_owned()),
            // without the underscores that TOML allows between digits
            DeValue::Integer(number) if number.radix() == 10 => Value::Number(number.as_str().to_owned()),
            DeValue::Integer(_) | DeValue::Float(_) => Value::Number(as_written()),
            DeValue::Boolean(value) => Value::Bool(value),
            // no setting is a date
            DeValue::Datetime(_) => Value::Text(as_written()),
        };
        self.at(span, value)
    }

    fn at(&self, span: Range<usize>, value: Value) -> Node {
        Node { at: Some(self.lines.place(span.start)), value }
    }
}

#[cfg(test)]
mod tests;
