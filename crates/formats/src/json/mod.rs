//! JSON as bytes: a strict tokenizer and a small writer.

mod pointer;
mod pretty;
mod scan;

pub use pointer::{elements, is_pointer, pointer};
pub use pretty::pretty;
pub use scan::{JsonType, MAX_DEPTH, ParseError, Token, Tokenizer, scan};
pub use toolyard_protocol::json::{Object, array, objects, push_objects};

use std::borrow::Cow;
use std::ops::Range;
use toolyard_protocol::{Error, ErrorKind, Payload};

/// The members of an object with the byte ranges of their values; `None` when the value is not an object.
pub type Members<'a> = Option<Vec<(Cow<'a, str>, Range<usize>)>>;

/// Checks that `bytes` is one JSON value and, if it is an object, returns its members.
pub fn members(bytes: &[u8]) -> Result<Members<'_>, ParseError> {
    let mut tokens = Tokenizer::new(bytes)?;
    let Some((Token::ObjectStart, _)) = tokens.next()? else {
        while tokens.next()?.is_some() {}
        return Ok(None);
    };
    let mut members: Vec<(Cow<'_, str>, Range<usize>)> = Vec::new();
    while let Some((token, start)) = tokens.next()? {
        match token {
            Token::Key(key) if tokens.depth() == 1 => members.push((key, 0..0)),
            _ => {
                if let Some((_, range)) = members.last_mut()
                    && tokens.depth() >= 1
                {
                    let from = if range.end == 0 { start } else { range.start };
                    *range = from..tokens.position();
                }
            }
        }
    }
    Ok(Some(members))
}

/// Arguments of a call: exactly one JSON object, without duplicate members, of limited depth.
pub fn arguments(bytes: impl Into<bytes::Bytes>) -> Result<Payload, Error> {
    let bytes = bytes.into();
    match scan(&bytes) {
        Ok(JsonType::Object) => Ok(Payload::json(bytes)),
        Ok(other) => Err(Error::new(
            ErrorKind::InvalidInput,
            format!("the arguments must be a JSON object, not {}", other.with_article()),
        )
        .hint("send the tool's parameters as {\"name\": value, …}; {} when it takes none")),
        Err(parse_error) => Err(Error::new(
            ErrorKind::InvalidInput,
            format!("the arguments are not valid JSON: {parse_error}"),
        )
        .hint("JSON is UTF-8 text with double-quoted names, no comments and no trailing commas")),
    }
}
