//! Validated names: the canonical `module.tool` and the name a client sees.

use std::fmt;

/// `module.tool`, matching `^[a-z0-9_]+(\.[a-z0-9_]+)+$`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolName(Box<str>);

/// The name on MCP and in `list`: 1 to 64 characters of `[A-Za-z0-9_.-]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExposedName(Box<str>);

/// Why a text is not a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameError {
    /// Not `module.tool`; holds what is wrong.
    Canonical(&'static str),
    /// Not an exposed name; holds what is wrong.
    Exposed(&'static str),
}

impl ToolName {
    /// The longest canonical name; long enough for any module path, short enough for an index key.
    pub const MAX: usize = 200;

    pub fn parse(text: &str) -> Result<ToolName, NameError> {
        if text.len() > Self::MAX {
            return Err(NameError::Canonical("it is longer than 200 characters"));
        }
        let mut segments = 0;
        for segment in text.split('.') {
            if segment.is_empty() {
                return Err(NameError::Canonical("a part between dots is empty"));
            }
            if !segment.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_') {
                return Err(NameError::Canonical("only a-z, 0-9 and _ are allowed between the dots"));
            }
            segments += 1;
        }
        if segments < 2 {
            return Err(NameError::Canonical("it needs a module and a tool, joined by a dot"));
        }
        Ok(ToolName(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Everything before the last dot.
    pub fn module(&self) -> &str {
        self.0.rsplit_once('.').map_or("", |(module, _)| module)
    }
}

impl ExposedName {
    pub const MAX: usize = 64;

    pub fn parse(text: &str) -> Result<ExposedName, NameError> {
        if text.is_empty() {
            return Err(NameError::Exposed("it is empty"));
        }
        if text.len() > Self::MAX {
            return Err(NameError::Exposed("it is longer than 64 characters"));
        }
        if !text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-')) {
            return Err(NameError::Exposed("only letters, digits, '_', '.' and '-' are allowed"));
        }
        Ok(ExposedName(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for ExposedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameError::Canonical(why) => write!(f, "not a tool name: {why}"),
            NameError::Exposed(why) => write!(f, "not a usable name: {why}"),
        }
    }
}

impl std::error::Error for NameError {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn canonical_names_follow_the_pattern() {
        for good in ["a.b", "example.markdown", "a_1.b_2.c", "0.0"] {
            assert_eq!(ToolName::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", "a", "a.", ".a", "a..b", "A.b", "BAD Name!", "a.b-c", "a.b\n", "ä.b"] {
            assert!(ToolName::parse(bad).is_err(), "{bad:?} was accepted");
        }
        assert!(ToolName::parse(&format!("a.{}", "b".repeat(200))).is_err());
    }

    #[test]
    fn exposed_names_are_at_most_64_safe_characters() {
        assert!(ExposedName::parse(&"a".repeat(64)).is_ok());
        for bad in ["", "a b", "a/b", "a\0", "ä", &"a".repeat(65)] {
            assert!(ExposedName::parse(bad).is_err(), "{bad:?} was accepted");
        }
    }

    proptest! {
        #[test]
        fn whatever_parses_as_canonical_matches_the_pattern(text in "[a-zA-Z0-9_.\\- ]{0,20}") {
            let segments: Vec<&str> = text.split('.').collect();
            let expected = segments.len() >= 2 && segments.iter().all(|s| {
                !s.is_empty() && s.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
            });
            prop_assert_eq!(ToolName::parse(&text).is_ok(), expected);
        }
    }
}
