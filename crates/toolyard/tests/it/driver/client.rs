//! An MCP client that sends the given messages, answers server requests and records what it receives.

use super::context::Checks;
use super::transport::Transport;
use super::validator::SchemaValidator;
use crate::support::TIMEOUT;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Answers a request of the server: its method and parameters in, a result out.
pub type Responder = Box<dyn Fn(&str, &Value) -> Option<Value>>;

pub struct McpClient<'a> {
    transport: Box<dyn Transport>,
    revision: &'static str,
    pub capabilities: Value,
    checks: &'a Checks,
    validator: Option<&'a SchemaValidator>,
    last_id: u64,
    /// The methods of pending requests, by id.
    pending: HashMap<String, String>,
    /// Responses that arrived before they were waited for.
    early: Vec<Value>,
    /// Notifications in the order of arrival.
    pub received: Vec<Value>,
    /// Requests of the server in the order of arrival.
    pub server_requests: Vec<Value>,
    pub responder: Option<Responder>,
    /// Error responses without an id; a scenario that provokes one removes it.
    pub errors_without_id: Vec<Value>,
}

impl<'a> McpClient<'a> {
    pub fn new(
        transport: Box<dyn Transport>,
        revision: &'static str,
        capabilities: Value,
        checks: &'a Checks,
        validator: Option<&'a SchemaValidator>,
    ) -> McpClient<'a> {
        McpClient {
            transport,
            revision,
            capabilities,
            checks,
            validator,
            last_id: 0,
            pending: HashMap::new(),
            early: Vec::new(),
            received: Vec::new(),
            server_requests: Vec::new(),
            responder: None,
            errors_without_id: Vec::new(),
        }
    }

    /// Sends a request and waits for its response, the whole message.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.start(method, params);
        self.finish(&id)
    }

    /// The result of a request, which must have one.
    pub fn result(&mut self, method: &str, params: Value) -> Value {
        let answer = self.request(method, params);
        self.checks.that(&format!("{method} has a result"), answer.get("result").is_some(), &answer);
        answer["result"].clone()
    }

    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.result("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Sends a request and returns its id. Ids alternate between numbers and strings.
    pub fn start(&mut self, method: &str, mut params: Value) -> Value {
        if self.revision == "2026-07-28" {
            let mut meta = json!({
                "io.modelcontextprotocol/protocolVersion": self.revision,
                "io.modelcontextprotocol/clientInfo": {"name": "driver", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            });
            if let Some(own) = params["_meta"].as_object() {
                meta.as_object_mut().unwrap().extend(own.clone());
            }
            params["_meta"] = meta;
        }
        self.start_bare(method, Some(params))
    }

    /// A request with exactly these parameters.
    pub fn start_bare(&mut self, method: &str, params: Option<Value>) -> Value {
        let id = self.new_id();
        let mut message = json!({"jsonrpc": "2.0", "id": id, "method": method});
        if let Some(params) = params {
            message["params"] = params;
        }
        self.pending.insert(id.to_string(), method.to_owned());
        self.transport.send(&message);
        id
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        self.transport.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Sends several requests in one message, which only 2025-03-26 allows; returns their ids.
    pub fn batch(&mut self, requests: &[(&str, Value)]) -> Vec<Value> {
        let mut messages = Vec::new();
        let mut ids = Vec::new();
        for (method, params) in requests {
            let id = self.new_id();
            self.pending.insert(id.to_string(), (*method).to_owned());
            messages.push(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
            ids.push(id);
        }
        self.transport.send(&Value::Array(messages));
        ids
    }

    /// The response to this request; `null` when none arrives.
    pub fn finish(&mut self, id: &Value) -> Value {
        let until = Instant::now() + TIMEOUT;
        loop {
            if let Some(at) = self.early.iter().position(|message| message["id"] == *id) {
                return self.early.remove(at);
            }
            if !self.pump(until) {
                self.checks.always("every request is answered", false, id);
                return Value::Null;
            }
        }
    }

    /// Waits for a notification and returns it; `null` when it does not arrive.
    pub fn wait_for_notification(&mut self, method: &str, nth: usize) -> Value {
        let until = Instant::now() + TIMEOUT;
        loop {
            let mut found = self.received.iter().filter(|message| message["method"] == method);
            if let Some(message) = found.nth(nth) {
                return message.clone();
            }
            if !self.pump(until) {
                return Value::Null;
            }
        }
    }

    /// Receives for a while, for messages that must not arrive or may arrive late.
    pub fn listen(&mut self, duration: Duration) {
        let until = Instant::now() + duration;
        while self.pump(until) {}
    }

    pub fn is_answered(&self, id: &Value) -> bool {
        !self.pending.contains_key(&id.to_string())
    }

    pub fn notifications(&self, method: &str) -> Vec<Value> {
        self.received.iter().filter(|message| message["method"] == method).cloned().collect()
    }

    /// Closes the connection; the server must end cleanly and send no unexpected error.
    pub fn close(mut self) {
        let transport = std::mem::replace(&mut self.transport, Box::new(Closed));
        let (rest, ended) = transport.close();
        for message in rest {
            self.take(message);
        }
        self.checks.always(
            "no error without a request",
            self.errors_without_id.is_empty(),
            &json!(self.errors_without_id),
        );
        self.checks.that("the server ends in order", ended.is_ok(), &json!(ended.err()));
    }

    fn new_id(&mut self) -> Value {
        self.last_id += 1;
        if self.last_id.is_multiple_of(2) {
            json!(format!("request-{}", self.last_id))
        } else {
            json!(self.last_id)
        }
    }

    /// Receives one message; false when none arrived in time.
    fn pump(&mut self, until: Instant) -> bool {
        let Some(message) = self.transport.receive(until) else { return false };
        self.take(message);
        true
    }

    fn take(&mut self, message: Value) {
        match message {
            Value::Array(messages) => messages.into_iter().for_each(|message| self.take_one(message)),
            message => self.take_one(message),
        }
    }

    fn take_one(&mut self, message: Value) {
        let method = message.get("id").and_then(|id| self.pending.get(&id.to_string()));
        if let Some(validator) = self.validator {
            let violations = validator.check(&message, method.map(String::as_str));
            self.checks.validated(&violations, &message);
        }
        match (message["method"].as_str(), message.get("id")) {
            (Some(_), Some(_)) => self.answer(message),
            (Some(_), None) => self.received.push(message),
            (None, Some(Value::Null)) if message["error"].is_object() => self.errors_without_id.push(message),
            (None, _) => {
                let known = self.pending.remove(&message["id"].to_string()).is_some();
                self.checks.always("only what was asked is answered, and once", known, &message);
                self.early.push(message);
            }
        }
    }

    fn answer(&mut self, request: Value) {
        let method = request["method"].as_str().unwrap_or_default();
        let result = self.responder.as_ref().and_then(|responder| responder(method, &request["params"]));
        let mut response = json!({"jsonrpc": "2.0", "id": request["id"]});
        match result {
            Some(result) => response["result"] = result,
            None => response["error"] = json!({"code": -32601, "message": "the driver does not answer this"}),
        }
        self.transport.send(&response);
        self.server_requests.push(request);
    }
}

/// Replaces a transport that was closed.
struct Closed;

impl Transport for Closed {
    fn send(&mut self, _: &Value) {}

    fn receive(&mut self, _: Instant) -> Option<Value> {
        None
    }

    fn close(self: Box<Self>) -> (Vec<Value>, Result<(), String>) {
        (Vec::new(), Ok(()))
    }
}
