//! The yard's token: whoever can connect to the server is not its owner yet.

use crate::support::{HttpResponse, Kind, RunAs, Server, TIMEOUT, Yard, eventually, is_root, require};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Tools that need the token for each reason, and one that does not.
fn yard_of(run_as: RunAs) -> Yard {
    let yard = Yard::of(run_as).variable("TOOLYARD_AUTH_TOKEN", "guarded");
    yard.shell(Kind::Cli, "secret", "echo 1");
    for (name, extra) in [
        ("plain", json!({"secrets": {}})),
        ("declared", json!({"secrets": {}, "guarded": true})),
        ("unconfined", json!({"secrets": {}, "sandbox": "none"})),
    ] {
        yard.tool(Kind::Cli, name, &["/bin/echo", "1"], extra);
    }
    yard
}

fn yard() -> Yard {
    yard_of(RunAs::CurrentUser)
}

const GUARDED: [(&str, &str); 3] = [
    ("secret", "gets secrets"),
    ("declared", "is declared 'guarded'"),
    ("unconfined", "runs outside the sandbox"),
];

fn token(yard: &Yard) -> String {
    yard.run(&["token"]).expect(0).stdout.trim_end().to_owned()
}

fn post(server: &Server, path: &str, token: Option<&str>, body: &Value) -> HttpResponse {
    let value = token.map(|token| format!("Bearer {token}"));
    let mut headers = vec![
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
    ];
    headers.extend(body["params"]["name"].as_str().map(|name| ("mcp-name", name)));
    headers.extend(value.as_deref().map(|value| ("authorization", value)));
    server.client().send("POST", path, &headers, body.to_string().as_bytes())
}

/// A call by a client of revision 2026-07-28.
fn call_mcp(server: &Server, token: Option<&str>, tool: &str) -> Value {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"name": tool, "arguments": {}, "_meta": meta});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    post(server, "/mcp", token, &request).json()
}

#[test]
fn a_guarded_tool_needs_the_token_on_every_way_in() {
    for run_as in RunAs::all() {
        let yard = yard_of(run_as);
        let server = yard.serve();
        let token = token(&yard);
        for (tool, why) in GUARDED {
            for wrong in [None, Some("0".repeat(64)), Some(token[..63].to_owned()), Some(token.clone() + "0")]
            {
                for path in [format!("/mcp/tool/{tool}"), format!("/v1/tools/{tool}")] {
                    let refused = post(&server, &path, wrong.as_deref(), &json!({}));
                    assert_eq!(refused.status, 403, "{path}: {refused:?}");
                    let error = refused.json()["error"].to_string();
                    assert!(error.contains("forbidden") && error.contains(why), "{error}");
                }
                let result = &call_mcp(&server, wrong.as_deref(), tool)["result"];
                assert_eq!(result["isError"], true, "{result}");
                assert!(result.to_string().contains("toolyard token"), "the remedy is named: {result}");
            }
            let batch = json!({"calls": [{"id": "a", "tool": tool, "arguments": {}}]});
            let refused = post(&server, "/v1/batch", None, &batch).json().to_string();
            assert!(refused.contains(why), "{refused}");
            for path in [format!("/mcp/tool/{tool}"), format!("/v1/tools/{tool}")] {
                assert_eq!(post(&server, &path, Some(&token), &json!({})).status, 200, "{path}");
            }
            assert_eq!(call_mcp(&server, Some(&token), tool)["result"]["isError"], Value::Null);
        }
        assert_eq!(post(&server, "/mcp/tool/plain", None, &json!({})).status, 200, "{run_as:?}");
        let callers: Vec<Value> = yard.records().iter().map(|record| record["caller"].clone()).collect();
        assert!(callers.contains(&json!("anonymous")) && callers.contains(&json!("local")), "{callers:?}");
    }
}

#[test]
fn two_authorization_headers_are_none() {
    let yard = yard();
    let server = yard.serve();
    let value = format!("Bearer {}", token(&yard));
    let lower = format!("bearer {}", token(&yard));
    for (headers, status) in [
        (vec![("authorization", value.as_str())], 200),
        (vec![("authorization", lower.as_str())], 200),
        (vec![("authorization", value.as_str()), ("authorization", "Bearer x")], 403),
        (vec![("authorization", value.as_str()), ("authorization", value.as_str())], 403),
        (vec![("authorization", value.trim_start_matches("Bearer "))], 403),
        (vec![("authorization", "Bearer ")], 403),
        (vec![("authorization", "")], 403),
    ] {
        assert_eq!(
            server.client().send("POST", "/mcp/tool/secret", &headers, b"{}").status,
            status,
            "{headers:?}"
        );
    }
}

#[test]
fn a_session_keeps_the_rights_of_the_client_that_opened_it() {
    let yard = yard();
    let server = yard.serve();
    let token = format!("Bearer {}", token(&yard));
    let send = |session: Option<&str>, token: Option<&str>, body: Value| {
        let mut headers =
            vec![("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
        headers.extend(session.map(|session| ("mcp-session-id", session)));
        headers.extend(token.map(|token| ("authorization", token)));
        server.client().send("POST", "/mcp", &headers, body.to_string().as_bytes())
    };
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "secret", "arguments": {}}});
    let own = send(None, Some(&token), initialize.clone());
    let own = own.header("mcp-session-id").unwrap();
    assert_eq!(send(Some(own), Some(&token), call.clone()).json()["result"]["isError"], Value::Null);
    assert_eq!(send(Some(own), None, call.clone()).status, 404, "a session id is no credential");
    let other = send(None, None, initialize);
    let other = other.header("mcp-session-id").unwrap();
    assert_eq!(send(Some(other), None, call.clone()).json()["result"]["isError"], true);
    assert_eq!(send(Some(other), Some(&token), call).status, 404, "the session of another caller");
}

#[test]
fn jobs_of_the_owner_are_hidden_from_others_and_those_of_others_are_not_hidden_from_the_owner() {
    let yard = yard();
    let server = yard.serve();
    let token = token(&yard);
    let run = |token: Option<&str>| {
        let mut headers = vec![("prefer", "respond-async")];
        let value = token.map(|token| format!("Bearer {token}"));
        headers.extend(value.as_deref().map(|value| ("authorization", value)));
        headers.push(("idempotency-key", "k"));
        let accepted = server.client().send("POST", "/v1/tools/plain", &headers, b"{}");
        accepted.json()["meta"]["job_id"].as_str().unwrap().to_owned()
    };
    let (own, other) = (run(Some(&token)), run(None));
    assert_ne!(own, other, "keys of different callers are different");
    let value = format!("Bearer {token}");
    for (job, headers, seen) in [
        (&own, vec![], false),
        (&other, vec![], true),
        (&own, vec![("authorization", value.as_str())], true),
        (&other, vec![("authorization", value.as_str())], true),
    ] {
        let status = if seen { 200 } else { 404 };
        let mut client = server.client();
        assert_eq!(client.send("GET", &format!("/v1/jobs/{job}"), &headers, b"").status, status);
        let list = String::from_utf8(client.send("GET", "/v1/jobs", &headers, b"").body).unwrap();
        assert_eq!(list.contains(job.as_str()), seen, "{list}");
        if !seen {
            assert_eq!(client.send("POST", &format!("/v1/jobs/{job}/cancel"), &headers, b"").status, 404);
        }
    }
    let listed = yard.run(&["job", "list", "--json"]).expect(0).stdout;
    assert!(listed.contains(&own) && listed.contains(&other), "{listed}");
}

#[test]
fn with_all_every_request_needs_the_token_and_with_off_none_does() {
    let yard = yard();
    for (policy, tool, status) in
        [("all", "plain", 401), ("all", "secret", 401), ("off", "secret", 200), ("off", "unconfined", 200)]
    {
        let mut command = yard.command();
        command.args(["serve", "--listen", "127.0.0.1:0"]).env("TOOLYARD_AUTH_TOKEN", policy);
        let server = Server::start(command);
        let answer = post(&server, &format!("/mcp/tool/{tool}"), None, &json!({}));
        assert_eq!(answer.status, status, "{policy}: {answer:?}");
        assert_eq!(answer.header("www-authenticate"), (status == 401).then_some("Bearer"));
        assert_eq!(server.get("/healthz").status, 200);
        let token = token(&yard);
        assert_eq!(post(&server, &format!("/mcp/tool/{tool}"), Some(&token), &json!({})).status, 200);
        for path in ["/mcp", "/sse", "/ws", "/v1/tools", "/mcp/discover", "/nothing"] {
            let mut client = server.client();
            client.write("GET", path, &[], b"").unwrap();
            assert_eq!(client.head().unwrap().status == 401, policy == "all", "{path}");
        }
        assert_eq!(server.stderr().contains("has the rights of the yard's owner"), policy == "off");
    }
}

/// The command line sends the token of the yard by itself, but only to a server of the same user.
#[test]
fn the_command_line_finds_the_token() {
    let yard = yard();
    let server = yard.serve();
    let url = format!("http://{}", server.address);
    yard.run(&["call", "secret", "--url", &url]).expect(0);
    let elsewhere = |variables: &[(&str, &str)]| {
        let mut command = yard.command();
        command.current_dir("/").args(["call", "secret", "--url", &url]).envs(variables.iter().copied());
        crate::support::run_for(command, TIMEOUT)
    };
    let refused = elsewhere(&[]).expect(7);
    assert!(refused.stderr.contains("need the yard's token"), "{refused:?}");
    elsewhere(&[("TOOLYARD_TOKEN", &token(&yard))]).expect(0);
    elsewhere(&[("TOOLYARD_YARD", yard.root().to_str().unwrap())]).expect(0);
}

/// Another user waits at the port of a server that does not run.
#[test]
fn another_users_server_does_not_get_the_token() {
    if !require(is_root(), "only root can start a server of another user") {
        return;
    }
    const SCRIPT: &str = "import socket\ns = socket.create_server(('127.0.0.1', 0))\n\
        print(s.getsockname()[1], flush=True)\nc, _ = s.accept()\nprint(c.recv(65536).decode('latin-1'), flush=True)\n\
        c.sendall(b'HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\n\\r\\n{}')\nc.close()\n";
    let yard = yard_of(RunAs::Nobody);
    let token = token(&yard);
    for (uid, gets_it) in [(65533, false), (65534, true)] {
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={uid}"), "--clear-groups".into(), "/usr/bin/python3".into()]);
        let mut child = command.args(["-c", SCRIPT]).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
        let port = lines.next().unwrap().unwrap();
        yard.run(&["call", "plain", "--url", &format!("http://127.0.0.1:{port}")]);
        let request: String = lines.map(|line| line.unwrap() + "\n").collect();
        child.wait().unwrap();
        assert!(request.starts_with("POST /v1/tools/plain"), "{request}");
        assert_eq!(request.contains(&token), gets_it, "user {uid}: {request}");
    }
}

#[test]
fn the_token_is_private_stable_and_never_passed_to_a_tool() {
    let yard = yard();
    let first = token(&yard);
    assert!(first.len() == 64 && first.bytes().all(|byte| byte.is_ascii_hexdigit()), "{first}");
    let file = yard.path(".toolyard/token");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    drop(yard.serve());
    assert_eq!(token(&yard), first, "a restart keeps it");
    fs::write(&file, "short").unwrap();
    let refused = yard.run(&["token"]).expect(9);
    assert!(refused.stderr.contains("does not contain a token of 64 hexadecimal digits"), "{refused:?}");
    fs::remove_file(&file).unwrap();
    assert_ne!(token(&yard), first);
    yard.tool(Kind::Cli, "thief", &["/usr/bin/env"], json!({"env": ["TOOLYARD_TOKEN"]}));
    let checked = yard.run(&["check"]).expect(3);
    assert!(checked.stdout.contains("gives the rights of the yard's owner"), "{checked:?}");
}

/// Files of the owner are not written by whoever connects.
#[test]
fn resources_are_written_by_the_owner_only() {
    let yard = yard();
    yard.file("notes/a.txt", "before");
    yard.file("toolyard.toml", "[[resources.root]]\npath = \"notes\"\nname = \"notes\"\nwrite = true\n");
    let server = yard.serve();
    let write = |token: Option<&str>| {
        let mut command = yard.command();
        yard.file("new.txt", "after");
        command.current_dir("/").args(["resource", "write", "yard://notes/a.txt"]);
        command.arg(yard.path("new.txt")).args(["--url", &format!("http://{}", server.address)]);
        command.envs(token.map(|token| ("TOOLYARD_TOKEN", token)));
        crate::support::run_for(command, TIMEOUT)
    };
    let refused = write(None).expect(7);
    assert!(refused.stderr.contains("changes files of the yard's owner"), "{refused:?}");
    assert_eq!(fs::read_to_string(yard.path("notes/a.txt")).unwrap(), "before");
    write(Some(&token(&yard))).expect(0);
    assert_eq!(fs::read_to_string(yard.path("notes/a.txt")).unwrap(), "after");
}

/// A tool with a list of hosts cannot call its own server, whatever the list says.
#[test]
fn a_tool_cannot_call_the_server_through_the_proxy() {
    let yard = yard();
    let server = yard.serve();
    let address = server.address.clone();
    let script = format!(
        "http_proxy=$HTTP_PROXY /usr/bin/python3 -c \"import urllib.request as u, json, urllib.error as e\ntry: print(json.dumps(u.urlopen('http://{address}/healthz').read().decode()))\nexcept e.HTTPError as error: print(json.dumps(error.read().decode()))\""
    );
    yard.tool(
        Kind::Cli,
        "loop",
        &["/bin/sh", "-c", &script],
        json!({"secrets": {}, "sandbox": {"network": [address]}}),
    );
    eventually("the tool is loaded", TIMEOUT, || {
        post(&server, "/mcp/tool/loop", None, &json!({})).status != 404
    });
    let answer = post(&server, "/mcp/tool/loop", None, &json!({})).json().to_string();
    assert!(answer.contains("is Toolyard itself"), "{answer}");
    // The positive control: without a server of its own in between, the same rule lets the tool through.
    let (ran, envelope) = yard.call("loop", &json!({}));
    assert!(envelope.to_string().contains("\\\"status\\\":\\\"ok\\\""), "{ran:?}");
}
