//! Redaction by member name, and string members of flat objects: the engine's view of JSON.

use crate::json::{self, Token, Tokenizer};
use crate::msgpack;
use toolyard_protocol::text::push_json_string;
use toolyard_protocol::{Error, ErrorKind, Format, JsonView, Payload};

/// Implements [`JsonView`].
pub struct View;

impl JsonView for View {
    fn redacted(&self, payload: &Payload, cap: usize) -> Result<Vec<u8>, Error> {
        let omitted = || {
            let mut out = Vec::new();
            let mut object = json::Object::new(&mut out);
            object.number("omitted_bytes", payload.len() as u64);
            object.end();
            out
        };
        // Redaction shortens few payloads by that much, so far larger ones are not parsed at all.
        if payload.len() > cap.saturating_mul(4) {
            return Ok(omitted());
        }
        let shown = match payload.format() {
            Format::Json => payload.bytes().clone(),
            Format::MsgPack => msgpack::to_log(payload.bytes())
                .map_err(|parse_error| {
                    Error::new(ErrorKind::InvalidInput, format!("not valid MsgPack: {parse_error}"))
                })?
                .into(),
        };
        let out = redact(&shown).map_err(|parse_error| {
            Error::new(ErrorKind::InvalidInput, format!("not valid JSON: {parse_error}"))
        })?;
        Ok(if out.len() > cap { omitted() } else { out })
    }

    fn members(&self, text: &[u8], names: &[&str]) -> Result<Vec<Option<String>>, Error> {
        let broken = |what: String| Error::new(ErrorKind::Internal, format!("not a JSON object: {what}"));
        let members = json::members(text).map_err(|parse_error| broken(parse_error.to_string()))?;
        let members = members.ok_or_else(|| broken("it has another type".to_owned()))?;
        Ok(names
            .iter()
            .map(|name| {
                let (_, range) = members.iter().find(|(key, _)| key == name)?;
                let raw = &text[range.clone()];
                match Tokenizer::new(raw).ok()?.next().ok()?? {
                    (Token::String(value), _) => Some(value.into_owned()),
                    (Token::Null, _) => None,
                    _ => Some(String::from_utf8_lossy(raw).into_owned()),
                }
            })
            .collect())
    }
}

/// Whether a string member of this name is redacted.
pub fn is_secret_name(name: &str) -> bool {
    Redaction::of(name) != Redaction::No
}

const REDACTED: &[u8] = b"\"[redacted]\"";

/// Copies JSON compactly, with the values of secret-looking members replaced.
fn redact(bytes: &[u8]) -> Result<Vec<u8>, json::ParseError> {
    let mut tokens = Tokenizer::new(bytes)?;
    let mut out = Vec::with_capacity(bytes.len());
    // Set after a secret key; `Some(depth)` while a secret container is being skipped.
    let mut secret = Redaction::No;
    let mut skipping: Option<usize> = None;
    while let Some((token, start)) = tokens.next()? {
        if let Some(depth) = skipping {
            if tokens.depth() == depth {
                skipping = None;
            }
            continue;
        }
        if needs_comma(&out, &token) {
            out.push(b',');
        }
        let hide = match (std::mem::replace(&mut secret, Redaction::No), &token) {
            (Redaction::No, Token::String(text)) => looks_secret(text),
            (Redaction::No, _) => false,
            (Redaction::TextOnly, token) => !matches!(token, Token::Number(_) | Token::Bool(_) | Token::Null),
            (Redaction::Always, token) => !matches!(token, Token::Null),
        };
        if hide {
            out.extend_from_slice(REDACTED);
            if matches!(token, Token::ObjectStart | Token::ArrayStart) {
                skipping = Some(tokens.depth() - 1);
            }
            continue;
        }
        match token {
            Token::Key(key) => {
                secret = Redaction::of(&key);
                push_json_string(&mut out, &key);
                out.push(b':');
            }
            _ => out.extend_from_slice(&bytes[start..tokens.position()]),
        }
    }
    Ok(out)
}

fn needs_comma(out: &[u8], token: &Token<'_>) -> bool {
    !matches!(token, Token::ObjectEnd | Token::ArrayEnd)
        && !matches!(out.last(), None | Some(b'{' | b'[' | b':'))
}

#[derive(Clone, Copy, PartialEq)]
enum Redaction {
    No,
    /// Redacted unless it is a number or a boolean: `max_tokens: 100` is not a secret.
    TextOnly,
    Always,
}

impl Redaction {
    fn of(key: &str) -> Redaction {
        const ALWAYS: &[&str] = &[
            "password",
            "passwd",
            "passphrase",
            "secret",
            "apikey",
            "privatekey",
            "credential",
            "authorization",
        ];
        const TEXT: &[&str] = &["token", "cookie"];
        let plain: String = key
            .chars()
            .filter(|c| !matches!(c, '_' | '-' | ' ' | '.'))
            .map(|c| c.to_ascii_lowercase())
            .collect();
        let has = |words: &[&str]| words.iter().any(|word| plain.contains(word));
        if has(ALWAYS) {
            Redaction::Always
        } else if has(TEXT) {
            Redaction::TextOnly
        } else {
            Redaction::No
        }
    }
}

/// Values that look like secrets, regardless of the member's name.
fn looks_secret(text: &str) -> bool {
    const PREFIXES: &[&str] = &[
        "Bearer ",
        "Basic ",
        "sk-",
        "ghp_",
        "gho_",
        "github_pat_",
        "xoxb-",
        "xoxp-",
        "AKIA",
        "glpat-",
        "eyJhbGciOi",
        "-----BEGIN",
    ];
    text.len() >= 12 && PREFIXES.iter().any(|prefix| text.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(text: &str) -> String {
        String::from_utf8(View.redacted(&Payload::json(text.to_owned()), 4096).unwrap()).unwrap()
    }

    #[test]
    fn secrets_are_replaced_and_the_rest_is_copied_compactly() {
        for (given, expected) in [
            (r#"{ "a" : [ 1 , "x" ] , "b" : { } }"#, r#"{"a":[1,"x"],"b":{}}"#),
            (
                r#"{"password":"p","API-Key":"k","user":"u"}"#,
                r#"{"password":"[redacted]","API-Key":"[redacted]","user":"u"}"#,
            ),
            (
                r#"{"max_tokens":100,"token":"t","tokens":["a"]}"#,
                r#"{"max_tokens":100,"token":"[redacted]","tokens":"[redacted]"}"#,
            ),
            (r#"{"client_secret":{"x":[1,{"y":2}]},"z":1}"#, r#"{"client_secret":"[redacted]","z":1}"#),
            (
                r#"{"h":["Bearer abcdefgh","ok"],"password":1234}"#,
                r#"{"h":["[redacted]","ok"],"password":"[redacted]"}"#,
            ),
            ("[]", "[]"),
            ("{\"a\":\"line\\nbreak\"}", "{\"a\":\"line\\nbreak\"}"),
        ] {
            assert_eq!(redacted(given), expected);
            assert!(json::scan(redacted(given).as_bytes()).is_ok());
        }
    }

    #[test]
    fn msgpack_is_shown_as_json_without_its_secrets_and_bytes() {
        let payload = Payload::new(Format::MsgPack, &b"\x82\xa1b\xc4\x02\x00\x00\xa8password\xa1p"[..]);
        let shown = View.redacted(&payload, 4096).unwrap();
        assert_eq!(String::from_utf8(shown).unwrap(), r#"{"b":"[2 bytes]","password":"[redacted]"}"#);
    }

    #[test]
    fn large_payloads_are_named_by_size_only() {
        let text = format!(r#"{{"a":"{}"}}"#, "x".repeat(10_000));
        assert_eq!(redacted(&text), r#"{"omitted_bytes":10008}"#);
    }

    #[test]
    fn members_are_found_whatever_their_order() {
        let found =
            View.members(br#"{"b":{"a":1},"n":12,"a":"x\ny","z":null}"#, &["a", "n", "z", "q"]).unwrap();
        assert_eq!(found, [Some("x\ny".to_owned()), Some("12".to_owned()), None, None]);
        assert!(View.members(b"[1]", &["a"]).is_err());
    }
}
