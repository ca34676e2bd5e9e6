//! `graph.connect`: connects a port of one identity to a port of another.

use super::ConnectionInfo;
use crate::builtin::{Services, validate};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use toolyard_engine::stores::GraphLink;
use toolyard_protocol::{Annotations, Context, Error, Request, Timing, Tool, Violation};

pub struct Connect(pub Arc<Services>);

#[derive(Deserialize, JsonSchema)]
pub struct ConnectRequest {
    pub from_identity: String,
    pub from_port: String,
    pub to_identity: String,
    pub to_port: String,
    /// For example `midi` or `audio`.
    #[serde(default)]
    pub transport: Option<String>,
}

impl Request for ConnectRequest {
    fn check(&self, violations: &mut Vec<Violation>) {
        validate::label(violations, "/from_identity", &self.from_identity);
        validate::label(violations, "/from_port", &self.from_port);
        validate::label(violations, "/to_identity", &self.to_identity);
        validate::label(violations, "/to_port", &self.to_port);
        validate::labels(violations, &[("/transport", &self.transport)]);
    }
}

impl Tool for Connect {
    type Request = ConnectRequest;
    type Response = ConnectionInfo;

    const NAME: &'static str = "graph.connect";
    const TITLE: &'static str = "Connect identities";
    const DESCRIPTION: &'static str = "Connects ports of two identities, which must exist.";
    const TIMING: Timing = Timing::AsyncShort;
    const ANNOTATIONS: Annotations = Annotations::IDEMPOTENT;

    async fn run(&self, request: ConnectRequest, _: Context<'_>) -> Result<ConnectionInfo, Error> {
        let ConnectRequest { from_identity, from_port, to_identity, to_port, transport } = request;
        let new = GraphLink { from: from_identity, from_port, to: to_identity, to_port, transport };
        Ok(self.0.stores()?.graph.connect(new).await?.into())
    }
}
