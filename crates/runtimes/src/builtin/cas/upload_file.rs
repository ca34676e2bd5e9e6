//! `cas.upload_file`: stores a file of the yard, of any size.

use super::store::StoreResponse;
use crate::builtin::{Services, validate};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use toolyard_protocol::{Annotations, Context, Error, Guarded, Request, Timing, Tool, Violation};

pub struct UploadFile(pub Arc<Services>);

/// The kernel's PATH_MAX.
pub const MAX_PATH: usize = 4096;

#[derive(Deserialize, JsonSchema)]
pub struct UploadFileRequest {
    /// Path relative to the yard's root; must not lead outside.
    pub file_path: String,
    /// MIME type of the file, repeated in the response.
    pub mime_type: String,
}

impl Request for UploadFileRequest {
    fn check(&self, violations: &mut Vec<Violation>) {
        validate::text(violations, "/file_path", &self.file_path, 1..=MAX_PATH);
        validate::mime(violations, "/mime_type", &self.mime_type);
    }
}

impl Tool for UploadFile {
    type Request = UploadFileRequest;
    type Response = StoreResponse;

    const NAME: &'static str = "cas.upload_file";
    const TITLE: &'static str = "Store a file";
    const DESCRIPTION: &'static str =
        "Stores a copy of a file of the yard under its BLAKE3 hash. The file may have any size.";
    const TIMING: Timing = Timing::AsyncShort;
    const ANNOTATIONS: Annotations = Annotations::IDEMPOTENT;
    const TIMEOUT: Duration = Duration::from_secs(600);
    const GUARDED: Option<Guarded> = Some(Guarded::ReadsFiles);

    async fn run(&self, request: UploadFileRequest, _: Context<'_>) -> Result<StoreResponse, Error> {
        let file = self.0.files.open(&request.file_path)?;
        let stored = self.0.stores()?.blobs.put_file(file).await?;
        Ok(StoreResponse { hash: stored.hash, size: stored.size, mime_type: request.mime_type })
    }
}
