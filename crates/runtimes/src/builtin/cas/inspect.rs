//! `cas.inspect`: returns whether a blob exists, its size and a preview.

use crate::builtin::Services;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use toolyard_protocol::text::escape_control;
use toolyard_protocol::{Annotations, Context, Error, Hash, Request, Tool};

pub struct Inspect(pub Arc<Services>);

/// Bytes that are read for the preview.
const PREVIEW: u64 = 256;

#[derive(Deserialize, JsonSchema)]
pub struct InspectRequest {
    pub hash: Hash,
}

#[derive(Serialize, JsonSchema)]
pub struct InspectResponse {
    pub hash: Hash,
    pub exists: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The first characters, if the content is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
}

impl Request for InspectRequest {}

impl Tool for Inspect {
    type Request = InspectRequest;
    type Response = InspectResponse;

    const NAME: &'static str = "cas.inspect";
    const TITLE: &'static str = "Inspect content";
    const DESCRIPTION: &'static str =
        "Returns whether content with this hash exists, its size, and a preview if it is text.";
    const ANNOTATIONS: Annotations = Annotations::READ_ONLY;

    async fn run(&self, request: InspectRequest, _: Context<'_>) -> Result<InspectResponse, Error> {
        let hash = request.hash;
        let blobs = &self.0.stores()?.blobs;
        let Some(size) = blobs.size(&hash).await? else {
            return Ok(InspectResponse { hash, exists: false, size: None, preview: None });
        };
        let mut reader = blobs.reader(&hash, Some(0..size.min(PREVIEW))).await?;
        let mut start = Vec::new();
        while let Some(piece) = reader.next().await {
            start.extend_from_slice(&piece?);
        }
        Ok(InspectResponse { hash, exists: true, size: Some(size), preview: preview(&start, size) })
    }
}

/// The start as text, if it is UTF-8; an incomplete last character is ignored.
fn preview(start: &[u8], size: u64) -> Option<String> {
    let cut = size > start.len() as u64;
    let text = match std::str::from_utf8(start) {
        Ok(text) => text,
        Err(error) if cut && error.error_len().is_none() => {
            std::str::from_utf8(&start[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return None,
    };
    let is_text = !text.is_empty() && !text.contains('\0');
    is_text.then(|| format!("{}{}", escape_control(text), if cut { "…" } else { "" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_has_a_preview() {
        assert_eq!(preview(b"abc\x1b", 4).as_deref(), Some("abc\\u{1b}"));
        assert_eq!(preview("é".as_bytes(), 2).as_deref(), Some("é"));
        assert_eq!(preview(b"a\xc3", 100).as_deref(), Some("a…"));
        assert_eq!(preview(b"a\xc3", 2), None);
        assert_eq!(preview(b"MThd\0\0\0\x06", 8), None);
        assert_eq!(preview(b"", 0), None);
    }
}
