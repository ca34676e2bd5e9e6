//! Reads a map field by field: each field is taken once, and every remaining one is reported as unknown.

use super::{Node, Position, Problem, Value};
use crate::duration::{self, DurationError};
use std::ops::RangeInclusive;
use std::time::Duration;
use toolyard_protocol::text::nearest;

/// One map being read. Problems are collected, so that a file's author sees all of them at once.
pub struct Fields<'n> {
    entries: Vec<(&'n str, Position, &'n Node)>,
    known: Vec<&'static str>,
    /// Where the map starts, for fields that are missing.
    pub position: Position,
    /// `limits.` for a nested map, empty at the top: messages name fields in full.
    prefix: String,
    pub problems: Vec<Problem>,
}

impl<'n> Fields<'n> {
    /// `prefix` names the map in messages; empty for the document itself.
    pub fn open(node: &'n Node, prefix: &str) -> Result<Fields<'n>, Problem> {
        let Value::Map(entries) = &node.value else {
            let what = if prefix.is_empty() { "the document".to_owned() } else { format!("'{prefix}'") };
            return Err(Problem::new(
                node.position,
                format!("{what} must be a map of fields, not {}", node.kind()),
            ));
        };
        Ok(Fields {
            entries: entries.iter().map(|(key, node)| (key.text.as_str(), key.position, node)).collect(),
            known: Vec::new(),
            position: node.position,
            prefix: if prefix.is_empty() { String::new() } else { format!("{prefix}.") },
            problems: Vec::new(),
        })
    }

    /// Takes the field's node; a field that is null counts as present.
    pub fn take(&mut self, name: &'static str) -> Option<&'n Node> {
        self.known.push(name);
        let at = self.entries.iter().position(|(key, _, _)| *key == name)?;
        Some(self.entries.swap_remove(at).2)
    }

    /// Whether the field is present, without taking it.
    pub fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|(key, _, _)| *key == name)
    }

    pub fn text(&mut self, name: &'static str) -> Option<&'n str> {
        self.text_with_position(name).map(|(text, _)| text)
    }

    /// A string and its position, for problems with its content.
    pub fn text_with_position(&mut self, name: &'static str) -> Option<(&'n str, Position)> {
        let node = self.take(name)?;
        match &node.value {
            Value::Text(text) => Some((text, node.position)),
            _ => self.wrong(node, name, "a string"),
        }
    }

    /// A string that must be present and not blank.
    pub fn required_text(&mut self, name: &'static str, hint: &str) -> Option<(&'n str, Position)> {
        let Some(node) = self.take(name) else {
            self.problem(self.position, format!("'{}{name}' is missing", self.prefix), hint);
            return None;
        };
        match &node.value {
            Value::Text(text) if !text.trim().is_empty() => Some((text, node.position)),
            Value::Text(_) => {
                self.problem(node.position, format!("'{}{name}' is empty", self.prefix), hint);
                None
            }
            _ => self.wrong(node, name, "a string"),
        }
    }

    pub fn bool(&mut self, name: &'static str) -> Option<bool> {
        let node = self.take(name)?;
        match node.value {
            Value::Bool(value) => Some(value),
            _ => self.wrong(node, name, "true or false"),
        }
    }

    pub fn integer(&mut self, name: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let node = self.take(name)?;
        let Value::Number(number) = &node.value else {
            return self.wrong(node, name, "a whole number");
        };
        match number.parse::<u64>() {
            Ok(value) if range.contains(&value) => Some(value),
            _ => {
                let message = format!(
                    "'{}{name}' must be a whole number from {} to {}, not {number}",
                    self.prefix,
                    range.start(),
                    range.end()
                );
                self.problems.push(Problem::new(node.position, message));
                None
            }
        }
    }

    /// A string such as "30s"; a number is refused, because it has no unit.
    pub fn duration(&mut self, name: &'static str, range: RangeInclusive<Duration>) -> Option<Duration> {
        let node = self.take(name)?;
        let (min, max) = (*range.start(), *range.end());
        let (message, hint) = match &node.value {
            Value::Text(text) => match duration::parse(text) {
                Ok(value) if range.contains(&value) => return Some(value),
                Err(DurationError::NotADuration) => {
                    (format!("must be a duration such as \"30s\", not '{text}'"), Some(duration::FORM))
                }
                Ok(_) | Err(DurationError::TooLong) => {
                    let (min, max) = (duration::format(min), duration::format(max));
                    (format!("must be from {min} to {max}, not {text}"), None)
                }
            },
            _ => (format!("must be a duration such as \"30s\", not {}", node.kind()), Some(duration::FORM)),
        };
        let mut problem = Problem::new(node.position, format!("'{}{name}' {message}", self.prefix));
        problem.hint = hint.map(str::to_owned);
        self.problems.push(problem);
        None
    }

    /// Takes a field whose name is no longer valid, with the position of its name; it is never suggested.
    pub fn take_replaced(&mut self, name: &str) -> Option<(Position, &'n Node)> {
        let at = self.entries.iter().position(|(key, _, _)| *key == name)?;
        let (_, position, node) = self.entries.swap_remove(at);
        Some((position, node))
    }

    /// A list of strings, each with its position.
    pub fn texts(&mut self, name: &'static str) -> Option<Vec<(&'n str, Position)>> {
        let node = self.take(name)?;
        self.texts_of(node, name)
    }

    pub fn texts_of(&mut self, node: &'n Node, name: &'static str) -> Option<Vec<(&'n str, Position)>> {
        let Value::List(items) = &node.value else {
            return self.wrong(node, name, "a list of strings");
        };
        let mut texts = Vec::with_capacity(items.len());
        for item in items {
            match &item.value {
                Value::Text(text) => texts.push((text.as_str(), item.position)),
                _ => {
                    let hint = "put quotes around it if a string is meant";
                    self.problem(
                        item.position,
                        format!("'{}{name}' must contain only strings, not {}", self.prefix, item.kind()),
                        hint,
                    );
                    return None;
                }
            }
        }
        Some(texts)
    }

    /// Opens a nested map.
    pub fn map(&mut self, name: &'static str) -> Option<Fields<'n>> {
        let node = self.take(name)?;
        let inner = Fields::open(node, &format!("{}{name}", self.prefix));
        inner.map_err(|problem| self.problems.push(problem)).ok()
    }

    /// Adds the problems of a nested map after reading it.
    pub fn close(&mut self, inner: Fields<'_>) {
        self.problems.extend(inner.finish(&[]));
    }

    pub fn problem(&mut self, position: Position, message: impl Into<String>, hint: &str) {
        self.problems.push(Problem::new(position, message).hint(hint));
    }

    pub fn wrong<T>(&mut self, node: &Node, name: &str, wanted: &str) -> Option<T> {
        let message = format!("'{}{name}' must be {wanted}, not {}", self.prefix, node.kind());
        self.problems.push(Problem::new(node.position, message));
        None
    }

    /// Drops the remaining fields without reporting them, when it is not known which fields are valid.
    pub fn ignore_rest(&mut self) {
        self.entries.clear();
    }

    /// All problems, unknown fields included. `unsupported` lists names that are rejected, with the reason.
    pub fn finish(mut self, unsupported: &[(&'static str, &str)]) -> Vec<Problem> {
        for (name, position, _) in std::mem::take(&mut self.entries) {
            let full = format!("{}{name}", self.prefix);
            if let Some((_, why)) = unsupported.iter().find(|(known, _)| *known == name) {
                self.problems.push(
                    Problem::new(position, format!("'{full}' is not supported: {why}"))
                        .hint("remove it; it would have no effect"),
                );
                continue;
            }
            let mut problem = Problem::new(position, format!("unknown field '{full}'"));
            problem.hint = Some(match nearest(name, self.known.iter().copied()) {
                Some(near) => format!("did you mean '{}{near}'?", self.prefix),
                None => format!("known fields: {}", self.known.join(", ")),
            });
            self.problems.push(problem);
        }
        self.problems.sort_by_key(|problem| problem.position);
        self.problems
    }
}
