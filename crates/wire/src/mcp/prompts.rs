//! `prompts/list` and `prompts/get`.

use super::{Revision, lists, resources, result};
use crate::jsonrpc::{self, Params, RequestId};
use bytes::Bytes;
use toolyard_formats::json::{Object, array};
use toolyard_protocol::{Page, Payload, Prompt, PromptArgument, RenderedPrompt};

/// The name and the arguments of `prompts/get`.
pub fn read_get(params: &Params) -> Result<(String, Payload), String> {
    let arguments = params.object("arguments")?.unwrap_or_else(|| Bytes::from_static(b"{}"));
    Ok((params.required_text("name")?, Payload::json(arguments)))
}

/// The name and the arguments of `prompt/call`, which MCP 1.0 has in addition to `prompts/get`.
pub fn read_call(params: &Params) -> Result<(String, Payload), String> {
    let name = match params.text("prompt_name")? {
        Some(name) => name,
        None => params.text("name")?.ok_or("'prompt_name' is missing")?,
    };
    let arguments = params.object("arguments")?.unwrap_or_else(|| Bytes::from_static(b"{}"));
    Ok((name, Payload::json(arguments)))
}

pub fn write_list(id: &RequestId, revision: Revision, page: &Page<Prompt>) -> Vec<u8> {
    lists::write(id, revision, "prompts", page, |out, prompt| push_prompt(out, revision, prompt))
}

pub fn push_prompt(out: &mut Vec<u8>, revision: Revision, prompt: &Prompt) {
    let mut object = Object::new(out);
    object.text("name", &prompt.name);
    push_title_and_description(&mut object, revision, &prompt.title, &prompt.description);
    array(object.member("arguments"), &prompt.arguments, |out, argument| {
        push_argument(out, revision, argument)
    });
    resources::push_extra(&mut object, revision, &prompt.extra);
    object.end();
}

fn push_argument(out: &mut Vec<u8>, revision: Revision, argument: &PromptArgument) {
    let mut object = Object::new(out);
    object.text("name", &argument.name);
    push_title_and_description(&mut object, revision, &argument.title, &argument.description);
    object.bool("required", argument.required);
    object.end();
}

fn push_title_and_description(
    object: &mut Object<'_>,
    revision: Revision,
    title: &Option<String>,
    description: &Option<String>,
) {
    if let Some(title) = title.as_deref().filter(|_| revision.has_structure()) {
        object.text("title", title);
    }
    if let Some(description) = description {
        object.text("description", description);
    }
}

pub fn write_rendered(id: &RequestId, revision: Revision, rendered: &RenderedPrompt) -> Vec<u8> {
    jsonrpc::result(id, rendered.messages.len() + 200, |out| {
        let mut object = result::complete(out, revision);
        if let Some(description) = &rendered.description {
            object.text("description", description);
        }
        object.raw("messages", rendered.messages.bytes());
        object.end();
    })
}
