//! Errors as users see them: `application/problem+json` (RFC 9457).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Media type of a [`Problem`].
pub const PROBLEM_JSON: &str = "application/problem+json";

/// One refusal or failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// URI that names the kind; its last segment is stable.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind in words.
    pub title: String,
    /// HTTP status.
    pub status: u16,
    /// What happened here, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The policy that refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The longest wait among the limits that refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Every policy that refused (draft-ietf-httpapi-ratelimit-headers-10).
    #[serde(rename = "violated-policies", default, skip_serializing_if = "Vec::is_empty")]
    pub violated_policies: Vec<String>,
    /// Each mistake of the input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<InputError>,
}

/// One mistake in a body or a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InputError {
    /// JSON pointer to it (RFC 6901).
    pub pointer: String,
    /// What is wrong, and what would be right.
    pub detail: String,
    /// Line of the text, from 1, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

impl Problem {
    /// A problem whose type ends in `kind`.
    pub fn new(status: u16, kind: &str, title: &str) -> Self {
        Self {
            kind: format!("https://quorate.dev/problems/{kind}"),
            title: title.to_owned(),
            status,
            detail: None,
            policy: None,
            retry_after_ms: None,
            violated_policies: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// The same, with what happened here.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// The same, with the mistakes of the input.
    #[must_use]
    pub fn errors(mut self, errors: Vec<InputError>) -> Self {
        self.errors = errors;
        self
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.title)?;
        if let Some(detail) = &self.detail {
            write!(f, ": {detail}")?;
        }
        for e in &self.errors {
            f.write_str("\n  ")?;
            match (e.line, e.pointer.as_str()) {
                (None, "") => {}
                (None, pointer) => write!(f, "{pointer}: ")?,
                (Some(line), "") => write!(f, "line {line}: ")?,
                (Some(line), pointer) => write!(f, "line {line}, {pointer}: ")?,
            }
            f.write_str(&e.detail)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mistake_has_a_line_with_the_place_that_is_known() {
        let error = |pointer: &str, line| InputError { pointer: pointer.into(), detail: "is wrong".into(), line };
        let problem = Problem::new(400, "invalid-request", "Malformed").detail("Look");
        let problem = problem.errors(vec![error("", None), error("/a", None), error("", Some(2)), error("/b", Some(3))]);
        let expected = "Malformed: Look\n  is wrong\n  /a: is wrong\n  line 2: is wrong\n  line 3, /b: is wrong";
        assert_eq!(problem.to_string(), expected);
    }
}
