//! Fast path of validation: checks a value's bytes against the common keywords, without building a tree.
//!
//! It may accept only what the validator accepts. Everything else, valid or not, falls back to the validator,
//! which decides and reports the violations.

mod reader;
mod rules;
#[cfg(test)]
mod tests;

use reader::Reader;
use rules::Rule;
use serde_json::Value;

/// A schema that uses only the common keywords.
pub struct FastValidator {
    rules: Vec<Rule>,
    root: usize,
}

impl FastValidator {
    /// `None` for a schema with any other keyword. `schema` must be valid.
    pub fn compile(schema: &Value) -> Option<FastValidator> {
        let (rules, root) = rules::compile(schema)?;
        Some(FastValidator { rules, root })
    }

    /// True only for JSON that is valid against the schema.
    pub fn accepts(&self, bytes: &[u8]) -> bool {
        std::str::from_utf8(bytes)
            .is_ok_and(|text| Reader::new(text, &self.rules).accepts(self.root).is_some())
    }
}
