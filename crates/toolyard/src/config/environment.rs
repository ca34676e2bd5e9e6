//! `TOOLYARD_<SECTION>_<KEY>=value` as configuration documents.

use super::SECTIONS;
use std::ffi::OsString;
use toolyard_formats::doc::{Key, Node, Position, Value};
use toolyard_protocol::secret::VARIABLE_PREFIX;
use toolyard_protocol::{Error, ErrorKind};

/// Variables with our prefix that are not configuration.
const NOT_CONFIGURATION: &[&str] = &["TOOLYARD_CONTEXT"];

/// One small document per variable, in the order of their names.
pub fn layers(env: &[(OsString, OsString)]) -> Result<Vec<(String, Node)>, Error> {
    let mut layers = Vec::new();
    for (name, value) in env {
        let Some(name) = name.to_str() else { continue };
        // Variables with secrets are skipped, so that no error message can contain one.
        let is_other = NOT_CONFIGURATION.contains(&name) || name.starts_with(VARIABLE_PREFIX);
        let Some(rest) = name.strip_prefix("TOOLYARD_").filter(|_| !is_other) else { continue };
        let refuse = |what: &str| {
            Error::new(ErrorKind::InvalidInput, format!("the environment variable {name} {what}")).hint(
                "configuration variables are TOOLYARD_<SECTION>_<KEY>, for example TOOLYARD_SERVER_LISTEN",
            )
        };
        let value = value.to_str().ok_or_else(|| refuse("is not UTF-8"))?;
        let rest = rest.to_ascii_lowercase();
        let section = SECTIONS.iter().find_map(|(section, _)| {
            rest.strip_prefix(section)?.strip_prefix('_').map(|key| (*section, key.to_owned()))
        });
        let (section, key) = section.ok_or_else(|| refuse("names no section of the configuration"))?;
        layers.push((name.to_owned(), map(section.to_owned(), map(key, scalar(value)))));
    }
    layers.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(layers)
}

fn map(key: String, node: Node) -> Node {
    let position = Position::START;
    Node { value: Value::Map(vec![(Key { text: key, position }, node)]), position }
}

fn scalar(text: &str) -> Node {
    let value = match text {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ if text.parse::<u64>().is_ok() => Value::Number(text.to_owned()),
        _ => Value::Text(text.to_owned()),
    };
    Node { value, position: Position::START }
}
