//! Prompts as JSON: their messages, the results of tools that render or complete them, and their arguments.

mod display;
mod inputs;

pub use display::{PromptSummary, Row, read_list, render, write_list, write_rendered};
pub use inputs::{arguments, choices, coerce_arguments};

use bytes::Bytes;
use toolyard_formats::json::{self, Object, array};
use toolyard_protocol::{Completion, CompletionRequest, Error, ErrorKind, Outcome, Payload, RenderedPrompt};

/// The maximum number of messages in a prompt.
pub const MAX_MESSAGES: usize = 100;
/// The maximum size of a rendered prompt in bytes.
pub const MAX_RENDERED: usize = 8 << 20;
/// The maximum number of completions that are taken from a tool's result.
const MAX_SUGGESTIONS: usize = 1000;

/// The role of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    User,
    Assistant,
}

impl Role {
    pub const ALL: [Role; 2] = [Role::User, Role::Assistant];

    pub fn as_str(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Assistant => "assistant",
        }
    }

    pub fn parse(text: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.as_str() == text)
    }
}

/// The content of an embedded resource.
pub enum Embedded<'a> {
    Text(&'a str),
    /// Base64.
    Blob(&'a str),
}

/// Writes messages in MCP's shape.
#[derive(Default)]
pub struct Messages(Vec<Vec<u8>>);

impl Messages {
    pub fn text(&mut self, role: Role, text: &str) {
        self.add(role, |content| {
            content.text("type", "text").text("text", text);
        });
    }

    /// `data` is base64.
    pub fn image(&mut self, role: Role, mime: &str, data: &str) {
        self.add(role, |content| {
            content.text("type", "image").text("data", data).text("mimeType", mime);
        });
    }

    pub fn resource(&mut self, role: Role, uri: &str, mime: Option<&str>, body: Embedded<'_>) {
        self.add(role, |content| {
            content.text("type", "resource");
            let mut resource = Object::new(content.member("resource"));
            resource.text("uri", uri);
            if let Some(mime) = mime {
                resource.text("mimeType", mime);
            }
            match body {
                Embedded::Text(text) => resource.text("text", text),
                Embedded::Blob(data) => resource.text("blob", data),
            };
            resource.end();
        });
    }

    /// Fails when the messages exceed [`MAX_RENDERED`].
    pub fn finish(self) -> Result<Payload, Error> {
        let mut out = Vec::new();
        array(&mut out, &self.0, |out, message| out.extend_from_slice(message));
        if out.len() > MAX_RENDERED {
            return Err(Error::new(
                ErrorKind::OutputTooLarge,
                format!("the rendered prompt is over {MAX_RENDERED} bytes"),
            )
            .hint("use shorter arguments"));
        }
        Ok(Payload::json(out))
    }

    fn add(&mut self, role: Role, write: impl FnOnce(&mut Object<'_>)) {
        let mut content = Vec::new();
        write(&mut Object::new(&mut content));
        self.raw(role, &content);
    }

    /// Adds a raw content block, whose type the caller has checked.
    fn raw(&mut self, role: Role, block: &[u8]) {
        let mut message = Vec::with_capacity(block.len() + 40);
        Object::new(&mut message).text("role", role.as_str()).raw("content", block);
        self.0.push(message);
    }
}

/// The messages of a tool's result: `{messages, description}` or `[{role, content}, …]`. MCP content, and any
/// other result as text, become user messages.
pub fn from_outcome(outcome: &Outcome) -> Result<RenderedPrompt, Error> {
    let Some(data) = outcome.data() else {
        let blocks = outcome.content().map_or_else(|| Bytes::from_static(b"[]"), |c| c.bytes().clone());
        let mut messages = Messages::default();
        for block in elements(&blocks)? {
            push_content(&mut messages, Role::User, &block)?;
        }
        return Ok(RenderedPrompt { description: None, messages: messages.finish()? });
    };
    let members = json::members(data.bytes()).map_err(|parse_error| wrong(&parse_error.to_string()))?;
    let find = |name: &str| {
        let found = members.iter().flatten().find(|(key, _)| key == name);
        found.map(|(_, range)| data.bytes().slice(range.clone()))
    };
    let list = match find("messages") {
        Some(list) => list,
        None if data.bytes().trim_ascii_start().starts_with(b"[") => data.bytes().clone(),
        None => {
            let text = serde_json::from_slice::<String>(data.bytes());
            let text = text.unwrap_or_else(|_| String::from_utf8_lossy(data.bytes()).into_owned());
            let mut messages = Messages::default();
            messages.text(Role::User, &text);
            return Ok(RenderedPrompt { description: None, messages: messages.finish()? });
        }
    };
    let description = find("description").and_then(|raw| serde_json::from_slice(&raw).ok());
    let mut messages = Messages::default();
    for item in elements(&list)? {
        push_message(&mut messages, &item)?;
    }
    Ok(RenderedPrompt { description, messages: messages.finish()? })
}

/// The arguments for a completion tool.
pub fn completion_request(completing: &CompletionRequest) -> Payload {
    let mut out = Vec::new();
    let mut object = Object::new(&mut out);
    object.text("argument", &completing.argument).text("value", &completing.value);
    object.raw("arguments", completing.known.bytes());
    object.end();
    Payload::json(out)
}

/// Reads the result of a completion tool: a list of strings, or `{values, total}`.
pub fn suggestions(outcome: &Outcome) -> Result<Completion, Error> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Answer {
        Values(Vec<String>),
        Counted { values: Vec<String>, total: Option<u64> },
    }
    let data = outcome.data().map_or(&b"null"[..], |data| data.bytes());
    let (mut values, total) = match serde_json::from_slice(data) {
        Ok(Answer::Values(values)) => (values, None),
        Ok(Answer::Counted { values, total }) => (values, total),
        Err(_) => {
            let what = "a completion tool must return a list of strings or {\"values\": […]}";
            return Err(Error::new(ErrorKind::InvalidOutput, what).hint("fix the tool"));
        }
    };
    let total = total.or(Some(values.len() as u64));
    values.truncate(MAX_SUGGESTIONS);
    Ok(Completion { values, total })
}

fn push_message(messages: &mut Messages, item: &Bytes) -> Result<(), Error> {
    let members =
        json::members(item).map_err(|parse_error| wrong(&parse_error.to_string()))?.unwrap_or_default();
    let find =
        |name: &str| members.iter().find(|(key, _)| key == name).map(|(_, range)| item.slice(range.clone()));
    let role = find("role").and_then(|raw| serde_json::from_slice::<String>(&raw).ok());
    let role = role.as_deref().and_then(Role::parse);
    let role = role.ok_or_else(|| wrong("a message has no 'role' that is \"user\" or \"assistant\""))?;
    let content = find("content").ok_or_else(|| wrong("a message has no 'content'"))?;
    push_content(messages, role, &content)
}

/// Adds a content block of one of MCP's types, or a string.
fn push_content(messages: &mut Messages, role: Role, content: &Bytes) -> Result<(), Error> {
    if let Ok(text) = serde_json::from_slice::<String>(content) {
        messages.text(role, &text);
        return Ok(());
    }
    if !crate::content::is_block(content) {
        let types = crate::content::BLOCKS.join(", ");
        return Err(wrong(&format!("a 'content' is neither a string nor an object of the types {types}")));
    }
    messages.raw(role, content);
    Ok(())
}

fn elements(list: &Bytes) -> Result<Vec<Bytes>, Error> {
    let ranges = json::elements(list).ok().flatten();
    let ranges = ranges.ok_or_else(|| wrong("'messages' must be a list"))?;
    if ranges.is_empty() || ranges.len() > MAX_MESSAGES {
        return Err(wrong(&format!("there are {} messages; 1 to {MAX_MESSAGES} are allowed", ranges.len())));
    }
    Ok(ranges.into_iter().map(|range| list.slice(range)).collect())
}

fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::InvalidOutput, format!("the tool's result is not a prompt: {what}"))
        .hint("return {\"messages\": [{\"role\": \"user\", \"content\": {\"type\": \"text\", \"text\": …}}]} or a string")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rendered(data: &str) -> Result<String, String> {
        let rendered = from_outcome(&Outcome::success(Some(Payload::json(data.to_owned()))));
        rendered
            .map(|prompt| String::from_utf8(prompt.messages.bytes().to_vec()).unwrap())
            .map_err(|error| error.message)
    }

    #[test]
    fn every_form_of_a_tools_result_becomes_messages() {
        let text = |role: &str, text: &str| {
            format!(r#"{{"role":"{role}","content":{{"type":"text","text":"{text}"}}}}"#)
        };
        let hello = format!("[{}]", text("user", "hello"));
        for data in [
            "\"hello\"",
            r#"{"messages":[{"role":"user","content":"hello"}]}"#,
            r#"[{"role":"user","content":{"type":"text","text":"hello"}}]"#,
        ] {
            assert_eq!(rendered(data).as_deref(), Ok(hello.as_str()), "{data}");
        }
        let both = r#"{"description":"d","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}"#;
        assert_eq!(rendered(both), Ok(format!("[{},{}]", text("user", "a"), text("assistant", "b"))));
        assert_eq!(rendered(r#"{"n":1}"#), Ok(format!("[{}]", text("user", r#"{\"n\":1}"#))));
        let content = Payload::json(r#"[{"type":"text","text":"hello"}]"#);
        let from_content = from_outcome(&Outcome::success(None).with_content(content)).unwrap();
        assert_eq!(&from_content.messages.bytes()[..], hello.as_bytes());
    }

    #[test]
    fn invalid_messages_are_rejected_with_the_reason() {
        for (data, what) in [
            (r#"{"messages":[]}"#, "0 messages"),
            (r#"{"messages":5}"#, "must be a list"),
            (r#"[{"content":"a"}]"#, "'role'"),
            (r#"[{"role":"system","content":"a"}]"#, "'role'"),
            (r#"[{"role":"user"}]"#, "no 'content'"),
            (r#"[{"role":"user","content":{"type":"video"}}]"#, "types"),
            (r#"[1]"#, "'role'"),
        ] {
            let error = rendered(data).expect_err(data);
            assert!(error.contains(what), "{data}: {error}");
        }
        let many = format!("[{}]", vec![r#"{"role":"user","content":"a"}"#; 101].join(","));
        assert!(rendered(&many).unwrap_err().contains("101"));
    }

    #[test]
    fn suggestions_are_a_list_with_or_without_their_count() {
        let read = |data: &str| suggestions(&Outcome::success(Some(Payload::json(data.to_owned()))));
        let two = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(read(r#"["a","b"]"#).unwrap(), Completion { values: two.clone(), total: Some(2) });
        let counted = read(r#"{"values":["a","b"],"total":9}"#).unwrap();
        assert_eq!(counted, Completion { values: two, total: Some(9) });
        assert!(read("5").unwrap_err().message.contains("list of strings"));
    }

    proptest! {
        #[test]
        fn messages_are_json_whatever_the_texts(text in ".*", uri in ".*") {
            let mut messages = Messages::default();
            messages.text(Role::User, &text);
            messages.resource(Role::Assistant, &uri, Some(&text), Embedded::Text(&text));
            messages.image(Role::User, "image/png", "AA==");
            let payload = messages.finish().unwrap();
            let read: serde_json::Value = serde_json::from_slice(payload.bytes()).unwrap();
            prop_assert_eq!(read[0]["content"]["text"].as_str(), Some(text.as_str()));
            prop_assert_eq!(read[1]["content"]["resource"]["uri"].as_str(), Some(uri.as_str()));
        }

        #[test]
        fn any_result_is_messages_or_a_clear_error(
            data in r#"[\[{]{0,2}("(messages|role|content|type)":)?("user"|"text"|[0-9]|null)?[\]}]{0,2}"#,
        ) {
            if serde_json::from_str::<serde_json::Value>(&data).is_ok()
                && let Ok(messages) = rendered(&data)
            {
                prop_assert!(messages.starts_with(r#"[{"role":""#), "{}", messages);
            }
        }
    }
}
