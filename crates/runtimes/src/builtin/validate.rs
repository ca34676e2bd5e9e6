//! Rules that several requests share, in the same words.

use std::ops::RangeInclusive;
use toolyard_protocol::Violation;

/// Names, tags, ports and the like, in bytes; what the stores allow.
pub const MAX_LABEL: usize = 500;
/// The longest page.
pub const MAX_LIMIT: u64 = 1000;

/// A text of so many bytes.
pub fn text(violations: &mut Vec<Violation>, pointer: &str, value: &str, size: RangeInclusive<usize>) {
    if value.len() < *size.start() {
        add(violations, pointer, "must not be empty");
    }
    if value.len() > *size.end() {
        add(violations, pointer, format!("has {} bytes; at most {} are taken", value.len(), size.end()));
    }
}

/// A short text that is not empty.
pub fn label(violations: &mut Vec<Violation>, pointer: &str, value: &str) {
    text(violations, pointer, value, 1..=MAX_LABEL);
}

/// The same, where it is given.
pub fn labels(violations: &mut Vec<Violation>, given: &[(&str, &Option<String>)]) {
    for (pointer, value) in given {
        if let Some(value) = value {
            label(violations, pointer, value);
        }
    }
}

/// A number within its bounds, where it is given.
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

/// How many rows at most.
pub fn limit(violations: &mut Vec<Violation>, value: Option<u64>) {
    number(violations, "/limit", value, 1..=MAX_LIMIT);
}

/// `type/subtype`, parameters allowed.
pub fn mime(violations: &mut Vec<Violation>, pointer: &str, value: &str) {
    text(violations, pointer, value, 1..=MAX_LABEL);
    let token = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
    };
    let essence = value.split(';').next().unwrap_or_default().trim_end();
    let sound = essence.split_once('/').is_some_and(|(kind, subtype)| token(kind) && token(subtype));
    if !value.is_empty() && (!sound || !value.bytes().all(|b| (0x20..0x7f).contains(&b))) {
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
        let sound = |value: &str| {
            let mut violations = Vec::new();
            mime(&mut violations, "/mime_type", value);
            violations.is_empty()
        };
        for good in ["audio/midi", "image/svg+xml", "text/plain; charset=utf-8", "application/vnd.x-y.z"] {
            assert!(sound(good), "{good}");
        }
        for bad in ["", "audio", "audio/", "/midi", "a b/c", "audio/mi di", "audio/mïdi", "a/b\n", "a/b/c"] {
            assert!(!sound(bad), "{bad:?}");
        }
    }
}
