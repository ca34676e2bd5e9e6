//! The yard's token: whoever can connect to the server is not its owner yet.

use crate::support::{HttpResponse, Kind, RunAs, Server, TIMEOUT, Yard, eventually, require};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;

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
    for run_as in RunAs::all() {
        let yard = yard_of(run_as);
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
}

#[test]
fn a_session_keeps_the_rights_of_the_client_that_opened_it() {
    for run_as in RunAs::all() {
        let yard = yard_of(run_as);
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
}

#[test]
fn jobs_of_the_owner_are_hidden_from_others_and_those_of_others_are_not_hidden_from_the_owner() {
    for run_as in RunAs::all() {
        let yard = yard_of(run_as);
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
}

#[test]
fn with_all_every_request_needs_the_token_and_with_off_none_does() {
    for run_as in RunAs::all() {
        let yard = yard_of(run_as);
        for (policy, tool, status) in [
            ("all", "plain", 401),
            ("all", "secret", 401),
            ("off", "secret", 200),
            ("off", "unconfined", 200),
        ] {
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
}

/// The command line sends the token of the yard by itself, but only to a server of that yard.
#[test]
fn the_command_line_finds_the_token() {
    for run_as in RunAs::all() {
        let yard = yard_of(run_as);
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
}

/// What a listener at this address receives of one connection, while `run` connects to it. Empty if nobody comes.
fn received(address: &str, run: impl FnOnce(std::net::SocketAddr)) -> String {
    let mut listener = None;
    // A child that another test starts holds the earlier listener until it runs its program.
    eventually("the address is free", TIMEOUT, || {
        listener = TcpListener::bind(address).ok();
        listener.is_some()
    });
    let listener = listener.unwrap();
    let bound = listener.local_addr().unwrap();
    let waiting = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut request = [0; 65536];
        let length = client.read(&mut request).unwrap();
        let _ = client.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
        String::from_utf8_lossy(&request[..length]).into_owned()
    });
    run(bound);
    // Ends the wait; a connection that came before is taken first.
    let _ = TcpStream::connect(bound);
    waiting.join().unwrap()
}

/// Programs of the same user, such as a tool with a network, wait at other addresses of the server's port, or at the
/// port of a server that was killed.
#[test]
fn only_the_very_address_of_a_running_server_gets_the_token() {
    for run_as in RunAs::all() {
        let yard = yard_of(run_as);
        let server = yard.serve();
        let token = token(&yard);
        let (_, port) = server.address.rsplit_once(':').unwrap();
        let port = port.to_owned();
        let call = |host: &str| yard.run(&["call", "secret", "--url", &format!("http://{host}:{port}")]);
        let mut addresses = vec![format!("127.0.0.2:{port}")];
        if require(TcpListener::bind("[::1]:0").is_ok(), "there is no IPv6 here") {
            addresses.push(format!("[::1]:{port}"));
        }
        for address in &addresses {
            let host = address.rsplit_once(':').unwrap().0;
            let request = received(address, |_| drop(call(host)));
            assert!(request.starts_with("POST /v1/tools/secret"), "{address}: {request:?}");
            assert!(!request.contains(&token), "{run_as:?}, {address}: {request}");
            // The name leads to the address of the server, whatever else it may mean.
            let request = received(address, |_| drop(call("localhost").expect(0)));
            assert_eq!(request, "", "{run_as:?}, {address}");
        }
        call("127.0.0.1").expect(0);
        server.kill();
        let request = received(&format!("127.0.0.1:{port}"), |_| drop(call("127.0.0.1")));
        assert!(request.starts_with("POST /v1/tools/secret"), "{request:?}");
        assert!(!request.contains(&token), "{run_as:?}: the record of a dead server counts: {request}");
        // Control: what the listener would have seen.
        let mut command = yard.command();
        let request = received("127.0.0.1:0", |address| {
            command
                .args(["call", "secret", "--url", &format!("http://{address}")])
                .env("TOOLYARD_TOKEN", &token);
            crate::support::run_for(command, TIMEOUT);
        });
        assert!(request.contains(&format!("authorization: Bearer {token}")), "{request}");
    }
}

/// A token that came with a download is known to whoever made it.
#[test]
fn the_token_of_a_foreign_state_folder_is_not_sent() {
    for run_as in RunAs::all() {
        let yard = yard_of(run_as);
        let server = yard.serve();
        let url = format!("http://{}", server.address);
        let copy = Yard::of(run_as);
        let state = yard.path(".toolyard");
        copy.file("toolyard.toml", format!("[state]\ndir = {state:?}\n"));
        let refused = copy.run(&["call", "secret", "--url", &url]).expect(7);
        assert!(refused.stderr.contains("need the yard's token"), "{refused:?}");
        yard.run(&["call", "secret", "--url", &url]).expect(0);
        let records: Vec<_> = fs::read_dir(yard.path(".toolyard/servers")).unwrap().flatten().collect();
        assert_eq!(records.len(), 1);
        assert_eq!(fs::metadata(records[0].path()).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(records[0].path()).unwrap(), server.address);
        assert_eq!(server.stop(), 0);
        assert_eq!(fs::read_dir(yard.path(".toolyard/servers")).unwrap().count(), 0, "removed at the end");
    }
}

#[test]
fn the_token_is_private_stable_and_never_passed_to_a_tool() {
    for run_as in RunAs::all() {
        let yard = yard_of(run_as);
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
}

/// Files of the owner are not written by whoever connects.
#[test]
fn resources_are_written_by_the_owner_only() {
    for run_as in RunAs::all() {
        let yard = yard_of(run_as);
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
}

/// A tool with a list of hosts cannot call its own server, whatever the list says.
#[test]
fn a_tool_cannot_call_the_server_through_the_proxy() {
    for run_as in RunAs::all() {
        let yard = yard_of(run_as);
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
        // Nor when another process of the yard runs the tool.
        let (ran, envelope) = yard.call("loop", &json!({}));
        assert!(envelope.to_string().contains("is Toolyard itself"), "{ran:?}");
        // The positive control: the server of another yard is a host like any other.
        let other = yard_of(run_as);
        fs::copy(yard.path("tools/loop.tool.yaml"), other.path("tools/loop.tool.yaml")).unwrap();
        let (ran, envelope) = other.call("loop", &json!({}));
        assert!(envelope.to_string().contains("\\\"status\\\":\\\"ok\\\""), "{ran:?}");
    }
}

/// What is stored for the owner is not for whoever connects: not by the tools, nor as resources, nor in the event log.
#[test]
fn artifacts_are_shown_to_the_owner_only() {
    for run_as in RunAs::all() {
        let yard = yard_of(run_as);
        yard.file("toolyard.toml", "[builtin]\ncas = true\nartifacts = true\ngraph = true\nevents = true\n");
        yard.file("a.txt", "for the owner");
        let server = yard.serve();
        let token = token(&yard);
        let call = |tool: &str, token: Option<&str>, body: Value| {
            post(&server, &format!("/mcp/tool/{tool}"), token, &body)
        };
        let upload = json!({"file_path": "a.txt", "mime_type": "text/plain", "tags": ["private_tag"]});
        let created = call("artifact_upload", Some(&token), upload).json()["body"].clone();
        let (id, hash) = (created["artifact_id"].as_str().unwrap(), created["content_hash"].clone());
        for (tool, arguments) in [
            ("artifact_list", json!({})),
            ("artifact_get", json!({"id": id})),
            ("artifact_create", json!({"cas_hash": hash, "mime_type": "text/plain"})),
            ("annotation_add", json!({"artifact_id": id, "message": "noted"})),
            ("annotation_list", json!({"artifact_id": id})),
            ("annotation_search", json!({"query": "noted"})),
            ("graph_context", json!({})),
        ] {
            let refused = call(tool, None, arguments.clone());
            assert_eq!(refused.status, 403, "{tool}, {run_as:?}: {refused:?}");
            let error = refused.json()["error"].to_string();
            assert!(error.contains("uses artifacts of the yard's owner"), "{tool}: {error}");
            let answer = call(tool, Some(&token), arguments);
            assert_eq!(answer.status, 200, "{tool}, {run_as:?}: {answer:?}");
        }
        let uri = format!("artifact://{id}");
        let request = |token: Option<&str>, method: &str, params: Value| {
            let mut command = yard.command();
            command.current_dir("/").args(["resource", method]).args(params.as_str());
            command.args(["--url", &format!("http://{}", server.address)]);
            command.envs(token.map(|token| ("TOOLYARD_TOKEN", token)));
            crate::support::run_for(command, TIMEOUT)
        };
        assert!(request(Some(&token), "list", Value::Null).expect(0).stdout.contains(&uri), "{run_as:?}");
        assert!(!request(None, "list", Value::Null).expect(0).stdout.contains(&uri), "{run_as:?}");
        assert!(request(Some(&token), "read", json!(uri)).expect(0).stdout.contains("for the owner"));
        let refused = request(None, "read", json!(uri)).expect(4);
        assert!(refused.stderr.contains("there is no resource"), "{run_as:?}: {refused:?}");
        let value = format!("Bearer {token}");
        for (headers, seen) in [(vec![], false), (vec![("authorization", value.as_str())], true)] {
            let events = server.client().send("GET", "/v1/events?after=0", &headers, b"").json().to_string();
            assert_eq!(events.contains("private_tag"), seen, "{run_as:?}: {events}");
        }
    }
}

/// A tool with the whole network is a local program like any other, and `check` says so.
#[test]
fn a_tool_with_the_whole_network_reaches_the_server_and_check_says_so() {
    for run_as in RunAs::all() {
        let yard = yard_of(run_as);
        let server = yard.serve();
        let url = format!("http://{}/mcp/tool", server.address);
        let script = format!(
            "import urllib.request as u, urllib.error as e, json\n\
             def call(name):\n    \
             try: return u.urlopen(u.Request('{url}/' + name, b'{{}}', {{'content-type': 'application/json'}})).status\n    \
             except e.HTTPError as error: return error.code\n\
             print(json.dumps({{'result': [call('plain'), call('secret')]}}))"
        );
        for (name, network) in [("wide", json!("allow")), ("listed", json!(["example.com"]))] {
            let extra = json!({"secrets": {}, "sandbox": {"network": network}});
            yard.tool(Kind::Cli, name, &["/usr/bin/python3", "-c", &script], extra);
        }
        let reason = "it can reach every port of this machine, also Toolyard's own: there it is a caller without the token";
        let checked = yard.run(&["check"]).expect(0).stdout;
        let said = |name: &str| checked.contains(&format!("note: tools/{name}.tool.yaml: {reason}"));
        assert!(said("wide") && !said("listed"), "{run_as:?}: {checked}");
        // It is true: what is not guarded runs, and the rest does not.
        let (ran, envelope) = yard.call("wide", &json!({}));
        assert_eq!(envelope["data"]["result"], json!([200, 403]), "{run_as:?}: {ran:?}");
    }
}
