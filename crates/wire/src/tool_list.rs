//! The tool list as JSON: `list --json` and `show --json`.

use crate::jsonrpc;
use bytes::Bytes;
use serde::Deserialize;
use toolyard_formats::json::{self, Object};
use toolyard_protocol::{Annotations, Behavior, Example, Expect, Payload, Permissions, ToolSpec};

/// One row of the list: a tool, or a tool file that could not be loaded.
pub struct ToolRow<'a> {
    pub spec: Option<&'a ToolSpec>,
    pub source: &'a str,
    pub enabled: bool,
    pub problems: &'a [String],
}

pub fn write_list(rows: &[ToolRow<'_>]) -> Vec<u8> {
    json::objects(rows, push_row)
}

/// A tool as the command line lists it.
#[derive(Deserialize)]
pub struct ToolSummary {
    pub exposed: Option<String>,
    pub kind: Option<String>,
    pub version: Option<String>,
    pub description: Option<String>,
}

pub fn read_list(json: &[u8]) -> Result<Vec<ToolSummary>, String> {
    serde_json::from_slice(json).map_err(|error| error.to_string())
}

/// The input schema of a tool that [`write_tool`] wrote.
pub fn input_schema(tool: &Bytes) -> Option<Payload> {
    member(tool, "/inputSchema").map(Payload::json)
}

/// A tool as [`write_tool`] writes it; schemas and examples stay raw.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolDetails {
    pub name: String,
    pub exposed: String,
    pub kind: String,
    pub source: String,
    pub version: Option<String>,
    pub title: Option<String>,
    pub description: Option<String>,
    pub sandbox: String,
    pub enabled: bool,
    pub problems: Vec<String>,
    pub annotations: Hints,
    pub limits: LimitDetails,
    #[serde(default)]
    pub categories: Vec<String>,
    #[serde(default)]
    pub behavior: BehaviorDetails,
    #[serde(default)]
    pub permissions: PermissionDetails,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub struct PermissionDetails {
    pub network: String,
    pub files: Vec<FileDetails>,
}

#[derive(Deserialize)]
pub struct FileDetails {
    pub path: String,
    pub access: String,
    pub origin: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hints {
    pub read_only_hint: Option<bool>,
    pub destructive_hint: Option<bool>,
    pub idempotent_hint: Option<bool>,
    pub open_world_hint: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LimitDetails {
    pub timeout_ms: u64,
    pub input: u64,
    pub output: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub struct BehaviorDetails {
    pub deterministic: bool,
    pub dialog: bool,
    pub attached: bool,
    pub context: bool,
    /// Why callers need the yard's token.
    pub guarded: Option<String>,
    pub concurrency: Option<u64>,
    pub rate: Option<RateDetails>,
    pub retry: Option<RetryDetails>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateDetails {
    pub calls: u64,
    pub per_ms: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryDetails {
    pub attempts: u64,
    pub backoff_ms: u64,
}

/// An example of a tool; inputs and outputs are raw JSON.
pub struct ExampleDetails {
    pub name: Option<String>,
    pub input: Bytes,
    pub output: Option<Bytes>,
    pub error: Option<String>,
}

pub fn read_tool(tool: &[u8]) -> Result<ToolDetails, String> {
    serde_json::from_slice(tool).map_err(|error| error.to_string())
}

/// The member of a tool as raw JSON; `None` when it is absent or `null`.
pub fn member(tool: &Bytes, pointer: &str) -> Option<Bytes> {
    let range = json::pointer(tool, pointer).ok().flatten()?;
    Some(tool.slice(range)).filter(|raw| raw.as_ref() != b"null")
}

pub fn examples(tool: &Bytes) -> Vec<ExampleDetails> {
    let Some(list) = member(tool, "/examples") else { return Vec::new() };
    let text = |raw: Bytes| jsonrpc::text(&raw);
    let read = |range| {
        let example = list.slice(range);
        Some(ExampleDetails {
            name: member(&example, "/name").and_then(text),
            input: member(&example, "/input")?,
            output: member(&example, "/output"),
            error: member(&example, "/error").and_then(text),
        })
    };
    jsonrpc::elements(&list, usize::MAX).unwrap_or_default().into_iter().filter_map(read).collect()
}

/// The row of `list` with all further details of the tool.
pub fn write_tool(row: &ToolRow<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    let mut object = Object::new(&mut out);
    push_row(&mut object, row);
    if let Some(spec) = row.spec {
        object.text_or_null("title", spec.about.title.as_deref());
        push_annotations(object.member("annotations"), &spec.annotations);
        let mut limits = Object::new(object.member("limits"));
        limits.number("timeoutMs", spec.limits.timeout.as_millis() as u64);
        limits.number("input", spec.limits.input as u64).number("output", spec.limits.output as u64);
        limits.end();
        object.texts("categories", spec.about.categories.iter().map(String::as_str));
        push_behavior(object.member("behavior"), &spec.behavior);
        // Nothing confines a typed tool or one without a sandbox.
        if !spec.permissions.network.is_empty() {
            push_permissions(object.member("permissions"), &spec.permissions);
        }
        object.text("digest", &spec.digest.hex());
        for (name, schema) in [("inputSchema", &spec.input_schema), ("outputSchema", &spec.output_schema)] {
            object.raw(name, schema.as_ref().map_or(b"null", |schema| schema.bytes()));
        }
        object.objects("examples", &spec.examples, push_example);
    }
    object.end();
    out
}

fn push_row(object: &mut Object<'_>, row: &ToolRow<'_>) {
    object.text_or_null("name", row.spec.map(|spec| spec.name.as_str()));
    object.text_or_null("exposed", row.spec.map(|spec| spec.exposed.as_str()));
    object.text_or_null("kind", row.spec.map(|spec| spec.kind));
    object.text("source", row.source);
    let version = row.spec.and_then(|spec| spec.about.version.as_ref()).map(ToString::to_string);
    object.text_or_null("version", version.as_deref());
    object.text_or_null("description", row.spec.and_then(|spec| spec.about.description.as_deref()));
    object.text_or_null("timing", row.spec.map(|spec| spec.timing.as_str()));
    object.text_or_null("sandbox", row.spec.map(|spec| spec.sandbox.as_str()));
    object.bool("enabled", row.enabled).texts("problems", row.problems.iter().map(String::as_str));
}

/// Only what the tool declares.
fn push_behavior(out: &mut Vec<u8>, behavior: &Behavior) {
    let mut object = Object::new(out);
    for (name, declared) in [
        ("deterministic", behavior.deterministic),
        ("dialog", behavior.dialog),
        ("attached", behavior.attached),
        ("context", behavior.context),
    ] {
        if declared {
            object.bool(name, true);
        }
    }
    if let Some(guarded) = behavior.guarded {
        object.text("guarded", guarded.as_str());
    }
    if let Some(limit) = behavior.concurrency {
        object.number("concurrency", limit as u64);
    }
    if let Some(rate) = behavior.rate {
        let mut member = Object::new(object.member("rate"));
        member.number("calls", rate.calls.into()).number("perMs", rate.per.as_millis() as u64);
        member.end();
    }
    if let Some(retry) = behavior.retry {
        let mut member = Object::new(object.member("retry"));
        member.number("attempts", retry.attempts.into());
        member.number("backoffMs", retry.backoff.as_millis() as u64);
        member.end();
    }
    object.end();
}

fn push_permissions(out: &mut Vec<u8>, permissions: &Permissions) {
    let mut object = Object::new(out);
    object.text("network", &permissions.network);
    object.objects("files", &permissions.files, |file, grant| {
        file.text("path", &grant.path).text("access", if grant.writable { "write" } else { "read" });
        file.text("origin", grant.origin.as_str());
    });
    object.end();
}

fn push_example(object: &mut Object<'_>, example: &Example) {
    object.text_or_null("name", example.name.as_deref()).raw("input", example.input.bytes());
    match &example.expect {
        Expect::Success => {}
        Expect::Output(output) => drop(object.raw("output", output.bytes())),
        Expect::Error(code) => drop(object.text("error", code)),
    }
}

fn push_annotations(out: &mut Vec<u8>, annotations: &Annotations) {
    let mut object = Object::new(out);
    for (name, hint) in [
        ("readOnlyHint", annotations.read_only),
        ("destructiveHint", annotations.destructive),
        ("idempotentHint", annotations.idempotent),
        ("openWorldHint", annotations.open_world),
    ] {
        if let Some(hint) = hint {
            object.bool(name, hint);
        }
    }
    object.end();
}
