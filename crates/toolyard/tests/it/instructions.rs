//! Instructions per call in the server process, counted by callgrind, independent of other load. Measured on
//! the test build, to detect regressions; speed is measured by the benchmarks.

use crate::support::{Client, Server, Yard, require, toolyard_path};
use std::process::Command;

/// The instructions per call when this was last set, plus a tenth. Lower it after an improvement.
const BUDGET: u64 = 387_000;

pub const HEADERS: &[(&str, &str)] = &[
    ("content-type", "application/json"),
    ("accept", "application/json, text/event-stream"),
    ("mcp-protocol-version", "2026-07-28"),
    ("mcp-method", "tools/call"),
    ("mcp-name", "echo"),
];
pub const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hello, world"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;

#[test]
fn an_mcp_call_takes_no_more_instructions_than_before() {
    if valgrind().is_none() {
        return;
    }
    // The difference of two runs excludes startup and shutdown.
    let (few, many) = (50, 450);
    let each = (instructions(many) - instructions(few)) / (many - few);
    println!("{each} instructions for a call, budget {BUDGET}");
    assert!(each <= BUDGET, "a call takes {each} instructions; the budget is {BUDGET}");
    assert!(each >= BUDGET / 2, "a call takes {each} instructions only: lower the budget of {BUDGET}");
}

/// Callgrind, where it is installed.
pub fn valgrind() -> Option<Command> {
    let there = Command::new("valgrind").arg("--version").output().is_ok();
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--quiet"]);
    require(there, "valgrind is not installed").then_some(command)
}

fn instructions(calls: u64) -> u64 {
    let yard = Yard::new();
    yard.file("toolyard.toml", "[builtin]\necho = true\n");
    let counted = yard.home().join("callgrind");
    let mut command = valgrind().unwrap();
    command.arg(format!("--callgrind-out-file={}", counted.display())).arg(toolyard_path());
    command.args(["serve", "--listen", "127.0.0.1:0"]).current_dir(yard.root()).env("HOME", yard.home());
    let server = Server::start(command);
    let mut client = Client::connect(&server.address);
    for _ in 0..calls {
        let answer = client.send("POST", "/mcp", HEADERS, CALL.as_bytes());
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    drop(client);
    assert_eq!(server.stop(), 0);
    let text = std::fs::read_to_string(counted).unwrap();
    let total = text.lines().find_map(|line| line.strip_prefix("totals: ")).unwrap();
    total.trim().parse().unwrap()
}
