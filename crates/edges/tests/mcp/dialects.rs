//! The MCP 1.0 dialect, and which of its methods standard clients may use.

use crate::client::{Client, request};
use crate::server::Server;
use serde_json::{Value, json};

/// A session of a test client.
struct Session {
    client: Client,
    id: String,
}

impl Session {
    async fn open(server: &Server, params: Value) -> Session {
        let mut client = server.client().await;
        let answer = client.send("POST", &[], request(0, "initialize", params).to_string().as_bytes()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        Session { id: answer.header("mcp-session-id").unwrap().to_owned(), client }
    }

    async fn v1(server: &Server, notifications: bool) -> Session {
        let capabilities = json!({"tools": true, "notifications": notifications});
        Session::open(server, json!({"protocol_version": "1.0", "capabilities": capabilities})).await
    }

    async fn standard(server: &Server) -> Session {
        Session::open(server, json!({"protocolVersion": "2025-11-25", "capabilities": {}})).await
    }

    async fn post(&mut self, message: &Value) -> (u16, Vec<u8>) {
        let headers = [("mcp-session-id", self.id.as_str())];
        let answer = self.client.send("POST", &headers, message.to_string().as_bytes()).await;
        (answer.status, answer.body)
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        let (_, body) = self.post(&request(1, method, params)).await;
        serde_json::from_slice(&body).unwrap()
    }
}

#[tokio::test]
async fn the_1_0_dialect_has_lists_without_pages() {
    let server = Server::with_resources().await;
    let mut session = Session::v1(&server, true).await;
    for method in ["tools/list", "resources/list", "resources/template", "prompt/list", "prompts/list"] {
        let answer = session.ask(method, json!({})).await;
        assert!(answer["result"].as_array().is_some_and(|list| !list.is_empty()), "{method}: {answer}");
    }
    let answer = session.ask("ping", json!({})).await;
    assert_eq!(answer["result"], json!({}), "other methods are unchanged");
}

#[tokio::test]
async fn only_version_1_0_is_accepted_in_that_spelling() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let params = json!({"protocol_version": "2.0", "capabilities": {}});
    let answer = client.send("POST", &[], request(0, "initialize", params).to_string().as_bytes()).await;
    let error = answer.json()["error"].clone();
    assert_eq!(error["code"], -32602, "{error}");
    assert!(error["message"].as_str().unwrap().contains("can only be \"1.0\""), "{error}");
}

#[tokio::test]
async fn a_client_without_notifications_gets_only_those_it_subscribed_to() {
    let server = Server::with_resources().await;
    let mut session = Session::v1(&server, false).await;
    let uri = session.ask("resources/list", json!({})).await["result"][0]["uri"].clone();
    let mut stream = server.client().await;
    let headers = [("mcp-session-id", session.id.as_str()), ("accept", "text/event-stream")];
    assert!(stream.send("GET", &headers, b"").await.is_stream());
    let done = session.ask("resources/subscribe", json!({"uri": uri, "name": "n"})).await;
    assert_eq!(done["result"]["message"], "Resource subscribed successfully", "{done}");
    server.reload("echo");
    server.prompts.touch();
    server.resources.touch(uri.as_str().unwrap());
    let notification = stream.event().await.unwrap().json();
    assert_eq!(notification["method"], "notification/resources/updated", "{notification}");
    assert_eq!((&notification["result"]["uri"], &notification["id"]), (&uri, &json!(1)), "{notification}");
}

#[tokio::test]
async fn standard_clients_may_use_its_methods_and_get_standard_shapes() {
    let server = Server::with_resources().await;
    let mut session = Session::standard(&server).await;
    for (method, standard, member) in [
        ("prompt/list", "prompts/list", "prompts"),
        ("resources/template", "resources/templates/list", "resourceTemplates"),
    ] {
        let (own, known) = (session.ask(method, json!({})).await, session.ask(standard, json!({})).await);
        assert_eq!(own, known);
        assert!(own["result"][member].is_array(), "{own}");
    }
    let call = json!({"prompt_name": "p", "arguments": {}});
    let answer = session.ask("prompt/call", call).await;
    assert_eq!(answer["error"]["message"], "no model configured");
    assert_eq!(answer["error"]["data"]["error"]["error_details"]["code"], "EINTERNAL", "{answer}");
    let wrong = session.ask("prompt/call", json!({"prompt_name": 7})).await;
    assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
    let ended = session.ask("notification/resources/unsubscribed", json!({"uri": "test://a"})).await;
    assert_eq!(ended["result"], json!({}));
}

#[tokio::test]
async fn closed_ends_a_session_in_either_spelling() {
    let server = Server::start().await;
    for name in ["closed", "notifications/closed"] {
        for mut session in [Session::v1(&server, true).await, Session::standard(&server).await] {
            let (status, _) = session.post(&json!({"jsonrpc": "2.0", "method": name})).await;
            assert_eq!(status, 202);
            let (status, _) = session.post(&request(1, "ping", json!({}))).await;
            assert_eq!(status, 404);
        }
    }
}

/// Errors of a dialect are carried in results and data; the codes are those of JSON-RPC and MCP.
#[tokio::test]
async fn no_dialect_defines_json_rpc_codes_of_its_own() {
    let server = Server::with_resources().await;
    for mut session in [Session::v1(&server, true).await, Session::standard(&server).await] {
        let failed = session.ask("tools/call", json!({"name": "fail", "arguments": {}})).await;
        assert_eq!(failed["result"]["isError"], true, "{failed}");
        let error = &failed["result"]["_meta"]["toolyard/error"];
        assert_eq!(error["error_type"], "ToolExecutionError");
        assert_eq!(error["error_details"]["code"], "EINTERNAL");
        let invalid = session.ask("tools/call", json!({"name": "echo", "arguments": {"n": "x"}})).await;
        let error = &invalid["result"]["_meta"]["toolyard/error"];
        assert_eq!(
            (&error["error_type"], &error["error_details"]["code"]),
            (&json!("ValidationError"), &json!("EINVAL"))
        );
        for (method, params) in [
            ("tools/call", json!({"name": "none"})),
            ("resources/read", json!({"uri": "test://none"})),
            ("prompts/get", json!({"name": "none"})),
            ("prompt/call", json!({"prompt_name": "none"})),
        ] {
            let answer = session.ask(method, params).await;
            let code = answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{answer}"));
            assert!([-32602, -32603, -32002].contains(&code), "{answer}");
            let data = &answer["error"]["data"];
            let error = if data["error"].is_object() { &data["error"] } else { data };
            assert!(
                error["error_type"].is_string() && error["error_details"]["code"].is_string(),
                "{answer}"
            );
        }
    }
}
