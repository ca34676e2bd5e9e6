//! JSON Schema: self-contained schemas, compiled once at load; nothing is ever fetched.

mod bundle;
mod cycles;
mod fast_path;

pub use bundle::{Bundled, FileError, bundle};

use fast_path::FastValidator;
use jsonschema::Validator;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;
use toolyard_protocol::{Check, Payload, Violation, text::escape_control};

/// The maximum number of violations that are listed.
const MAX_VIOLATIONS: usize = 50;

/// A compiled schema.
pub struct Schema {
    validator: Validator,
    /// For schemas with common keywords only: accepts a valid value without building the validator's tree.
    fast_path: Option<FastValidator>,
}

impl Schema {
    /// `json` must be a self-contained schema, as [`bundle`] writes it.
    pub fn compile(json: &[u8]) -> Result<Schema, String> {
        let schema: Value = serde_json::from_slice(json).map_err(|error| format!("not JSON: {error}"))?;
        cycles::reject(&schema)?;
        let draft = match schema.get("$schema").and_then(Value::as_str) {
            None => jsonschema::Draft::Draft202012,
            Some(uri) => {
                draft(uri).ok_or_else(|| format!("the '$schema' {uri:?} is neither 2020-12 nor draft-07"))?
            }
        };
        let validator = jsonschema::options().with_draft(draft).with_retriever(NoRetriever).build(&schema);
        validator.map(|validator| Schema { validator, fast_path: FastValidator::compile(&schema) }).map_err(
            |error| {
                let at = error.instance_path().to_string();
                let at = if at.is_empty() { String::new() } else { format!(" at {at}") };
                // Masked: what is not a schema may be a file that nobody should see.
                format!("not a valid JSON Schema{at}: {}", escape_control(&error.masked().to_string()))
            },
        )
    }
}

impl Check for Schema {
    fn check(&self, payload: &Payload) -> Result<(), Vec<Violation>> {
        if self.fast_path.as_ref().is_some_and(|fast_path| fast_path.accepts(payload.bytes())) {
            return Ok(());
        }
        let value: Value = serde_json::from_slice(payload.bytes()).map_err(|error| {
            vec![Violation { pointer: String::new(), message: format!("not JSON: {error}") }]
        })?;
        if self.validator.is_valid(&value) {
            return Ok(());
        }
        // Masked: an invalid value may be a secret, and messages go to logs.
        let violations = self.validator.iter_errors(&value).take(MAX_VIOLATIONS);
        Err(violations
            .map(|error| Violation { pointer: error.instance_path().to_string(), message: describe(&error) })
            .collect())
    }
}

fn describe(error: &jsonschema::ValidationError<'_>) -> String {
    match error.kind() {
        ValidationErrorKind::Required { property: Value::String(name) } => {
            format!("missing property '{}'", escape_control(name))
        }
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            format!("unknown property '{}'", escape_control(&unexpected.join("', '")))
        }
        _ => error.masked().to_string(),
    }
}

pub(crate) fn draft(uri: &str) -> Option<jsonschema::Draft> {
    match uri.trim_end_matches('#') {
        "https://json-schema.org/draft/2020-12/schema" => Some(jsonschema::Draft::Draft202012),
        "http://json-schema.org/draft-07/schema" | "https://json-schema.org/draft-07/schema" => {
            Some(jsonschema::Draft::Draft7)
        }
        _ => None,
    }
}

/// Rejects every external reference.
struct NoRetriever;

impl jsonschema::Retrieve for NoRetriever {
    fn retrieve(
        &self,
        uri: &jsonschema::Uri<String>,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("'{uri}' is not part of this schema, and nothing is fetched").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(schema: &str, value: &str) -> Vec<(String, String)> {
        let schema = Schema::compile(schema.as_bytes()).unwrap();
        let found = schema.check(&Payload::json(value.to_owned())).err().unwrap_or_default();
        found.into_iter().map(|violation| (violation.pointer, violation.message)).collect()
    }

    #[test]
    fn every_violation_is_listed_with_its_pointer_and_without_the_value() {
        let schema = r#"{"type":"object","required":["a"],"properties":{"b":{"type":"array","items":{"type":"integer"}}}}"#;
        let found = violations(schema, r#"{"b":[1,"hunter2",true]}"#);
        let pointers: Vec<&str> = found.iter().map(|(pointer, _)| pointer.as_str()).collect();
        assert_eq!(pointers, ["", "/b/1", "/b/2"]);
        assert!(found.iter().all(|(_, message)| !message.contains("hunter2")), "{found:?}");
    }

    #[test]
    fn a_member_is_a_member_whatever_its_name() {
        // With serde_json's raw values, this name would show the validator another value than the tool gets.
        let schema =
            r#"{"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":false}"#;
        for value in [
            r#"{"$serde_json::private::RawValue":"{\"a\":1}"}"#,
            r#"{"\u0024serde_json::private::RawValue":"{}"}"#,
        ] {
            assert_eq!(violations(schema, value).len(), 1, "{value}");
        }
    }

    #[test]
    fn both_drafts_are_known_and_no_other() {
        let with = |uri: &str| {
            Schema::compile(format!(r#"{{"$schema":"{uri}","type":"object"}}"#).as_bytes()).map(|_| ())
        };
        assert_eq!(with("https://json-schema.org/draft/2020-12/schema"), Ok(()));
        assert_eq!(with("http://json-schema.org/draft-07/schema#"), Ok(()));
        assert!(with("http://json-schema.org/draft-04/schema#").unwrap_err().contains("neither"));
    }

    /// Definitions that each apply the next one twice.
    fn chain(length: usize, twice: impl Fn(&str) -> String) -> String {
        let definition = |i: usize| format!(r#""d{i}":{{{}}}"#, twice(&format!("d{}", i + 1)));
        let definitions: Vec<String> = (0..length).map(definition).collect();
        let definitions = format!(r#"{},"d{length}":{{"$anchor":"d{length}"}}"#, definitions.join(","));
        format!(r##"{{"$ref":"#/$defs/d0","$defs":{{{definitions}}}}}"##)
    }

    #[test]
    fn references_that_multiply_are_refused() {
        type Twice = fn(&str) -> String;
        let twice: [Twice; 5] = [
            |next| format!(r##""allOf":[{{"$ref":"#/$defs/{next}"}},{{"$ref":"#/$defs/{next}"}}]"##),
            |next| format!(r##""anyOf":[{{"$ref":"#/$defs/{next}"}}],"not":{{"$ref":"#/$defs/{next}"}}"##),
            |next| format!(r##""if":{{"$ref":"#/$defs/{next}"}},"else":{{"$ref":"#/$defs/{next}"}}"##),
            |next| {
                format!(
                    r##""dependentSchemas":{{"a":{{"$ref":"#/$defs/{next}"}},"b":{{"$ref":"#/$defs/{next}"}}}}"##
                )
            },
            |next| format!(r##""unevaluatedProperties":false,"$ref":"#/$defs/{next}""##),
        ];
        for twice in twice {
            let error = Schema::compile(chain(40, twice).as_bytes()).map(|_| ()).expect_err("40");
            assert!(error.contains("more than 10000 sub-schemas would be applied to one place"), "{error}");
            assert!(Schema::compile(chain(8, twice).as_bytes()).is_ok());
        }
        // By anchors, which are names instead of pointers.
        let anchored = |length: usize| {
            let definition = |i: usize| {
                format!(
                    r##""x{i}":{{"$anchor":"a{i}","allOf":[{{"$ref":"#a{0}"}},{{"$ref":"#a{0}"}}]}}"##,
                    i + 1
                )
            };
            let definitions: Vec<String> = (0..length).map(definition).collect();
            let definitions = format!(r#"{},"last":{{"$anchor":"a{length}"}}"#, definitions.join(","));
            format!(r##"{{"$ref":"#a0","$defs":{{{definitions}}}}}"##)
        };
        assert!(Schema::compile(anchored(40).as_bytes()).is_err_and(|error| error.contains("multiply")));
        assert!(Schema::compile(anchored(8).as_bytes()).is_ok());
        // Many properties are no multiplication: each is another place.
        let many: Vec<String> = (0..20_000).map(|i| format!(r##""p{i}":{{"$ref":"#/$defs/t"}}"##)).collect();
        let many = format!(r#"{{"properties":{{{}}},"$defs":{{"t":{{"type":"string"}}}}}}"#, many.join(","));
        assert!(Schema::compile(many.as_bytes()).is_ok());
    }

    #[test]
    fn nothing_is_fetched_and_endless_references_are_refused() {
        for (schema, what) in [
            (r#"{"$ref":"https://evil.example/schema.json"}"#, "nothing is fetched"),
            (r#"{"$ref":"file:///etc/passwd"}"#, "nothing is fetched"),
            (r##"{"$ref":"#"}"##, "refers to itself"),
            (
                r##"{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}"##,
                "refers to itself",
            ),
            (r##"{"allOf":[{"anyOf":[{"$ref":"#"}]}]}"##, "refers to itself"),
            (r#"{"type":"objekt"}"#, "not a valid JSON Schema"),
        ] {
            let error = Schema::compile(schema.as_bytes()).map(|_| ()).expect_err(schema);
            assert!(error.contains(what), "{schema}: {error}");
        }
        // The same through an anchor, and inside a part with an address of its own.
        for schema in [
            r##"{"$anchor":"a","allOf":[{"$ref":"#a"}]}"##,
            r##"{"properties":{"p":{"$id":"http://x.example/y","anyOf":[{"$ref":"#"}]}}}"##,
            r##"{"$id":"http://x.example/y","dependentSchemas":{"a":{"$ref":"y"}}}"##,
        ] {
            let error = Schema::compile(schema.as_bytes()).map(|_| ()).expect_err(schema);
            assert!(error.contains("refers to itself"), "{schema}: {error}");
        }
        // A tree schema refers to itself too, but each reference descends into the value.
        let tree = r##"{"type":"object","properties":{"children":{"type":"array","items":{"$ref":"#"}}}}"##;
        assert_eq!(violations(tree, r#"{"children":[{"children":[{"children":5}]}]}"#).len(), 1);
    }
}
