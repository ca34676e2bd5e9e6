//! JSON Schemas of Rust types, for listing: self-contained, and without keywords that break some clients.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};
use toolyard_protocol::Payload;

/// The schema of a request: unknown members are not allowed.
pub fn of_request<T: JsonSchema>() -> Payload {
    let settings = settings().for_deserialize();
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    tidy(&mut schema, true);
    finish(schema)
}

/// The schema of a response: later versions may add members.
pub fn of_response<T: JsonSchema>() -> Payload {
    let settings = settings().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    tidy(&mut schema, false);
    finish(schema)
}

fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    })
}

/// Every request and response is an object, even without members.
fn finish(mut schema: Value) -> Payload {
    if let Value::Object(root) = &mut schema {
        root.remove("title");
        root.entry("type").or_insert_with(|| "object".into());
    }
    Payload::json(schema.to_string())
}

/// Removes `default`, which breaks some clients, and integer widths, which are not JSON Schema formats.
fn tidy(schema: &mut Value, closed: bool) {
    let Value::Object(schema) = schema else { return };
    schema.remove("default");
    let width = schema.get("format").and_then(Value::as_str).is_some_and(is_width);
    if width {
        schema.remove("format");
    }
    for name in ["properties", "$defs"] {
        if let Some(Value::Object(members)) = schema.get_mut(name) {
            members.values_mut().for_each(|member| tidy(member, closed));
        }
    }
    for name in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(name) {
            tidy(inner, closed);
        }
    }
    for name in ["anyOf", "oneOf", "allOf"] {
        if let Some(Value::Array(inner)) = schema.get_mut(name) {
            inner.iter_mut().for_each(|inner| tidy(inner, closed));
        }
    }
    if closed && is_object(schema) {
        schema.entry("additionalProperties").or_insert(Value::Bool(false));
    }
}

fn is_object(schema: &Map<String, Value>) -> bool {
    schema.contains_key("properties") || schema.get("type") == Some(&Value::String("object".to_owned()))
}

fn is_width(format: &str) -> bool {
    matches!(format, "float" | "double")
        || format
            .strip_prefix('u')
            .unwrap_or(format)
            .strip_prefix("int")
            .is_some_and(|bits| bits.is_empty() || bits.bytes().all(|byte| byte.is_ascii_digit()))
}
