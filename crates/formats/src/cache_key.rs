//! Cache keys of a call's arguments: their canonical JSON, or the tool's own `cacheKey` template.

use crate::json::{self, Token, Tokenizer};
use crate::template::{Input, Template};
use std::collections::BTreeMap;
use toolyard_protocol::text::push_json_string;
use toolyard_protocol::{CacheKey, Error, ErrorKind, Payload};

/// Canonical JSON: members sorted, no white space, strings escaped uniformly; numbers keep their digits.
pub struct CanonicalKey;

impl CacheKey for CanonicalKey {
    fn key(&self, arguments: &Payload) -> Result<Vec<u8>, Error> {
        let read = Tokenizer::new(arguments.bytes()).and_then(|mut tokens| {
            let mut out = Vec::with_capacity(arguments.len());
            if let Some((token, _)) = tokens.next()? {
                push(&mut out, token, &mut tokens)?;
            }
            // The tokenizer reports text after the value only on the next call.
            tokens.next()?;
            Ok(out)
        });
        read.map_err(|parse_error| {
            Error::new(ErrorKind::InvalidInput, format!("the arguments are not JSON: {parse_error}"))
        })
    }
}

/// The rendered `templating.cacheKey`.
pub struct TemplateKey(pub Template);

impl CacheKey for TemplateKey {
    fn key(&self, arguments: &Payload) -> Result<Vec<u8>, Error> {
        self.0.render(&Input::new(arguments)?).map(String::into_bytes)
    }
}

/// The tokenizer limits the depth, and with it this recursion.
fn push(out: &mut Vec<u8>, token: Token<'_>, tokens: &mut Tokenizer<'_>) -> Result<(), json::ParseError> {
    match token {
        Token::ObjectStart => {
            let mut members = BTreeMap::new();
            while let Some((Token::Key(key), _)) = tokens.next()? {
                let mut value = Vec::new();
                if let Some((token, _)) = tokens.next()? {
                    push(&mut value, token, tokens)?;
                }
                members.insert(key, value);
            }
            let mut object = json::Object::new(out);
            for (key, value) in &members {
                object.raw(key, value);
            }
            object.end();
        }
        Token::ArrayStart => {
            out.push(b'[');
            let mut first = true;
            while let Some((token, _)) = tokens.next()? {
                if token == Token::ArrayEnd {
                    break;
                }
                if !std::mem::replace(&mut first, false) {
                    out.push(b',');
                }
                push(out, token, tokens)?;
            }
            out.push(b']');
        }
        Token::Key(text) | Token::String(text) => push_json_string(out, &text),
        Token::Number(digits) => out.extend_from_slice(digits.as_bytes()),
        Token::Bool(true) => out.extend_from_slice(b"true"),
        Token::Bool(false) => out.extend_from_slice(b"false"),
        Token::Null | Token::ObjectEnd | Token::ArrayEnd => out.extend_from_slice(b"null"),
    }
    Ok(())
}

/// Whether two JSON texts are the same value, regardless of member order and number notation.
pub fn same_value(a: &[u8], b: &[u8]) -> bool {
    match (serde_json::from_slice::<serde_json::Value>(a), serde_json::from_slice::<serde_json::Value>(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::Target;
    use proptest::prelude::*;

    fn key(text: &str) -> String {
        String::from_utf8(CanonicalKey.key(&Payload::json(text.to_owned())).unwrap()).unwrap()
    }

    #[test]
    fn order_and_space_do_not_matter_but_values_do() {
        assert_eq!(
            key(r#"{ "b": [1, {"d":2,"c":3}], "a": "\u0041" }"#),
            r#"{"a":"A","b":[1,{"c":3,"d":2}]}"#
        );
        assert_ne!(key(r#"{"a":1}"#), key(r#"{"a":"1"}"#));
        assert_ne!(key(r#"{"a":["b,c"]}"#), key(r#"{"a":["b","c"]}"#));
        assert!(CanonicalKey.key(&Payload::json("{} {}")).is_err(), "text after the value");
    }

    #[test]
    fn a_templated_key_sees_values_as_data() {
        let template = |text: &str| TemplateKey(Template::parse(text, Target::Text).unwrap());
        let payload = Payload::json(r#"{"v":"{{ 7*7 }}"}"#);
        assert_eq!(template("k-{{ input.v }}").key(&payload).unwrap(), b"k-{{ 7*7 }}");
        assert!(template("{{ input.w }}").key(&payload).is_err());
    }

    proptest! {
        #[test]
        fn equal_keys_mean_equal_values(a in "[{}\\[\\]\":,a-b0-1 ]{0,12}", b in "[{}\\[\\]\":,a-b0-1 ]{0,12}") {
            let keys = (CanonicalKey.key(&Payload::json(a.clone())), CanonicalKey.key(&Payload::json(b.clone())));
            if let (Ok(x), Ok(y)) = keys && x == y {
                prop_assert!(same_value(a.as_bytes(), b.as_bytes()));
            }
        }
    }
}
