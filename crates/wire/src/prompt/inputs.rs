//! Reads the schema of a prompt's arguments: their names, which are required, and listed choices.

use crate::arguments::is_type;
use serde_json::Value;
use toolyard_formats::json::{self, Object};
use toolyard_protocol::{Payload, PromptArgument};

/// The maximum length of a chain of references.
const MAX_REFERENCES: usize = 8;

/// The arguments in the order of the schema.
pub fn arguments(schema: &Payload) -> Vec<PromptArgument> {
    let Ok(whole) = serde_json::from_slice::<Value>(schema.bytes()) else { return Vec::new() };
    let root = resolve(&whole, &whole);
    let required: Vec<&str> =
        root["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let named = |(name, property): (&String, &Value)| {
        let property = resolve(&whole, property);
        let text = |key: &str| property[key].as_str().map(str::to_owned);
        PromptArgument {
            name: name.clone(),
            title: text("title"),
            description: text("description"),
            required: required.contains(&name.as_str()),
        }
    };
    let mut found: Vec<PromptArgument> =
        root["properties"].as_object().into_iter().flatten().map(named).collect();
    // The parsed tree loses the order of members, so it is taken from the text.
    let order = property_names(schema.bytes(), &whole);
    found.sort_by_key(|argument| order.iter().position(|name| *name == argument.name));
    found
}

/// The strings that the schema's `enum` allows for an argument.
pub fn choices(schema: &Payload, argument: &str) -> Vec<String> {
    let Ok(whole) = serde_json::from_slice::<Value>(schema.bytes()) else { return Vec::new() };
    let property = resolve(&whole, &resolve(&whole, &whole)["properties"][argument]);
    let listed = property["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
    listed.map(str::to_owned).collect()
}

/// Converts string arguments to the types of the schema where possible: MCP clients send only strings.
pub fn coerce_arguments(arguments: Payload, schema: &Payload) -> Payload {
    let Ok(whole) = serde_json::from_slice::<Value>(schema.bytes()) else { return arguments };
    let root = resolve(&whole, &whole);
    let Ok(Some(members)) = json::members(arguments.bytes()) else { return arguments };
    let mut out = Vec::with_capacity(arguments.len());
    let mut object = Object::new(&mut out);
    for (name, range) in members {
        let raw = &arguments.bytes()[range];
        let text = serde_json::from_slice::<String>(raw).ok();
        match text.filter(|text| needs_coercion(text, resolve(&whole, &root["properties"][name.as_ref()]))) {
            Some(text) => object.raw(&name, text.trim().as_bytes()),
            None => object.raw(&name, raw),
        };
    }
    object.end();
    Payload::json(out)
}

fn needs_coercion(text: &str, property: &Value) -> bool {
    let types: Vec<&str> = match &property["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => return false,
    };
    let text = text.trim();
    !types.contains(&"string")
        && json::scan(text.as_bytes()).is_ok_and(|kind| types.iter().any(|name| is_type(kind, text, name)))
}

/// Follows `$ref` inside the schema; an unresolvable reference is returned itself.
fn resolve<'v>(whole: &'v Value, mut at: &'v Value) -> &'v Value {
    for _ in 0..MAX_REFERENCES {
        let target = at["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
        match target.and_then(|pointer| whole.pointer(pointer)) {
            Some(found) => at = found,
            None => break,
        }
    }
    at
}

fn property_names(bytes: &[u8], whole: &Value) -> Vec<String> {
    let mut pointer = String::new();
    let mut at = whole;
    for _ in 0..MAX_REFERENCES {
        let Some(target) = at["$ref"].as_str().and_then(|reference| reference.strip_prefix('#')) else {
            break;
        };
        let Some(found) = whole.pointer(target) else { break };
        (pointer, at) = (target.to_owned(), found);
    }
    let found = json::pointer(bytes, &format!("{pointer}/properties")).ok().flatten();
    let members = found.and_then(|range| json::members(&bytes[range]).ok().flatten()).unwrap_or_default();
    members.into_iter().map(|(name, _)| name.into_owned()).collect()
}

/// Writes the arguments for the list of prompts.
pub(super) fn push_arguments(out: &mut Vec<u8>, arguments: &[PromptArgument]) {
    json::push_objects(out, arguments, |object, argument| {
        object.text("name", &argument.name).bool("required", argument.required);
        object.text_or_null("description", argument.description.as_deref());
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SCHEMA: &str = r##"{"$ref":"#/$defs/x","$defs":{"x":{"type":"object","required":["topic"],"properties":{
        "topic":{"type":"string","description":"What about"},"words":{"type":"integer","title":"Length"},
        "brief":{"type":"boolean"},"a":{"$ref":"#/$defs/tone"}}},"tone":{"enum":["dry","warm",3]}}}"##;

    #[test]
    fn arguments_keep_the_order_of_the_schema_through_references() {
        let found = arguments(&Payload::json(SCHEMA));
        let names: Vec<(&str, bool)> =
            found.iter().map(|argument| (argument.name.as_str(), argument.required)).collect();
        assert_eq!(names, [("topic", true), ("words", false), ("brief", false), ("a", false)]);
        assert_eq!(found[0].description.as_deref(), Some("What about"));
        assert_eq!(found[1].title.as_deref(), Some("Length"));
        assert_eq!(choices(&Payload::json(SCHEMA), "a"), ["dry", "warm"]);
        assert!(choices(&Payload::json(SCHEMA), "topic").is_empty());
    }

    #[test]
    fn strings_become_the_types_of_the_schema_and_nothing_else() {
        let coerced = |arguments: &str| {
            let coerced = coerce_arguments(Payload::json(arguments.to_owned()), &Payload::json(SCHEMA));
            String::from_utf8(coerced.bytes().to_vec()).unwrap()
        };
        assert_eq!(
            coerced(r#"{"topic":"5","words":" 250","brief":"true","other":"1"}"#),
            r#"{"topic":"5","words":250,"brief":true,"other":"1"}"#
        );
        assert_eq!(coerced(r#"{"words":"many","brief":"yes"}"#), r#"{"words":"many","brief":"yes"}"#);
        assert_eq!(coerced(r#"{"words":2.5}"#), r#"{"words":2.5}"#);
    }

    proptest! {
        #[test]
        fn coerced_arguments_stay_json(name in ".{0,6}", value in ".{0,12}") {
            let [name, value] = [name, value].map(|text| serde_json::to_string(&text).unwrap());
            let arguments = format!("{{{name}:{value},\"words\":{value},\"brief\":{value}}}");
            prop_assume!(json::scan(arguments.as_bytes()).is_ok());
            let coerced = coerce_arguments(Payload::json(arguments), &Payload::json(SCHEMA));
            prop_assert!(json::scan(coerced.bytes()).is_ok());
        }
    }
}
