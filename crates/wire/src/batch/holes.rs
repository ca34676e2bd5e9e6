//! Arguments with holes: `{"$from": id, "pointer": "/…"}`, and in seed 000's form `<ID response>` inside a text.

use crate::json::{self, Token, Tokens};
use crate::render;
use bytes::Bytes;
use serde::Deserialize;
use std::ops::Range;
use toolyard_protocol::batch::Arguments;
use toolyard_protocol::text::push_json_string;
use toolyard_protocol::{Error, ErrorKind, Format, Outcome, Payload};

/// Holes of one call.
const MAX_HOLES: usize = 1000;

pub struct Holes {
    arguments: Payload,
    found: Vec<Hole>,
}

struct Hole {
    range: Range<usize>,
    filling: Filling,
}

/// What goes into a hole; names until the batch is put in order.
enum Filling {
    Value {
        from: String,
        pointer: String,
    },
    /// A text in which each `<name response>` is replaced.
    Text {
        text: String,
        names: Vec<String>,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct From {
    #[serde(rename = "$from")]
    from: String,
    #[serde(default)]
    pointer: String,
}

impl Holes {
    /// Finds the objects that have a member `$from`.
    pub fn find(arguments: Payload) -> Result<Holes, Error> {
        let text = arguments.bytes();
        let mut tokens = Tokens::new(text).map_err(broken)?;
        // One entry per open container: where it began, and whether it is a reference.
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
        if found.len() > MAX_HOLES {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                format!("over {MAX_HOLES} references in one call"),
            ));
        }
        Ok(Holes { arguments, found })
    }

    /// Finds texts that hold `<name response>` for one of the names.
    pub fn find_marks(arguments: Payload, names: &[String]) -> Result<Holes, Error> {
        let mut tokens = Tokens::new(arguments.bytes()).map_err(broken)?;
        let mut found = Vec::new();
        while let Some((token, at)) = tokens.next().map_err(broken)? {
            let Token::String(text) = token else { continue };
            let used: Vec<String> = names.iter().filter(|name| text.contains(&mark(name))).cloned().collect();
            if !used.is_empty() {
                let filling = Filling::Text { text: text.into_owned(), names: used };
                found.push(Hole { range: at..tokens.position(), filling });
            }
        }
        Ok(Holes { arguments, found })
    }

    /// Every name that a hole needs.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.found
            .iter()
            .flat_map(|hole| match &hole.filling {
                Filling::Value { from, .. } => std::slice::from_ref(from).iter(),
                Filling::Text { names, .. } => names.iter(),
            })
            .map(String::as_str)
    }

    pub fn placed(self, place_of: impl Fn(&str) -> Option<usize>) -> Placed {
        // Names were checked when the batch was put in order; one that is missing stays a hole that can't be filled.
        let places =
            self.names().map(|name| (name.to_owned(), place_of(name).unwrap_or(usize::MAX))).collect();
        Placed { holes: self, places }
    }
}

/// Holes that know the places of the steps they need.
pub struct Placed {
    holes: Holes,
    places: Vec<(String, usize)>,
}

impl Arguments for Placed {
    fn fill(&self, ends: &[Option<Outcome>]) -> Result<Payload, Error> {
        if self.holes.found.is_empty() {
            return Ok(self.holes.arguments.clone());
        }
        let text = self.holes.arguments.bytes();
        let mut out = Vec::with_capacity(text.len());
        let mut at = 0;
        for hole in &self.holes.found {
            out.extend_from_slice(&text[at..hole.range.start]);
            match &hole.filling {
                Filling::Value { from, pointer } => {
                    push_value(&mut out, from, pointer, self.end(from, ends)?)?
                }
                Filling::Text { text, names } => {
                    let mut text = text.clone();
                    for name in names {
                        text = text.replace(&mark(name), &render::plain(self.end(name, ends)?));
                    }
                    push_json_string(&mut out, &text);
                }
            }
            at = hole.range.end;
        }
        out.extend_from_slice(&text[at..]);
        // What was filled in may be deep or large; the whole is held to the same rules as any arguments.
        json::arguments(out)
    }
}

impl Placed {
    fn end<'e>(&self, name: &str, ends: &'e [Option<Outcome>]) -> Result<&'e Outcome, Error> {
        let place = self.places.iter().find(|(known, _)| known == name).map(|(_, place)| *place);
        place
            .and_then(|place| ends.get(place)?.as_ref())
            .ok_or_else(|| Error::new(ErrorKind::Internal, format!("the result of '{name}' is not there")))
    }
}

/// The result of a call without data is its content array.
fn push_value(out: &mut Vec<u8>, from: &str, pointer: &str, end: &Outcome) -> Result<(), Error> {
    let payload = end.data().or(end.content());
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
            format!("the result of '{from}' has nothing at '{pointer}'"),
        )
        .hint("look at the result of that call alone")),
    }
}

fn read_reference(text: &Bytes, range: Range<usize>) -> Result<Hole, Error> {
    let wrong = |what: String| {
        Error::new(ErrorKind::InvalidInput, format!("a reference is wrong: {what}"))
            .hint("{\"$from\": \"<call id>\", \"pointer\": \"/json/pointer\"}")
    };
    let from: From =
        serde_json::from_slice(&text[range.clone()]).map_err(|error| wrong(error.to_string()))?;
    if !json::is_pointer(&from.pointer) {
        return Err(wrong(format!("'{}' is not a JSON pointer", from.pointer)));
    }
    Ok(Hole { range, filling: Filling::Value { from: from.from, pointer: from.pointer } })
}

fn mark(name: &str) -> String {
    format!("<{name} response>")
}

fn broken(defect: json::Defect) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("not valid JSON: {defect}"))
}
