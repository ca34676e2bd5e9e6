//! The context of a scenario: the server it connects to, and the count of its checks.

use super::client::McpClient;
use super::transport::Transport;
use super::validator::SchemaValidator;
use crate::support::Yard;
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};

pub struct ScenarioContext<'a> {
    pub revision: &'static str,
    /// The files behind the server.
    pub yard: &'a Yard,
    /// An argument of every process of the tool `hang`, which never ends by itself.
    pub marker: &'a str,
    /// The address and the path at which the server listens, unless it has none.
    pub endpoint: Option<(&'a str, &'a str)>,
    open: &'a dyn Fn() -> Box<dyn Transport>,
    validator: Option<&'a SchemaValidator>,
    pub checks: Checks,
}

/// How a scenario connects to the server.
#[derive(Clone, Copy)]
pub struct Connector<'a> {
    pub open: &'a dyn Fn() -> Box<dyn Transport>,
    /// The address and the path at which it listens, unless it has none.
    pub endpoint: Option<(&'a str, &'a str)>,
}

/// The number of checks and the failed ones.
#[derive(Default)]
pub struct Checks {
    made: Cell<usize>,
    validated: Cell<usize>,
    failed: RefCell<Vec<String>>,
}

impl<'a> ScenarioContext<'a> {
    pub fn new(
        revision: &'static str,
        (yard, marker): (&'a Yard, &'a str),
        connector: Connector<'a>,
        validator: Option<&'a SchemaValidator>,
    ) -> ScenarioContext<'a> {
        let Connector { open, endpoint } = connector;
        ScenarioContext { revision, yard, marker, endpoint, open, validator, checks: Checks::default() }
    }

    /// Legacy HTTP+SSE, which carries the handshake revisions only.
    pub fn is_legacy(&self) -> bool {
        self.endpoint.is_some_and(|(_, path)| path == "/sse")
    }

    pub fn is_stateless(&self) -> bool {
        self.revision == "2026-07-28"
    }

    /// A client with these capabilities, after the handshake where there is one.
    pub fn connect(&self, capabilities: Value) -> McpClient<'_> {
        let mut client = self.connect_raw(capabilities.clone());
        if !self.is_stateless() {
            let hello = json!({
                "protocolVersion": self.revision,
                "capabilities": capabilities,
                "clientInfo": {"name": "driver", "version": "1"},
            });
            let answer = client.request("initialize", hello);
            self.checks.equal(
                "the revision is agreed on",
                &answer["result"]["protocolVersion"],
                self.revision,
            );
            client.notify("notifications/initialized", json!({}));
        }
        client
    }

    /// A client that has not sent anything yet.
    pub fn connect_raw(&self, capabilities: Value) -> McpClient<'_> {
        McpClient::new((self.open)(), self.revision, capabilities, &self.checks, self.validator)
    }
}

impl Checks {
    pub fn that(&self, what: &str, holds: bool, seen: &Value) {
        self.made.set(self.made.get() + 1);
        self.always(what, holds, seen);
    }

    /// A rule for every message. Not counted, because the number of messages depends on timing.
    pub fn always(&self, what: &str, holds: bool, seen: &Value) {
        if !holds {
            let mut seen = seen.to_string();
            if let Some((cut, _)) = seen.char_indices().nth(600) {
                seen.truncate(cut);
            }
            self.failed.borrow_mut().push(format!("{what}: {seen}"));
        }
    }

    pub fn equal(&self, what: &str, seen: &Value, expected: impl Into<Value>) {
        let expected = expected.into();
        self.that(&format!("{what} (should be {expected})"), *seen == expected, seen);
    }

    /// None of these members is present.
    pub fn lacks(&self, what: &str, seen: &Value, members: &[&str]) {
        self.that(what, members.iter().all(|member| seen.get(member).is_none()), seen);
    }

    /// A JSON-RPC error of this code.
    pub fn refused(&self, what: &str, answer: &Value, code: i64) {
        self.equal(what, &answer["error"]["code"], code);
        self.that(
            &format!("{what}: the error says why"),
            answer["error"]["message"].as_str().is_some_and(|text| !text.is_empty()),
            answer,
        );
    }

    /// A message that was validated with the schema of its revision.
    pub fn validated(&self, violations: &[String], message: &Value) {
        self.validated.set(self.validated.get() + 1);
        if !violations.is_empty() {
            let what = format!("against the schema: {}: {message}", violations.join("; "));
            self.failed.borrow_mut().push(what);
        }
    }

    pub fn made(&self) -> usize {
        self.made.get()
    }

    pub fn messages_validated(&self) -> usize {
        self.validated.get()
    }

    pub fn failed(&self) -> Vec<String> {
        self.failed.borrow().clone()
    }
}
