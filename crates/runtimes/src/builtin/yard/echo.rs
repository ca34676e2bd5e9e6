//! `yard.echo`: returns the message, to test a connection.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_protocol::{Annotations, Context, Error, Request, Tool};

pub struct Echo;

#[derive(Deserialize, JsonSchema)]
pub struct EchoRequest {
    /// The message to return.
    pub message: String,
}

#[derive(Serialize, JsonSchema)]
pub struct EchoResponse {
    pub message: String,
}

impl Request for EchoRequest {}

impl Tool for Echo {
    type Request = EchoRequest;
    type Response = EchoResponse;

    const NAME: &'static str = "yard.echo";
    const TITLE: &'static str = "Echo";
    const DESCRIPTION: &'static str = "Returns the message.";
    const ANNOTATIONS: Annotations = Annotations::READ_ONLY;

    async fn run(&self, request: EchoRequest, _: Context<'_>) -> Result<EchoResponse, Error> {
        Ok(EchoResponse { message: request.message })
    }
}
