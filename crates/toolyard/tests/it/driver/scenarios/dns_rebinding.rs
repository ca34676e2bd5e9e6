//! Checks before the first message on transports that web pages can reach.

use crate::driver::context::ScenarioContext;
use crate::support::{Client, WebSocket};
use serde_json::json;

/// The suite's `dns-rebinding-protection`, at the endpoint of this transport.
pub fn rebinding(context: &ScenarioContext) {
    let (address, path) = context.endpoint.expect("a transport with an address");
    let port = address.rsplit_once(':').unwrap().1;
    let local = format!("localhost:{port}");
    let opened = if path == "/ws" { 101 } else { 200 };
    for (host, origin, status) in [
        ("evil.example", None, 403),
        ("127.0.0.1.evil.example", None, 403),
        (local.as_str(), Some("https://evil.example"), 403),
        (local.as_str(), Some("null"), 403),
        (local.as_str(), Some("http://localhost:5173"), opened),
        (local.as_str(), None, opened),
    ] {
        let mut headers = vec![("host", host)];
        headers.extend(origin.map(|origin| ("origin", origin)));
        if path == "/ws" {
            headers.extend(WebSocket::HEADERS);
        }
        let mut client = Client::connect(address);
        client.write("GET", path, &headers, b"").unwrap();
        let seen = client.head().unwrap().status;
        context.checks.equal(&format!("{host} {origin:?}"), &json!(seen), status);
    }
}
