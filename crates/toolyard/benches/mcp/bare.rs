//! The baseline: a server that parses the whole message and writes a response with the same content.

use crate::BoxError;
use axum::Router;
use axum::body::Bytes;
use axum::http::header;
use axum::routing::post;
use axum::serve::ListenerExt;

/// Prints its address and serves until it is killed.
pub fn serve() -> Result<(), BoxError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("http://{} ", listener.local_addr()?);
        let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
        axum::serve(listener, Router::new().route("/mcp", post(parse_and_answer))).await?;
        Ok(())
    })
}

async fn parse_and_answer(body: Bytes) -> ([(header::HeaderName, &'static str); 1], Vec<u8>) {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    let Ok(message) = serde_json::from_slice::<serde_json::Value>(&body) else { return (kind, Vec::new()) };
    let arguments = &message["params"]["arguments"];
    let answer = serde_json::json!({"jsonrpc": "2.0", "id": message["id"], "result": {
        "resultType": "complete",
        "content": [{"type": "text", "text": arguments.to_string()}],
        "structuredContent": arguments,
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "toolyard", "version": "0.1.0"},
                  "toolyard/call": "019a8b1e-0000-7000-8000-000000000000"},
    }});
    (kind, serde_json::to_vec(&answer).unwrap_or_default())
}
