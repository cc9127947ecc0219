//! One spelling for each path, so that another spelling is no way around a limit.
//!
//! In this order: scheme and host (of an absolute form), query and fragment go; `%xx` is decoded once; slashes that
//! follow each other are one; `.` and `..` are resolved. The case stays, and so does a slash at the end. Bytes that are
//! not UTF-8 become U+FFFD. `%2F` becomes a slash, which puts a few paths into one where a server tells them apart.

use percent_encoding::percent_decode;

/// The path of a request target.
pub fn normalised(target: &[u8]) -> String {
    let decoded: Vec<u8> = percent_decode(path_of(target)).collect();
    let text = String::from_utf8_lossy(&decoded);
    let mut kept: Vec<&str> = Vec::new();
    let mut folder = true;
    for part in text.split('/') {
        folder = matches!(part, "" | "." | "..");
        match part {
            "" | "." => {}
            ".." => _ = kept.pop(),
            name => kept.push(name),
        }
    }
    let end = if folder && !kept.is_empty() { "/" } else { "" };
    format!("/{}{end}", kept.join("/"))
}

/// What is before the query, and after the host if there is one.
fn path_of(target: &[u8]) -> &[u8] {
    let end = target.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(target.len());
    let target = &target[..end];
    if target.starts_with(b"/") {
        return target;
    }
    let Some(scheme) = target.windows(3).position(|bytes| bytes == b"://") else { return target };
    let rest = &target[scheme + 3..];
    rest.iter().position(|byte| *byte == b'/').map_or(&[], |slash| &rest[slash..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_spelling_of_a_path_is_that_path() {
        let table = [
            (
                "/api/v1",
                &["/api/v1", "/api/v1?x=/../y", "/api/v1#f", "//api///v1", "/api/./v1", "/x/../api/v1", "/%61pi/v1", "/api%2Fv1"][..],
            ),
            ("/api/v1", &["/../api/v1", "/api/x/%2e%2e/v1", "/api/%2E/v1", "http://host:80/api/v1?q", "HTTPS://host/api/v1"]),
            ("/api/", &["/api/", "/api/.", "/api/x/..", "/api//", "/api/%2e"]),
            ("/", &["/", "", "?", "/..", "//", "/./", "http://host", "http://host?x"]),
            ("/API", &["/API"]),
            ("/a%2fb", &["/a%252fb"]),
            ("/a%zz%", &["/a%zz%"]),
            ("/a b", &["/a%20b", "/a b"]),
            ("/\u{fffd}", &["/%ff"]),
            ("/x:/y", &["/x:///y"]),
        ];
        for (expected, spellings) in table {
            for spelling in spellings {
                assert_eq!(normalised(spelling.as_bytes()), expected, "{spelling}");
            }
        }
    }

    proptest! {
        #[test]
        fn whatever_it_is_the_result_is_a_path_in_its_one_spelling(target in proptest::collection::vec(any::<u8>(), 0..60)) {
            let path = normalised(&target);
            prop_assert!(path.starts_with('/') && !path.contains("//"), "{path}");
            prop_assert!(path.split('/').all(|part| part != "." && part != ".."), "{path}");
        }

        #[test]
        fn encoding_any_byte_changes_nothing(path in "/[a-zA-Z0-9/._~-]{0,30}", at in 0..30_usize) {
            let bytes = path.as_bytes();
            let at = at % bytes.len();
            let mut encoded = bytes[..at].to_vec();
            encoded.extend(format!("%{:02x}", bytes[at]).bytes());
            encoded.extend(&bytes[at + 1..]);
            prop_assert_eq!(normalised(&encoded), normalised(bytes));
        }
    }
}
