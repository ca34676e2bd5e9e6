//! The yard in `examples/` works: every tool in it is called.

use crate::support::{Yard, require};
use serde_json::json;
use std::path::Path;

/// A copy, so that no state is written into the repository.
pub fn copy() -> Yard {
    let yard = Yard::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/yard");
    copy_folder(&source, &yard.root());
    yard
}

pub fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true if entry.file_name() == ".toolyard" => {}
            true => copy_folder(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}

#[test]
fn every_file_of_the_example_yard_loads_without_a_problem() {
    let yard = copy();
    let problems = yard.run(&["check", "--json"]).expect(0).json();
    for problem in problems.as_array().unwrap() {
        let message = problem["message"].as_str().unwrap();
        assert!(message.contains("is not installed") || message.contains("was not found"), "{problem}");
        // Of all interpreters, only uv is installed where this test's PATH does not lead.
        require(message.contains("'uv'"), message);
    }
    let list = yard.run(&["list", "--json"]).expect(0).json();
    let kinds: Vec<&str> = list.as_array().unwrap().iter().map(|row| row["kind"].as_str().unwrap()).collect();
    for kind in ["cli", "process", "binary"] {
        assert!(kinds.contains(&kind), "no example of {kind}");
    }
}

#[test]
fn disk_free_reports_the_disk_of_the_yard() {
    let (ran, envelope) = copy().call("disk_free", &json!({}));
    assert_eq!(ran.code, 0, "{ran:?}");
    let data = &envelope["data"];
    let number = |name: &str| data[name].as_u64().unwrap();
    assert!(number("size") > 0 && number("free") + number("used") <= number("size"), "{data}");
}

#[test]
fn text_stats_counts_the_text_it_is_sent() {
    let yard = copy();
    for (text, lines, words, characters) in [
        ("one two\nthree", 2, 3, 13),
        ("", 0, 0, 0),
        ("\"quoted\" \\ back\n", 1, 3, 16),
        ("tab\tand é", 1, 3, 9),
    ] {
        let (ran, envelope) = yard.call("text_stats", &json!({"text": text}));
        assert_eq!(ran.code, 0, "{ran:?}");
        let expected = json!({"lines": lines, "words": words, "characters": characters});
        assert_eq!(envelope["data"], expected, "{text:?}");
    }
    let (ran, envelope) = yard.call("text_stats", &json!({}));
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(
        envelope["error"]["error_message"].as_str().unwrap().contains("missing argument 'text'"),
        "{envelope}"
    );
}

#[test]
fn cpu_info_returns_the_output_of_lscpu() {
    let (ran, envelope) = copy().call("cpu_info", &json!({}));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!envelope["data"]["lscpu"].as_array().unwrap().is_empty(), "{envelope}");
}
