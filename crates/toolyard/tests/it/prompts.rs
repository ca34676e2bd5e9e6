//! Prompts with the real program: listed, filled in, completed and reloaded, by command and over MCP in both eras.

use crate::examples::copy_folder;
use crate::support::{Client, Kind, Server, TIMEOUT, Yard, eventually, planted};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The example in the repository.
fn example() -> Yard {
    let yard = Yard::new();
    copy_folder(&crate::docs::repository().join("examples/prompts"), &yard.root());
    yard
}

/// Sends a stateless request and reads the response.
fn ask(client: &mut Client, method: &str, params: Value) -> Value {
    send(client, method, params);
    client.read().unwrap().json()
}

fn send(client: &mut Client, method: &str, mut params: Value) {
    let name = params["name"].as_str().unwrap_or_default().to_owned();
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let mut headers = vec![
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", method),
    ];
    if !name.is_empty() {
        headers.push(("mcp-name", &name));
    }
    client.write("POST", "/mcp", &headers, body.as_bytes()).unwrap();
}

fn get(server: &Server, name: &str, arguments: Value) -> Value {
    ask(&mut server.client(), "prompts/get", json!({"name": name, "arguments": arguments}))
}

fn text(answer: &Value) -> &str {
    answer["result"]["messages"][0]["content"]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

/// Opens a stream of prompt list changes.
fn listen(server: &Server) -> Client {
    let mut listener = server.client();
    send(&mut listener, "subscriptions/listen", json!({"notifications": {"promptsListChanged": true}}));
    listener.head().unwrap();
    assert_eq!(listener.event().unwrap()["params"]["notifications"], json!({"promptsListChanged": true}));
    listener
}

#[test]
fn commands_list_and_fill_prompts() {
    let yard = example();
    let list = yard.run(&["prompt", "list", "--json"]).expect(0).json();
    let rows: Vec<(&str, &str, &Value)> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["name"].as_str().unwrap(), row["id"].as_str().unwrap(), &row["versions"]))
        .collect();
    assert_eq!(
        rows,
        [
            ("release_note", "writing.release_note", &json!([1])),
            ("review", "writing.review", &json!([1])),
            ("writing.draft", "writing.draft", &json!([1, 2])),
        ]
    );
    let argument = json!({"name": "version", "required": true, "description": "Which release"});
    assert_eq!(list[0]["arguments"], json!([argument]), "taken from the schema of its tool");
    let ran = yard.run(&["prompt", "get", "writing.draft@1", "topic=tea"]).expect(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("Write a draft about tea.\n", ""));
    let filled = yard.run(&["prompt", "get", "review", "--args", r#"{"text": "a\"b"}"#, "--json"]);
    let filled = filled.expect(0).json();
    assert_eq!(filled["messages"][0]["content"]["resource"]["uri"], "house://rules");
    assert_eq!(filled["messages"][1]["role"], "assistant");
    assert_eq!(filled["messages"][2]["content"], json!({"type": "text", "text": "a\"b"}));
    for (arguments, code, said) in [
        (&["writing.draft"][..], 3, "missing argument 'topic'"),
        (&["writing.draft", "topic=x", "words=many"], 3, "'words' must be integer"),
        (&["writing.draft", "topic=x", "extra=1"], 3, "unknown argument 'extra'"),
        (&["writing.draft@9", "topic=x"], 4, "available versions: 1, 2"),
        (&["writing.draft@x", "topic=x"], 3, "\"x\" is not a version"),
        (&["nothing"], 4, "there is no prompt 'nothing'"),
        (&["release_note"], 3, "missing argument 'version'"),
    ] {
        let ran = yard.run(&[&["prompt", "get"], arguments].concat());
        assert!(ran.code == code && ran.stderr.contains(said), "{arguments:?}: {ran:?}");
    }
}

#[test]
fn mcp_clients_of_both_eras_list_and_fill_prompts() {
    let yard = example();
    let server = yard.serve();
    let listed = ask(&mut server.client(), "prompts/list", json!({}));
    let names: Vec<&Value> =
        listed["result"]["prompts"].as_array().unwrap().iter().map(|prompt| &prompt["name"]).collect();
    assert_eq!(names, ["release_note", "review", "writing.draft"]);
    let draft = &listed["result"]["prompts"][2];
    assert_eq!(draft["_meta"]["toolyard/versions"], json!([1, 2]));
    assert_eq!(draft["arguments"][1]["name"], "words");
    // MCP sends texts; the schema wants a number.
    let filled = get(&server, "writing.draft", json!({"topic": "{{ 7*7 }}", "words": "50"}));
    assert!(text(&filled).starts_with("Write a draft of about 50 words about {{ 7*7 }}, in"), "{filled}");
    assert_eq!(text(&get(&server, "writing/draft@1", json!({"topic": "x"}))), "Write a draft about x.\n");
    for (name, arguments) in
        [("writing.draft", json!({})), ("writing.draft@5", json!({"topic": "x"})), ("none", json!({}))]
    {
        assert_eq!(get(&server, name, arguments)["error"]["code"], -32602, "{name}");
    }
    let mut client = server.client();
    let headers = [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params":
        {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let answer = client.send("POST", "/mcp", &headers, hello.to_string().as_bytes());
    assert_eq!(answer.json()["result"]["capabilities"]["prompts"], json!({"listChanged": true}));
    let session = [&headers[..], &[("mcp-session-id", answer.header("mcp-session-id").unwrap())]].concat();
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "prompts/get",
        "params": {"name": "review", "arguments": {"text": "x"}}});
    let filled = client.send("POST", "/mcp", &session, request.to_string().as_bytes()).json();
    assert_eq!(filled["result"]["messages"][2]["content"]["text"], "x", "{filled}");
}

#[test]
fn a_tool_that_produces_a_prompt_passes_the_whole_pipeline() {
    let yard = example();
    yard.shell(Kind::Cli, "leaky", "printf '\"%s\"' \"$(printf %s \"$PLANTED\" | sed 's/\"/\\\\\"/g')\"");
    yard.file("prompts/REGISTRY.yaml", "writing: {release_note: [1]}\nown: {leaky: [1], gone: [1]}\n");
    yard.file("prompts/packs/own/leaky.spec.yaml", "tool: leaky\n");
    yard.file("prompts/packs/own/gone.spec.yaml", "description: x\ntool: vanished\n");
    let check = yard.run(&["check"]);
    assert!(
        check
            .stdout
            .contains("warning: prompts/packs/own/gone.spec.yaml:2:7: the tool 'vanished' was not found")
    );
    let server = yard.serve();
    let filled = get(&server, "release_note", json!({"version": "1.0"}));
    assert_eq!(text(&filled), "Write release notes for 1.0: the first release.");
    let refused = get(&server, "release_note", json!({"version": 5}));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let hidden = get(&server, "own.leaky", json!({}));
    assert!(!text(&hidden).contains(&planted::plain_part()), "the secret is in the prompt");
    let echoed = get(&server, "release_note", json!({"version": planted::secret()}));
    assert!(!echoed.to_string().contains(&planted::plain_part()), "the secret is in the prompt");
    let gone = get(&server, "own.gone", json!({}));
    assert!(
        gone["error"]["message"].as_str().unwrap().contains("'vanished' that builds the prompt"),
        "{gone}"
    );
    let tools: Vec<Value> = yard.records().into_iter().filter(|record| record["kind"] == "begin").collect();
    assert!(
        tools.iter().any(|record| record["tool"] == "tools.changes" && record["edge"] == "mcp"),
        "{tools:?}"
    );
}

#[test]
fn arguments_are_completed_from_lists_choices_and_tools() {
    let yard = example();
    yard.shell(
        Kind::Cli,
        "suggest",
        r#"read -r r; case $r in *'"value":"te"'*'"words":"5"'*) echo '["tea", "tent"]';; *) echo '{"values": [], "total": 9}';; esac"#,
    );
    let spec = std::fs::read_to_string(yard.path("prompts/packs/writing/draft.spec.yaml")).unwrap();
    yard.file("prompts/packs/writing/draft.spec.yaml", spec + "complete: {topic: {tool: suggest}}\n");
    let server = yard.serve();
    let complete = |name: &str, argument: &str, value: &str| {
        let params = json!({"ref": {"type": "ref/prompt", "name": name},
            "argument": {"name": argument, "value": value}, "context": {"arguments": {"words": "5"}}});
        ask(&mut server.client(), "completion/complete", params)
    };
    for (name, argument, value, expected) in [
        ("release_note", "version", "1", json!({"values": ["1.0", "1.1"], "total": 2, "hasMore": false})),
        ("writing.draft", "tone", "W", json!({"values": ["warm"], "total": 1, "hasMore": false})),
        ("writing.draft", "words", "5", json!({"values": [], "total": 0, "hasMore": false})),
        ("writing.draft@2", "topic", "te", json!({"values": ["tea", "tent"], "total": 2, "hasMore": false})),
        ("writing.draft", "topic", "x", json!({"values": [], "total": 9, "hasMore": true})),
    ] {
        let answer = complete(name, argument, value);
        assert_eq!(answer["result"]["completion"], expected, "{name} {argument}: {answer}");
    }
    for (name, argument) in [("none", "x"), ("writing.draft", "none")] {
        assert_eq!(complete(name, argument, "")["error"]["code"], -32602, "{name} {argument}");
    }
}

#[test]
fn edits_are_served_without_a_restart_and_sent_to_subscribers() {
    // Without prompts at first: a folder that is added later is watched with its content.
    let yard = Yard::new();
    let server = yard.serve();
    assert_eq!(ask(&mut server.client(), "prompts/list", json!({}))["result"]["prompts"], json!([]));
    let mut listener = listen(&server);
    yard.file("prompts/packs/a/x.v1.md", "one");
    yard.file("prompts/REGISTRY.yaml", "a: {x: [1]}\n");
    assert_eq!(listener.event().unwrap()["method"], "notifications/prompts/list_changed");
    eventually("the prompt is there", TIMEOUT, || get(&server, "a.x", json!({}))["error"].is_null());
    for (file, content, expected) in [
        ("prompts/packs/a/x.v1.md", "two", "two"),
        ("prompts/packs/a/x.v2.md", "newest", "two"),
        ("prompts/REGISTRY.yaml", "a: {x: [1, 2]}\n", "newest"),
        ("prompts/packs/a/x.spec.yaml", "messages: [{text: from the spec}]\n", "from the spec"),
    ] {
        let started = Instant::now();
        yard.file(file, content);
        if expected != "two" || file.ends_with("v1.md") {
            assert_eq!(listener.event().unwrap()["method"], "notifications/prompts/list_changed", "{file}");
        }
        eventually("the edit is served", TIMEOUT, || text(&get(&server, "a.x", json!({}))) == expected);
        assert!(started.elapsed() < Duration::from_secs(3), "{file}: {:?}", started.elapsed());
    }
    std::fs::remove_dir_all(yard.path("prompts")).unwrap();
    assert_eq!(listener.event().unwrap()["method"], "notifications/prompts/list_changed");
    eventually("it is gone", TIMEOUT, || get(&server, "a.x", json!({}))["error"]["code"] == -32602);
}

#[test]
fn a_broken_pack_is_reported_and_harms_no_other() {
    let yard = example();
    yard.file(
        "prompts/packs/writing/review.spec.yaml",
        "expose: review\ndescripton: x\nmessages: [{txt: a}]\n",
    );
    let check = yard.run(&["check"]).expect(3);
    for said in [
        "error: prompts/packs/writing/review.spec.yaml:2:1: unknown field 'descripton' (did you mean 'description'?)",
        "error: prompts/packs/writing/review.spec.yaml:3:12: a message holds exactly one of",
        "1 tool(s) and 2 prompt(s) loaded, 3 error(s), 0 warning(s)",
    ] {
        assert!(check.stdout.contains(said), "{said}: {check:?}");
    }
    let server = yard.serve();
    assert_eq!(text(&get(&server, "writing.draft@1", json!({"topic": "x"}))), "Write a draft about x.\n");
    let broken = get(&server, "writing.review", json!({"text": "x"}));
    assert!(broken["error"]["message"].as_str().unwrap().contains("is broken"), "{broken}");
    let mut listener = listen(&server);
    yard.file("prompts/packs/writing/review.spec.yaml", "expose: review\nmessages: [{text: well again}]\n");
    assert_eq!(listener.event().unwrap()["method"], "notifications/prompts/list_changed");
    eventually("it is fixed", TIMEOUT, || get(&server, "review", json!({}))["error"].is_null());
    assert_eq!(text(&get(&server, "review", json!({}))), "well again");
}
