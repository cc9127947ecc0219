//! Recorded traffic: a table of tab-separated values, one request a line.

use quorate_shared::names::RegionName;
use std::collections::HashMap;
use std::time::Duration;

/// Columns that must be there, in any order; others are ignored.
pub const COLUMNS: [&str; 7] = ["offset_s", "region", "client", "method", "route", "status", "bytes"];

/// One recorded request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceRequest {
    /// Since the first request.
    pub offset: Duration,
    /// Where it came from.
    pub region: RegionName,
    /// Who sent it.
    pub client: String,
    /// HTTP method.
    pub method: String,
    /// Group of its path.
    pub route: String,
}

/// One mistake in a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, {field}: {detail}")]
pub struct TraceMistake {
    /// From 1.
    pub line: usize,
    /// Name of the column, or `line` if it is about all of it.
    pub field: &'static str,
    /// What is wrong, and what would be right.
    pub detail: String,
}

/// Reads a trace whole, or says all that is wrong with it.
pub fn parse(text: &str) -> Result<Vec<TraceRequest>, Vec<TraceMistake>> {
    let mut lines = text.lines().enumerate().map(|(i, line)| (i + 1, line));
    let header = lines.next().map_or("", |(_, line)| line);
    let columns = Columns::read(header)?;
    let mut requests = Vec::new();
    let mut mistakes = Vec::new();
    for (number, line) in lines {
        match columns.request(number, line) {
            Ok(request) => requests.push(request),
            Err(found) => mistakes.extend(found),
        }
    }
    match mistakes.is_empty() {
        true => Ok(requests),
        false => Err(mistakes),
    }
}

/// Where each of [`COLUMNS`] stands.
struct Columns {
    places: [usize; COLUMNS.len()],
    count: usize,
}

impl Columns {
    fn read(header: &str) -> Result<Self, Vec<TraceMistake>> {
        let names: Vec<&str> = header.split('\t').collect();
        let by_name: HashMap<&str, usize> = names.iter().enumerate().map(|(i, name)| (*name, i)).collect();
        let missing = |name: &'static str| TraceMistake {
            line: 1,
            field: name,
            detail: format!("no such column; the first line must name {}, separated by tabs", COLUMNS.join(", ")),
        };
        let found = COLUMNS.map(|name| by_name.get(name).copied().ok_or_else(|| missing(name)));
        let mistakes: Vec<TraceMistake> = found.iter().filter_map(|place| place.clone().err()).collect();
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        Ok(Self { places: found.map(|place| place.unwrap_or_default()), count: names.len() })
    }

    fn request(&self, line: usize, text: &str) -> Result<TraceRequest, Vec<TraceMistake>> {
        let values: Vec<&str> = text.split('\t').collect();
        if values.len() != self.count {
            let detail = format!("{} fields, but the first line names {}", values.len(), self.count);
            return Err(vec![TraceMistake { line, field: "line", detail }]);
        }
        let [offset, region, client, method, route, status, bytes] = self.places.map(|place| values[place]);
        let mut mistakes = Vec::new();
        let mut check = |field: &'static str, wrong: Option<String>| {
            mistakes.extend(wrong.map(|detail| TraceMistake { line, field, detail }));
        };
        let offset = seconds(offset);
        let region = region.parse::<RegionName>().map_err(|e| e.to_string());
        check("offset_s", offset.clone().err());
        check("region", region.clone().err());
        for (field, value) in [("client", client), ("method", method), ("route", route)] {
            check(field, value.is_empty().then(|| "is empty".to_owned()));
        }
        check("status", (!is_status(status)).then(|| format!("`{status}` is not an HTTP status: 100 to 599")));
        check("bytes", bytes.parse::<u64>().is_err().then(|| format!("`{bytes}` is not a number of bytes")));
        match (offset, region) {
            (Ok(offset), Ok(region)) if mistakes.is_empty() => {
                Ok(TraceRequest { offset, region, client: client.to_owned(), method: method.to_owned(), route: route.to_owned() })
            }
            _ => Err(mistakes),
        }
    }
}

fn is_status(text: &str) -> bool {
    text.parse::<u16>().is_ok_and(|n| (100..600).contains(&n))
}

/// Seconds with up to nine decimals, exactly; more decimals are cut off.
fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a number of seconds, like 12 or 12.5");
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        return Err(wrong());
    }
    let nanos: String = part.chars().chain("000000000".chars()).take(9).collect();
    match (whole.parse::<u64>(), nanos.parse::<u32>()) {
        (Ok(whole), Ok(nanos)) => Ok(Duration::new(whole, nanos)),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "offset_s\tregion\tclient\tmethod\troute\tstatus\tbytes";

    #[test]
    fn a_line_is_a_request_and_other_columns_are_ignored() {
        let text = "route\toffset_s\tagent\tregion\tclient\tmethod\tstatus\tbytes\r\nblog\t12.5\tcurl\teu\tc1\tGET\t200\t10\r\n";
        let expected = TraceRequest {
            offset: Duration::from_millis(12_500),
            region: "eu".parse().expect("a name"),
            client: "c1".into(),
            method: "GET".into(),
            route: "blog".into(),
        };
        assert_eq!(parse(text), Ok(vec![expected]));
    }

    #[test]
    fn every_mistake_is_named_by_line_and_field() {
        let text = format!("{HEADER}\n0\teu\tc\tGET\tblog\t200\t1\n-1\tEU\t\tGET\tblog\tOK\tmany\n1\teu\n\n2\teu\tc\tGET\tblog\t999\t1\n");
        let found: Vec<(usize, &str)> = parse(&text).expect_err("bad lines").iter().map(|m| (m.line, m.field)).collect();
        assert_eq!(
            found,
            [(3, "offset_s"), (3, "region"), (3, "client"), (3, "status"), (3, "bytes"), (4, "line"), (5, "line"), (6, "status")]
        );
    }

    #[test]
    fn a_missing_column_is_a_mistake_of_the_first_line() {
        let found = parse("offset_s\tregion\tclient\tmethod\tstatus\n0\teu\tc\tGET\t200\n").expect_err("two are missing");
        assert_eq!(found.iter().map(|m| (m.line, m.field)).collect::<Vec<_>>(), [(1, "route"), (1, "bytes")]);
        assert!(parse("").is_err());
    }

    #[test]
    fn seconds_are_exact_and_nothing_else_is_taken() {
        assert_eq!(seconds("298859"), Ok(Duration::from_secs(298_859)));
        assert_eq!(seconds("0.000001"), Ok(Duration::from_micros(1)));
        assert_eq!(seconds("1.1234567899"), Ok(Duration::new(1, 123_456_789)));
        for bad in ["", ".", "1.", ".5", "-1", "+1", "1e3", "NaN", "1.2.3", " 1", "99999999999999999999"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
