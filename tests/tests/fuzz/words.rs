//! What makes random bytes come further than the first of them: words that the parsers know, and edits of what they
//! understand.

/// Of bodies to an agent.
pub const QUESTIONS: [&str; 24] = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"attributes\":{",
    "\"cost\":",
    "\"request_id\":",
    "\"ttl\":",
    "\"reservation\":",
    "\"slot\":",
    "\"route\":\"write\"",
    "\"tenant\":\"acme\"",
    "null",
    "0",
    "1",
    "-1",
    "1e400",
    "0.5",
    "\"60s\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "9007199254740993",
];

/// Of descriptors on the wire: tags with lengths, and what follows them.
pub const DESCRIPTORS: [&str; 14] = [
    "\n\u{4}edge",
    "\u{12}\u{10}\n\u{e}\n\u{5}route\u{12}\u{5}write",
    "\n\u{e}\n\u{5}route\u{12}\u{5}write",
    "\n\u{e}\n\u{6}tenant\u{12}\u{4}acme",
    "\n\u{6}tenant",
    "\u{12}\u{4}acme",
    "\u{12}\u{4}\u{8}\u{14}\u{10}\u{1}",
    "\u{1a}\u{2}\u{8}\u{0}",
    "\u{1a}\u{2}\u{8}\u{7f}",
    " \u{1}",
    "\u{18}\u{3}",
    "\u{12}\u{0}",
    "\n\u{0}",
    "domain",
];

/// Of policy sets.
pub const POLICIES: [&str; 49] = [
    "\n",
    "\n  ",
    "\n    ",
    "\n      ",
    "\n  - ",
    ": ",
    ", ",
    "{",
    "}",
    "[",
    "]",
    "'*'",
    "regions:",
    "policies:",
    "us",
    "eu",
    "name: a",
    "match: ",
    "not: ",
    "like: ",
    "per: ",
    "limit: ",
    "algorithm: ",
    "token-bucket",
    "fixed-window",
    "sliding-window",
    "sliding-log",
    "concurrency",
    "rate: 1/s",
    "burst: 1",
    "units: 1",
    "window: month",
    "window: 1s",
    "time-zone: Europe/Berlin",
    "slots: 1",
    "max-hold: 1s",
    "floor: 100%",
    "lendable: 0%",
    "cost: ",
    "attribute: a",
    "values: ",
    "overrides: ",
    "subject: ",
    "on-store-failure: open",
    "floor-ttl: 10min",
    "mode: observe",
    "canary: 1%",
    "&a ",
    "*a",
];

/// Of the files of other limiters.
pub const IMPORTS: [&str; 24] = [
    "\n",
    "\n  ",
    "\n- ",
    ": ",
    ", ",
    "{",
    "}",
    "[",
    "]",
    "domain: d",
    "descriptors:",
    "key: a",
    "value: b",
    "rate_limit: ",
    "unit: second",
    "requests_per_unit: 1",
    "shadow_mode: true",
    "replaces: ",
    "namespace: n",
    "max_value: 1",
    "seconds: 1",
    "conditions: ",
    "variables: ",
    "descriptors[0]['a'] == 'b'",
];

/// Of heartbeats and their answers.
pub const HEARTBEATS: [&str; 28] = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "null",
    "0",
    "1",
    "18446744073709551615",
    "9007199254740992",
    "\"protocol\":",
    "\"region\":\"us\"",
    "\"agent\":\"a\"",
    "\"number\":",
    "\"session\":",
    "\"seq\":",
    "\"nonce\":",
    "\"echo\":",
    "\"drained\":",
    "\"reports\":",
    "\"windows\":",
    "\"spent\":",
    "\"budget\":",
    "\"label\":",
    "\"units\":",
    "\"renewed\":",
    "\"offers\":",
];

/// Of bytes that are no text.
pub const NONE: [&str; 0] = [];

/// The input with each byte beyond ASCII in place of one of the words.
pub fn spelled(input: &[u8], words: &[&str]) -> Vec<u8> {
    let mut text = Vec::with_capacity(input.len());
    for byte in input {
        match words.get(usize::from(byte.wrapping_sub(128)) % words.len().max(1)).filter(|_| !byte.is_ascii()) {
            Some(word) => text.extend_from_slice(word.as_bytes()),
            None => text.push(*byte),
        }
    }
    text
}

/// One of the documents, changed as the input says: its first two bytes say which, and each four that follow where to
/// put, or to take away, what: few edits, or nothing is left to understand.
pub fn edited(input: &[u8], documents: &[Vec<u8>]) -> Vec<u8> {
    let Some(([high, low], edits)) = input.split_first_chunk() else { return Vec::new() };
    let chosen = usize::from(u16::from_be_bytes([*high, *low])) % documents.len().max(1);
    let mut text = documents.get(chosen).cloned().unwrap_or_default();
    for edit in edits.chunks_exact(4).take(usize::from(low % 8) + 1) {
        let [kind, high, low, byte] = edit else { continue };
        let at = usize::from(u16::from_be_bytes([*high, *low])) % text.len().max(1);
        let end = text.len().min(at.saturating_add(usize::from(*byte)));
        match kind % 4 {
            0 => text.insert(at.min(text.len()), *byte),
            1 => drop(text.drain(at..end)),
            2 => text.extend_from_within(at..end),
            _ => text.iter_mut().skip(at).take(1).for_each(|old| *old = *byte),
        }
    }
    text
}
