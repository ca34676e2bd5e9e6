//! Runs the required cases of the JSON-Schema-Test-Suite, both drafts, against the compiled schemas.
//!
//! `scripts/test` unpacks the suite and names its folder in `YARD_SCHEMA_SUITE`. Schemas with external
//! references must be rejected, because nothing is ever fetched.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test states what it expects, in its helpers too"
)]

#[path = "../../../tests/require.rs"]
mod require;

use require::require;
use serde_json::Value;
use std::path::Path;
use toolyard_formats::schema::Schema;
use toolyard_protocol::{Check, Payload};

#[derive(Default, Debug)]
struct Tally {
    passed: usize,
    refused: usize,
    wrong: Vec<String>,
}

#[test]
fn required_cases_of_both_drafts_hold() {
    let suite = std::env::var_os("YARD_SCHEMA_SUITE").unwrap_or_default();
    if !require(Path::new(&suite).is_dir(), "YARD_SCHEMA_SUITE names no suite; scripts/test unpacks it") {
        return;
    }
    for (draft, uri, least) in [
        ("draft2020-12", "https://json-schema.org/draft/2020-12/schema", 1200),
        ("draft7", "http://json-schema.org/draft-07/schema#", 850),
    ] {
        let tally = run(&Path::new(&suite).join(draft), uri);
        println!("{draft}: {} passed, {} refused because they need other files", tally.passed, tally.refused);
        assert!(tally.wrong.is_empty(), "{draft}: {} wrong:\n{}", tally.wrong.len(), tally.wrong.join("\n"));
        assert!(tally.passed >= least, "{draft}: only {} cases ran", tally.passed);
        assert!(tally.refused < tally.passed / 10, "{draft}: {} refused", tally.refused);
    }
}

fn run(folder: &Path, uri: &str) -> Tally {
    let mut tally = Tally::default();
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files.iter().filter(|file| file.extension().is_some_and(|ending| ending == "json")) {
        let groups: Vec<Value> = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        for group in groups {
            run_group(&file.file_stem().unwrap().to_string_lossy(), &group, uri, &mut tally);
        }
    }
    tally
}

fn run_group(file: &str, group: &Value, uri: &str, tally: &mut Tally) {
    let mut schema = group["schema"].clone();
    if let Value::Object(members) = &mut schema {
        members.entry("$schema").or_insert_with(|| uri.into());
    }
    let text = schema.to_string();
    let tests = group["tests"].as_array().unwrap();
    let name = format!("{file}: {}", group["description"].as_str().unwrap());
    let compiled = match Schema::compile(text.as_bytes()) {
        Ok(compiled) => compiled,
        Err(what) if text.contains("localhost:1234") => {
            assert!(what.contains("nothing is fetched") || what.contains("neither"), "{name}: {what}");
            tally.refused += tests.len();
            return;
        }
        Err(what) => return tally.wrong.push(format!("{name}: refused: {what}")),
    };
    for test in tests {
        let valid = compiled.check(&Payload::json(test["data"].to_string())).is_ok();
        if valid == test["valid"].as_bool().unwrap() {
            tally.passed += 1;
        } else {
            tally.wrong.push(format!("{name}: {}: said {valid}", test["description"]));
        }
    }
}
