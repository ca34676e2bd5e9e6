//! The log of `serve` and `stdio`: what it holds at each level and in both formats, and what it never holds.

use crate::support::{Kind, Server, TIMEOUT, Terminal, Yard, eventually, planted};
use serde_json::{Value, json};

/// Tools that succeed, fail with a reason on stderr, and take too long.
fn yard() -> Yard {
    let yard = Yard::without_secret();
    let cached = json!({"deterministic": true, "schema": {"input": {"type": "object",
        "additionalProperties": false, "properties": {"n": {"type": "integer"}}}}});
    yard.tool(Kind::Cli, "good", &["/bin/sh", "-c", "echo '{\"ok\": true}'"], cached);
    yard.tool(Kind::Cli, "bad", &["/bin/sh", "-c", "echo 'no route' >&2; exit 3"], json!({}));
    yard.tool(Kind::Cli, "slow", &["/bin/sleep", "60"], json!({"timeoutMs": 300}));
    yard.file("tools/broken.tool.yaml", "id: broken\nkind: cli\nentrie: [echo]\n");
    yard
}

/// Every kind of event once, in a fixed order; returns what the server wrote.
fn all_events(yard: &Yard, arguments: &[&str]) -> String {
    let mut server = yard.serve_with(arguments);
    let log = |server: &Server, text: &str| {
        eventually(&format!("'{text}' is in the log"), TIMEOUT, || server.stderr().contains(text));
    };
    for (tool, input) in [
        ("good", r#"{"n":1}"#),
        ("good", r#"{"n":1}"#),
        ("bad", "{}"),
        ("slow", "{}"),
        ("good", r#"{"m":1}"#),
    ] {
        server.post(tool, input);
    }
    server.post("gold", "{}");
    let refused = server.client().send("GET", "/healthz", &[("Origin", "https://evil.example")], b"");
    assert_eq!(refused.status, 403);
    yard.tool(Kind::Cli, "late", &["/bin/true"], json!({}));
    log(&server, "reloaded");
    std::fs::remove_file(yard.path("tools/late.tool.yaml")).unwrap();
    log(&server, "1 removed");
    let address = server.address.clone();
    crate::support::signal(server.pid(), libc::SIGTERM);
    assert_eq!(server.wait(TIMEOUT), 0);
    log(&server, "stopped");
    let root = std::fs::canonicalize(yard.root()).unwrap();
    server.stderr().replace(&address, "ADDRESS").replace(root.to_str().unwrap(), "YARD")
}

/// Replaces what differs from run to run: times, durations, ids.
fn stable(line: &str) -> String {
    let mut line = line.to_owned();
    for (before, after) in [("ms=", ' '), ("\"ms\":", ','), ("call=", ' '), ("\"call\":\"", '"')] {
        if let Some(at) = line.find(before) {
            let start = at + before.len();
            let end = line[start..].find(after).map_or(line.len(), |len| start + len);
            line.replace_range(start..end, "X");
        }
    }
    let time = line.find("2026").or_else(|| line.find("20")).expect("a line has a time");
    line.replace_range(time..time + "2026-01-01T00:00:00.000000Z".len(), "TIME");
    line
}

fn assert_golden(file: &str, log: &str) {
    let shown: String = log.lines().map(|line| stable(line) + "\n").collect();
    let path = format!("{}/tests/it/golden/{file}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &shown).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), shown, "run the tests with UPDATE_GOLDEN=1");
}

#[test]
fn the_log_as_text() {
    assert_golden("serve.log", &all_events(&yard(), &["-vv"]));
}

#[test]
fn the_log_as_json() {
    let log = all_events(&yard(), &["-v", "--log-format", "json"]);
    for line in log.lines() {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(event["timestamp"].is_string() && event["level"].is_string(), "{line}");
    }
    assert_golden("serve.log.json", &log);
}

#[test]
fn levels_choose_what_is_logged() {
    let yard = yard();
    let with = |arguments: &[&str], rust_log: Option<&str>| {
        let mut command = yard.command();
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(arguments);
        command.envs(rust_log.map(|filter| ("RUST_LOG", filter)));
        let mut server = Server::start(command);
        server.post("good", "{}");
        server.post("gold", "{}");
        crate::support::signal(server.pid(), libc::SIGTERM);
        assert_eq!(server.wait(TIMEOUT), 0);
        // The last refusal is logged at every level but the last.
        eventually("the log is read", TIMEOUT, || {
            server.stderr().contains("gold") || rust_log == Some("off")
        });
        let log = server.stderr();
        ["listening", "tool=\"good\"", "tool=\"gold\"", "hint="].map(|text| log.contains(text))
    };
    assert_eq!(with(&[], None), [true, false, true, false], "stderr is no terminal");
    assert_eq!(with(&["-v"], None), [true, true, true, false]);
    assert_eq!(with(&["-vv"], None), [true, true, true, true]);
    assert_eq!(with(&["-q"], None), [false, false, true, false]);
    assert_eq!(with(&["-q"], Some("toolyard::call=debug")), [false, true, true, true], "RUST_LOG wins");
    assert_eq!(with(&[], Some("off")), [false, false, false, false]);
}

#[test]
fn calls_are_logged_on_a_terminal() {
    let yard = yard();
    let mut command = yard.command();
    command.args(["serve", "--listen", "127.0.0.1:0"]).env("NO_COLOR", "1");
    let mut terminal = Terminal::start(command);
    terminal.wait_for("listening");
    terminal.wait_for("address=");
    let shown = terminal.shown();
    let address = shown.split_once("address=").unwrap().1.split_whitespace().next().unwrap();
    crate::support::Client::connect(address).send("POST", "/mcp/tool/good", &[], b"{}");
    terminal.wait_for("tool=\"good\" caller=\"anonymous\" edge=\"http\" outcome=\"success\"");
    assert!(!terminal.shown().contains('\x1b'), "{}", terminal.shown());
    let _ = terminal.child.kill();
    let _ = terminal.child.wait();
}

#[test]
fn a_cancelled_call_is_logged() {
    let yard = yard();
    yard.tool(Kind::Cli, "wait", &["/bin/sleep", "60"], json!({}));
    let server = yard.serve_with(&["-v"]);
    let mut client = server.client();
    client.write("POST", "/mcp/tool/wait", &[], b"{}").unwrap();
    eventually("the tool runs", TIMEOUT, || yard.run(&["audit", "list"]).stdout.contains("wait"));
    drop(client);
    let wanted = "tool=\"wait\" caller=\"anonymous\" edge=\"http\" outcome=\"cancelled\"";
    eventually("the cancelled call is logged", TIMEOUT, || server.stderr().contains(wanted));
}

/// Control characters in a name from outside neither end the line nor reach the terminal.
#[test]
fn no_client_can_forge_a_line() {
    let yard = yard();
    let server = yard.serve_with(&["-v"]);
    call(&server, "x\n2026-01-01T00:00:00Z  INFO toolyard: forged \u{1b}[2J");
    call(&server, &"z".repeat(5000));
    eventually("the last call is logged", TIMEOUT, || server.stderr().contains("zzz"));
    let log = server.stderr();
    assert!(log.lines().all(|line| line.starts_with("20") && line.len() < 4096), "{log}");
    assert!(log.contains("forged") && !log.contains('\x1b'), "{log}");
}

/// A call of a tool by any name, which is percent-encoded in the path.
fn call(server: &Server, name: &str) {
    let encoded: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
    assert_eq!(server.post(&encoded, "{}").status, 404, "{name:?}");
}

#[test]
fn a_bad_filter_is_refused() {
    let yard = yard();
    let mut command = yard.command();
    command.args(["serve", "--listen", "127.0.0.1:0"]).env("RUST_LOG", "toolyard=loud");
    let ran = crate::support::run_for(command, TIMEOUT).expect(3);
    assert!(ran.stderr.contains("RUST_LOG is invalid"), "{ran:?}");
    yard.run(&["serve", "-q", "-v"]).expect(2);
}

#[test]
fn an_error_at_the_start_is_an_event_of_a_json_log() {
    let yard = yard();
    yard.file("toolyard.toml", "[sever]\n");
    let ran = yard.run(&["serve", "--log-format", "json"]).expect(3);
    let event: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!(event["level"], "ERROR", "{event}");
    assert!(event["message"].as_str().unwrap().contains("toolyard.toml:1"), "{event}");
}

/// The planted secret, raw and encoded, through every text of a call that can reach the log.
#[test]
fn no_secret_reaches_the_log() {
    for format in ["text", "json"] {
        let yard = Yard::new();
        yard.shell(Kind::Cli, "leak", "echo \"it is $PLANTED\" >&2; exit 1");
        yard.shell(Kind::Cli, "echo", "cat");
        let mut command = yard.command();
        command.args(["serve", "--listen", "127.0.0.1:0", "--log-format", format]).env("RUST_LOG", "trace");
        let server = Server::start(command);
        let secret = planted::secret();
        server.post("leak", "{}");
        server.post("echo", json!({"a": secret}).to_string());
        call(&server, &secret);
        server.client().send("GET", "/healthz", &[("Origin", &secret)], b"");
        yard.file("tools/odd.tool.yaml", format!("id: odd\nkind: {}\n", json!(secret)));
        eventually("the reload is logged", TIMEOUT, || server.stderr().contains("odd.tool.yaml"));
        let log = server.stderr();
        assert!(log.contains("tool_failed") && log.contains("unknown_tool"), "{log}");
        assert!(!log.contains(&planted::plain_part()), "{log}");
        assert!(log.contains("[secret"), "the secret was on its way into the log and was replaced: {log}");
        // What every test leaves behind is searched for the secret, and this file holds it on purpose.
        std::fs::remove_file(yard.path("tools/odd.tool.yaml")).unwrap();
    }
}

/// A reader of stderr that sleeps must not stop the calls.
#[test]
fn a_stderr_that_nobody_reads_stops_no_call() {
    let yard = yard();
    let mut command = yard.command();
    command.args(["serve", "--listen", "127.0.0.1:0", "-vv"]);
    command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped());
    let (reader, writer) = std::io::pipe().unwrap();
    let mut child = command.stderr(writer).spawn().unwrap();
    drop(command);
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line)
        .unwrap();
    let address = line.split_once("http://").unwrap().1.split_whitespace().next().unwrap().to_owned();
    let mut client = crate::support::Client::connect(&address);
    let path = format!("/mcp/tool/{}", "n".repeat(1000));
    for _ in 0..400 {
        assert_eq!(client.send("POST", &path, &[], b"{}").status, 404);
    }
    crate::support::signal(child.id(), libc::SIGTERM);
    let ended = std::time::Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(ended.elapsed() < TIMEOUT, "the server does not stop");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    drop(reader);
}
