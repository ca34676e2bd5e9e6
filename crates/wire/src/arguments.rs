//! Arguments as people type them: a JSON object, or `key=value` pairs typed by the tool's schema.

use crate::json;
use serde_json::{Map, Value};
use toolyard_protocol::{Error, ErrorKind, Payload};

/// `words` is one JSON object or any number of `key=value` (typed by `schema`, else by looks) and `key:=JSON`.
pub fn from_words(words: &[String], schema: Option<&Payload>) -> Result<Payload, Error> {
    match words {
        [] => Ok(Payload::json("{}")),
        [only] if only.trim_start().starts_with('{') => json::arguments(only.clone().into_bytes()),
        words => {
            let schema: Value = schema.and_then(|s| serde_json::from_slice(s.bytes()).ok()).unwrap_or_default();
            let mut object = Map::new();
            for word in words {
                let (key, value) = pair(word, &schema)?;
                if object.insert(key.to_owned(), value).is_some() {
                    return Err(refuse(format!("'{key}' is given twice")));
                }
            }
            let text = serde_json::to_vec(&object).map_err(|error| refuse(error.to_string()))?;
            json::arguments(text)
        }
    }
}

fn pair<'w>(word: &'w str, schema: &Value) -> Result<(&'w str, Value), Error> {
    let Some((key, text)) = word.split_once('=').filter(|(key, _)| !key.is_empty() && *key != ":") else {
        return Err(refuse(format!("{word:?} is neither a JSON object nor key=value")));
    };
    if let Some(key) = key.strip_suffix(':') {
        let value = serde_json::from_str(text).map_err(|error| refuse(format!("the value of '{key}' is not JSON: {error}")))?;
        return Ok((key, value));
    }
    Ok((key, typed(key, text, schema)?))
}

/// The value as the schema's type; without one, what looks like JSON is JSON and the rest is text.
fn typed(key: &str, text: &str, schema: &Value) -> Result<Value, Error> {
    let types: Vec<&str> = match &schema["properties"][key]["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let parsed = serde_json::from_str::<Value>(text).ok();
    if types.is_empty() {
        return Ok(parsed.unwrap_or_else(|| Value::String(text.to_owned())));
    }
    let fits = parsed.filter(|value| types.iter().any(|kind| is_type(value, kind)));
    match fits {
        Some(value) => Ok(value),
        None if types.contains(&"string") => Ok(Value::String(text.to_owned())),
        None => Err(refuse(format!("'{key}' must be {}, not {text:?}", types.join(" or ")))),
    }
}

fn is_type(value: &Value, kind: &str) -> bool {
    match kind {
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        // A quoted JSON string on the command line is far more often meant literally.
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
        from_words(&words, Some(&schema))
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
