//! `cas.get`: returns a blob or a part of it, verified against the hash.

use super::{MAX_BYTES, MAX_MESSAGE};
use crate::builtin::Services;
use bytes::BytesMut;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use toolyard_protocol::{Annotations, Blob, Context, Error, ErrorKind, Hash, Request, Tool};
use toolyard_store::blobs::BlobError;

pub struct Get(pub Arc<Services>);

#[derive(Deserialize, JsonSchema)]
pub struct GetRequest {
    pub hash: Hash,
    /// Position of the first byte; default 0.
    #[serde(default)]
    pub offset: Option<u64>,
    /// Number of bytes; default the rest of the blob. At most 32 MiB per call.
    #[serde(default)]
    pub length: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
pub struct GetResponse {
    pub hash: Hash,
    /// Size of the whole blob in bytes.
    pub size: u64,
    /// Position of the data in the blob.
    pub offset: u64,
    pub data: Blob,
}

impl Request for GetRequest {}

impl Tool for Get {
    type Request = GetRequest;
    type Response = GetResponse;

    const NAME: &'static str = "cas.get";
    const TITLE: &'static str = "Get content";
    const DESCRIPTION: &'static str =
        "Returns stored content by its hash, completely or in part, verified against the hash.";
    const ANNOTATIONS: Annotations = Annotations::READ_ONLY;
    const TIMEOUT: Duration = Duration::from_secs(60);
    const OUTPUT: usize = MAX_MESSAGE;

    async fn run(&self, request: GetRequest, _: Context<'_>) -> Result<GetResponse, Error> {
        let blobs = &self.0.stores()?.blobs;
        let GetRequest { hash, offset, length } = request;
        let size = blobs.size(&hash).await?.ok_or(BlobError::NotFound { hash })?;
        let offset = offset.unwrap_or(0);
        let length = length.unwrap_or(size.saturating_sub(offset));
        let end = offset.saturating_add(length);
        if end > size || offset > size {
            return Err(BlobError::Range { start: offset, end, size }.into());
        }
        if length > MAX_BYTES as u64 {
            let message =
                format!("{length} bytes requested of a blob of {size}; the maximum per call is {MAX_BYTES}");
            return Err(Error::new(ErrorKind::OutputTooLarge, message)
                .hint("request parts with 'offset' and 'length'"));
        }
        let mut reader = blobs.reader(&hash, Some(offset..end)).await?;
        let mut data = BytesMut::with_capacity(length as usize);
        while let Some(piece) = reader.next().await {
            data.extend_from_slice(&piece?);
        }
        Ok(GetResponse { hash, size, offset, data: Blob(data.freeze()) })
    }
}
