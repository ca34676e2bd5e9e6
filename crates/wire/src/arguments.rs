//! Command-line arguments of a tool: a JSON object, or `key=value` pairs typed by the tool's schema.

use serde_json::Value;
use toolyard_formats::json::{self, JsonType, Object};
use toolyard_protocol::text::push_json_string;
use toolyard_protocol::{Error, ErrorKind, Payload};

/// `words` is one JSON object, or any number of `key=value` (typed by `schema`) and `key:=JSON`.
pub fn from_cli_args(words: &[String], schema: Option<&Payload>) -> Result<Payload, Error> {
    if let [only] = words
        && only.trim_start().starts_with('{')
    {
        return json::arguments(only.clone().into_bytes());
    }
    let schema: Value = schema.and_then(|s| serde_json::from_slice(s.bytes()).ok()).unwrap_or_default();
    let mut out = Vec::new();
    let mut object = Object::new(&mut out);
    let mut keys: Vec<&str> = Vec::new();
    for word in words {
        let (key, value) = pair(word, &schema)?;
        if keys.contains(&key) {
            return Err(refuse(format!("'{key}' is given twice")));
        }
        keys.push(key);
        object.raw(key, &value);
    }
    object.end();
    json::arguments(out)
}

/// The key and the value as JSON; numbers keep their digits.
fn pair<'w>(word: &'w str, schema: &Value) -> Result<(&'w str, Vec<u8>), Error> {
    let Some((key, text)) = word.split_once('=').filter(|(key, _)| !key.is_empty() && *key != ":") else {
        return Err(refuse(format!("{word:?} is neither a JSON object nor key=value")));
    };
    if let Some(key) = key.strip_suffix(':') {
        let kind = json::scan(text.as_bytes());
        kind.map_err(|parse_error| refuse(format!("the value of '{key}' is not JSON: {parse_error}")))?;
        return Ok((key, text.as_bytes().to_vec()));
    }
    Ok((key, typed(key, text, schema)?))
}

/// The value in the schema's type; without one, JSON if it parses as JSON, otherwise a string.
fn typed(key: &str, text: &str, schema: &Value) -> Result<Vec<u8>, Error> {
    let types: Vec<&str> = match &schema["properties"][key]["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let as_text = || {
        let mut out = Vec::new();
        push_json_string(&mut out, text);
        out
    };
    match json::scan(text.as_bytes()) {
        Ok(_) if types.is_empty() => Ok(text.as_bytes().to_vec()),
        Ok(kind) if types.iter().any(|name| is_type(kind, text, name)) => Ok(text.as_bytes().to_vec()),
        _ if types.is_empty() || types.contains(&"string") => Ok(as_text()),
        _ => Err(refuse(format!("'{key}' must be {}, not {text:?}", types.join(" or ")))),
    }
}

pub(crate) fn is_type(kind: JsonType, text: &str, name: &str) -> bool {
    match (kind, name) {
        (JsonType::Number, "integer") => !text.contains(['.', 'e', 'E']),
        (JsonType::Number, "number") | (JsonType::Bool, "boolean") | (JsonType::Null, "null") => true,
        (JsonType::Array, "array") | (JsonType::Object, "object") => true,
        // A quoted JSON string on the command line is usually meant literally.
        _ => false,
    }
}

fn refuse(what: String) -> Error {
    Error::new(ErrorKind::InvalidInput, what)
        .hint("write key=value, key:=JSON, or one JSON object; '-' reads the object from stdin")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str], schema: &str) -> Result<String, String> {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        let schema = Payload::json(schema.to_owned());
        from_cli_args(&words, Some(&schema))
            .map(|payload| String::from_utf8(payload.bytes().to_vec()).unwrap())
            .map_err(|error| error.message)
    }

    #[test]
    fn words_are_typed_by_the_schema() {
        let schema = r#"{"properties":{"n":{"type":"integer"},"s":{"type":"string"},"b":{"type":"boolean"},
                         "l":{"type":"array"},"m":{"type":["string","null"]}}}"#;
        for (words, expected) in [
            (vec!["n=5", "s=5", "b=true"], r#"{"n":5,"s":"5","b":true}"#),
            (vec!["l=[1,2]", "m=null"], r#"{"l":[1,2],"m":null}"#),
            (vec!["x=1", "y=a b", "z:={\"k\":1}"], r#"{"x":1,"y":"a b","z":{"k":1}}"#),
            (vec!["n=123456789012345678901234567890"], r#"{"n":123456789012345678901234567890}"#),
            (vec!["s=a=b; $(id)"], r#"{"s":"a=b; $(id)"}"#),
            (vec![r#" {"a": 1}"#], r#" {"a": 1}"#),
            (vec![], "{}"),
        ] {
            assert_eq!(read(&words, schema).as_deref(), Ok(expected));
        }
        assert!(read(&["n=five"], schema).unwrap_err().contains("must be integer"));
        assert!(read(&["a=1", "a=2"], schema).unwrap_err().contains("twice"));
        assert!(read(&["plain"], schema).unwrap_err().contains("neither"));
        assert!(read(&["x:=nope"], schema).unwrap_err().contains("not JSON"));
    }
}
