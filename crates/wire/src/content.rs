//! A tool's result in MCP's shape: `{content: […], isError, structuredContent, _meta}`.

use bytes::Bytes;
use std::borrow::Cow;
use std::ops::Range;
use toolyard_protocol::{Error, ErrorKind, Outcome, Payload, text::escape_control};

type Member<'a> = (Cow<'a, str>, Range<usize>);

/// The types of MCP's content blocks.
pub(crate) const BLOCKS: &[&str] = &["text", "image", "audio", "resource", "resource_link"];

#[derive(serde::Deserialize)]
struct Block<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
}

/// Whether `content` is a list, which makes the result MCP content in the line contract.
pub fn has_array(text: &Bytes, members: &[Member<'_>]) -> bool {
    find(text, members, "content").is_some_and(|raw| raw.starts_with(b"["))
}

/// Whether the result is MCP content in the document contract: it has no other members, and only blocks of
/// MCP's types. Everything else is data.
pub fn is_content(text: &Bytes, members: &[Member<'_>]) -> bool {
    let known = |name: &str| matches!(name, "content" | "isError" | "structuredContent" | "_meta");
    if !has_array(text, members) || !members.iter().all(|(name, _)| known(name)) {
        return false;
    }
    let content = find(text, members, "content").unwrap_or_default();
    let blocks: Option<Vec<Block<'_>>> = serde_json::from_slice(&content).ok();
    blocks.is_some_and(|blocks| {
        (!blocks.is_empty() || members.len() > 1)
            && blocks.iter().all(|block| BLOCKS.contains(&block.kind.as_ref()))
    })
}

/// Whether `raw` is a block of one of MCP's types.
pub(crate) fn is_block(raw: &[u8]) -> bool {
    serde_json::from_slice::<Block<'_>>(raw).is_ok_and(|block| BLOCKS.contains(&block.kind.as_ref()))
}

/// The outcome of a result in MCP's shape. `content` must be a list.
pub fn outcome(text: &Bytes, members: &[Member<'_>]) -> Result<Outcome, Error> {
    let present = |name: &str| find(text, members, name).filter(|raw| raw.as_ref() != b"null");
    let content = find(text, members, "content").unwrap_or_default();
    let structured = present("structuredContent").map(Payload::json);
    let meta = present("_meta");
    if meta.as_ref().is_some_and(|raw| !raw.starts_with(b"{")) {
        return Err(wrong("'_meta' in the tool's output must be an object"));
    }
    let outcome = match present("isError").as_deref() {
        None | Some(b"false") => Outcome::success(structured),
        Some(b"true") => {
            let error = Error::new(ErrorKind::ToolFailed, error_text(&content));
            Outcome::failure(error.with(|details| details.tool_details = structured))
        }
        Some(_) => return Err(wrong("'isError' in the tool's output must be true or false")),
    };
    let mut outcome = outcome.with_content(Payload::json(content));
    outcome.meta.tool_meta = meta.map(Payload::json);
    Ok(outcome)
}

/// The text blocks of an error, joined by line breaks.
fn error_text(content: &[u8]) -> String {
    #[derive(serde::Deserialize)]
    struct Block {
        text: Option<String>,
    }
    let blocks: Vec<Block> = serde_json::from_slice(content).unwrap_or_default();
    let error_text: Vec<String> = blocks.into_iter().filter_map(|block| block.text).collect();
    match error_text.is_empty() {
        true => "the tool reported an error".to_owned(),
        false => escape_control(&error_text.join("\n")),
    }
}

fn find(text: &Bytes, members: &[Member<'_>], name: &str) -> Option<Bytes> {
    members.iter().find(|(key, _)| key == name).map(|(_, range)| text.slice(range.clone()))
}

fn wrong(message: &str) -> Error {
    Error::new(ErrorKind::InvalidOutput, message)
}

#[cfg(test)]
mod tests {
    use crate::child_io::{Contract, read};
    use bytes::Bytes;
    use toolyard_protocol::{Error, Outcome, Payload};

    const BOTH: [Contract; 2] = [Contract::Document, Contract::Line];

    fn outcome(contract: Contract, text: &str) -> Result<Outcome, Error> {
        read(contract, Bytes::from(text.to_owned())).map(|output| output.outcome)
    }

    fn text(payload: Option<&Payload>) -> Option<&str> {
        payload.map(|payload| std::str::from_utf8(payload.bytes()).unwrap())
    }

    #[test]
    fn a_tool_of_either_contract_may_answer_with_mcp_content() {
        let mixed = concat!(
            r#"[{"type":"text","text":"t"},{"type":"image","data":"AA==","mimeType":"image/png"},"#,
            r#"{"type":"audio","data":"AA==","mimeType":"audio/wav"},"#,
            r#"{"type":"resource","resource":{"uri":"test://x","text":"r"}},"#,
            r#"{"type":"resource_link","uri":"test://y","name":"y"}]"#
        );
        for contract in BOTH {
            let plain = outcome(contract, &format!(r#"{{"content":{mixed}}}"#)).unwrap();
            assert_eq!((text(plain.content()), plain.data()), (Some(mixed), None));
            let full = format!(
                r#"{{"content":{mixed},"isError":false,"structuredContent":{{"n":1}},"_meta":{{"a":2}}}}"#
            );
            let full = outcome(contract, &full).unwrap();
            assert_eq!((text(full.content()), text(full.data())), (Some(mixed), Some(r#"{"n":1}"#)));
            assert_eq!(text(full.meta.tool_meta.as_ref()), Some(r#"{"a":2}"#));
            let failed = r#"{"content":[{"type":"text","text":"no"},{"type":"text","text":"way"}],"isError":true,"structuredContent":{"n":1}}"#;
            let failed = outcome(contract, failed).unwrap();
            let error = failed.error().unwrap();
            assert_eq!(error.message, "no\nway");
            assert_eq!(text(error.details.tool_details.as_ref()), Some(r#"{"n":1}"#));
            assert!(text(failed.content()).unwrap().contains("way"));
            let empty = outcome(contract, r#"{"content":[],"structuredContent":[1]}"#).unwrap();
            assert_eq!((text(empty.content()), text(empty.data())), (Some("[]"), Some("[1]")));
        }
    }

    #[test]
    fn a_document_with_other_content_stays_data() {
        for data in [
            r#"{"content":["a","b"]}"#,
            r#"{"content":[]}"#,
            r#"{"content":"text"}"#,
            r#"{"content":[{"type":"heading","text":"x"}]}"#,
            r#"{"content":[{"type":"text","text":"x"}],"title":"y"}"#,
            r#"{"content":[{"type":7}],"isError":true}"#,
        ] {
            let read = outcome(Contract::Document, data).unwrap();
            assert_eq!((text(read.data()), read.content()), (Some(data), None), "{data}");
        }
        let wrapped = r#"{"data":{"content":[{"type":"text","text":"x"}]}}"#;
        assert!(outcome(Contract::Document, wrapped).unwrap().content().is_none());
    }

    #[test]
    fn wrong_members_are_named() {
        for contract in BOTH {
            for (member, what) in [(r#""isError":"yes""#, "isError"), (r#""_meta":[1]"#, "_meta")] {
                let answer = format!(r#"{{"content":[{{"type":"text","text":"x"}}],{member}}}"#);
                assert!(outcome(contract, &answer).unwrap_err().message.contains(what));
            }
        }
    }
}
