//! Validation rules shared by several requests.

use schemars::JsonSchema;
use serde::Deserialize;
use std::ops::RangeInclusive;
use toolyard_protocol::Violation;

/// Maximum bytes of names, tags, ports and the like, as in the stores.
pub const MAX_LABEL: usize = 500;
/// Maximum number of results per page.
pub const MAX_LIMIT: u64 = 1000;

/// Maximum number of results; default 100.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Limit(#[schemars(range(min = 1, max = 1000))] Option<u64>);

impl Limit {
    pub fn check(self, violations: &mut Vec<Violation>) {
        number(violations, "/limit", self.0, 1..=MAX_LIMIT);
    }

    pub fn get(self) -> usize {
        self.0.unwrap_or(100) as usize
    }
}

/// Checks the size of a text in bytes.
pub fn text(violations: &mut Vec<Violation>, pointer: &str, value: &str, size: RangeInclusive<usize>) {
    if value.len() < *size.start() {
        add(violations, pointer, "must not be empty");
    }
    if value.len() > *size.end() {
        add(violations, pointer, format!("has {} bytes; the maximum is {}", value.len(), size.end()));
    }
}

/// Checks a short, non-empty text.
pub fn label(violations: &mut Vec<Violation>, pointer: &str, value: &str) {
    text(violations, pointer, value, 1..=MAX_LABEL);
}

/// Checks optional labels.
pub fn labels(violations: &mut Vec<Violation>, given: &[(&str, &Option<String>)]) {
    for (pointer, value) in given {
        if let Some(value) = value {
            label(violations, pointer, value);
        }
    }
}

/// Checks the range of an optional number.
pub fn number(
    violations: &mut Vec<Violation>,
    pointer: &str,
    value: Option<u64>,
    range: RangeInclusive<u64>,
) {
    if value.is_some_and(|value| !range.contains(&value)) {
        add(violations, pointer, format!("must be from {} to {}", range.start(), range.end()));
    }
}

/// Checks a MIME type: `type/subtype`, optionally with parameters.
pub fn mime(violations: &mut Vec<Violation>, pointer: &str, value: &str) {
    text(violations, pointer, value, 1..=MAX_LABEL);
    let token = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
    };
    let essence = value.split(';').next().unwrap_or_default().trim_end();
    let valid = essence.split_once('/').is_some_and(|(kind, subtype)| token(kind) && token(subtype));
    if !value.is_empty() && (!valid || !value.bytes().all(|b| (0x20..0x7f).contains(&b))) {
        add(violations, pointer, "must be a MIME type such as audio/midi");
    }
}

pub fn add(violations: &mut Vec<Violation>, pointer: &str, message: impl Into<String>) {
    violations.push(Violation { pointer: pointer.to_owned(), message: message.into() });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mime_types_have_two_parts() {
        let is_valid = |value: &str| {
            let mut violations = Vec::new();
            mime(&mut violations, "/mime_type", value);
            violations.is_empty()
        };
        for good in ["audio/midi", "image/svg+xml", "text/plain; charset=utf-8", "application/vnd.x-y.z"] {
            assert!(is_valid(good), "{good}");
        }
        for bad in ["", "audio", "audio/", "/midi", "a b/c", "audio/mi di", "audio/mïdi", "a/b\n", "a/b/c"] {
            assert!(!is_valid(bad), "{bad:?}");
        }
    }
}
