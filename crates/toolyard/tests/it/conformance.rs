//! The official MCP conformance suite, both sets of requirements, against the real server with the suite's fixtures as
//! ordinary tool files. `scripts/test` installs the suite and names its folder in `YARD_CONFORMANCE`.

use crate::docs::repository;
use crate::driver::suite::Suite;
use crate::examples::copy_folder;
use crate::support::{Yard, run_for};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

#[test]
fn requirements_of_2025_11_25_are_met() {
    run("2025-11-25", 33, 83);
}

#[test]
fn requirements_of_2026_07_28_are_met() {
    run("2026-07-28", 50, 196);
}

/// `least` is the number of checks that passed when it was last raised: fewer means that some no longer run.
fn run(revision: &str, scenarios: usize, least: usize) {
    let Some(suite) = Suite::installed() else { return };
    let yard = Yard::new();
    copy_folder(&repository().join("tests/conformance/yard"), &yard.root());
    let server = yard.serve();
    let results = yard.home().join("results");
    let mut command = Command::new(suite.node());
    command.arg(suite.program());
    command.args(["server", "--url", &format!("http://{}/mcp", server.address)]);
    command.args(["--requirements", revision, "-o"]).arg(&results).env("HOME", yard.home());
    let ran = run_for(command, Duration::from_secs(110));
    let found = read(&results);
    assert_eq!(found.len(), scenarios, "{ran:#?}");
    let passed: usize = found.values().map(|checks| count(checks, "SUCCESS")).sum();
    eprintln!("{revision}: {passed} checks of {} scenarios passed", found.len());
    let wrong: Vec<String> = found.iter().filter_map(|(scenario, checks)| judge(scenario, checks)).collect();
    assert!(wrong.is_empty(), "{revision}: {passed} checks passed, but\n{}", wrong.join("\n"));
    assert!(passed >= least, "{revision}: only {passed} checks passed; it was {least}");
}

/// The suite cannot check this yet, whatever the server does.
const ALWAYS_SKIPPED: &str = "tasks-status-notifications";

/// The failed checks of a scenario. Warnings count, and so do checks that were skipped for lack of a fixture.
fn judge(scenario: &str, checks: &[Value]) -> Option<String> {
    let wrong = |check: &&Value| match check["status"].as_str() {
        Some("FAILURE" | "WARNING") => true,
        Some("SKIPPED") => scenario != ALWAYS_SKIPPED,
        _ => false,
    };
    let failures: Vec<&Value> = checks.iter().filter(wrong).collect();
    if failures.is_empty() {
        return None;
    }
    let said = failures.iter().map(|check| format!("  {}: {}", check["id"], check["errorMessage"]));
    Some(format!("{scenario}:\n{}", said.collect::<Vec<_>>().join("\n")))
}

fn count(checks: &[Value], status: &str) -> usize {
    checks.iter().filter(|check| check["status"] == status).count()
}

/// The checks of every scenario, from the files that the suite wrote: `server-<scenario>-<time>/checks.json`.
fn read(results: &Path) -> BTreeMap<String, Vec<Value>> {
    const TIME: usize = "-2026-01-01T00-00-00-000Z".len();
    let mut found = BTreeMap::new();
    let Ok(folders) = std::fs::read_dir(results) else { return found };
    for folder in folders.map(|entry| entry.unwrap().path()) {
        let text = std::fs::read_to_string(folder.join("checks.json")).unwrap();
        let name = folder.file_name().unwrap().to_str().unwrap();
        let scenario = name[..name.len() - TIME].strip_prefix("server-").unwrap();
        found.insert(scenario.to_owned(), serde_json::from_str(&text).unwrap());
    }
    found
}
