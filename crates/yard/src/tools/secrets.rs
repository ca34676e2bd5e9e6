//! `secrets: {VARIABLE: "secret:name"}`: which secrets a tool gets, and under which names.
//!
//! A value that is not a reference is never quoted in a message: it may be the secret itself.

use super::Loader;
use toolyard_formats::doc::{Fields, Value};
use toolyard_protocol::{Error, SecretName};
use toolyard_runtimes::secrets::SecretBinding;

pub fn read(fields: &mut Fields<'_>) -> Vec<SecretBinding> {
    let Some(node) = fields.take("secrets") else { return Vec::new() };
    let Value::Map(entries) = &node.value else {
        return fields.wrong(node, "secrets", "a map of variables and references").unwrap_or_default();
    };
    let mut declared = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        if !is_variable(&key.text) || key.text.starts_with("TOOLYARD_") || key.text == "PATH" {
            let what = format!("'secrets' holds '{}', which is not an allowed variable name", key.text);
            fields.problem(key.position, what, "use letters, digits and '_', for example API_KEY");
            continue;
        }
        let name = match &value.value {
            Value::Text(text) => SecretName::parse_reference(text),
            _ => None,
        };
        match name {
            Some(name) => declared.push(SecretBinding { variable: key.text.clone(), name }),
            None => fields.problem(
                value.position,
                format!("'secrets.{}' must refer to a secret, not hold it", key.text),
                "write \"secret:NAME\" (letters, digits, '_', '.', '-'; at most 64) and run 'toolyard secret set NAME'",
            ),
        }
    }
    declared
}

impl Loader {
    /// Warnings about secrets that are not available. The tool loads anyway, and works once they are set.
    pub fn missing_secrets(&self, declared: &[SecretBinding]) -> Vec<String> {
        let describe = |error: Error| match error.hint {
            Some(hint) => format!("{} ({hint})", error.message),
            None => error.message,
        };
        declared.iter().filter_map(|secret| self.secrets.get(&secret.name).err().map(describe)).collect()
    }
}

fn is_variable(text: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (1..=128).contains(&text.len())
        && text.chars().all(word)
        && !text.starts_with(|c: char| c.is_ascii_digit())
}
