//! The names of prompts: `domain.name`, `domain/name`, either with `@3` for a version.

use std::fmt;

/// The longest part of a name.
const MAX_PART: usize = 60;
/// The highest version that can be written.
pub const MAX_MAJOR: u32 = 1_000_000;

/// `domain.name`, both safe as file names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PackName {
    pub domain: String,
    pub name: String,
}

/// A prompt as a client names it.
#[derive(Debug, PartialEq, Eq)]
pub struct PromptRef<'a> {
    /// Without its version.
    pub name: &'a str,
    /// `Err` holds the text after `@` if it is not a version.
    pub major: Option<Result<u32, &'a str>>,
}

impl<'a> PromptRef<'a> {
    pub fn parse(text: &'a str) -> PromptRef<'a> {
        let Some((name, major)) = text.rsplit_once('@') else { return PromptRef { name: text, major: None } };
        PromptRef { name, major: Some(parse_major(major).ok_or(major)) }
    }
}

impl fmt::Display for PackName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.domain, self.name)
    }
}

/// A domain or a name; the error says what is wrong.
pub fn parse_part(text: &str) -> Result<String, &'static str> {
    if text.is_empty() || text.len() > MAX_PART {
        return Err("it must have 1 to 60 characters");
    }
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    if !text.bytes().all(fits) || text.starts_with('-') {
        return Err("only letters, digits, '_' and '-' are allowed");
    }
    Ok(text.to_owned())
}

/// Digits without a sign or leading zeros, so that a version has one spelling.
pub fn parse_major(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|major| plain && *major <= MAX_MAJOR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_version_has_one_spelling() {
        for (text, name, major) in [
            ("writing.draft", "writing.draft", None),
            ("writing.draft@3", "writing.draft", Some(Ok(3))),
            ("writing/draft@12", "writing/draft", Some(Ok(12))),
            ("x@y@1", "x@y", Some(Ok(1))),
            ("x@", "x", Some(Err(""))),
            ("x@0", "x", Some(Err("0"))),
            ("x@03", "x", Some(Err("03"))),
            ("x@+3", "x", Some(Err("+3"))),
            ("x@v3", "x", Some(Err("v3"))),
            ("x@99999999999", "x", Some(Err("99999999999"))),
        ] {
            assert_eq!(PromptRef::parse(text), PromptRef { name, major }, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_part_leaves_its_folder(text in ".{0,70}") {
            if let Ok(part) = parse_part(&text) {
                prop_assert!(!part.contains(['/', '\\', '.', '\0', '@']) && !part.is_empty());
            }
        }

        #[test]
        fn what_is_asked_for_never_panics(text in ".{0,30}") {
            let reference = PromptRef::parse(&text);
            prop_assert!(text.starts_with(reference.name));
        }
    }
}
