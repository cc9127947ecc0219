//! Did you mean …?

/// Edits after which a word is another one.
const MOST_EDITS: usize = 4;

/// Of `known`, the word nearest to `word`, if it is near enough to have been meant: at most one
/// edit in three characters, and four in all, counting a swap of neighbours as one (optimal
/// string alignment).
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = folded(word);
    if word.len() > 64 {
        return None;
    }
    let near = known.into_iter().filter_map(|candidate| {
        let other = folded(candidate);
        let allowed = (word.len().max(other.len()) / 3).clamp(1, MOST_EDITS);
        let edits = distance(&word, &other, allowed)?;
        (edits < other.len()).then_some((edits, candidate))
    });
    near.min_by_key(|(edits, _)| *edits).map(|(_, candidate)| candidate)
}

fn folded(word: &str) -> Vec<char> {
    word.chars().take(65).map(|c| if c == '_' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// How many edits make `a` into `b`, if it is at most so many.
fn distance(a: &[char], b: &[char], most: usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > most {
        return None;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
        // a swap reaches over one row, so both must be beyond
        if before.iter().chain(&last).all(|edits| *edits > most) {
            return None;
        }
    }
    Some(last[b.len()]).filter(|edits| *edits <= most)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn the_word_that_was_meant_is_found_and_no_other() {
        let known = ["name", "match", "per", "limit", "floor", "lendable", "allow-overcommit", "on-store-failure"];
        for (word, meant) in [
            ("nmae", Some("name")),
            ("Name", Some("name")),
            ("limits", Some("limit")),
            ("landable", Some("lendable")),
            ("allow-over-commit", Some("allow-overcommit")),
            ("on_store_fail", Some("on-store-failure")),
            ("pre", Some("per")),
            ("domain", None),
            ("x", None),
            ("", None),
            (&"limit".repeat(100_000), None),
        ] {
            assert_eq!(nearest(word, known), meant, "{word}");
        }
    }
}
