//! Dependencies are few, each with its reason, all under licences we may use.

use crate::architecture::metadata;
use crate::docs::repository;
use std::collections::BTreeSet;
use toolyard_formats::doc::{self, DocumentFormat, Value};

fn page() -> String {
    std::fs::read_to_string(repository().join("docs/dependencies.md")).unwrap()
}

#[test]
fn every_direct_dependency_has_its_line_and_no_line_is_left_over() {
    let metadata = metadata(&["--no-deps"]);
    let mut used = BTreeSet::new();
    for package in metadata["packages"].as_array().unwrap() {
        let dependencies = package["dependencies"].as_array().unwrap();
        let foreign = dependencies.iter().filter(|dependency| dependency["path"].is_null());
        used.extend(foreign.map(|dependency| dependency["name"].as_str().unwrap().to_owned()));
    }
    let page = page();
    let lines = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let explained: BTreeSet<String> = lines.map(|(name, _)| name.to_owned()).collect();
    assert_eq!(used, explained, "docs/dependencies.md (right) does not match the manifests (left)");
}

#[test]
fn the_lock_file_stays_below_its_cap() {
    let page = page();
    let cap = page.split("at most **").nth(1).and_then(|rest| rest.split_once("**")).unwrap().0;
    let cap: usize = cap.parse().unwrap();
    let lock = std::fs::read_to_string(repository().join("Cargo.lock")).unwrap();
    let packages = lock.lines().filter(|line| *line == "[[package]]").count();
    assert!(packages <= cap, "{packages} packages in Cargo.lock; docs/dependencies.md allows {cap}");
}

#[test]
fn every_licence_is_on_the_list_that_cargo_deny_reads() {
    let deny = std::fs::read(repository().join("deny.toml")).unwrap();
    let deny = doc::read(DocumentFormat::Toml, &deny).unwrap();
    let Some(Value::List(allow)) =
        deny.get("licenses").and_then(|node| node.get("allow")).map(|node| &node.value)
    else {
        panic!("deny.toml has no licenses.allow");
    };
    let allow: Vec<&str> = allow
        .iter()
        .filter_map(|node| if let Value::Text(text) = &node.value { Some(text.as_str()) } else { None })
        .collect();
    // Only packages that are built here: those of other platforms may be missing on this machine.
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let metadata = metadata(&["--filter-platform", &platform]);
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 50);
    for package in packages {
        let licence = package["license"].as_str().unwrap_or_default();
        assert!(
            is_allowed(licence, &allow),
            "{}: the licence {licence:?} is not in deny.toml",
            package["name"]
        );
    }
}

/// Each part joined by AND needs one alternative that is allowed.
fn is_allowed(licence: &str, allow: &[&str]) -> bool {
    let licence = licence.replace('/', " OR ");
    licence.split(" AND ").all(|part| {
        let part = part.trim_matches(['(', ')', ' ']);
        part.split(" OR ").any(|name| allow.contains(&name.trim()))
    })
}

#[test]
fn licence_expressions_are_read_as_spdx_means_them() {
    let allow = ["MIT", "Unicode-3.0"];
    for (licence, allowed) in [
        ("MIT OR Apache-2.0", true),
        ("MIT/GPL-3.0", true),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
        ("MIT AND GPL-3.0", false),
        ("GPL-3.0", false),
        ("", false),
    ] {
        assert_eq!(is_allowed(licence, &allow), allowed, "{licence}");
    }
}
