//! Prompts on the command line: the list, and a rendered prompt as JSON or text.

use super::inputs::push_arguments;
use serde::Deserialize;
use serde_json::Value;
use toolyard_formats::json::{self, Object};
use toolyard_protocol::text::escape_control;
use toolyard_protocol::{Prompt, RenderedPrompt};

/// One prompt of a yard.
pub struct Row<'a> {
    pub prompt: &'a Prompt,
    /// `domain.name`.
    pub id: &'a str,
    pub versions: &'a [u32],
}

/// The list as a JSON array.
pub fn write_list(rows: &[Row<'_>]) -> Vec<u8> {
    json::objects(rows, |object, row| {
        object.text("name", &row.prompt.name).text("id", row.id);
        let versions: Vec<String> = row.versions.iter().map(u32::to_string).collect();
        object.raw("versions", format!("[{}]", versions.join(",")).as_bytes());
        object.text_or_null("title", row.prompt.title.as_deref());
        object.text_or_null("description", row.prompt.description.as_deref());
        push_arguments(object.member("arguments"), &row.prompt.arguments);
    })
}

/// A prompt as the command line lists it.
#[derive(Deserialize)]
pub struct PromptSummary {
    pub name: String,
    /// Servers do not list them.
    #[serde(default)]
    pub versions: Vec<u32>,
    pub title: Option<String>,
    pub description: Option<String>,
    #[serde(default)]
    pub arguments: Vec<ArgumentSummary>,
}

#[derive(Deserialize)]
pub struct ArgumentSummary {
    pub name: String,
    #[serde(default)]
    pub required: bool,
}

/// Reads what [`write_list`] wrote, or the prompts of an MCP list.
pub fn read_list(json: &[u8]) -> Result<Vec<PromptSummary>, String> {
    serde_json::from_slice(json).map_err(|error| error.to_string())
}

/// `{description, messages}` in MCP's shape.
pub fn write_rendered(rendered: &RenderedPrompt) -> Vec<u8> {
    let mut out = Vec::with_capacity(rendered.messages.len() + 64);
    let mut object = Object::new(&mut out);
    object.text_or_null("description", rendered.description.as_deref());
    object.raw("messages", rendered.messages.bytes());
    object.end();
    out
}

/// A single user text unchanged; otherwise every message under its role, binary content as its size only.
pub fn render(rendered: &RenderedPrompt) -> String {
    let messages: Vec<Value> = serde_json::from_slice(rendered.messages.bytes()).unwrap_or_default();
    if let [only] = messages.as_slice()
        && let Some(text) = only["content"]["text"].as_str()
        && only["role"] == "user"
    {
        return escape_control(text).trim_end().to_owned();
    }
    let rendered = messages.iter().map(|message| {
        let role = message["role"].as_str().unwrap_or_default();
        let content = &message["content"];
        match content["text"].as_str() {
            Some(text) => format!("{role}:\n{}", escape_control(text).trim_end()),
            None => format!("{role}:\n{}", describe_content(content)),
        }
    });
    rendered.collect::<Vec<_>>().join("\n\n")
}

fn describe_content(content: &Value) -> String {
    let text = |value: &Value| escape_control(value.as_str().unwrap_or_default());
    let size = |value: &Value| value.as_str().map_or(0, str::len) / 4 * 3;
    match content["type"].as_str() {
        Some(kind @ ("image" | "audio")) => {
            format!("[{kind} {}, about {} bytes]", text(&content["mimeType"]), size(&content["data"]))
        }
        Some("resource") => {
            let resource = &content["resource"];
            let inside = match resource["text"].as_str() {
                Some(inside) => escape_control(inside).trim_end().to_owned(),
                None => format!("[about {} bytes]", size(&resource["blob"])),
            };
            format!("[resource {}]\n{inside}", text(&resource["uri"]))
        }
        _ => json::pretty(content.to_string().as_bytes()).unwrap_or_default(),
    }
}
