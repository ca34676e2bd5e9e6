//! The MCP 1.0 dialect and the plain and framed dialects, by scripts that send documented examples to the real program.

use crate::docs::repository;
use crate::examples::copy_folder;
use crate::support::{Yard, run_for, toolyard_path};
use std::process::Command;
use std::time::Duration;

#[test]
fn the_mcp_1_0_dialect_is_spoken() {
    assert_eq!(converse("mcp_1_0.py", "lines", &["stdio"]), "29 answers as the MCP 1.0 dialect shows them\n");
    assert_eq!(converse("mcp_1_0.py", "http", &[]), "30 answers as the MCP 1.0 dialect shows them\n");
}

#[test]
fn the_plain_and_framed_dialects_are_spoken() {
    assert_eq!(
        converse("plain_and_framed.py", "http", &[]),
        "38 answers as the plain and framed dialects show them\n"
    );
    let framed = &["stdio", "--framing", "content-length"];
    assert_eq!(
        converse("plain_and_framed.py", "frames", framed),
        "43 answers as the plain and framed dialects show them\n"
    );
}

/// Runs the script against a server, or a program on pipes when `words` is not empty; returns its output.
fn converse(script: &str, how: &str, words: &[&str]) -> String {
    let folder = repository().join("tests/dialects");
    let yard = Yard::new();
    copy_folder(&folder.join("yard"), &yard.root());
    let mut command = Command::new("/usr/bin/python3");
    command.env("PYTHONDONTWRITEBYTECODE", "1").arg(folder.join(script)).arg(how);
    let server = words.is_empty().then(|| yard.serve());
    match &server {
        Some(server) => command.arg(&server.address),
        None => command.arg(toolyard_path()).args(words).arg("--yard").arg(yard.root()),
    };
    let ran = run_for(command, Duration::from_secs(120)).expect(0);
    assert_eq!(ran.stderr, "", "{script} {how}");
    ran.stdout
}
