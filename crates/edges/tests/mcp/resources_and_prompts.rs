//! Resources, prompts and completion in both eras.

use crate::client::request;
use crate::server::Server;
use serde_json::{Value, json};

const BOTH: [bool; 2] = [true, false];

/// One response, with a handshake or without.
async fn ask(server: &Server, stateless: bool, method: &str, params: Value) -> Value {
    let mut client = server.client().await;
    if stateless {
        return client.call_with(json!({"elicitation": {}}), method, params).await.json();
    }
    let session = client.initialize("2025-11-25", json!({})).await;
    client.ask(&session, &request(1, method, params)).await.json()
}

#[tokio::test]
async fn lists_have_pages_and_cache_hints_where_the_revision_has_them() {
    let server = Server::with_resources().await;
    for stateless in BOTH {
        let first = ask(&server, stateless, "resources/list", json!({})).await["result"].clone();
        assert_eq!(first["resources"][0]["uri"], "test://static-text");
        assert_eq!(first["nextCursor"], "two");
        let hints = (first.get("ttlMs"), first.get("cacheScope"));
        let expected = (json!(60_000), json!("public"));
        assert_eq!(hints, if stateless { (Some(&expected.0), Some(&expected.1)) } else { (None, None) });
        let second =
            ask(&server, stateless, "resources/list", json!({"cursor": "two"})).await["result"].clone();
        assert_eq!((second["resources"].as_array().unwrap().len(), second.get("nextCursor")), (1, None));
        for cursor in [json!("three"), json!(3)] {
            let wrong = ask(&server, stateless, "resources/list", json!({"cursor": cursor})).await;
            assert_eq!(wrong["error"]["code"], -32602);
        }
        let templates = ask(&server, stateless, "resources/templates/list", json!({})).await;
        assert_eq!(templates["result"]["resourceTemplates"][0]["uriTemplate"], "test://template/{id}/data");
        let prompts = ask(&server, stateless, "prompts/list", json!({})).await;
        assert_eq!(prompts["result"]["prompts"][1]["arguments"][0]["required"], true);
        let tools = ask(&server, stateless, "tools/list", json!({"cursor": "bogus"})).await;
        assert_eq!(tools["error"]["code"], -32602);
    }
}

#[tokio::test]
async fn resources_are_read_as_text_or_blob() {
    let server = Server::with_resources().await;
    for stateless in BOTH {
        let read = async |uri: &str| ask(&server, stateless, "resources/read", json!({"uri": uri})).await;
        let text = read("test://static-text").await;
        assert!(text["result"]["contents"][0]["text"].as_str().unwrap().starts_with("This is"), "{text}");
        assert_eq!(text["result"].get("ttlMs").is_some(), stateless);
        let blob = read("test://static-binary").await;
        assert_eq!(blob["result"]["contents"][0]["blob"], "iVBORw0K");
        assert_eq!(
            read("test://template/7/data").await["result"]["contents"][0]["uri"],
            "test://template/7/data"
        );
        let gone = read("test://nothing").await;
        assert_eq!(gone["error"]["code"], if stateless { -32602 } else { -32002 });
        assert_eq!(gone["error"]["data"]["uri"], "test://nothing");
    }
}

#[tokio::test]
async fn a_resource_or_prompt_that_asks_is_answered_like_a_tool() {
    let server = Server::with_resources().await;
    let mut client = server.client().await;
    let answer = json!({"action": "accept", "content": {"context": "here"}});
    for (method, params, key, member) in [
        ("resources/read", json!({"uri": "test://asking"}), "what", "contents"),
        ("prompts/get", json!({"name": "test_input_required_result_prompt"}), "user_context", "messages"),
    ] {
        let capabilities = json!({"elicitation": {}});
        let asked = client.call_with(capabilities.clone(), method, params.clone()).await.json();
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        let mut again = params;
        again["requestState"] = asked["result"]["requestState"].clone();
        again["inputResponses"] = json!({key: answer});
        let done = client.call_with(capabilities, method, again).await.json();
        assert!(done["result"][member][0].to_string().contains("here"), "{done}");
    }
}

#[tokio::test]
async fn prompts_are_filled_and_completed() {
    let server = Server::with_resources().await;
    for stateless in BOTH {
        let params = json!({"name": "test_prompt_with_arguments", "arguments": {"arg1": "a", "arg2": "b"}});
        let filled = ask(&server, stateless, "prompts/get", params).await;
        let text = &filled["result"]["messages"][0]["content"]["text"];
        assert_eq!(text, "Prompt with arguments: arg1='a', arg2='b'");
        for wrong in [json!({"name": "nothing"}), json!({"name": "test_prompt_with_arguments"}), json!({})] {
            assert_eq!(ask(&server, stateless, "prompts/get", wrong).await["error"]["code"], -32602);
        }
        let complete = async |reference: Value, context: Value| {
            let params =
                json!({"ref": reference, "argument": {"name": "arg1", "value": "x"}, "context": context});
            ask(&server, stateless, "completion/complete", params).await
        };
        let prompt = json!({"type": "ref/prompt", "name": "test_prompt_with_arguments"});
        let known = json!({"arguments": {"arg2": "two"}});
        assert_eq!(complete(prompt, known).await["result"]["completion"]["values"], json!(["x-two"]));
        let template = json!({"type": "ref/resource", "uri": "test://template/{id}/data"});
        let many = complete(template, json!({})).await["result"]["completion"].clone();
        assert_eq!((many["values"].as_array().unwrap().len(), &many["hasMore"]), (100, &json!(true)));
        assert_eq!(complete(json!({"type": "ref/other"}), json!({})).await["error"]["code"], -32602);
    }
}

#[tokio::test]
async fn resources_are_written_and_deleted_where_that_is_allowed() {
    let server = Server::with_resources().await;
    for stateless in BOTH {
        let send = async |method: &str, params: Value| ask(&server, stateless, method, params).await;
        let written = send("resources/write", json!({"uri": "note://a", "blob": "aGk="})).await;
        assert!(written["result"].is_object(), "{written}");
        let read = send("resources/read", json!({"uri": "note://a"})).await;
        assert_eq!(read["result"]["contents"][0]["blob"], "aGk=");
        let refused = send("resources/write", json!({"uri": "test://static-text", "text": "x"})).await;
        assert_eq!(refused["error"]["data"]["error"]["error_type"], "PermissionError");
        for wrong in
            [json!({"uri": "note://b"}), json!({"uri": "note://b", "blob": "!"}), json!({"text": "x"})]
        {
            assert_eq!(send("resources/write", wrong).await["error"]["code"], -32602);
        }
        assert!(send("resources/delete", json!({"uri": "note://a"})).await["result"].is_object());
        assert!(send("resources/delete", json!({"uri": "note://a"})).await["error"].is_object());
    }
}

#[tokio::test]
async fn updates_of_watched_resources_are_sent_to_subscribers() {
    let server = Server::with_resources().await;
    let (mut client, mut stream) = (server.client().await, server.client().await);
    let session = client.initialize("2025-11-25", json!({})).await;
    stream.send("GET", &[("mcp-session-id", &session)], b"").await;
    let watch = |method: &str, uri: &str| request(1, method, json!({"uri": uri}));
    let subscribed = client.ask(&session, &watch("resources/subscribe", "test://watched-resource")).await;
    assert_eq!(subscribed.json()["result"], json!({}));
    let unknown = client.ask(&session, &watch("resources/subscribe", "test://nothing")).await;
    assert_eq!(unknown.json()["error"]["code"], -32002);
    let mut listener = server.client().await;
    let wanted = json!({"notifications": {"promptsListChanged": true,
        "resourceSubscriptions": ["test://watched-resource", "test://nothing"]}});
    listener.call("subscriptions/listen", wanted).await;
    let acknowledged = listener.event().await.unwrap().json();
    let honoured = json!({"promptsListChanged": true, "resourceSubscriptions": ["test://watched-resource"]});
    assert_eq!(acknowledged["params"]["notifications"], honoured);
    server.resources.touch("test://static-text");
    server.resources.touch("test://watched-resource");
    for stream in [&mut stream, &mut listener] {
        let notification = stream.event().await.unwrap().json();
        assert_eq!(notification["method"], "notifications/resources/updated");
        assert_eq!(notification["params"]["uri"], "test://watched-resource");
    }
    client.ask(&session, &watch("resources/unsubscribe", "test://watched-resource")).await;
    server.resources.touch("test://watched-resource");
    assert_eq!(listener.event().await.unwrap().json()["method"], "notifications/resources/updated");
    // Changes of different sources have no common order, so this comes after.
    server.prompts.touch();
    for stream in [&mut stream, &mut listener] {
        assert_eq!(stream.event().await.unwrap().json()["method"], "notifications/prompts/list_changed");
    }
}
