//! Mistakes as a terminal shows them.

use quorate_shared::located::{Mistake, Place};
use std::fmt::Write;

/// Characters of a line that are shown, around its place.
const WIDTH: usize = 120;

/// Each mistake as `FILE:LINE:COL: pointer: detail`, with the line of the text and a caret
/// below it.
///
/// Control characters of the text are shown as `�`: it may be hostile, and a terminal obeys them.
pub fn show(file: &str, text: &[u8], mistakes: &[Mistake]) -> String {
    let text = String::from_utf8_lossy(text);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let lines: Vec<&str> = text.lines().collect();
    let mut shown = String::new();
    for mistake in mistakes {
        // writing to a String does not fail
        let _ = writeln!(shown, "{}", headline(file, mistake));
        if let Some((line, caret)) = mistake.at.and_then(|at| excerpt(&lines, at)) {
            let _ = writeln!(shown, "    {line}\n    {caret}");
        }
    }
    shown
}

fn headline(file: &str, mistake: &Mistake) -> String {
    let pointer = if mistake.pointer.is_empty() { String::new() } else { format!("{}: ", mistake.pointer) };
    let place = mistake.at.map(|at| format!("{}:{}:", at.line, at.column)).unwrap_or_default();
    printable(&format!("{file}:{place} {pointer}{}", mistake.detail))
}

/// The line of a place and a caret that stands under it.
fn excerpt(lines: &[&str], at: Place) -> Option<(String, String)> {
    let line = lines.get(usize::try_from(at.line).ok()?.checked_sub(1)?)?;
    let column = usize::try_from(at.column).ok()?.saturating_sub(1);
    let first = column.saturating_sub(WIDTH / 2);
    let part: String = line.chars().skip(first).take(WIDTH).collect();
    Some((printable(&part), format!("{}^", " ".repeat(column - first))))
}

/// The text without what a terminal obeys: controls, and what reorders or hides the text around it, are shown as `�`.
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c == '\t' {
                ' '
            } else if is_unprintable(c) {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect()
}

/// Controls, and what reorders or hides the text around it.
fn is_unprintable(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}
