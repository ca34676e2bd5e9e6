//! HTTP/1.1 and server-sent events by hand, so that a test controls every byte on the wire.

use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

const TIMEOUT: Duration = Duration::from_secs(20);

/// One connection.
pub struct Client {
    address: String,
    stream: BufReader<TcpStream>,
}

/// A response; the body of a stream is not read yet.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error} in {}", String::from_utf8_lossy(&self.body)))
    }

    pub fn is_stream(&self) -> bool {
        self.header("content-type") == Some("text/event-stream")
    }
}

/// One event of a stream.
#[derive(Debug, Default)]
pub struct Event {
    pub id: Option<String>,
    pub retry: Option<u64>,
    pub data: Option<String>,
}

impl Event {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(self.data.as_deref().expect("an event with data")).unwrap()
    }
}

impl Client {
    pub async fn connect(address: &str) -> Client {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Client { address: address.to_owned(), stream: BufReader::new(stream) }
    }

    /// Sends a request and reads the head of the response, and its body unless that is a stream.
    pub async fn send(&mut self, method: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.write(method, headers, body).await;
        tokio::time::timeout(TIMEOUT, self.read()).await.expect("no answer")
    }

    pub async fn write(&mut self, method: &str, headers: &[(&str, &str)], body: &[u8]) {
        let mut head =
            format!("{method} /mcp HTTP/1.1\r\nhost: {}\r\ncontent-length: {}\r\n", self.address, body.len());
        let has = |name: &str| headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        if !has("content-type") {
            head += "content-type: application/json\r\n";
        }
        if !has("accept") {
            head += "accept: application/json, text/event-stream\r\n";
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        let bytes = [head.as_bytes(), b"\r\n", body].concat();
        self.stream.get_mut().write_all(&bytes).await.unwrap();
    }

    async fn read(&mut self) -> Answer {
        let status = self.line().await;
        let status = status
            .split_whitespace()
            .nth(1)
            .unwrap_or_else(|| panic!("no status in {status:?}"))
            .parse()
            .unwrap();
        let mut headers = Vec::new();
        loop {
            let line = self.line().await;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut answer = Answer { status, headers, body: Vec::new() };
        if let Some(length) = answer.header("content-length") {
            answer.body = vec![0; length.parse().unwrap()];
            self.stream.read_exact(&mut answer.body).await.unwrap();
        }
        answer
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).await.unwrap();
        line.trim_end_matches(['\r', '\n']).to_owned()
    }

    /// The next event of the open stream; `None` at its end.
    pub async fn event(&mut self) -> Option<Event> {
        tokio::time::timeout(TIMEOUT, self.next_event()).await.expect("no event")
    }

    /// Reads the chunks of one event: it ends with a blank line.
    async fn next_event(&mut self) -> Option<Event> {
        let mut text = String::new();
        loop {
            let size = self.line().await;
            let size = usize::from_str_radix(&size, 16).unwrap_or_else(|_| panic!("no chunk: {size:?}"));
            let mut chunk = vec![0; size + 2];
            self.stream.read_exact(&mut chunk).await.unwrap();
            if size == 0 {
                assert!(text.is_empty(), "the stream ended inside an event: {text:.100}");
                return None;
            }
            text += std::str::from_utf8(&chunk[..size]).unwrap();
            if !text.ends_with("\n\n") {
                continue;
            }
            if text.starts_with(':') {
                text.clear();
                continue;
            }
            let mut event = Event::default();
            for line in text.lines() {
                match line.split_once(": ").unwrap_or((line.trim_end_matches(':'), "")) {
                    ("id", value) => event.id = Some(value.to_owned()),
                    ("retry", value) => event.retry = Some(value.parse().unwrap()),
                    ("data", value) => event.data = Some(value.to_owned()),
                    _ => {}
                }
            }
            return Some(event);
        }
    }

    /// A request of revision 2026-07-28.
    pub async fn call(&mut self, method: &str, params: Value) -> Answer {
        self.call_with(json!({}), method, params).await
    }

    /// The same with client capabilities.
    pub async fn call_with(&mut self, capabilities: Value, method: &str, params: Value) -> Answer {
        let body = stateless(1, capabilities, method, params);
        let name =
            ["name", "uri", "taskId"].iter().find_map(|key| body["params"][*key].as_str().map(str::to_owned));
        let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
        if let Some(name) = &name {
            headers.push(("mcp-name", name));
        }
        self.send("POST", &headers, body.to_string().as_bytes()).await
    }

    /// A request in a session.
    pub async fn ask(&mut self, session: &str, body: &Value) -> Answer {
        self.send("POST", &[("mcp-session-id", session)], body.to_string().as_bytes()).await
    }

    /// Opens a session and returns its id.
    pub async fn initialize(&mut self, version: &str, capabilities: Value) -> String {
        let params = json!({"protocolVersion": version, "capabilities": capabilities, "clientInfo": {"name": "t", "version": "1"}});
        let answer = self.send("POST", &[], request(0, "initialize", params).to_string().as_bytes()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.json()["result"]["protocolVersion"], version);
        let session = answer.header("mcp-session-id").unwrap().to_owned();
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.ask(&session, &ready).await.status, 202);
        session
    }
}

pub fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// A request with the `_meta` that revision 2026-07-28 requires.
pub fn stateless(id: u64, capabilities: Value, method: &str, mut params: Value) -> Value {
    let meta = params.as_object_mut().unwrap().entry("_meta").or_insert_with(|| json!({}));
    meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    meta["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    request(id, method, params)
}
