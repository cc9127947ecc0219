//! From drafts to a policy set.

use super::draft::{Draft, Names};
use super::findings::{Findings, Note};
use super::{Imported, SourceFile};
use crate::documents::policy_set;
use quorate_shared::located::Node;
use quorate_shared::names::RegionName;

/// Where a set is refused that was made here.
const MADE: &str = "the policy set made of it";

/// The set of all drafts.
///
/// # Errors
/// All mistakes of the files; if they have none, what a policy set cannot be read for.
pub(super) fn set(drafts: &[Draft], regions: &[RegionName], findings: Findings) -> Result<Imported, Vec<Note>> {
    if !findings.mistakes.is_empty() {
        return Err(findings.mistakes);
    }
    let yaml = text(drafts, regions).map_err(|e| vec![made(None, e.to_string())])?;
    match policy_set(yaml.as_bytes()) {
        Ok((set, _)) => {
            let notes = findings.notes.into_iter().chain(drafts.iter().filter_map(|draft| too_small(draft, regions.len()))).collect();
            Ok(Imported { yaml, set, notes })
        }
        Err(mistakes) => Err(mistakes.into_iter().map(|m| made(m.at, format!("{}: {}", m.pointer, m.detail))).collect()),
    }
}

/// Says so of a limit that cannot be divided among the regions: a limiter without regions has no such thing.
fn too_small(draft: &Draft, regions: usize) -> Option<Note> {
    let few = |units: &u64| *units > 0 && usize::try_from(*units).is_ok_and(|units| units < regions);
    let units = std::iter::once(draft.units).chain(draft.overrides.iter().map(|(_, units)| *units)).find(few)?;
    let detail = format!(
        "a limit of {units} has less than a request for each of {regions} regions, and those without one refuse all requests: name one region with `--regions`, or who has it with `floor`"
    );
    Some(Note { file: draft.origin.clone(), at: None, detail })
}

fn made(at: Option<quorate_shared::located::Place>, detail: String) -> Note {
    Note { file: MADE.to_owned(), at, detail }
}

/// Each policy after a comment that says where it comes from.
fn text(drafts: &[Draft], regions: &[RegionName]) -> anyhow::Result<String> {
    let regions = Node::map(regions.iter().map(|region| (region.as_str(), Node::map::<&str>([]))));
    let mut text = serde_saphyr::to_string(&Node::map([("regions", regions)]))?;
    if drafts.is_empty() {
        text.push_str("policies: []\n");
        return Ok(text);
    }
    text.push_str("policies:\n");
    let mut names = Names::default();
    let named: Vec<(&Draft, String)> = drafts.iter().map(|draft| (draft, names.name(&draft.title))).collect();
    for (draft, name) in &named {
        let replaced = named.iter().filter(|(other, _)| draft.replaces.contains(&other.title) && other.title != draft.title);
        let replaced: Vec<&str> = replaced.map(|(_, name)| name.as_str()).collect();
        text.push_str(&format!("# {}\n", draft.origin.replace(char::is_control, "\u{fffd}")));
        text.push_str(&serde_saphyr::to_string(&Node::list([draft.node(name, &replaced)]))?);
    }
    Ok(text)
}

/// The text of a file.
pub(super) fn utf8<'a>(file: &'a SourceFile, findings: &mut Findings) -> Option<&'a str> {
    crate::documents::utf8(&file.text).map_err(|at| findings.refuse(Some(at), "this is not UTF-8")).ok()
}
