//! The plain HTTP routes as clients see them.

use crate::support::{Client, Kind, Running, TIMEOUT, Yard, run_for};
use serde_json::{Value, json};
use std::net::TcpListener;
use toolyard_protocol::ErrorKind;

fn yard() -> Yard {
    let yard = Yard::new();
    yard.file(
        "tools/text/echo.tool.yaml",
        "id: echo\nkind: cli\nentry: [cat]\ntitle: Echo\ndescription: Says it again.\nversion: \"1.2.3\"\n",
    );
    yard.shell(Kind::Process, "fail", "echo oops >&2; exit 4");
    yard
}

#[test]
fn health_and_discovery() {
    let yard = yard();
    let server = yard.serve();
    let health = server.get("/healthz");
    assert_eq!((health.status, health.json()), (200, json!({"status": "ok"})));
    assert_eq!(health.header("content-type"), Some("application/json"));
    let found = server.get("/mcp/discover");
    assert_eq!(found.status, 200);
    let found = found.json();
    assert_eq!(found["server"]["name"], "toolyard");
    assert_eq!((&found["health"]["status"], found["health"]["uptimeSec"].is_u64()), (&json!("ok"), true));
    assert_eq!(found["prompts"], json!([]));
    let tools = found["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["canonicalName"].as_str().unwrap()).collect();
    assert_eq!(names, ["fail.fail", "text.echo"]);
    let caps = json!({"timeoutMs": 30000, "maxInputBytes": 65536, "maxOutputBytes": 262144});
    let echo = json!({"name": "echo", "canonicalName": "text.echo", "version": "1.2.3", "title": "Echo",
        "description": "Says it again.", "inputSchema": null, "outputSchema": null, "caps": caps});
    for (name, value) in echo.as_object().unwrap() {
        assert_eq!(&tools[1][name], value, "{name}");
    }
}

#[test]
fn a_call_answers_with_the_plain_envelope() {
    let yard = yard();
    let server = yard.serve();
    for name in ["echo", "text.echo"] {
        let answer = server.post(name, r#"{"a":[1,"é"]}"#);
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
        let envelope = answer.json();
        assert_eq!(envelope["body"], json!({"a": [1, "é"]}));
        assert_eq!((&envelope["error"], &envelope["warnings"]), (&Value::Null, &json!([])));
        assert_eq!(envelope["meta"]["traceId"].as_str().unwrap().len(), 36);
        assert!(envelope["meta"]["durationMs"].is_u64());
        let members: Vec<&String> = envelope.as_object().unwrap().keys().collect();
        assert_eq!(members.len(), 4, "{members:?}");
    }
    assert_eq!(server.post("echo", "").json()["body"], json!({}), "an empty body means no arguments");
}

#[test]
fn failures_have_the_status_and_code_of_the_error_table() {
    let yard = yard();
    let server = yard.serve();
    let fails = |answer: crate::support::HttpResponse, kind: ErrorKind| {
        let row = kind.row();
        let envelope = answer.json();
        assert_eq!(answer.status, row.http, "{envelope}");
        assert_eq!(envelope["body"], Value::Null);
        assert_eq!(envelope["error"]["code"], row.code);
        let details = &envelope["error"]["details"];
        assert_eq!((&details["kind"], &details["category"]), (&json!(row.name), &json!(row.category)));
        assert_eq!(details["retryable"], json!(row.retryable));
        envelope
    };
    let failed = fails(server.post("fail", "{}"), ErrorKind::ToolFailed);
    assert_eq!(failed["error"]["message"], "the tool failed (exit status 4): oops");
    let unknown = fails(server.post("ehco", "{}"), ErrorKind::UnknownTool);
    assert_eq!(unknown["error"]["message"], "there is no tool 'ehco'");
    assert_eq!(unknown["error"]["details"]["hint"], "did you mean 'echo'?");
    fails(server.post("echo", "no json"), ErrorKind::InvalidInput);
    fails(server.post("echo", r#"{"a":1,"a":2}"#), ErrorKind::InvalidInput);
    fails(server.get("/nowhere"), ErrorKind::ResourceNotFound);
    let odd = fails(server.post("a%00%1b%5b31m%2e%2e%2f", "{}"), ErrorKind::UnknownTool);
    assert!(!odd["error"]["message"].as_str().unwrap().contains('\u{1b}'), "{odd}");
}

#[test]
fn a_wrong_method_is_405() {
    let yard = yard();
    let server = yard.serve();
    for (method, path) in [
        ("GET", "/mcp/tool/echo"),
        ("POST", "/healthz"),
        ("DELETE", "/mcp/discover"),
        ("PUT", "/mcp/tool/echo"),
    ] {
        let answer = server.client().send(method, path, &[], b"");
        assert_eq!(answer.status, 405, "{method} {path}");
        assert!(answer.header("allow").is_some(), "{method} {path}: {answer:?}");
        assert_eq!(answer.json()["error"]["code"], "EINVAL");
    }
}

#[test]
fn every_wrong_route_and_method_is_answered_with_the_right_ones() {
    let yard = yard();
    let server = yard.serve();
    let hint = |answer: &crate::support::HttpResponse| {
        let body = answer.json();
        let error = &body["error"];
        let details = if error["details"].is_null() { &error["error_details"] } else { &error["details"] };
        details["hint"].as_str().unwrap_or_else(|| panic!("{body}")).to_owned()
    };
    // The table of the documents and the one that the server has are the same.
    let page = std::fs::read_to_string(crate::docs::repository().join("docs/http.md")).unwrap();
    let cells =
        page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" | ")).map(|(cell, _)| cell);
    let mut documented = std::collections::BTreeSet::new();
    for cell in cells {
        // `POST`, `GET`, `DELETE /mcp` are several methods of one path.
        let words: Vec<&str> = cell.split(['`', ' ', ',']).filter(|word| !word.is_empty()).collect();
        let mut methods = Vec::new();
        for word in words {
            if let Some(path) = word.strip_prefix('/') {
                let path = path.split('?').next().unwrap();
                documented.extend(methods.drain(..).map(|method| format!("{method} /{path}")));
            } else {
                methods.push(word);
            }
        }
    }
    for path in ["/nothing", "/v1/nothing", "/mcp/nothing"] {
        let answer = server.get(path);
        assert_eq!((answer.status, answer.header("content-type")), (404, Some("application/json")), "{path}");
        let hint = hint(&answer);
        let mut listed = std::collections::BTreeSet::new();
        for route in hint.split("; ") {
            let (methods, path) = route.rsplit_once(' ').unwrap();
            listed.extend(methods.split(", ").map(|method| format!("{method} {path}")));
        }
        assert_eq!(listed, documented, "{path}");
    }
    for (method, path, allowed) in [
        ("PUT", "/v1/tools", "GET"),
        ("PUT", "/v1/tools/echo", "GET, POST"),
        ("GET", "/v1/batch", "POST"),
        ("DELETE", "/v1/jobs/1", "GET"),
        ("GET", "/v1/jobs/1/cancel", "POST"),
        ("POST", "/healthz", "GET"),
        ("GET", "/mcp/tool/echo", "POST"),
    ] {
        let answer = server.client().send(method, path, &[], b"");
        assert_eq!((answer.status, answer.header("allow")), (405, Some(allowed)), "{method} {path}");
        assert!(hint(&answer).starts_with(allowed), "{method} {path}: {answer:?}");
    }
    for (method, path, allowed) in
        [("PUT", "/mcp", "POST, GET, DELETE"), ("POST", "/sse", "GET"), ("GET", "/messages", "POST")]
    {
        let answer = server.client().send(method, path, &[], b"");
        assert_eq!((answer.status, answer.header("allow")), (405, Some(allowed)), "{method} {path}");
        assert_eq!(answer.json()["error"]["code"], -32600, "{method} {path}");
    }
}

#[test]
fn refused_hosts_and_origins_are_told_why_in_json() {
    let yard = yard();
    let server = yard.serve();
    for headers in [[("host", "evil.example")], [("origin", "https://evil.example")]] {
        let refuse = |path: &str| {
            let answer = server.client().send("GET", path, &headers, b"");
            assert_eq!(
                (answer.status, answer.header("content-type")),
                (403, Some("application/json")),
                "{path}"
            );
            answer.json()["error"].clone()
        };
        assert_eq!(refuse("/mcp")["code"], -32600);
        assert_eq!(refuse("/healthz")["details"]["kind"], "forbidden");
        assert_eq!(refuse("/v1/tools")["error_details"]["kind"], "forbidden");
    }
}

#[test]
fn requests_of_web_pages_are_refused() {
    let yard = yard();
    let server = yard.serve();
    let port = server.address.rsplit_once(':').unwrap().1;
    let local = format!("localhost:{port}");
    for (headers, status) in [
        (vec![("host", "evil.example")], 403),
        (vec![("host", "127.0.0.1.evil.example")], 403),
        (vec![("host", "")], 403),
        (vec![("host", local.as_str()), ("origin", "https://evil.example")], 403),
        (vec![("host", local.as_str()), ("origin", "null")], 403),
        (vec![("host", local.as_str()), ("host", "evil.example")], 403),
        (vec![("host", local.as_str()), ("origin", "http://localhost:5173")], 200),
        (vec![("host", "[::1]:3333")], 200),
    ] {
        for (method, path, body) in [("POST", "/mcp/tool/echo", "{}"), ("GET", "/mcp/discover", "")] {
            let answer = server.client().send(method, path, &headers, body.as_bytes());
            assert_eq!(answer.status, status, "{headers:?} {path}");
        }
    }
    drop(server);
    let begun = yard.records().iter().filter(|record| record["kind"] == "begin").count();
    assert_eq!(begun, 2, "only the calls that were let through ran");
}

#[test]
fn one_connection_carries_many_calls_and_many_connections_run_at_once() {
    let yard = yard();
    yard.shell(Kind::Cli, "nap", "sleep .5; echo 1");
    let server = yard.serve();
    let mut client = server.client();
    for n in 0..20 {
        let body = json!({"n": n}).to_string();
        assert_eq!(client.send("POST", "/mcp/tool/echo", &[], body.as_bytes()).json()["body"]["n"], n);
    }
    let started = std::time::Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| assert_eq!(server.post("nap", "{}").status, 200));
        }
    });
    assert!(started.elapsed().as_secs() < 4, "16 naps of half a second took {:?}", started.elapsed());
}

#[test]
fn a_client_that_speaks_no_http_or_stalls_does_not_disturb_others() {
    use std::io::{Read, Write};
    let yard = yard();
    let server = yard.serve();
    let mut garbage = std::net::TcpStream::connect(&server.address).unwrap();
    garbage.write_all(b"\x16\x03\x01\x00\xff\x00garbage\r\n\r\n").unwrap();
    let mut heard = Vec::new();
    let _ = garbage.read_to_end(&mut heard);
    assert!(heard.is_empty() || heard.starts_with(b"HTTP/1.1 400"), "{}", String::from_utf8_lossy(&heard));
    let mut slow = std::net::TcpStream::connect(&server.address).unwrap();
    slow.write_all(b"POST /mcp/tool/echo HTTP/1.1\r\nhost: local").unwrap();
    assert_eq!(server.post("echo", "{}").status, 200);
    let mut half = Client::connect(&server.address);
    half.write("POST", "/mcp/tool/echo", &[("content-length", "5")], b"{}").unwrap();
    assert_eq!(server.post("echo", "{}").status, 200);
}

#[test]
fn only_this_machine_may_be_listened_to_until_there_is_authentication() {
    let yard = yard();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
        let mut command = yard.command();
        command.args(["serve", "--listen", address]);
        let ran = run_for(command, TIMEOUT).expect(2);
        assert!(ran.stderr.contains("can be reached from other machines"), "{ran:?}");
    }
    let ran = yard.run(&["serve", "--listen", "nonsense"]).expect(2);
    assert!(ran.stderr.contains("'nonsense' is not an address with a port"), "{ran:?}");
}

#[test]
fn a_port_in_use_is_a_clear_error() {
    let yard = yard();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut command = yard.command();
    command.args(["serve", "--listen", &address]);
    let ran = Running::start(command).finish(TIMEOUT).expect(9);
    assert!(
        ran.stderr.contains(&format!("cannot listen on {address}")) && ran.stderr.contains("--listen"),
        "{ran:?}"
    );
}
