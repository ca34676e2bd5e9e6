//! A field of a typed tool that accepts any JSON value.

use bytes::Bytes;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{self, Serialize, Serializer};
use serde_json::Value;
use std::borrow::Cow;
use toolyard_formats::json::{ParseError, Token, Tokenizer};
use toolyard_protocol::{Error, ErrorKind, Format, Payload};

/// One JSON value. Serialization preserves integers of any size and the order of members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnyJson(Payload);

impl AnyJson {
    /// `None` when the payload is not JSON text.
    pub fn new(payload: Payload) -> Option<AnyJson> {
        let sound = payload.format() == Format::Json && toolyard_formats::json::scan(payload.bytes()).is_ok();
        sound.then_some(AnyJson(payload))
    }

    /// From any payload; MsgPack becomes JSON, with binary values as base64.
    pub fn of(payload: Payload) -> Result<AnyJson, Error> {
        let unreadable =
            |what: String| Error::new(ErrorKind::Internal, format!("a stored value is damaged: {what}"));
        match payload.format() {
            Format::Json => AnyJson::new(payload).ok_or_else(|| unreadable("not JSON".to_owned())),
            Format::MsgPack => {
                let json = toolyard_formats::msgpack::to_json(payload.bytes());
                Ok(AnyJson(Payload::json(json.map_err(|parse_error| unreadable(parse_error.to_string()))?)))
            }
        }
    }

    pub fn is_object(&self) -> bool {
        self.0.bytes().iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
    }

    pub fn payload(&self) -> &Payload {
        &self.0
    }

    pub fn into_payload(self) -> Payload {
        self.0
    }
}

impl Serialize for AnyJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Tree::read(self.0.bytes()).map_err(ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for AnyJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AnyJson, D::Error> {
        // Binary values, extensions and non-string keys have no JSON form and are rejected here.
        let value = Value::deserialize(deserializer)?;
        if has_inexact(&value) {
            // The number is not quoted: it may be a secret, and messages go to logs.
            return Err(de::Error::custom("has a number that would lose precision; send it as a string"));
        }
        let text = serde_json::to_string(&value).map_err(de::Error::custom)?;
        Ok(AnyJson(Payload::json(Bytes::from(text))))
    }
}

/// Whether a number may have been an integer of more than 64 bits in the input.
fn has_inexact(value: &Value) -> bool {
    match value {
        Value::Number(number) if number.is_f64() => {
            number.as_f64().is_some_and(|number| number.abs() >= 2f64.powi(63))
        }
        Value::Array(items) => items.iter().any(has_inexact),
        Value::Object(members) => members.values().any(has_inexact),
        _ => false,
    }
}

/// A value to be serialized. Integers of more than 64 bits stay integers: `serde_json::Value` would turn them
/// into floats, and its feature that avoids this is unsafe with hostile member names.
enum Tree<'a> {
    Null,
    Bool(bool),
    Number(&'a str),
    Text(Cow<'a, str>),
    List(Vec<Tree<'a>>),
    Object(Vec<(Cow<'a, str>, Tree<'a>)>),
}

impl<'a> Tree<'a> {
    fn read(bytes: &'a [u8]) -> Result<Tree<'a>, ParseError> {
        let mut tokens = Tokenizer::new(bytes)?;
        Tree::next(&mut tokens)?.ok_or_else(|| tokens.error_at(0, "no value"))
    }

    /// The next value; `None` at the end of the container.
    fn next(tokens: &mut Tokenizer<'a>) -> Result<Option<Tree<'a>>, ParseError> {
        let Some((token, _)) = tokens.next()? else { return Ok(None) };
        Ok(Some(match token {
            Token::ArrayEnd | Token::ObjectEnd | Token::Key(_) => return Ok(None),
            Token::Null => Tree::Null,
            Token::Bool(value) => Tree::Bool(value),
            Token::Number(text) => Tree::Number(text),
            Token::String(text) => Tree::Text(text),
            Token::ArrayStart => {
                let mut items = Vec::new();
                while let Some(item) = Tree::next(tokens)? {
                    items.push(item);
                }
                Tree::List(items)
            }
            Token::ObjectStart => {
                let mut members = Vec::new();
                while let Some((Token::Key(key), _)) = tokens.next()? {
                    // The tokenizer guarantees a value after each key.
                    members.push((key, Tree::next(tokens)?.unwrap_or(Tree::Null)));
                }
                Tree::Object(members)
            }
        }))
    }
}

impl Serialize for Tree<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Tree::Null => serializer.serialize_unit(),
            Tree::Bool(value) => serializer.serialize_bool(*value),
            Tree::Number(text) => serialize_number(text, serializer),
            Tree::Text(text) => serializer.serialize_str(text),
            Tree::List(items) => serializer.collect_seq(items),
            Tree::Object(members) => {
                serializer.collect_map(members.iter().map(|(key, value)| (key.as_ref(), value)))
            }
        }
    }
}

fn serialize_number<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    if let Ok(number) = text.parse::<u64>() {
        return serializer.serialize_u64(number);
    }
    if let Ok(number) = text.parse::<i64>() {
        return serializer.serialize_i64(number);
    }
    if serializer.is_human_readable()
        && let Ok(number) = text.parse::<i128>()
    {
        return serializer.serialize_i128(number);
    }
    serializer.serialize_f64(text.parse().map_err(ser::Error::custom)?)
}

impl JsonSchema for AnyJson {
    fn schema_name() -> Cow<'static, str> {
        "AnyJson".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_any_size_and_the_order_of_members_are_preserved() {
        for text in [
            r#"{"z":123456789012345678901234567890,"a":[-9223372036854775809,18446744073709551616,0,-1]}"#,
            r#"[null,true,"é\n",{},[]]"#,
            r#"{"$serde_json::private::RawValue":"{}"}"#,
        ] {
            let any = AnyJson::new(Payload::json(text)).unwrap();
            assert_eq!(serde_json::to_string(&any).unwrap(), text);
        }
    }

    #[test]
    fn a_number_that_would_be_changed_is_rejected() {
        let error = serde_json::from_str::<AnyJson>(r#"{"n":[123456789012345678901]}"#).unwrap_err();
        assert!(error.to_string().contains("send it as a string"), "{error}");
        assert!(serde_json::from_str::<AnyJson>("18446744073709551615").is_ok());
    }
}
