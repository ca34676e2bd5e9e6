//! Validates messages of the server with the JSON schema of a revision, which the conformance suite contains.

use super::suite::Suite;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::process::Command;
use toolyard_formats::schema::Schema;
use toolyard_protocol::{Check, Payload};

pub struct SchemaValidator {
    schema: Value,
    /// `$defs` or `definitions`, by the age of the schema.
    keyword: &'static str,
    /// The definition of each notification and request, by its method.
    messages: BTreeMap<String, String>,
    /// The definition of the result, by the method of its request.
    results: BTreeMap<String, String>,
    errors: BTreeMap<i64, String>,
    compiled: RefCell<HashMap<String, Schema>>,
}

/// Unions that name a method because they have one member only.
const UNIONS: &[&str] = &[
    "ClientRequest",
    "ClientNotification",
    "ClientResult",
    "ClientMessage",
    "ServerRequest",
    "ServerNotification",
    "ServerResult",
    "ServerMessage",
];

impl SchemaValidator {
    /// `None` when the suite is not installed or has no schema of the revision, which is so for 2024-11-05.
    pub fn of(revision: &str) -> Option<SchemaValidator> {
        let suite = Suite::installed()?;
        let mut command = Command::new(suite.node());
        command.arg(crate::docs::repository().join("tests/conformance/schemas.mjs")).arg(suite.program());
        let ran = crate::support::run_for(command, crate::support::TIMEOUT).expect(0);
        let mut schemas = ran.json();
        assert_eq!(schemas.as_object().map_or(0, |found| found.len()), 4, "the suite's schemas were found");
        let schema = schemas.get_mut(revision)?.take();
        Some(SchemaValidator::new(schema))
    }

    fn new(mut schema: Value) -> SchemaValidator {
        let keyword = if schema.get("$defs").is_some() { "$defs" } else { "definitions" };
        // The generated schemas say integer where the specification says number; the suite corrects that too.
        for member in ["minimum", "maximum", "default"] {
            if let Some(kind) =
                schema.pointer_mut(&format!("/{keyword}/NumberSchema/properties/{member}/type"))
                && kind == "integer"
            {
                *kind = json!("number");
            }
        }
        let (mut messages, mut results, mut errors) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let definitions = schema[keyword].as_object().unwrap();
        for (name, definition) in definitions.iter().filter(|(name, _)| !UNIONS.contains(&name.as_str())) {
            let properties = &definition["properties"];
            if let Some(method) = properties["method"]["const"].as_str() {
                messages.insert(method.to_owned(), name.clone());
                let result = name.strip_suffix("Request").map(|stem| format!("{stem}Result"));
                if let Some(result) = result.filter(|result| definitions.contains_key(result)) {
                    results.insert(method.to_owned(), result);
                }
            }
            for part in properties["error"]["allOf"].as_array().into_iter().flatten() {
                if let Some(code) = part["properties"]["code"]["const"].as_i64() {
                    errors.insert(code, name.clone());
                }
            }
        }
        assert!(messages.len() >= 20 && results.len() >= 8, "the schema is built differently now");
        SchemaValidator { schema, keyword, messages, results, errors, compiled: RefCell::default() }
    }

    /// What is wrong with a message of the server; `method` is that of the request it answers.
    pub fn check(&self, message: &Value, method: Option<&str>) -> Vec<String> {
        if let Some(own) = message["method"].as_str() {
            let envelope = if message.get("id").is_some() { "JSONRPCRequest" } else { "JSONRPCNotification" };
            return self.violations(self.messages.get(own).map_or(envelope, String::as_str), message);
        }
        if let Some(error) = message.get("error") {
            let known = error["code"].as_i64().and_then(|code| self.errors.get(&code));
            let name = known.map_or(self.first(&["JSONRPCErrorResponse", "JSONRPCError"]), String::as_str);
            let mut message = message.clone();
            // JSON-RPC requires a null id for an unreadable message, which MCP's schemas omit.
            if message["id"].is_null() {
                message["id"] = json!(0);
            }
            return self.violations(name, &message);
        }
        let result = &message["result"];
        let name = match result["resultType"].as_str() {
            Some("input_required") => Some("InputRequiredResult"),
            // Results of extensions are not in the schema.
            Some(kind) if kind != "complete" => None,
            _ => method.and_then(|method| self.results.get(method)).map(String::as_str),
        };
        let mut found = name.map_or(Vec::new(), |name| self.violations(name, result));
        found.extend(self.violations(self.first(&["JSONRPCResultResponse", "JSONRPCResponse"]), message));
        found
    }

    fn first(&self, names: &[&'static str]) -> &'static str {
        names.iter().find(|name| self.schema[self.keyword].get(**name).is_some()).unwrap()
    }

    fn violations(&self, name: &str, value: &Value) -> Vec<String> {
        let mut compiled = self.compiled.borrow_mut();
        let schema = compiled.entry(name.to_owned()).or_insert_with(|| {
            let mut one = self.schema.clone();
            one["allOf"] = json!([{"$ref": format!("#/{}/{name}", self.keyword)}]);
            Schema::compile(one.to_string().as_bytes()).unwrap()
        });
        match schema.check(&Payload::json(value.to_string())) {
            Ok(()) => Vec::new(),
            Err(found) => found.iter().take(6).map(|one| format!("{name}: {one:?}")).collect(),
        }
    }
}
