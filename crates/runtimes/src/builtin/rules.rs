//! Rules that several requests share, in the same words.

use std::ops::RangeInclusive;
use toolyard_protocol::Violation;

/// A text of so many bytes.
pub fn text(broken: &mut Vec<Violation>, pointer: &str, value: &str, size: RangeInclusive<usize>) {
    if value.len() < *size.start() {
        add(broken, pointer, "must not be empty".to_owned());
    }
    if value.len() > *size.end() {
        add(broken, pointer, format!("has {} bytes; at most {} are taken", value.len(), size.end()));
    }
}

/// A number within its bounds.
pub fn number(broken: &mut Vec<Violation>, pointer: &str, value: Option<u64>, range: RangeInclusive<u64>) {
    if value.is_some_and(|value| !range.contains(&value)) {
        add(broken, pointer, format!("must be from {} to {}", range.start(), range.end()));
    }
}

pub fn add(broken: &mut Vec<Violation>, pointer: &str, message: impl Into<String>) {
    broken.push(Violation { pointer: pointer.to_owned(), message: message.into() });
}
