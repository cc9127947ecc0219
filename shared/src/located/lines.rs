//! From a byte of a text to its line and column.

use super::Place;

/// Where the lines of a text begin.
#[derive(Debug)]
pub struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    /// The lines of `text`. A line ends with a line feed.
    pub fn of(text: &'a str) -> Self {
        let after_feeds = text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i + 1);
        Self { text, starts: std::iter::once(0).chain(after_feeds).collect() }
    }

    /// The place of the byte at `offset`, or of the end of the text if that is earlier.
    pub fn place(&self, offset: usize) -> Place {
        let offset = offset.min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self.starts.get(line.saturating_sub(1)).copied().unwrap_or(0);
        // a byte in the middle of a character is in the column of that character
        let before = self.text.as_bytes()[start..offset].iter().filter(|b| !matches!(b, 0x80..=0xbf)).count();
        let inside = usize::from(!self.text.is_char_boundary(offset));
        Place { line: line as u64, column: (before + 1 - inside.min(before)) as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::{Lines, Place};

    #[test]
    fn columns_count_characters() {
        let lines = Lines::of("a\u{e9}b\n\nc");
        let places: Vec<(u64, u64)> = (0..10).map(|i| lines.place(i)).map(|Place { line, column }| (line, column)).collect();
        assert_eq!(places, [(1, 1), (1, 2), (1, 2), (1, 3), (1, 4), (2, 1), (3, 1), (3, 2), (3, 2), (3, 2)]);
        assert_eq!(Lines::of("").place(0), Place { line: 1, column: 1 });
    }
}
