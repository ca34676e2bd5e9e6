//! What leaves the server: questions and answers that no burst displaces, streams that can be resumed, and
//! clients that do not read.

use crate::client::{Client, request};
use crate::server::{Server, engine, eventually};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use toolyard_edges::{Mcp, McpOptions, Services, serve_framed, serve_stdio};
use toolyard_wire::framing;

fn call(id: u64, tool: &str, arguments: Value) -> Value {
    request(id, "tools/call", json!({"name": tool, "arguments": arguments}))
}

/// Starts a call whose response is a stream, and returns the id of its first event with a message.
async fn start_stream(client: &mut Client, session: &str, id: u64, tool: &str, arguments: Value) -> String {
    assert!(client.ask(session, &call(id, tool, arguments)).await.is_stream());
    client.event().await.unwrap().id.unwrap()
}

async fn resume(server: &Server, session: &str, id: &str) -> (crate::client::Answer, Client) {
    let mut client = server.client().await;
    let answer = client.send("GET", &[("mcp-session-id", session), ("last-event-id", id)], b"").await;
    (answer, client)
}

#[tokio::test]
async fn a_question_survives_a_burst_of_log_lines() {
    let server = Server::start().await;
    let (mut client, mut other) = (server.client().await, server.client().await);
    let session = client.initialize("2025-06-18", json!({"elicitation": {}})).await;
    assert!(client.ask(&session, &call(1, "burst", json!({}))).await.is_stream());
    let mut logged = 0;
    let question = loop {
        let message = client.event().await.expect("the question is lost").json();
        match message["method"].as_str() {
            Some("elicitation/create") => break message["id"].clone(),
            Some("notifications/message") if logged < 299 => logged += 1,
            _ => panic!("{logged} log lines and no question, then {message}"),
        }
    };
    let answer =
        json!({"jsonrpc": "2.0", "id": question, "result": {"action": "accept", "content": {"name": "Ada"}}});
    assert_eq!(other.ask(&session, &answer).await.status, 202);
    let mut last = Value::Null;
    while let Some(event) = client.event().await {
        last = event.json();
    }
    assert_eq!(last["result"]["structuredContent"]["hello"], "Ada");
}

#[tokio::test]
async fn an_unknown_event_id_is_refused_and_the_live_stream_goes_on() {
    let server = Server::start().await;
    let mut live = server.client().await;
    let session = live.initialize("2025-11-25", json!({})).await;
    assert!(live.send("GET", &[("mcp-session-id", &session)], b"").await.is_stream());
    for unknown in ["7-1", "nonsense", "0-", "-", "18446744073709551616-1"] {
        let (answer, _) = resume(&server, &session, unknown).await;
        // 404 would say that the session is gone.
        assert_eq!(answer.status, 400, "{unknown}: {answer:?}");
        let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("Last-Event-ID"), "{unknown}: {message}");
    }
    server.reload("echo");
    let event = live.event().await.expect("the live stream was ended");
    assert_eq!(event.json()["method"], "notifications/tools/list_changed");
    // The positive control: an id that the stream gave resumes it.
    let id = event.id.unwrap();
    server.reload("number");
    let second = live.event().await.unwrap().id.unwrap();
    let (answer, mut again) = resume(&server, &session, &id).await;
    assert!(answer.is_stream(), "{answer:?}");
    assert_eq!(again.event().await.unwrap().id, Some(second));
}

#[tokio::test]
async fn many_concurrent_calls_evict_no_running_stream() {
    let server = Server::start().await;
    let mut first = server.client().await;
    let session = first.initialize("2025-06-18", json!({"elicitation": {}})).await;
    let id = start_stream(&mut first, &session, 1, "ask_name", json!({})).await;
    let mut others = Vec::new();
    for number in 0..80 {
        let mut client = server.client().await;
        start_stream(&mut client, &session, 100 + number, "ask_name", json!({})).await;
        others.push(client);
    }
    drop(first);
    let (answer, mut again) = resume(&server, &session, &id).await;
    assert!(answer.is_stream(), "the first call cannot be resumed: {answer:?}");
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    assert_eq!(server.client().await.ask(&session, &cancelled).await.status, 202);
    // The question is withdrawn, then the stream ends without a response.
    let withdrawn = again.event().await.expect("another stream was resumed").json();
    assert_eq!(withdrawn["method"], "notifications/cancelled");
    assert!(again.event().await.is_none());
}

#[tokio::test]
async fn results_kept_for_resumption_are_bounded_in_bytes_and_the_newest_stay() {
    let server = Server::with(|options| options.max_queued_bytes = 200_000).await;
    let mut client = server.client().await;
    let session = client.initialize("2025-11-25", json!({})).await;
    let mut ids = Vec::new();
    for number in 0..20 {
        let big = json!({"n": 20_000, "log": true});
        ids.push(start_stream(&mut client, &session, number, "big", big).await);
        while client.event().await.is_some() {}
    }
    let (newest, mut again) = resume(&server, &session, &ids[19]).await;
    assert!(newest.is_stream(), "{newest:?}");
    let mut last = Value::Null;
    while let Some(event) = again.event().await {
        last = event.json();
    }
    assert_eq!(last["id"], 19);
    // 20 results of over 40 kB do not fit; those that do can be fetched.
    let (oldest, _) = resume(&server, &session, &ids[0]).await;
    assert_eq!(oldest.status, 400, "the oldest result is still kept");
    assert!(oldest.json()["error"]["message"].as_str().unwrap().contains("no longer kept"), "{oldest:?}");
}

#[tokio::test]
async fn a_session_is_idle_from_the_end_of_its_last_call_and_its_result_can_be_fetched() {
    // Sessions are looked at every 5 s, from the start of the server on.
    let server = Server::with(|options| options.session_idle = Duration::from_secs(3)).await;
    let started = Instant::now();
    let mut client = server.client().await;
    let session = client.initialize("2025-06-18", json!({})).await;
    let id = start_stream(&mut client, &session, 1, "nap", json!({"n": 4300})).await;
    drop(client);
    tokio::time::sleep(Duration::from_millis(5600).saturating_sub(started.elapsed())).await;
    let (answer, mut again) = resume(&server, &session, &id).await;
    assert!(answer.is_stream(), "the session and its result are gone: {answer:?}");
    assert_eq!(again.event().await.unwrap().json()["result"]["structuredContent"], json!({"slept": 4300}));
    assert!(again.event().await.is_none());
}

#[tokio::test]
async fn progress_without_a_total_is_sent_without_one() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let session = client.initialize("2025-11-25", json!({})).await;
    let mut steps = call(1, "steps", json!({}));
    steps["params"]["_meta"] = json!({"progressToken": "p"});
    assert!(client.ask(&session, &steps).await.is_stream());
    client.event().await.unwrap();
    let mut reports = 0;
    while let Some(event) = client.event().await {
        let message = event.json();
        if message["method"] == "notifications/progress" {
            reports += 1;
            assert_eq!(message["params"].get("total"), None, "{message}");
        }
    }
    assert_eq!(reports, 3);
}

/// A pipe of 64 KiB: more than that is not written until the client reads.
const PIPE: usize = 64 << 10;

#[tokio::test]
async fn ping_and_cancel_are_handled_while_the_output_is_blocked() {
    let (engine, counts, folder) = engine();
    let options = McpOptions { max_queued: 8, max_queued_bytes: 4 << 20, ..McpOptions::new([1; 32]) };
    let mcp = Mcp::new(engine, Services::default(), options);
    let (mut to_server, input) = tokio::io::duplex(PIPE);
    let (output, from_server) = tokio::io::duplex(PIPE);
    let serving = tokio::spawn(serve_stdio(mcp, input, output, 1 << 20, std::future::pending()));
    let mut send = async |message: Value| {
        let line = format!("{message}\n");
        let written = tokio::time::timeout(Duration::from_secs(10), to_server.write_all(line.as_bytes()));
        written.await.expect("the server reads nothing").unwrap();
    };
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    send(request(0, "initialize", hello)).await;
    send(call(1, "hang", json!({}))).await;
    eventually("started", || counts.started.load(Ordering::SeqCst) == 1).await;
    // 40 MB of results for a client that reads nothing.
    for id in 100..200 {
        send(call(id, "big", json!({"n": 200_000}))).await;
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    send(call(200, "big", json!({"n": 200_000}))).await;
    send(request(2, "ping", json!({}))).await;
    send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})).await;
    eventually("the call is cancelled", || counts.stopped.load(Ordering::SeqCst) == 1).await;
    // The answer to the ping does not wait behind the results.
    let mut lines = BufReader::new(from_server).lines();
    let mut before = 0;
    let mut answered = 0;
    while answered < 101 {
        let line = tokio::time::timeout(Duration::from_secs(20), lines.next_line()).await.expect("no line");
        let message: Value = serde_json::from_str(&line.unwrap().expect("the output ended")).unwrap();
        match message["id"].as_u64() {
            Some(2) => assert!(before <= 3, "{before} results came before the answer to the ping"),
            Some(100..201) => {
                before += 1;
                answered += 1;
                assert_eq!(message["result"]["content"][0]["text"].as_str().unwrap().len(), 200_000);
            }
            _ => {}
        }
    }
    serving.abort();
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn framed_stdio_hears_the_stop_signal_while_its_output_is_blocked() {
    let (engine, counts, folder) = engine();
    let mcp = Mcp::new(engine, Services::default(), McpOptions::new([1; 32]));
    let (mut to_server, input) = tokio::io::duplex(PIPE);
    let (output, _from_server) = tokio::io::duplex(PIPE);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(serve_framed(mcp, input, output, 1 << 20, async {
        let _ = stopped.await;
    }));
    let frame = |id, method: &str, params| framing::write(request(id, method, params).to_string().as_bytes());
    to_server.write_all(&frame(1, "mcp.tool.invoke", json!({"tool": "hang"}))).await.unwrap();
    eventually("started", || counts.started.load(Ordering::SeqCst) == 1).await;
    // Nothing is read, so that all the buffers fill.
    let flood = async {
        for id in 2..20_000 {
            to_server.write_all(&frame(id, "mcp.discover", json!({}))).await.unwrap();
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(3), flood).await;
    let started = Instant::now();
    stop.send(()).unwrap();
    tokio::time::timeout(Duration::from_secs(12), serving).await.expect("the signal is not heard").unwrap();
    assert_eq!(counts.stopped.load(Ordering::SeqCst), 1, "the call was cancelled");
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn every_refusal_in_a_batch_is_answered_on_a_stream() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let session = client.initialize("2025-03-26", json!({})).await;
    let mut steps = call(1, "steps", json!({}));
    steps["params"]["_meta"] = json!({"progressToken": "p"});
    let batch = json!([
        steps,
        {"jsonrpc": "2.0", "id": 1.5, "method": "ping"},
        "not an object",
        {"jsonrpc": "1.0", "id": 2, "method": "ping"},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": []},
        request(4, "no/such/method", json!({})),
        request(5, "initialize", json!({})),
        request(6, "tools/call", json!({})),
        call(7, "no_such_tool", json!({})),
        request(8, "ping", json!({})),
    ]);
    assert!(client.ask(&session, &batch).await.is_stream());
    let mut answers = Vec::new();
    while let Some(event) = client.event().await {
        let message = event.json();
        if message.get("method").is_none() {
            answers.push((message["id"].as_u64(), message["error"]["code"].as_i64()));
        }
    }
    answers.sort_unstable();
    let refused = |id, code| (id, Some(code));
    let expected = [
        refused(None, -32600),
        refused(None, -32600),
        (Some(1), None),
        refused(Some(2), -32600),
        refused(Some(3), -32602),
        refused(Some(4), -32601),
        refused(Some(5), -32600),
        refused(Some(6), -32602),
        refused(Some(7), -32602),
        (Some(8), None),
    ];
    assert_eq!(answers, expected);
}
