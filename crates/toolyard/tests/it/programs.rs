//! Ordinary programs in the sandbox, each with the smallest declaration: those of `tests/programs.json` that this machine
//! has. `scripts/test-long programs` installs and runs all of them.

use crate::support::{Yard, run_for};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const PROGRAMS: &str = include_str!("../../../../tests/programs.json");
/// What `scripts/test` installs itself.
const MIN_INSTALLED: usize = 8;

/// That of the tests, so that the programs of version managers are found too.
fn search_path() -> OsString {
    let own = std::env::var_os("PATH").unwrap_or_default();
    let tools = std::env::var_os("YARD_TEST_TOOLS").unwrap_or_default();
    let folders = std::env::split_paths(&tools).chain(["/usr/bin".into(), "/bin".into()]);
    std::env::join_paths(folders.chain(std::env::split_paths(&own))).unwrap()
}

fn is_installed(program: &Value) -> bool {
    let path = search_path();
    let is_there = |name: &str| match name.starts_with('/') {
        true => Path::new(name).is_file(),
        false => std::env::split_paths(&path).any(|folder| folder.join(name).is_file()),
    };
    program["programs"].as_array().unwrap().iter().all(|name| is_there(name.as_str().unwrap()))
}

fn failure(yard: &Yard, program: &Value) -> Option<String> {
    let name = program["name"].as_str().unwrap();
    let mut command = yard.command();
    command.env("PATH", search_path()).args(["call", name, "--json"]);
    // Version managers keep their programs there.
    command.envs(std::env::var_os("HOME").map(|home| ("HOME", home)));
    let ran = run_for(command, Duration::from_secs(200));
    let envelope = ran.json();
    (envelope["data"]["result"] != json!("ok")).then(|| format!("{name}: {envelope}"))
}

#[test]
fn ordinary_programs_run_with_the_smallest_declaration() {
    let programs: Vec<Value> = serde_json::from_str(PROGRAMS).unwrap();
    let yard = Yard::without_secret();
    let installed: Vec<&Value> = programs.iter().filter(|program| is_installed(program)).collect();
    assert!(programs.len() >= 25 && installed.len() >= MIN_INSTALLED, "{} are installed", installed.len());
    for program in &installed {
        for (file, content) in program["files"].as_object().into_iter().flatten() {
            yard.file(&format!("tools/programs/{file}"), content.as_str().unwrap());
        }
        let mut tool = json!({"id": program["name"], "kind": "cli", "entry": program["entry"], "timeoutMs": program["timeoutMs"]});
        if let Some(sandbox) = program.get("sandbox") {
            tool["sandbox"] = sandbox.clone();
        }
        yard.file(&format!("tools/{}.tool.yaml", program["name"].as_str().unwrap()), tool.to_string());
    }
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(program) = installed.get(next.fetch_add(1, Ordering::Relaxed)) {
                    failures.lock().unwrap().extend(failure(&yard, program));
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {} fail:\n{}", failures.len(), installed.len(), failures.join("\n"));
}
