//! Every kind of tool: the example yard, and the tools that `toolyard new` creates.

use crate::support::{CommandOutput, TIMEOUT, Yard, run_for};
use serde_json::{Value, json};
use std::time::Duration;
use toolyard_yard::kinds::KINDS;

/// The example yard on a free port, so that no other server on the machine answers.
fn example_yard() -> (Yard, u16) {
    let yard = crate::examples::copy();
    let port = free_port();
    for file in ["toolyard.toml", "tools/yard/health.tool.yaml"] {
        let text = std::fs::read_to_string(yard.path(file)).unwrap_or_default();
        yard.file(file, text.replace("3333", &port.to_string()));
    }
    yard.file("toolyard.toml", format!("[server]\nlisten = \"127.0.0.1:{port}\"\n"));
    (yard, port)
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// uv needs the machine's settings for the package index, and time to download.
fn run(yard: &Yard, arguments: &[&str]) -> CommandOutput {
    let mut command = yard.command();
    let passed = |name: &str| {
        ["SSL_", "UV_", "PIP_", "HTTP", "NO_PROXY", "TMPDIR"].iter().any(|start| name.starts_with(start))
    };
    command.envs(std::env::vars().filter(|(name, _)| passed(name)));
    let tools = std::env::var("YARD_TEST_TOOLS").unwrap_or_default();
    command.env("PATH", format!("{tools}:/usr/local/bin:/usr/bin:/bin:{}", std::env::var("PATH").unwrap()));
    command.args(arguments);
    run_for(command, TIMEOUT.max(Duration::from_secs(100)))
}

#[test]
fn the_examples_of_the_example_yard_pass() {
    let (yard, _) = example_yard();
    let list = run(&yard, &["list", "--json"]).expect(0).json();
    let kinds: Vec<&str> = list.as_array().unwrap().iter().filter_map(|row| row["kind"].as_str()).collect();
    for kind in KINDS.iter().map(|kind| kind.name) {
        assert!(kinds.contains(&kind), "no example of {kind} in {kinds:?}");
    }
    let tested = run(&yard, &["test"]).expect(0).stdout;
    assert!(tested.ends_with(" passed, 0 failed\n"), "{tested}");
    for row in list.as_array().unwrap() {
        let name = row["exposed"].as_str().unwrap();
        assert!(tested.contains(&format!("ok   {name}: ")), "{name} has no example: {tested}");
    }
}

#[test]
fn call_works_for_every_kind_of_the_example_yard() {
    let (yard, _) = example_yard();
    run(&yard, &["prepare"]).expect(0);
    let mut serve = yard.command();
    serve.args(["serve"]);
    let _server = crate::support::Server::start(serve);
    type Example<'a> = (&'a str, &'a [&'a str], fn(&Value) -> bool);
    let calls: &[Example<'_>] = &[
        ("disk_free", &[], |data| data["size"].as_u64() > Some(0)),
        ("text_stats", &["text=one two"], |data| data["words"] == 2),
        ("cpu_info", &[], |data| data["lscpu"].is_array()),
        ("outline", &["text=# Title"], |data| data["headings"][0]["title"] == "Title"),
        ("slug", &["title=Hello World"], |data| data["slug"] == "hello-world"),
        ("acronym", &["phrase=Model Context Protocol"], |data| data["acronym"] == "MCP"),
        ("plain_text", &["html=<b>x</b>"], |data| data["text"] == "x"),
        ("yard_health", &[], |data| data["status"] == "ok"),
        ("table", &["rows=[[1,2]]"], |data| data["result"].as_str().is_some_and(|text| text.contains('1'))),
    ];
    for (name, arguments, fits) in calls {
        let words: Vec<&str> = ["call", name].iter().chain(*arguments).copied().chain(["--json"]).collect();
        let envelope = run(&yard, &words).expect(0).json();
        assert!(fits(&envelope["data"]), "{name}: {envelope}");
    }
}

#[test]
fn a_new_tool_of_every_kind_passes_its_own_test() {
    let yard = Yard::new();
    let port = free_port();
    yard.file("toolyard.toml", format!("[server]\nlisten = \"127.0.0.1:{port}\"\n"));
    for kind in KINDS.iter().map(|kind| kind.name) {
        let name = format!("made.{}", kind.replace('-', "_"));
        run(&yard, &["new", "tool", "--kind", kind, &name]).expect(0);
        run(&yard, &["new", "tool", "--kind", kind, &name]).expect(3);
    }
    let health = yard.path("tools/made/http.tool.yaml");
    let text = std::fs::read_to_string(&health).unwrap();
    std::fs::write(&health, text.replace("3333", &port.to_string())).unwrap();
    let checked = run(&yard, &["check"]).expect(0).stdout;
    assert!(
        checked.contains(&format!("{} tool(s) loaded, 0 error(s), 0 warning(s)", KINDS.len())),
        "{checked}"
    );
    let tested = run(&yard, &["test"]).expect(0).stdout;
    assert!(tested.ends_with("17 passed, 0 failed\n"), "{tested}");
}

#[test]
fn a_failing_example_fails_the_test() {
    let yard = Yard::new();
    let example = "examples:\n  - {name: right, output: 1}\n  - {name: wrong, output: 2}\n  - {name: error, error: EINVAL}\n";
    yard.file("tools/one.tool.yaml", format!("id: one\nkind: cli\nentry: [echo, '1']\n{example}"));
    let tested = yard.run(&["test"]).expect(1).stdout;
    assert!(
        tested.contains("ok   one: right") && tested.contains("FAIL one: wrong: expected 2, got 1"),
        "{tested}"
    );
    assert!(tested.ends_with("1 passed, 2 failed\n"), "{tested}");
}

#[test]
fn doctor_says_which_tools_cannot_run_and_why() {
    let yard = Yard::new();
    yard.file("tools/a.php", "")
        .file("tools/a.tool.yaml", "id: a\nkind: php\nphp: tools/a.php\nphpBinary: php-from-nowhere\n");
    yard.file("tools/b.tool.yaml", "id: b\nkind: node\nentry: tools/gone.mjs\n");
    let rows = yard.run(&["doctor", "--json"]).expect(9).json();
    let details: Vec<String> = rows
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["ok"] == json!(false))
        .map(|row| row["detail"].to_string())
        .collect();
    let all = details.join("\n");
    assert!(all.contains("php-from-nowhere") && all.contains("tools/gone.mjs"), "{all}");
    let (ran, envelope) = yard.call("a", &json!({}));
    assert_eq!(ran.code, 4, "{envelope}");
}
