//! The framed dialect on stdio: messages that are too long or truncated, and invalid headers.

use crate::client::request;
use crate::server::engine;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use toolyard_edges::{Mcp, McpOptions, Services, serve_framed};
use toolyard_wire::framing::{self, Decoder, Frame};

const MOST: usize = 1000;

/// All responses to these bytes, after which the input ends.
async fn answers(bytes: &[u8]) -> Vec<Value> {
    let (engine, _, folder) = engine();
    let mcp = Mcp::new(engine, Services::default(), McpOptions::new([1; 32]));
    let (mut ours, theirs) = tokio::io::duplex(1 << 20);
    let (input, output) = tokio::io::split(theirs);
    let serving = tokio::spawn(serve_framed(mcp, input, output, MOST, std::future::pending()));
    ours.write_all(bytes).await.unwrap();
    ours.shutdown().await.unwrap();
    let mut received = Vec::new();
    let read = async {
        serving.await.unwrap();
        ours.read_to_end(&mut received).await.unwrap();
    };
    tokio::time::timeout(Duration::from_secs(20), read).await.expect("it does not end");
    std::fs::remove_dir_all(folder).unwrap();
    let (mut decoder, mut left, mut found) = (Decoder::new(1 << 20), received.as_slice(), Vec::new());
    while let Some(frame) = decoder.next(&mut left).unwrap() {
        let Frame::Body(body) = frame else { panic!("{frame:?}") };
        found.push(serde_json::from_slice(&body).unwrap());
    }
    assert!(decoder.is_at_frame_boundary(), "the last response is incomplete");
    found
}

fn discover(id: u64) -> Vec<u8> {
    framing::write(request(id, "mcp.discover", json!({})).to_string().as_bytes())
}

#[tokio::test]
async fn a_message_over_the_limit_is_refused_and_the_next_one_answered() {
    let answers = answers(&[framing::write(&vec![b' '; MOST + 1]), discover(2)].concat()).await;
    assert_eq!(answers[0]["error"]["code"], -32600, "{answers:?}");
    assert!(answers[0]["error"]["message"].as_str().unwrap().contains("at most 1000 bytes"), "{answers:?}");
    assert_eq!(answers[1]["id"], 2);
    assert_eq!(answers[1]["result"]["health"]["status"], "ok");
}

#[tokio::test]
async fn invalid_framing_ends_the_connection_with_the_reason() {
    let long = format!("X: {}", "a".repeat(9000));
    for (bytes, reason) in [
        ("hello\r\n\r\n", "is not a header"),
        ("Content-Length: abc\r\n\r\n", "is not a length"),
        ("X: 1\r\n\r\n", "no 'Content-Length'"),
        (long.as_str(), "over 8192 bytes"),
        ("Content-Length: 50\r\n\r\n{}", "ended inside a message"),
    ] {
        let answers = answers(&[discover(1), bytes.into()].concat()).await;
        assert_eq!(answers.len(), 2, "{bytes:.40}: {answers:?}");
        assert_eq!(answers[1]["error"]["code"], -32700);
        assert!(answers[1]["error"]["message"].as_str().unwrap().contains(reason), "{answers:?}");
    }
}

#[tokio::test]
async fn batches_and_other_methods_are_refused_and_notifications_are_not_answered() {
    let list = framing::write(b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"mcp.discover\"}]");
    let other = framing::write(request(2, "tools/list", json!({})).to_string().as_bytes());
    let notification = framing::write(b"{\"jsonrpc\":\"2.0\",\"method\":\"mcp.discover\"}");
    let answers = answers(&[list, other, notification].concat()).await;
    let codes: Vec<&Value> = answers.iter().map(|answer| &answer["error"]["code"]).collect();
    assert_eq!(codes, [&json!(-32600), &json!(-32601)]);
}
