//! `graph.connect`: joins a port of one thing to a port of another.

use super::ConnectionInfo;
use crate::builtin::{Services, rules};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use toolyard_engine::stores::Connection;
use toolyard_protocol::{Annotations, Context, Error, Request, Timing, Tool, Violation};

pub struct Connect(pub Arc<Services>);

#[derive(Deserialize, JsonSchema)]
pub struct ConnectRequest {
    pub from_identity: String,
    pub from_port: String,
    pub to_identity: String,
    pub to_port: String,
    /// How: `midi`, `audio` …
    #[serde(default)]
    pub transport: Option<String>,
}

impl Request for ConnectRequest {
    fn check(&self, broken: &mut Vec<Violation>) {
        rules::label(broken, "/from_identity", &self.from_identity);
        rules::label(broken, "/from_port", &self.from_port);
        rules::label(broken, "/to_identity", &self.to_identity);
        rules::label(broken, "/to_port", &self.to_port);
        rules::labels(broken, &[("/transport", &self.transport)]);
    }
}

impl Tool for Connect {
    type Request = ConnectRequest;
    type Response = ConnectionInfo;

    const NAME: &'static str = "graph.connect";
    const TITLE: &'static str = "Connect identities";
    const DESCRIPTION: &'static str = "Joins a port of one thing to a port of another; both must be known.";
    const TIMING: Timing = Timing::AsyncShort;
    const ANNOTATIONS: Annotations = Annotations::SETS;

    async fn run(&self, request: ConnectRequest, _: Context<'_>) -> Result<ConnectionInfo, Error> {
        let ConnectRequest { from_identity, from_port, to_identity, to_port, transport } = request;
        let new = Connection { from: from_identity, from_port, to: to_identity, to_port, transport };
        Ok(self.0.stores()?.graph.connect(new).await?.into())
    }
}
