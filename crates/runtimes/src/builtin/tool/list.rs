//! `tool.list`: lists the tools, page by page.

use crate::builtin::Services;
use crate::builtin::validate::Limit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use toolyard_protocol::{
    Annotations, Context, Error, ErrorKind, Payload, Request, Tool, ToolSpec, Violation,
};
use toolyard_wire::typed::AnyJson;

pub struct List(pub Arc<Services>);

#[derive(Deserialize, JsonSchema)]
pub struct ListRequest {
    /// Only tools of this module: `cas` for `cas.store`.
    #[serde(default)]
    pub module: Option<String>,
    /// Only tools after this canonical name; for paging.
    #[serde(default)]
    pub after: Option<String>,
    #[serde(default)]
    pub limit: Limit,
    /// Include input and output schemas.
    #[serde(default)]
    pub schemas: bool,
}

#[derive(Serialize, JsonSchema)]
pub struct ListResponse {
    /// Sorted by canonical name.
    pub tools: Vec<ToolInfo>,
    pub count: usize,
    /// There are more results; pass the last name as `after`.
    pub has_more: bool,
}

#[derive(Serialize, JsonSchema)]
pub struct ToolInfo {
    /// Canonical name, `module.tool`.
    pub name: String,
    /// The name on MCP and on the command line.
    pub exposed: String,
    pub kind: &'static str,
    pub timing: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<AnyJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<AnyJson>,
}

impl Request for ListRequest {
    fn check(&self, violations: &mut Vec<Violation>) {
        self.limit.check(violations);
    }
}

impl Tool for List {
    type Request = ListRequest;
    type Response = ListResponse;

    const NAME: &'static str = "tool.list";
    const TITLE: &'static str = "List tools";
    const DESCRIPTION: &'static str = "Lists the tools that can be called, by canonical name.";
    const ANNOTATIONS: Annotations = Annotations::READ_ONLY;
    // Enough for a thousand tools with schemas.
    const OUTPUT: usize = 16 << 20;

    async fn run(&self, request: ListRequest, _: Context<'_>) -> Result<ListResponse, Error> {
        let gone = || Error::new(ErrorKind::Unavailable, "the server is shutting down");
        let snapshot = self.0.registry.upgrade().ok_or_else(gone)?.snapshot();
        let wanted = |spec: &&ToolSpec| {
            let in_module = request.module.as_deref().is_none_or(|module| spec.name.module() == module);
            in_module && request.after.as_deref().is_none_or(|after| spec.name.as_str() > after)
        };
        let mut found = snapshot.entries().iter().map(|entry| &entry.spec).filter(wanted);
        let limit = request.limit.get();
        let tools: Vec<ToolInfo> =
            found.by_ref().take(limit).map(|spec| tool_info(spec, request.schemas)).collect();
        Ok(ListResponse { count: tools.len(), has_more: found.next().is_some(), tools })
    }
}

fn tool_info(spec: &ToolSpec, schemas: bool) -> ToolInfo {
    let shown = |schema: &Option<Payload>| schema.clone().filter(|_| schemas).and_then(AnyJson::new);
    ToolInfo {
        name: spec.name.to_string(),
        exposed: spec.exposed.to_string(),
        kind: spec.kind,
        timing: spec.timing.as_str(),
        version: spec.about.version.as_ref().map(ToString::to_string),
        title: spec.about.title.clone(),
        description: spec.about.description.clone(),
        input_schema: shown(&spec.input_schema),
        output_schema: shown(&spec.output_schema),
    }
}
