//! A short run of every target in the test command; `scripts/fuzz` runs millions.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test states what it expects")]

use std::path::Path;
use toolyard_fuzz::{Limits, fuzz, targets};

#[test]
fn no_target_fails_on_hostile_input() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = std::env::temp_dir().join(format!("toolyard-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let all = targets::all(&folder).unwrap();
    let mut folders: Vec<String> = std::fs::read_dir(here.join("corpus"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    folders.sort();
    let mut names: Vec<&str> = all.iter().map(|target| target.name).collect();
    names.sort_unstable();
    assert_eq!(folders, names, "every target has a corpus, and every corpus a target");
    for target in &all {
        let corpus = here.join("corpus").join(target.name);
        let report = fuzz(target, &corpus, &folder.join("findings"), Limits::new(3000)).unwrap();
        eprintln!("{}: {report:?}", target.name);
        // Fewer would mean that the inputs never get past the first check.
        assert!(report.answers > 5, "{}: only {} different answers", target.name, report.answers);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
