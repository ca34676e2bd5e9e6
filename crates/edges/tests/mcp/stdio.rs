//! MCP on stdio: one message per line, and nothing else.

use crate::client::{request, stateless};
use crate::server::{engine, eventually};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, split};
use tokio::task::JoinHandle;
use toolyard_edges::{Mcp, McpOptions, Services, serve_stdio};
use toolyard_engine::Snapshot;

struct StdioClient {
    input: Option<WriteHalf<DuplexStream>>,
    output: Lines<BufReader<ReadHalf<DuplexStream>>>,
    serving: JoinHandle<()>,
    counts: Arc<crate::tools::Counts>,
    engine: Arc<toolyard_engine::Engine>,
    folder: PathBuf,
}

impl StdioClient {
    fn start() -> StdioClient {
        let (engine, counts, folder) = engine();
        let mcp = Mcp::new(engine.clone(), Services::default(), McpOptions::new([1; 32]));
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (input, output) = split(theirs);
        let maintenance = mcp.clone();
        let serving = tokio::spawn(async move {
            tokio::select! {
                () = serve_stdio(mcp, input, output, 10_000, std::future::pending()) => {}
                () = maintenance.run_maintenance() => {}
            }
        });
        let (output, input) = split(ours);
        StdioClient {
            input: Some(input),
            output: BufReader::new(output).lines(),
            serving,
            counts,
            engine,
            folder,
        }
    }

    async fn write(&mut self, text: &str) {
        self.input.as_mut().unwrap().write_all(text.as_bytes()).await.unwrap();
    }

    async fn send(&mut self, message: &Value) {
        self.write(&format!("{message}\n")).await;
    }

    async fn read(&mut self) -> Value {
        let line =
            tokio::time::timeout(Duration::from_secs(20), self.output.next_line()).await.expect("no line");
        serde_json::from_str(&line.unwrap().expect("the output ended")).unwrap()
    }

    async fn initialize(&mut self, version: &str) {
        let params = json!({"protocolVersion": version, "capabilities": {"elicitation": {}}, "clientInfo": {"name": "t", "version": "1"}});
        self.send(&request(0, "initialize", params)).await;
        assert_eq!(self.read().await["result"]["protocolVersion"], version);
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    }
}

impl Drop for StdioClient {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[tokio::test]
async fn both_eras_work_on_one_connection() {
    let mut stdio = StdioClient::start();
    stdio.send(&stateless(1, json!({}), "server/discover", json!({}))).await;
    assert_eq!(stdio.read().await["result"]["supportedVersions"], json!(["2026-07-28"]));
    // A probe without `_meta` gets an error that names what is missing.
    stdio.send(&request(2, "server/discover", json!({}))).await;
    assert_eq!(stdio.read().await["error"]["code"], -32602);
    stdio.send(&request(3, "tools/list", json!({}))).await;
    assert_eq!(stdio.read().await["error"]["code"], -32600);
    stdio.initialize("2025-11-25").await;
    stdio.send(&request(4, "tools/call", json!({"name": "echo", "arguments": {"n": 4}}))).await;
    assert_eq!(stdio.read().await["result"]["structuredContent"], json!({"n": 4}));
    stdio.send(&stateless(5, json!({}), "tools/call", json!({"name": "echo", "arguments": {"n": 5}}))).await;
    let answer = stdio.read().await;
    assert_eq!(
        (&answer["result"]["resultType"], &answer["result"]["structuredContent"]),
        (&json!("complete"), &json!({"n": 5}))
    );
}

#[tokio::test]
async fn requests_run_concurrently_and_are_cancelled_by_id() {
    let mut stdio = StdioClient::start();
    stdio.initialize("2025-11-25").await;
    stdio.send(&request(1, "tools/call", json!({"name": "hang"}))).await;
    stdio.send(&stateless(2, json!({}), "tools/call", json!({"name": "hang"}))).await;
    let counts = stdio.counts.clone();
    eventually("started", || counts.started.load(Ordering::SeqCst) == 2).await;
    stdio.send(&request(3, "ping", json!({}))).await;
    assert_eq!(stdio.read().await["id"], 3);
    for id in [1, 2] {
        stdio
            .send(
                &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}),
            )
            .await;
        eventually("stopped", || counts.stopped.load(Ordering::SeqCst) == id).await;
    }
    stdio.send(&request(4, "ping", json!({}))).await;
    assert_eq!(stdio.read().await["id"], 4, "a cancelled request gets no response");
}

#[tokio::test]
async fn questions_have_the_form_of_the_era() {
    let mut stdio = StdioClient::start();
    stdio.initialize("2025-11-25").await;
    stdio.send(&request(1, "tools/call", json!({"name": "ask_name"}))).await;
    let asked = stdio.read().await;
    assert_eq!(asked["method"], "elicitation/create");
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    stdio.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": answer})).await;
    assert_eq!(stdio.read().await["result"]["structuredContent"]["hello"], "Ada");
    let client = json!({"elicitation": {}});
    stdio.send(&stateless(2, client.clone(), "tools/call", json!({"name": "ask_name"}))).await;
    let asked = stdio.read().await;
    assert_eq!(asked["result"]["resultType"], "input_required");
    let params = json!({"name": "ask_name", "requestState": asked["result"]["requestState"], "inputResponses": {"name": answer}});
    stdio.send(&stateless(3, client, "tools/call", params)).await;
    assert_eq!(stdio.read().await["result"]["structuredContent"]["hello"], "Ada");
}

#[tokio::test]
async fn invalid_lines_get_an_error_and_affect_no_other() {
    let mut stdio = StdioClient::start();
    stdio.write("\n  \nnot json\n").await;
    assert_eq!(stdio.read().await["error"]["code"], -32700);
    stdio.write(&format!("{}\n", "x".repeat(50_000))).await;
    let refused = stdio.read().await;
    assert_eq!(refused["error"]["code"], -32600);
    assert!(refused["error"]["message"].as_str().unwrap().contains("10000 bytes"), "{refused}");
    stdio.send(&stateless(1, json!({}), "tools/list", json!({}))).await;
    assert_eq!(stdio.read().await["id"], 1);
}

#[tokio::test]
async fn changes_are_sent_in_both_eras() {
    let mut stdio = StdioClient::start();
    stdio.initialize("2025-11-25").await;
    let params = json!({"notifications": {"toolsListChanged": true}});
    stdio.send(&stateless(9, json!({}), "subscriptions/listen", params)).await;
    assert_eq!(stdio.read().await["method"], "notifications/subscriptions/acknowledged");
    let mut candidates = crate::tools::all(&stdio.counts);
    candidates.pop();
    stdio.engine.registry.update(Snapshot::build(candidates, Vec::new()));
    let notifications = [stdio.read().await, stdio.read().await];
    assert!(
        notifications.iter().all(|message| message["method"] == "notifications/tools/list_changed"),
        "{notifications:?}"
    );
    let tags: Vec<_> = notifications
        .iter()
        .map(|message| &message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"])
        .collect();
    assert!(tags.contains(&&json!(9)) && tags.contains(&&Value::Null));
}

#[tokio::test]
async fn the_end_of_the_input_cancels_all_calls() {
    let mut stdio = StdioClient::start();
    stdio.initialize("2025-11-25").await;
    stdio.send(&request(1, "tools/call", json!({"name": "hang"}))).await;
    let counts = stdio.counts.clone();
    eventually("started", || counts.started.load(Ordering::SeqCst) == 1).await;
    let mut input = stdio.input.take().unwrap();
    input.shutdown().await.unwrap();
    tokio::time::timeout(Duration::from_secs(10), &mut stdio.serving).await.expect("still running").unwrap();
    assert_eq!(counts.stopped.load(Ordering::SeqCst), 1);
}
