//! `kind: http`: a URL with templates in its path and query, templated headers, a JSON answer.

use super::{FileFormat, Kind, Runnable};
use crate::tools::ToolReader;
use crate::tools::written::FileUse;
use reqwest::Method;
use reqwest::header::HeaderName;
use std::net::IpAddr;
use toolyard_formats::doc::{Fields, Node, Value};
use toolyard_formats::template::{Target, Template};
use toolyard_protocol::Sandbox;
use toolyard_runtimes::http::{Body, HttpRunner, UrlTemplate};
use toolyard_sandbox::is_public;

pub const KIND: Kind = Kind {
    name: "http",
    format: FileFormat::Toolpack,
    interpreter: None,
    template: &[("NAME.tool.yaml", include_str!("../../templates/http.tool.yaml"))],
    read,
};

fn read(fields: &mut Fields<'_>, reader: &ToolReader<'_>) -> Option<Runnable> {
    let (entry, position) = fields.required_text("entry", "entry: https://host/path/{{ input.name }}")?;
    let url = UrlTemplate::parse(entry)
        .map_err(|what| {
            fields.problem(position, what, "write scheme, host and port in full: https://host/path")
        })
        .ok();
    let allow_private = fields.bool("allowPrivate").unwrap_or(false);
    let method = method(fields);
    let headers = headers(fields);
    let body = body(fields, method.as_ref());
    if !reader.shared.env.is_empty() {
        fields.problem(fields.position, "'env' has no meaning for http: no process is started", "remove it");
    }
    if reader.shared.behavior.dialog {
        let what = "'dialog' has no meaning for http: a request is answered once";
        fields.problem(fields.position, what, "remove it");
    }
    if reader.shared.sandbox_request.is_declared {
        fields.problem(
            fields.position,
            "'sandbox' has no meaning for http: no process is started",
            "remove it",
        );
    }
    let url = url?;
    let (headers, body) = (headers?, body?);
    let warnings = check_secrets(fields, reader, &url, &headers, &body)?;
    if let Ok(address) = url.host().trim_matches(['[', ']']).parse::<IpAddr>()
        && !allow_private
        && !is_public(address)
    {
        let message = format!("{address} is a private address");
        fields.problem(position, message, "add allowPrivate: true if the tool is meant to reach it");
        return None;
    }
    let runner = HttpRunner {
        url,
        method: method?,
        headers,
        body,
        allow_private,
        clients: reader.loader.clients.clone(),
        secret_bindings: reader.shared.secrets.clone(),
        secrets: reader.loader.secrets.clone(),
        memory: reader.loader.launcher.output_memory().clone(),
    };
    Some(Runnable {
        runner: Box::new(runner),
        files: Vec::new(),
        warnings,
        notes: Vec::new(),
        sandbox: Sandbox::NotNeeded,
        permissions: Default::default(),
        file_use: FileUse { source: reader.file.source.clone(), is_confined: true, ..FileUse::default() },
    })
}

/// Secrets go into headers only: URLs and bodies end up in other people's logs.
fn check_secrets(
    fields: &mut Fields<'_>,
    reader: &ToolReader<'_>,
    url: &UrlTemplate,
    headers: &[(HeaderName, Template)],
    body: &Body,
) -> Option<Vec<String>> {
    let in_body = matches!(body, Body::Template(template) if !template.secrets_used().is_empty());
    if in_body || url.uses_secrets() {
        let what = "'secrets' may be used in 'headers' only, neither in 'entry' nor in 'body'";
        fields.problem(fields.position, what, "send the secret in a header");
        return None;
    }
    let secret_bindings = &reader.shared.secrets;
    let used: Vec<String> = headers.iter().flat_map(|(_, template)| template.secrets_used()).collect();
    if let Some(unknown) =
        used.iter().find(|used| !secret_bindings.iter().any(|secret| secret.variable == **used))
    {
        let what = format!("a header uses 'secrets.{unknown}', which 'secrets' does not declare");
        fields.problem(fields.position, what, "for example secrets: {API_KEY: \"secret:my_key\"}");
        return None;
    }
    let unused = secret_bindings.iter().filter(|secret| !used.contains(&secret.variable));
    let unused = unused.map(|secret| format!("no header uses 'secrets.{}'", secret.variable));
    let mut warnings: Vec<String> = unused.collect();
    warnings.extend(reader.loader.missing_secrets(secret_bindings));
    Some(warnings)
}

fn method(fields: &mut Fields<'_>) -> Option<Method> {
    let Some(node) = fields.take("method") else { return Some(Method::POST) };
    match &node.value {
        Value::Text(text) => match text.as_str() {
            "GET" | "POST" | "PUT" | "PATCH" | "DELETE" | "HEAD" => Method::from_bytes(text.as_bytes()).ok(),
            other => {
                fields.problem(
                    node.position,
                    format!("'method' is '{other}'"),
                    "one of GET, HEAD, POST, PUT, PATCH, DELETE",
                );
                None
            }
        },
        _ => fields.wrong(node, "method", "a string"),
    }
}

/// Set by the connection itself; a tool that could set them could smuggle a second request.
const FORBIDDEN: &[&str] =
    &["host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer"];

fn headers(fields: &mut Fields<'_>) -> Option<Vec<(HeaderName, Template)>> {
    let Some(node) = fields.take("headers") else { return Some(Vec::new()) };
    let Value::Map(entries) = &node.value else {
        return fields.wrong(node, "headers", "a map of names and texts");
    };
    let mut headers = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        let name = HeaderName::from_bytes(key.text.as_bytes())
            .ok()
            .filter(|name| !FORBIDDEN.contains(&name.as_str()));
        let Some(name) = name else {
            fields.problem(
                key.position,
                format!("'headers' may not hold '{}'", key.text),
                "use a plain header name that is not about the connection",
            );
            return None;
        };
        headers.push((name, template(fields, value, "headers", Target::Text)?));
    }
    Some(headers)
}

fn body(fields: &mut Fields<'_>, method: Option<&Method>) -> Option<Body> {
    let bodyless = matches!(method.map(Method::as_str), Some("GET" | "HEAD" | "DELETE"));
    let Some(node) = fields.take("body") else {
        return Some(if bodyless { Body::None } else { Body::Input });
    };
    let Value::Text(text) = &node.value else {
        return fields.wrong(node, "body", "input, payload, none or a template");
    };
    match text.as_str() {
        "input" => Some(Body::Input),
        "payload" => Some(Body::Payload),
        "none" => Some(Body::None),
        _ => template(fields, node, "body", Target::Json).map(|template| Body::Template(Box::new(template))),
    }
}

fn template(fields: &mut Fields<'_>, node: &Node, name: &'static str, target: Target) -> Option<Template> {
    let Value::Text(text) = &node.value else { return fields.wrong(node, name, "a string") };
    let parsed = Template::parse(text, target);
    parsed.map_err(|what| fields.problem(node.position, what, "templates look like {{ input.name }}")).ok()
}
