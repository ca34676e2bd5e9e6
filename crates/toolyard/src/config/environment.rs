//! `TOOLYARD_<SECTION>_<KEY>=value` as configuration documents.

use super::Config;
use super::replaced::{REPLACED, Replaced};
use std::ffi::{OsStr, OsString};
use toolyard_formats::doc::{Key, Node, Position, Value};
use toolyard_protocol::secret::VARIABLE_PREFIX;
use toolyard_protocol::text::{escape_control, nearest};
use toolyard_protocol::{Error, ErrorKind};
use toolyard_runtimes::builtin::ConfigView;

const PREFIX: &str = "TOOLYARD_";

/// Variables with our prefix that are not configuration.
const NOT_CONFIGURATION: &[&str] = &["TOOLYARD_CONTEXT", "TOOLYARD_TOKEN", "TOOLYARD_YARD"];

/// One small document per variable, in the order of their names. Unknown variables are left out.
pub fn layers(env: &[(OsString, OsString)]) -> Result<Vec<(String, Node)>, Error> {
    let known = known();
    let mut layers = Vec::new();
    for (name, value) in env.iter().filter_map(|(name, value)| Some((ours(name)?, value))) {
        let refuse = |what: &str| {
            Error::new(ErrorKind::InvalidInput, format!("the environment variable {name}{what}"))
        };
        let is_old = |row: &&Replaced| variable(row.section, row.old).eq_ignore_ascii_case(name);
        if let Some(row) = REPLACED.iter().find(is_old) {
            let value = row.convert(value.to_str().unwrap_or_default());
            let hint = format!("set {}={value}", variable(row.section, row.new));
            return Err(refuse(&format!(": {}", row.message())).hint(hint));
        }
        let Some(Variable { section, key, .. }) = find(&known, name) else { continue };
        let value = value.to_str().ok_or_else(|| refuse(" is not UTF-8"))?;
        layers.push((name.to_owned(), map(section, map(key, scalar(value)))));
    }
    layers.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(layers)
}

/// One warning for each variable with our prefix that means nothing.
pub fn unknown_variables(env: &[(OsString, OsString)]) -> Vec<String> {
    let known = known();
    let unknown = env.iter().filter_map(|(name, _)| ours(name)).filter(|name| find(&known, name).is_none());
    let names = || known.iter().map(|known| known.name.as_str()).chain(NOT_CONFIGURATION.iter().copied());
    let mut warnings: Vec<String> = unknown
        .map(|name| {
            let hint = match nearest(name, names()) {
                Some(near) => format!("did you mean {near}?"),
                None => "variables of the configuration are TOOLYARD_<SECTION>_<KEY>".to_owned(),
            };
            format!("the environment variable {} is unknown and has no effect; {hint}", escape_control(name))
        })
        .collect();
    warnings.sort();
    warnings
}

/// A name with our prefix that may be configuration. Secrets are skipped, so that no message can contain one.
fn ours(name: &OsStr) -> Option<&str> {
    let name = name.to_str().filter(|name| name.starts_with(PREFIX))?;
    (!NOT_CONFIGURATION.contains(&name) && !name.starts_with(VARIABLE_PREFIX)).then_some(name)
}

struct Variable {
    name: String,
    section: &'static str,
    key: &'static str,
}

/// The variables of all keys.
fn known() -> Vec<Variable> {
    let mut known = Vec::new();
    for section in Config::default().sections() {
        known.extend(section.settings.iter().map(|(key, _)| Variable {
            name: variable(section.name, key),
            section: section.name,
            key,
        }));
    }
    known
}

fn find<'k>(known: &'k [Variable], name: &str) -> Option<&'k Variable> {
    known.iter().find(|known| known.name.eq_ignore_ascii_case(name))
}

fn variable(section: &str, key: &str) -> String {
    format!("{PREFIX}{section}_{key}").to_ascii_uppercase()
}

fn map(key: &str, node: Node) -> Node {
    let position = Position::START;
    Node { value: Value::Map(vec![(Key { text: key.to_owned(), position }, node)]), position }
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
