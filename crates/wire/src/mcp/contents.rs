//! A tool's result as the contents of a resource.

use serde::Deserialize;
use std::borrow::Cow;
use toolyard_protocol::{Body, Error, ErrorKind, Outcome, ResourceContents, base64};

/// The parts of the resource `uri`: a JSON string is text, other JSON is JSON, and each block of MCP content
/// is one part. `mime`, the type that the resource declares, overrides the tool's.
pub fn parts_of(outcome: &Outcome, uri: &str, mime: Option<&str>) -> Result<Vec<ResourceContents>, Error> {
    if let Some(error) = outcome.error() {
        return Err(error.clone());
    }
    let part = |body, own: Option<&str>| {
        let mime = mime.or(own).map(str::to_owned);
        ResourceContents { uri: uri.to_owned(), mime, body, meta: None }
    };
    if let Some(content) = outcome.content() {
        let blocks: Vec<Block<'_>> = serde_json::from_slice(content.bytes())
            .map_err(|error| wrong(format!("its content is not valid MCP content: {error}")))?;
        let parts =
            blocks.into_iter().map(|block| block.body().map(|(body, own)| part(body, own.as_deref())));
        let parts: Vec<ResourceContents> = parts.collect::<Result<_, _>>()?;
        return if parts.is_empty() { Err(wrong("its content is empty")) } else { Ok(parts) };
    }
    let Some(data) = outcome.data() else { return Err(wrong("it returned nothing")) };
    let (body, own) = match serde_json::from_slice::<String>(data.bytes()) {
        Ok(text) => (text, "text/plain"),
        Err(_) => match std::str::from_utf8(data.bytes()) {
            Ok(json) => (json.to_owned(), "application/json"),
            Err(_) => return Err(wrong("it did not return JSON")),
        },
    };
    Ok(vec![part(Body::Text(body), Some(own))])
}

/// The members of an MCP content block that a resource can have.
#[derive(Deserialize)]
struct Block<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    text: Option<String>,
    #[serde(borrow)]
    data: Option<Cow<'a, str>>,
    #[serde(rename = "mimeType")]
    mime: Option<String>,
    #[serde(borrow)]
    resource: Option<Embedded<'a>>,
}

#[derive(Deserialize)]
struct Embedded<'a> {
    text: Option<String>,
    #[serde(borrow)]
    blob: Option<Cow<'a, str>>,
    #[serde(rename = "mimeType")]
    mime: Option<String>,
}

impl Block<'_> {
    fn body(self) -> Result<(Body, Option<String>), Error> {
        let (text, blob, mime) = match (self.kind.as_ref(), self.resource) {
            ("text", _) => (self.text, None, self.mime.or(Some("text/plain".to_owned()))),
            ("image" | "audio", _) => (None, self.data, self.mime),
            ("resource", Some(inner)) => (inner.text, inner.blob, inner.mime),
            (kind, _) => return Err(wrong(format!("a block of type '{kind}' cannot be a resource"))),
        };
        match (text, blob) {
            (Some(text), None) => Ok((Body::Text(text), mime)),
            (None, Some(blob)) => {
                let bytes = base64::decode(&blob).map_err(|_| wrong("a block is not base64"))?;
                Ok((Body::Blob(bytes.into()), mime))
            }
            _ => Err(wrong(format!("a block of type '{}' has no content", self.kind))),
        }
    }
}

fn wrong(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidOutput, format!("the tool of this resource failed: {what}"))
        .hint("it must return a string, JSON, or MCP content of text, images, audio and resources")
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolyard_protocol::Payload;

    fn shown(parts: Vec<ResourceContents>) -> Vec<(Option<String>, Body)> {
        assert!(parts.iter().all(|part| part.uri == "a:b"));
        parts.into_iter().map(|part| (part.mime, part.body)).collect()
    }

    #[test]
    fn results_of_tools_become_contents() {
        let data = |json: &str| Outcome::success(Some(Payload::json(json.to_owned())));
        let content = |json: &str| Outcome::success(None).with_content(Payload::json(json.to_owned()));
        let read = |outcome: &Outcome, mime| shown(parts_of(outcome, "a:b", mime).unwrap());
        let text = |mime: &str, text: &str| vec![(Some(mime.to_owned()), Body::Text(text.to_owned()))];
        assert_eq!(read(&data(r#""h\u0069""#), None), text("text/plain", "hi"));
        assert_eq!(read(&data(r#"{"n": 1}"#), None), text("application/json", r#"{"n": 1}"#));
        assert_eq!(read(&data("[1]"), Some("text/csv")), text("text/csv", "[1]"));
        let blocks = r#"[{"type":"text","text":"t"},{"type":"image","data":"AAE=","mimeType":"image/png"},
            {"type":"resource","resource":{"uri":"x:y","text":"r","mimeType":"text/css"}}]"#;
        let blob = Body::Blob(vec![0, 1].into());
        let expected = [
            text("text/plain", "t").remove(0),
            (Some("image/png".to_owned()), blob),
            text("text/css", "r").remove(0),
        ];
        assert_eq!(read(&content(blocks), None), expected);
        for bad in [
            "[]",
            r#"[{"type":"resource_link","uri":"x:y","name":"n"}]"#,
            r#"[{"type":"image","data":"?","mimeType":"image/png"}]"#,
            r#"[{"type":"text"}]"#,
            r#"[{"type":"resource","resource":{"uri":"x:y","text":"a","blob":"AA=="}}]"#,
            r#"[{"type":"resource","resource":{"uri":"x:y"}}]"#,
            "[1]",
        ] {
            let error = parts_of(&content(bad), "a:b", None).expect_err(bad);
            assert_eq!(error.kind, ErrorKind::InvalidOutput, "{bad}");
        }
        assert!(parts_of(&Outcome::success(None), "a:b", None).is_err());
        let failed = Outcome::failure(Error::new(ErrorKind::Timeout, "late"));
        assert_eq!(parts_of(&failed, "a:b", None).unwrap_err().kind, ErrorKind::Timeout);
    }
}
