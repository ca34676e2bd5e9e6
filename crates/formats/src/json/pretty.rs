//! Pretty-printed JSON: indented, with numbers and strings exactly as in the source.

use super::{ParseError, Token, Tokenizer};
use toolyard_protocol::text::push_json_string;

pub fn pretty(bytes: &[u8]) -> Result<String, ParseError> {
    let mut tokens = Tokenizer::new(bytes)?;
    let mut out = Vec::with_capacity(bytes.len() * 2);
    let mut depth = 0;
    // The previous token decides the separator before the next one.
    let mut last = Last::Start;
    while let Some((token, start)) = tokens.next()? {
        let closing = matches!(token, Token::ObjectEnd | Token::ArrayEnd);
        if closing {
            depth -= 1;
        }
        match (last, closing) {
            (Last::Start | Last::Key, _) | (Last::Open, true) => {}
            (Last::Open, false) | (Last::Value, true) => newline(&mut out, depth),
            (Last::Value, false) => {
                out.push(b',');
                newline(&mut out, depth);
            }
        }
        last = match token {
            Token::ObjectStart | Token::ArrayStart => {
                depth += 1;
                out.push(bytes[start]);
                Last::Open
            }
            Token::Key(key) => {
                push_json_string(&mut out, &key);
                out.extend_from_slice(b": ");
                Last::Key
            }
            _ => {
                out.extend_from_slice(&bytes[start..tokens.position()]);
                Last::Value
            }
        };
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

#[derive(Clone, Copy)]
enum Last {
    Start,
    Open,
    Key,
    Value,
}

fn newline(out: &mut Vec<u8>, depth: usize) {
    out.push(b'\n');
    out.extend(std::iter::repeat_n(b' ', depth * 2));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_indented_and_unchanged() {
        let text = pretty(br#"{"a":[1.50,{"b":"\u00e9"}],"c":{},"d":[]}"#).unwrap();
        assert_eq!(
            text,
            "{\n  \"a\": [\n    1.50,\n    {\n      \"b\": \"\\u00e9\"\n    }\n  ],\n  \"c\": {},\n  \"d\": []\n}"
        );
    }
}
