//! `cas.store`: stores bytes and returns their hash.

use super::{MAX_BYTES, MAX_MESSAGE};
use crate::builtin::{Services, validate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use toolyard_protocol::{Annotations, Blob, Context, Error, Hash, Request, Tool, Violation};

pub struct Store(pub Arc<Services>);

#[derive(Deserialize, JsonSchema)]
pub struct StoreRequest {
    /// The content; at most 32 MiB.
    pub data: Blob,
    /// MIME type of the content, repeated in the response; it is not stored with the blob.
    pub mime_type: String,
}

#[derive(Serialize, JsonSchema)]
pub struct StoreResponse {
    pub hash: Hash,
    pub size: u64,
    pub mime_type: String,
}

impl Request for StoreRequest {
    fn check(&self, violations: &mut Vec<Violation>) {
        if self.data.0.len() > MAX_BYTES {
            let size = self.data.0.len();
            validate::add(violations, "/data", format!("has {size} bytes; the maximum is {MAX_BYTES}"));
        }
        validate::mime(violations, "/mime_type", &self.mime_type);
    }
}

impl Tool for Store {
    type Request = StoreRequest;
    type Response = StoreResponse;

    const NAME: &'static str = "cas.store";
    const TITLE: &'static str = "Store content";
    const DESCRIPTION: &'static str =
        "Stores bytes under their BLAKE3 hash. Equal content is stored only once.";
    const ANNOTATIONS: Annotations = Annotations::IDEMPOTENT;
    // Not a job: that would store the content a second time, in its arguments.
    const TIMEOUT: Duration = Duration::from_secs(60);
    const INPUT: usize = MAX_MESSAGE;

    async fn run(&self, request: StoreRequest, _: Context<'_>) -> Result<StoreResponse, Error> {
        let stored = self.0.stores()?.blobs.put(request.data.0).await?;
        Ok(StoreResponse { hash: stored.hash, size: stored.size, mime_type: request.mime_type })
    }
}
