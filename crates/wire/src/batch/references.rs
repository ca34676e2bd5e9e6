//! References in arguments: `{"$from": id, "pointer": "/…"}`, or `<ID response>` in a conversation's strings.

use crate::render;
use bytes::Bytes;
use serde::Deserialize;
use std::ops::Range;
use toolyard_formats::json::{self, Token, Tokenizer};
use toolyard_protocol::batch::StepArguments;
use toolyard_protocol::text::push_json_string;
use toolyard_protocol::{Error, ErrorKind, Format, Outcome, Payload};

/// The maximum number of references in a call.
const MAX_REFERENCES: usize = 1000;

pub struct References {
    arguments: Payload,
    found: Vec<Reference>,
}

struct Reference {
    range: Range<usize>,
    substitution: Substitution,
}

/// What replaces a reference. Calls are named by id.
enum Substitution {
    Value {
        from: String,
        pointer: String,
    },
    /// A string in which each `<name response>` is replaced.
    Text {
        text: String,
        names: Vec<String>,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawReference {
    #[serde(rename = "$from")]
    from: String,
    #[serde(default)]
    pointer: String,
}

impl References {
    /// Finds the objects that have a member `$from`.
    pub fn find(arguments: Payload) -> Result<References, Error> {
        let text = arguments.bytes();
        let mut tokens = Tokenizer::new(text).map_err(broken)?;
        // One entry per open container: its start, and whether it is a reference.
        let mut open: Vec<(usize, bool)> = Vec::new();
        let mut found = Vec::new();
        while let Some((token, at)) = tokens.next().map_err(broken)? {
            match token {
                Token::ObjectStart | Token::ArrayStart => open.push((at, false)),
                Token::Key(key) if key == "$from" => {
                    if let Some(last) = open.last_mut() {
                        last.1 = true;
                    }
                }
                Token::ObjectEnd | Token::ArrayEnd => {
                    if let Some((start, true)) = open.pop() {
                        found.push(read_reference(text, start..tokens.position())?);
                    }
                }
                _ => {}
            }
        }
        if found.len() > MAX_REFERENCES {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                format!("over {MAX_REFERENCES} references in one call"),
            ));
        }
        Ok(References { arguments, found })
    }

    /// Finds strings that contain `<name response>` for one of the names.
    pub fn find_placeholders(arguments: Payload, names: &[String]) -> Result<References, Error> {
        let mut tokens = Tokenizer::new(arguments.bytes()).map_err(broken)?;
        let mut found = Vec::new();
        while let Some((token, at)) = tokens.next().map_err(broken)? {
            let Token::String(text) = token else { continue };
            let used: Vec<String> =
                names.iter().filter(|name| text.contains(&placeholder(name))).cloned().collect();
            if !used.is_empty() {
                let substitution = Substitution::Text { text: text.into_owned(), names: used };
                found.push(Reference { range: at..tokens.position(), substitution });
            }
        }
        Ok(References { arguments, found })
    }

    /// The call ids of all references.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.found
            .iter()
            .flat_map(|reference| match &reference.substitution {
                Substitution::Value { from, .. } => std::slice::from_ref(from).iter(),
                Substitution::Text { names, .. } => names.iter(),
            })
            .map(String::as_str)
    }

    pub fn resolve_ids(self, index_of: impl Fn(&str) -> Option<usize>) -> ResolvedReferences {
        // `build_batch` checked the ids; `usize::MAX` would make `resolve` fail.
        let indices =
            self.names().map(|name| (name.to_owned(), index_of(name).unwrap_or(usize::MAX))).collect();
        ResolvedReferences { references: self, indices }
    }
}

/// References with the indices of the steps they refer to.
pub struct ResolvedReferences {
    references: References,
    indices: Vec<(String, usize)>,
}

impl StepArguments for ResolvedReferences {
    fn resolve(&self, outcomes: &[Option<Outcome>]) -> Result<Payload, Error> {
        if self.references.found.is_empty() {
            return Ok(self.references.arguments.clone());
        }
        let text = self.references.arguments.bytes();
        let mut out = Vec::with_capacity(text.len());
        let mut at = 0;
        for reference in &self.references.found {
            out.extend_from_slice(&text[at..reference.range.start]);
            match &reference.substitution {
                Substitution::Value { from, pointer } => {
                    push_value(&mut out, from, pointer, self.outcome(from, outcomes)?)?
                }
                Substitution::Text { text, names } => {
                    let mut text = text.clone();
                    for name in names {
                        let result = render::plain(self.outcome(name, outcomes)?);
                        text = text.replace(&placeholder(name), &result);
                    }
                    push_json_string(&mut out, &text);
                }
            }
            at = reference.range.end;
        }
        out.extend_from_slice(&text[at..]);
        // Inserted values may be deep or large, so the result is checked like any arguments.
        json::arguments(out)
    }
}

impl ResolvedReferences {
    fn outcome<'e>(&self, name: &str, outcomes: &'e [Option<Outcome>]) -> Result<&'e Outcome, Error> {
        let index = self.indices.iter().find(|(known, _)| known == name).map(|(_, index)| *index);
        index
            .and_then(|index| outcomes.get(index)?.as_ref())
            .ok_or_else(|| Error::new(ErrorKind::Internal, format!("the result of '{name}' is missing")))
    }
}

/// Appends the value at `pointer`. The result of a call without data is its content array.
fn push_value(out: &mut Vec<u8>, from: &str, pointer: &str, outcome: &Outcome) -> Result<(), Error> {
    let payload = outcome.data().or(outcome.content());
    let text = payload.map_or(&b"null"[..], |payload| payload.bytes());
    if payload.is_some_and(|payload| payload.format() != Format::Json) {
        return Err(Error::new(ErrorKind::InvalidInput, format!("the result of '{from}' is not JSON")));
    }
    match json::pointer(text, pointer).map_err(broken)? {
        Some(range) => {
            out.extend_from_slice(text[range].trim_ascii());
            Ok(())
        }
        None => Err(Error::new(
            ErrorKind::InvalidInput,
            format!("the result of '{from}' has no value at '{pointer}'"),
        )
        .hint("run that call alone to see its result")),
    }
}

fn read_reference(text: &Bytes, range: Range<usize>) -> Result<Reference, Error> {
    let wrong = |what: String| {
        Error::new(ErrorKind::InvalidInput, format!("invalid reference: {what}"))
            .hint("{\"$from\": \"<call id>\", \"pointer\": \"/json/pointer\"}")
    };
    let from: RawReference =
        serde_json::from_slice(&text[range.clone()]).map_err(|error| wrong(error.to_string()))?;
    if !json::is_pointer(&from.pointer) {
        return Err(wrong(format!("'{}' is not a JSON pointer", from.pointer)));
    }
    Ok(Reference { range, substitution: Substitution::Value { from: from.from, pointer: from.pointer } })
}

fn placeholder(name: &str) -> String {
    format!("<{name} response>")
}

fn broken(parse_error: json::ParseError) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("not valid JSON: {parse_error}"))
}
