//! Rules of the code: dependencies between crates, where JSON values may appear, how large files may grow.

use crate::docs::repository;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The output of `cargo metadata` for the workspace.
pub fn metadata(arguments: &[&str]) -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--format-version", "1", "--offline", "--locked"]).args(arguments);
    let output = command.current_dir(repository()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn crates_have_only_the_allowed_dependencies() {
    let allowed: BTreeMap<&str, Vec<&str>> = BTreeMap::from([
        ("protocol", vec![]),
        ("formats", vec!["protocol"]),
        ("wire", vec!["formats", "protocol"]),
        ("engine", vec!["protocol"]),
        ("store", vec!["engine", "protocol"]),
        ("launcher", vec![]),
        ("sandbox", vec!["launcher", "protocol"]),
        ("runtimes", vec!["engine", "formats", "protocol", "sandbox", "store", "wire"]),
        ("yard", vec!["engine", "formats", "protocol", "runtimes", "sandbox", "store", "wire"]),
        ("edges", vec!["engine", "formats", "protocol", "wire"]),
        (
            "fuzz",
            vec!["edges", "engine", "formats", "protocol", "runtimes", "sandbox", "store", "wire", "yard"],
        ),
        (
            "toolyard",
            vec!["edges", "engine", "formats", "protocol", "runtimes", "sandbox", "store", "wire", "yard"],
        ),
    ]);
    let metadata = metadata(&["--no-deps"]);
    let packages = metadata["packages"].as_array().unwrap();
    let mut seen = BTreeSet::new();
    for package in packages {
        let name = package["name"].as_str().unwrap();
        let short = name.strip_prefix("toolyard-").unwrap_or(name);
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        // Tests may look at whatever they need.
        let arrows: BTreeSet<&str> = dependencies
            .filter(|dependency| dependency["path"].is_string() && dependency["kind"].is_null())
            .map(|dependency| dependency["name"].as_str().unwrap().strip_prefix("toolyard-").unwrap())
            .collect();
        let allowed =
            allowed.get(short).unwrap_or_else(|| panic!("{name} is a new crate; decide its arrows here"));
        assert_eq!(&arrows.into_iter().collect::<Vec<_>>(), allowed, "arrows of {name}");
        let folder =
            Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap().file_name().unwrap();
        assert_eq!(folder.to_str().unwrap(), short, "folder of {name}");
        seen.insert(name.to_owned());
    }
    assert_eq!(seen.len(), allowed.len());
}

#[test]
fn protocol_knows_no_runtime_and_parses_nothing() {
    let metadata = metadata(&["--no-deps"]);
    let packages = metadata["packages"].as_array().unwrap();
    let protocol = packages.iter().find(|package| package["name"] == "toolyard-protocol").unwrap();
    let normal = protocol["dependencies"].as_array().unwrap().iter().filter(|d| d["kind"].is_null());
    let names: Vec<&str> = normal.map(|d| d["name"].as_str().unwrap()).collect();
    // serde and schemars are trait bounds of typed tools, base64 is the text form of `Blob`; the formats
    // themselves are in `wire`.
    assert_eq!(names, ["base64", "bytes", "schemars", "serde"]);
}

/// A source file: its path below `crates/`, its text without the test module at the end, and its whole text.
struct Source {
    path: String,
    text: String,
    whole: String,
}

fn sources() -> Vec<Source> {
    let crates = repository().join("crates");
    let mut files = Vec::new();
    for folder in std::fs::read_dir(&crates).unwrap().map(|entry| entry.unwrap().path()) {
        for below in ["src", "program", "tests", "examples", "benches"] {
            visit(&folder.join(below), &mut files);
        }
        let build = folder.join("build.rs");
        if build.exists() {
            files.push(build);
        }
    }
    files.sort();
    let read = |file: PathBuf| {
        let whole = std::fs::read_to_string(&file).unwrap();
        let text = whole.split("\n#[cfg(test)]\nmod tests {").next().unwrap().to_owned();
        Source { path: file.strip_prefix(&crates).unwrap().to_str().unwrap().to_owned(), text, whole }
    };
    files.into_iter().map(read).collect()
}

fn visit(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            visit(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Source files without tests and test suites.
fn shipped() -> Vec<Source> {
    let mut sources = sources();
    let tests = |path: &str| path.contains("/tests/") || path.contains("/suite/");
    sources.retain(|source| source.path.contains("/src/") && !tests(&source.path));
    assert!(sources.len() > 50, "{} files only: the walk is broken", sources.len());
    sources
}

#[track_caller]
fn assert_none(what: &str, found: Vec<String>) {
    assert!(found.is_empty(), "{what}: {found:#?}");
}

/// Lines of code, without comments, that contain one of the words.
fn lines_with(sources: &[Source], words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources {
        for (number, line) in source.text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if words.iter().any(|word| code.contains(word)) {
                found.push(format!("{}:{}: {}", source.path, number + 1, line.trim()));
            }
        }
    }
    found
}

#[test]
fn only_formats_and_wire_name_json_values() {
    let mut sources = shipped();
    sources.retain(|source| !source.path.starts_with("wire/") && !source.path.starts_with("formats/"));
    assert_none("serde_json outside formats and wire", lines_with(&sources, &["serde_json"]));
}

#[test]
fn libraries_never_print_nor_read_the_environment_nor_use_anyhow() {
    let mut sources = shipped();
    sources.retain(|source| !source.path.starts_with("toolyard/"));
    assert_none("printing", lines_with(&sources, &["println!", "print!(", "eprint", "stdout()", "stderr()"]));
    assert_none("anyhow", lines_with(&sources, &["anyhow"]));
    assert_none(
        "environment",
        lines_with(&sources, &["env::var", "env::args", "env::current_dir", "env::home_dir"]),
    );
    let manifests =
        std::fs::read_dir(repository().join("crates")).unwrap().map(|e| e.unwrap().path().join("Cargo.toml"));
    for manifest in manifests {
        assert!(!std::fs::read_to_string(&manifest).unwrap().contains("anyhow"), "{}", manifest.display());
    }
}

#[test]
fn only_one_file_of_the_binary_prints() {
    let mut sources = shipped();
    sources.retain(|source| source.path.starts_with("toolyard/") && source.path != "toolyard/src/output.rs");
    // The export streams to stdout itself: it may be larger than memory.
    sources.retain(|source| source.path != "toolyard/src/commands/audit.rs");
    assert_none(
        "printing outside output.rs",
        lines_with(&sources, &["println!", "print!(", "eprint", "stdout()", "stderr()"]),
    );
}

#[test]
fn edges_start_no_process_and_the_engine_never_listens() {
    let mut engine = shipped();
    engine.retain(|source| source.path.starts_with("engine/"));
    assert_none(
        "engine",
        lines_with(
            &engine,
            &["TcpListener", "UnixListener", "process::Command", "posix_spawn", "libc::fork"],
        ),
    );
    let mut edges = shipped();
    edges.retain(|source| source.path.starts_with("edges/"));
    assert_none("edges", lines_with(&edges, &["process::Command", "toolyard_runtimes"]));
    let mut wire = shipped();
    wire.retain(|source| ["wire/", "formats/", "protocol/"].iter().any(|room| source.path.starts_with(room)));
    assert_none(
        "wire, formats, protocol",
        lines_with(&wire, &["std::fs", "std::net", "tokio", "std::process"]),
    );
}

#[test]
fn files_stay_small_and_start_with_a_module_comment() {
    let mut wrong = Vec::new();
    for source in sources() {
        let lines = source.text.lines().count();
        if source.path == "engine/src/execute.rs" && source.whole.lines().count() > 200 {
            wrong.push(format!("{} has more than 200 lines", source.path));
        }
        if source.path == "toolyard/src/main.rs" && lines > 100 {
            wrong.push(format!("{} has {lines} lines", source.path));
        }
        if lines > 500 {
            wrong.push(format!("{} has {lines} lines", source.path));
        }
        if !source.whole.starts_with("//! ") {
            wrong.push(format!("{} does not open with //!", source.path));
        }
    }
    assert_none("files", wrong);
}

/// So that a run which skips as many tests as there are helpers has skipped nothing else.
#[test]
fn ignored_tests_are_helpers_of_another_test_that_starts_them() {
    let mut wrong = Vec::new();
    for source in sources() {
        // Split, so that this line is not found itself.
        for rest in source.whole.split(concat!("#[", "ignore")).skip(1) {
            let test = rest.strip_prefix(" = \"helper of ").and_then(|rest| rest.split_once('"'));
            let helper = rest.split_once("fn ").and_then(|(_, rest)| rest.split_once('('));
            let is_started = test.zip(helper).is_some_and(|((test, _), (helper, _))| {
                source.whole.contains(&format!("fn {test}(")) && source.whole.contains(&format!("{helper}\""))
            });
            if !is_started {
                wrong.push(format!("{}: {}", source.path, rest.lines().next().unwrap_or_default()));
            }
        }
    }
    assert_none("ignored, but no helper", wrong);
}

#[test]
fn lints_are_allowed_only_with_a_reason() {
    let mut found = Vec::new();
    for source in sources() {
        // Split, so that this line is not found itself.
        for start in [concat!("#[", "allow("), concat!("#![", "allow("), concat!("#[", "expect(")] {
            for (at, _) in source.whole.match_indices(start) {
                let rest = &source.whole[at..];
                let end = rest.find(")]").map_or(rest.len(), |end| end + 2);
                let beside = rest[end..].lines().next().unwrap_or_default();
                if !rest[..end].contains("reason = ") && !beside.contains("// ") {
                    found.push(format!("{}: {}", source.path, &rest[..end]));
                }
            }
        }
    }
    assert_none("allow without a reason", found);
}
