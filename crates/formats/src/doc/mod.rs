//! YAML, JSON and TOML documents as one tree in which every value has its position.

mod fields;
mod json;
mod toml;
mod yaml;

pub use fields::Fields;

use std::fmt;
use toolyard_protocol::json::{Object, array};
use toolyard_protocol::text::push_json_string;

/// The size limit of tool files and configurations.
pub const MAX_BYTES: usize = 1 << 20;
/// Limits the expansion of aliases.
const MAX_NODES: usize = 100_000;
const MAX_DEPTH: usize = 64;

/// A position in a file, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: u32,
    pub column: u32,
}

/// Something wrong in a document: where, what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub position: Position,
    pub message: String,
    pub hint: Option<String>,
}

/// A value and its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub value: Value,
    pub position: Position,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    /// A JSON number with its original digits.
    Number(String),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    pub text: String,
    pub position: Position,
}

/// The formats of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentFormat {
    Yaml,
    Json,
    Toml,
}

/// Reads a document; an empty one is an empty map.
pub fn read(format: DocumentFormat, bytes: &[u8]) -> Result<Node, Problem> {
    if bytes.len() > MAX_BYTES {
        let message = format!("the file has {} bytes; at most {MAX_BYTES} are read", bytes.len());
        return Err(Problem::new(Position::START, message));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let good = String::from_utf8_lossy(&bytes[..error.valid_up_to()]).into_owned();
        Problem::new(Position::after(&good), "the file is not UTF-8 from here on")
            .hint("save it with UTF-8 encoding")
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match format {
        DocumentFormat::Yaml => yaml::read(text),
        DocumentFormat::Json => json::read(text),
        DocumentFormat::Toml => toml::read(text),
    }
}

impl Position {
    pub const START: Position = Position { line: 1, column: 1 };

    /// The position just after `text`.
    fn after(text: &str) -> Position {
        let line = text.matches('\n').count() as u32 + 1;
        let column = text.rsplit('\n').next().unwrap_or("").chars().count() as u32 + 1;
        Position { line, column }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

impl Problem {
    pub fn new(position: Position, message: impl Into<String>) -> Problem {
        Problem { position, message: message.into(), hint: None }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Problem {
        self.hint = Some(hint.into());
        self
    }
}

impl Node {
    /// The type of the value, for messages.
    pub fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::Text(_) => "a string",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }

    pub fn get(&self, name: &str) -> Option<&Node> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|(key, _)| key.text == name).map(|(_, node)| node),
            _ => None,
        }
    }

    /// The value as compact JSON.
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.push_json(&mut out);
        out
    }

    fn push_json(&self, out: &mut Vec<u8>) {
        match &self.value {
            Value::Null => out.extend_from_slice(b"null"),
            Value::Bool(true) => out.extend_from_slice(b"true"),
            Value::Bool(false) => out.extend_from_slice(b"false"),
            Value::Number(number) => out.extend_from_slice(number.as_bytes()),
            Value::Text(text) => push_json_string(out, text),
            Value::List(items) => {
                array(out, items, |out, item| item.push_json(out));
            }
            Value::Map(entries) => {
                let mut object = Object::new(out);
                for (key, node) in entries {
                    node.push_json(object.member(&key.text));
                }
            }
        }
    }
}

/// Adds an entry unless the name is taken.
fn insert(entries: &mut Vec<(Key, Node)>, key: Key, node: Node) -> Result<(), Problem> {
    if let Some((first, _)) = entries.iter().find(|(known, _)| known.text == key.text) {
        let message = format!("'{}' is given twice; the first is on line {}", key.text, first.position.line);
        return Err(Problem::new(key.position, message).hint("remove one of them"));
    }
    entries.push((key, node));
    Ok(())
}
