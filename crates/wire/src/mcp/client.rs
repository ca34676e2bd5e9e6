//! The client's side of revision 2026-07-28: self-contained requests, and what the command line reads in the
//! responses. The client declares no capability, so no server asks it anything.

use super::{Revision, headers, meta};
use crate::envelope;
use crate::jsonrpc::{self, INVALID_PARAMS, METHOD_NOT_FOUND};
use bytes::Bytes;
use serde::Deserialize;
use toolyard_formats::json::{self, Object};
use toolyard_protocol::{Body, Error, ErrorKind, Payload, RenderedPrompt, ResourceContents, base64};

/// A request: its body, and the headers that mirror it.
pub struct ClientRequest {
    pub body: Vec<u8>,
    pub headers: Vec<(&'static str, String)>,
}

impl ClientRequest {
    /// `params` are the members of `params` as raw JSON; `name` is what `Mcp-Name` must say, if anything.
    pub fn new(method: &str, name: Option<&str>, params: &[(&str, &[u8])]) -> ClientRequest {
        let mut body = Vec::new();
        let mut object = Object::new(&mut body);
        object.text("jsonrpc", "2.0").number("id", 1).text("method", method);
        let mut members = Object::new(object.member("params"));
        for (name, raw) in params {
            members.raw(name, raw);
        }
        let mut declared = Object::new(members.member("_meta"));
        declared.text(meta::VERSION, Revision::NEWEST.as_str()).raw(meta::CAPABILITIES, b"{}");
        declared.end();
        members.end();
        object.end();
        let mut headers = vec![
            ("mcp-protocol-version", Revision::NEWEST.as_str().to_owned()),
            ("mcp-method", method.to_owned()),
        ];
        headers.extend(name.map(|name| ("mcp-name", headers::encode(name))));
        ClientRequest { body, headers }
    }
}

/// The raw result of a response, or its error.
pub fn read_response(body: &Bytes) -> Result<Bytes, Error> {
    if let Some(result) = part(body, "/result")? {
        return Ok(result);
    }
    #[derive(Deserialize)]
    struct Failed {
        error: RpcFailure,
    }
    #[derive(Deserialize)]
    struct RpcFailure {
        code: i64,
        message: String,
    }
    let Failed { error } =
        serde_json::from_slice(body).map_err(|_| invalid("neither a result nor an error"))?;
    if let Some(known) = part(body, "/error/data")?.and_then(|data| envelope::read_error_body(&data)) {
        return Err(known);
    }
    let kind = match error.code {
        INVALID_PARAMS => ErrorKind::InvalidInput,
        METHOD_NOT_FOUND => ErrorKind::ResourceNotFound,
        _ => ErrorKind::Unavailable,
    };
    Err(Error::new(kind, format!("the server refused: {}", error.message)))
}

/// The items of a page as raw JSON, and the cursor of the next page.
pub fn read_page(result: &Bytes, member: &str) -> Result<(Vec<Bytes>, Option<String>), Error> {
    let list = part(result, &format!("/{member}"))?.ok_or_else(|| invalid(&format!("no '{member}'")))?;
    let ranges = jsonrpc::elements(&list, usize::MAX).map_err(|error| invalid(&error.to_string()))?;
    let next = part(result, "/nextCursor")?.and_then(|raw| jsonrpc::text(&raw));
    Ok((ranges.into_iter().map(|range| list.slice(range)).collect(), next))
}

/// A resource or a resource template as lists show it.
#[derive(Clone, Debug, Deserialize)]
pub struct ListedResource {
    #[serde(alias = "uriTemplate")]
    pub uri: String,
    pub name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    #[serde(rename = "mimeType")]
    pub mime: Option<String>,
    pub size: Option<u64>,
}

pub fn read_resource(item: &[u8]) -> Result<ListedResource, Error> {
    serde_json::from_slice(item).map_err(|error| invalid(&error.to_string()))
}

/// The contents in the result of `resources/read`.
pub fn read_contents(result: &Bytes) -> Result<Vec<ResourceContents>, Error> {
    #[derive(Deserialize)]
    struct Content {
        uri: String,
        #[serde(rename = "mimeType")]
        mime: Option<String>,
        text: Option<String>,
        blob: Option<String>,
    }
    let (items, _) = read_page(result, "contents")?;
    let read = |item: &Bytes| {
        let content: Content = serde_json::from_slice(item).map_err(|error| invalid(&error.to_string()))?;
        let body = match (content.text, content.blob.as_deref().map(base64::decode)) {
            (Some(text), None) => Body::Text(text),
            (None, Some(Ok(bytes))) => Body::Blob(bytes.into()),
            _ => return Err(invalid("a content has neither text nor a blob")),
        };
        let meta = part(item, "/_meta")?.map(Payload::json);
        Ok(ResourceContents { uri: content.uri, mime: content.mime, body, meta })
    };
    items.iter().map(read).collect()
}

/// The result of `prompts/get`.
pub fn read_prompt(result: &Bytes) -> Result<RenderedPrompt, Error> {
    let messages = part(result, "/messages")?.ok_or_else(|| invalid("no 'messages'"))?;
    let description = part(result, "/description")?.and_then(|raw| jsonrpc::text(&raw));
    Ok(RenderedPrompt { description, messages: Payload::json(messages) })
}

fn part(json: &Bytes, pointer: &str) -> Result<Option<Bytes>, Error> {
    let found = json::pointer(json, pointer).map_err(|error| invalid(&error.to_string()))?;
    Ok(found.map(|range| json.slice(range)).filter(|raw| raw.as_ref() != b"null"))
}

fn invalid(what: &str) -> Error {
    Error::new(ErrorKind::InvalidOutput, format!("the server's response is invalid: {what}"))
        .hint("check that it is a toolyard server of the same version")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_declares_its_revision_in_body_and_headers() {
        let request =
            ClientRequest::new("resources/read", Some("yard://é"), &[("uri", "\"yard://é\"".as_bytes())]);
        assert_eq!(
            String::from_utf8(request.body).unwrap(),
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/read\",\"params\":{\"uri\":\"yard://é\",\"_meta\":{\
             \"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\
             \"io.modelcontextprotocol/clientCapabilities\":{}}}}"
        );
        assert_eq!(request.headers[2], ("mcp-name", "=?base64?eWFyZDovL8Op?=".to_owned()));
    }

    #[test]
    fn errors_of_a_toolyard_server_keep_their_kind_and_hint() {
        let read = |text: &str| read_response(&Bytes::from(text.to_owned()));
        assert_eq!(read(r#"{"jsonrpc":"2.0","id":1,"result":{"a":1}}"#).unwrap().as_ref(), br#"{"a":1}"#);
        let error = read(
            r#"{"id":1,"error":{"code":-32602,"message":"m","data":{"uri":"x","error":{"error_message":"gone",
               "error_details":{"kind":"resource_not_found","hint":"look"}}}}}"#,
        );
        let error = error.unwrap_err();
        assert_eq!((error.kind, error.hint.as_deref()), (ErrorKind::ResourceNotFound, Some("look")));
        for (text, kind) in [
            (r#"{"id":1,"error":{"code":-32602,"message":"bad"}}"#, ErrorKind::InvalidInput),
            (r#"{"id":1,"error":{"code":-32601,"message":"no"}}"#, ErrorKind::ResourceNotFound),
            (r#"{"id":1,"error":{"code":-1,"message":"no"}}"#, ErrorKind::Unavailable),
            (r#"{"id":1}"#, ErrorKind::InvalidOutput),
            ("<html>", ErrorKind::InvalidOutput),
        ] {
            assert_eq!(read(text).unwrap_err().kind, kind, "{text}");
        }
    }

    #[test]
    fn contents_are_text_or_bytes_and_keep_their_meta() {
        let read = |text: &str| read_contents(&Bytes::from(text.to_owned()));
        let found = read(
            r#"{"contents":[{"uri":"a","text":"t","_meta":{"k":1}},{"uri":"b","mimeType":"x/y","blob":"AAE="}]}"#,
        );
        let found = found.unwrap();
        assert!(matches!(&found[0].body, Body::Text(text) if text == "t"));
        assert_eq!(found[0].meta.as_ref().unwrap().bytes().as_ref(), br#"{"k":1}"#);
        assert!(matches!(&found[1].body, Body::Blob(bytes) if bytes.as_ref() == [0, 1]));
        for bad in [r#"{"contents":[{"uri":"a"}]}"#, r#"{"contents":[{"uri":"a","blob":"!"}]}"#, "{}"] {
            assert_eq!(read(bad).unwrap_err().kind, ErrorKind::InvalidOutput, "{bad}");
        }
    }
}
