//! The seeds' own dialects, by scripts that send the seeds' examples as they stand there to the real program.

use crate::docs::repository;
use crate::examples::copy_folder;
use crate::support::{Yard, run_for, toolyard_path};
use std::process::Command;
use std::time::Duration;

#[test]
fn seed_000_is_spoken_to_in_its_own_words() {
    assert_eq!(converse("seed_000.py", "lines", &["stdio"]), "29 answers as seed 000 shows them\n");
    assert_eq!(converse("seed_000.py", "http", &[]), "30 answers as seed 000 shows them\n");
}

#[test]
fn seed_002_is_spoken_to_in_its_own_words() {
    assert_eq!(converse("seed_002.py", "http", &[]), "38 answers as seed 002 shows them\n");
    let framed = &["stdio", "--framing", "content-length"];
    assert_eq!(converse("seed_002.py", "frames", framed), "43 answers as seed 002 shows them\n");
}

/// Runs the script against a server, or a program on pipes when there are words for one, and gives what it prints.
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
