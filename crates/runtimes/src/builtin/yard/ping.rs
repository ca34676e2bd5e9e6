//! `yard.ping`: returns pong and the server's time.

use crate::builtin::Services;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use toolyard_protocol::{Annotations, Context, Error, Request, Timestamp, Tool};

pub struct Ping(pub Arc<Services>);

#[derive(Deserialize, JsonSchema)]
pub struct PingRequest {}

#[derive(Serialize, JsonSchema)]
pub struct PingResponse {
    /// Always `pong`.
    pub message: &'static str,
    pub server_time: Timestamp,
}

impl Request for PingRequest {}

impl Tool for Ping {
    type Request = PingRequest;
    type Response = PingResponse;

    const NAME: &'static str = "yard.ping";
    const TITLE: &'static str = "Ping";
    const DESCRIPTION: &'static str = "Returns pong and the server's time.";
    const ANNOTATIONS: Annotations = Annotations::READ_ONLY;

    async fn run(&self, _: PingRequest, _: Context<'_>) -> Result<PingResponse, Error> {
        Ok(PingResponse { message: "pong", server_time: self.0.now() })
    }
}
