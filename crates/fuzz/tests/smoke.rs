//! A short run of every target in the test command; `scripts/fuzz` runs each for minutes, guided by coverage.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test states what it expects")]

use std::path::{Path, PathBuf};
use toolyard_fuzz::{Limits, fuzz, targets};

#[test]
fn no_target_fails_on_hostile_input() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = std::env::temp_dir().join(format!("toolyard-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let all = targets::all(&folder).unwrap();
    let mut names: Vec<String> = all.iter().map(|target| target.name.to_owned()).collect();
    names.sort_unstable();
    assert_eq!(stems(&here.join("corpus")), names, "every target has a corpus, and every corpus a target");
    let programs = stems(&here.join("../../fuzz/fuzz_targets"));
    assert_eq!(programs, names, "scripts/fuzz runs every target, and nothing else");
    for target in &all {
        let corpus = here.join("corpus").join(target.name);
        let report = fuzz(target, &corpus, &folder.join("findings"), Limits::new(1000)).unwrap();
        eprintln!("{}: {report:?}", target.name);
        // Fewer would mean that the inputs never get past the first check.
        assert!(report.answers > 5, "{}: only {} different answers", target.name, report.answers);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The names in a folder, without their extensions.
fn stems(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let stem = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let mut names: Vec<String> = entries.map(|entry| stem(entry.unwrap().path())).collect();
    names.sort_unstable();
    names
}
