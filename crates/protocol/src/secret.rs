//! Names of secrets and `secret:NAME` references.

use std::fmt;

/// A checked name: 1 to 64 of letters, digits, `_`, `.` and `-`, the first a letter, a digit or `_`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretName(Box<str>);

impl SecretName {
    pub const MAX: usize = 64;

    pub fn parse(text: &str) -> Option<SecretName> {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let ok = text.len() <= SecretName::MAX
            && text.starts_with(word)
            && text.chars().all(|c| word(c) || c == '.' || c == '-');
        ok.then(|| SecretName(text.into()))
    }

    /// The name in `secret:NAME`.
    pub fn parse_reference(text: &str) -> Option<SecretName> {
        text.strip_prefix("secret:").and_then(SecretName::parse)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The environment variable that may hold the value.
    pub fn variable(&self) -> String {
        let upper = self.0.to_ascii_uppercase().replace(['.', '-'], "_");
        format!("{VARIABLE_PREFIX}{upper}")
    }
}

/// Prefix of the daemon's environment variables that hold secrets.
pub const VARIABLE_PREFIX: &str = "TOOLYARD_SECRET_";

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_because_they_become_file_names() {
        for good in ["a", "my_key", "API.v2-key", "_x", "9", &"a".repeat(64)] {
            assert!(SecretName::parse(good).is_some(), "{good}");
        }
        for bad in ["", ".", "..", ".hidden", "-x", "a/b", "a b", "ä", "a\0", "a\n", &"a".repeat(65)] {
            assert!(SecretName::parse(bad).is_none(), "{bad:?}");
        }
        assert_eq!(SecretName::parse_reference("secret:my_key").unwrap().as_str(), "my_key");
        for bad in ["my_key", "secret:", "Secret:x", "secret: x", "env:x"] {
            assert!(SecretName::parse_reference(bad).is_none(), "{bad:?}");
        }
        assert_eq!(SecretName::parse("my.api-Key").unwrap().variable(), "TOOLYARD_SECRET_MY_API_KEY");
    }
}
