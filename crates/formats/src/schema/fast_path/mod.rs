//! A quick yes: reads a value's bytes against the common keywords, without building a tree.
//!
//! It says yes only where the validator would. Whatever it does not know, doubts or finds wrong is left to the
//! validator, which decides and words the violations; so this must never say yes too often, but may say no at will.

mod reader;
mod rules;
#[cfg(test)]
mod tests;

use reader::Reader;
use rules::Rule;
use serde_json::Value;

/// A schema that uses nothing but the common keywords.
pub struct FastValidator {
    rules: Vec<Rule>,
    root: usize,
}

impl FastValidator {
    /// `None` for a schema with any other keyword. `schema` must be one that the validator accepts.
    pub fn compile(schema: &Value) -> Option<FastValidator> {
        let (rules, root) = rules::compile(schema)?;
        Some(FastValidator { rules, root })
    }

    /// True only for JSON that keeps the schema.
    pub fn accepts(&self, bytes: &[u8]) -> bool {
        std::str::from_utf8(bytes)
            .is_ok_and(|text| Reader::new(text, &self.rules).accepts(self.root).is_some())
    }
}
