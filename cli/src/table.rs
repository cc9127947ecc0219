//! Aligned tables, and amounts with their units, for people.

use quorate_coordinator::documents::printable;
use quorate_shared::api::CapacityTokens;
use quorate_shared::text::{DurationText, Rate};
use quorate_shared::units::MicroTokens;
use std::io::IsTerminal;
use std::time::Duration;

/// How a column is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// What a cell says of the state of things.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Nothing in particular.
    #[default]
    Plain,
    /// As it should be.
    Good,
    /// Worth a look.
    Attention,
    /// Not as it should be.
    Bad,
}

/// One cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// A cell with a tone.
    pub fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone }
    }
}

impl<T: ToString> From<T> for Cell {
    fn from(value: T) -> Self {
        Self { text: value.to_string(), tone: Tone::Plain }
    }
}

/// Rows under headings.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: &[(&'static str, Align)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; cells that are missing are empty. What a terminal would obey is not shown: texts come from
    /// whoever wrote a policy or a reason.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let printable = |cell: Cell| Cell { text: printable(&cell.text), ..cell };
        let mut row: Vec<Cell> = cells.into_iter().map(printable).collect();
        row.resize(self.columns.len(), Cell::default());
        self.rows.push(row);
    }

    /// The table as text, every line ended.
    pub fn render(&self, paint: Paint) -> String {
        let width = |i: usize| {
            let cells = self.rows.iter().map(|row| row[i].text.chars().count());
            cells.chain([self.columns[i].0.chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let header = self.columns.iter().map(|(name, _)| paint.bold(name)).collect::<Vec<_>>();
        let names = self.columns.iter().map(|(name, _)| name.chars().count());
        let mut text = self.line(header.into_iter().zip(names), &widths);
        for row in &self.rows {
            let cells = row.iter().map(|cell| (paint.tone(&cell.text, cell.tone), cell.text.chars().count()));
            text.push_str(&self.line(cells, &widths));
        }
        text
    }

    /// Cells come with the width that they have on the screen.
    fn line(&self, cells: impl Iterator<Item = (String, usize)>, widths: &[usize]) -> String {
        let mut line = String::new();
        for (i, (cell, shown)) in cells.enumerate() {
            let space = " ".repeat(widths[i].saturating_sub(shown));
            let gap = if i == 0 { "" } else { "  " };
            match self.columns[i].1 {
                Align::Left => line.extend([gap, &cell, &space]),
                Align::Right => line.extend([gap, &space, &cell]),
            }
        }
        line.truncate(line.trim_end().len());
        line.push('\n');
        line
    }
}

/// Whether to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint(bool);

impl Paint {
    /// No colours.
    #[cfg(test)]
    pub const NONE: Self = Self(false);

    /// Colours if standard output is a terminal and `NO_COLOR` is not set (no-color.org).
    pub fn for_stdout() -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        Self(std::io::stdout().is_terminal() && !refused)
    }

    /// In bold.
    pub fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// In the colour of a tone.
    pub fn tone(self, text: &str, tone: Tone) -> String {
        match tone {
            Tone::Plain => text.to_owned(),
            Tone::Good => self.wrap("32", text),
            Tone::Attention => self.wrap("33", text),
            Tone::Bad => self.wrap("31", text),
        }
    }

    fn wrap(self, code: &str, text: &str) -> String {
        match self.0 && !text.is_empty() {
            true => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            false => text.to_owned(),
        }
    }
}

/// A number with at most `places` decimals, and no needless ones.
pub fn number(value: f64, places: usize) -> String {
    let text = format!("{value:.places$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A part of the limit `of`, as `rate +burst`, or as units alone if that has no rate; a rate is that of one period.
pub fn capacity(capacity: CapacityTokens, of: CapacityTokens, period: Duration) -> String {
    match of.rate > 0.0 {
        true => format!("{} +{}", rate(capacity.rate, period), number(capacity.burst, 2)),
        false => number(capacity.burst, 2),
    }
}

/// Tokens in one period, as `100/s`.
pub fn rate(tokens: f64, period: Duration) -> String {
    let unit = Rate { amount: MicroTokens::ZERO, period }.to_string();
    format!("{}{}", number(tokens, 2), unit.trim_start_matches('0'))
}

/// A span in milliseconds with a unit that suits it.
pub fn milliseconds(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms}ms"),
        1_000..100_000 => format!("{}s", number(ms as f64 / 1_000.0, 1)),
        _ => DurationText(Duration::from_secs(ms / 1_000)).to_string(),
    }
}

/// A share, as `93.4%`.
pub fn percent(share: f64) -> String {
    format!("{}%", number(share * 100.0, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_with_and_without_colours() {
        let mut table = Table::new(&[("NAME", Align::Left), ("N", Align::Right), ("STATE", Align::Left)]);
        table.row(["ä".into(), 5.into(), Cell::toned("live", Tone::Good)]);
        table.row(["longer".into(), 12345.into()]);
        assert_eq!(table.render(Paint::NONE), "NAME        N  STATE\nä           5  live\nlonger  12345\n");
        let coloured = table.render(Paint(true));
        let plain = coloured.replace("\u{1b}[0m", "").replace("\u{1b}[1m", "").replace("\u{1b}[32m", "");
        assert_eq!(plain.trim_end(), table.render(Paint::NONE).trim_end());
        assert!(coloured.contains("\u{1b}[32mlive\u{1b}[0m"));
    }

    #[test]
    fn a_terminal_is_told_nothing_by_a_cell() {
        let mut table = Table::new(&[("WHY", Align::Left)]);
        table.row(["a\u{1b}[2Jb\nc".into()]);
        assert_eq!(table.render(Paint::NONE), "WHY\na\u{fffd}[2Jb\u{fffd}c\n");
    }

    #[test]
    fn amounts_have_units_and_no_needless_decimals() {
        let c = CapacityTokens { rate: 33.333, burst: 66.0 };
        let zero = CapacityTokens::default();
        assert_eq!(capacity(c, c, Duration::from_secs(1)), "33.33/s +66");
        assert_eq!(capacity(c, c, Duration::from_secs(10)), "33.33/10s +66");
        assert_eq!(capacity(zero, c, Duration::from_secs(1)), "0/s +0");
        assert_eq!(capacity(zero, CapacityTokens { rate: 0.0, burst: 5.0 }, Duration::from_secs(900)), "0");
        assert_eq!(rate(100.0, Duration::from_secs(60)), "100/min");
        assert_eq!([milliseconds(0), milliseconds(1_590), milliseconds(86_400_000)], ["0ms", "1.6s", "1d"]);
        assert_eq!(percent(0.934_49), "93.4%");
        assert_eq!(number(100.0, 0), "100");
    }
}
