//! `call --trace-sandbox`: every path and address a tool asks for, and a declaration with which it works.

use crate::support::{RunAs, Yard};
use serde_json::json;
use std::fs;

/// The declaration at the end of the report; empty if none is needed.
#[track_caller]
fn declaration(report: &str, name: &str) -> String {
    let marker = format!("smallest declaration for tools/{name}.tool.yaml: ");
    let line = report.lines().find_map(|line| line.strip_prefix(&marker));
    let line = line.unwrap_or_else(|| panic!("no declaration in {report}"));
    line.strip_prefix("none is needed").map_or(line, |_| "").to_owned()
}

#[track_caller]
fn row(report: &str, words: &[&str]) {
    let words: Vec<&str> = words.iter().flat_map(|word| word.split(' ')).collect();
    let fits = |line: &str| line.split_whitespace().eq(words.iter().copied());
    assert!(report.lines().any(fits), "no row {words:?} in {report}");
}

fn pack(yard: &Yard, name: &str, script: &str, declaration: &str) {
    let entry = json!(["/bin/sh", "-c", script]);
    yard.file(
        &format!("tools/{name}.tool.yaml"),
        format!("id: {name}\nkind: cli\nentry: {entry}\n{declaration}\n"),
    );
}

#[test]
fn a_traced_run_lists_what_was_asked_for_and_proposes_a_declaration_that_works() {
    for run_as in RunAs::all() {
        let yard = Yard::of(run_as);
        // Not in /tmp, of which the tool has its own.
        let outside = Outside::new();
        let one = format!("{}/models/one", outside.0);
        fs::create_dir_all(format!("{}/models", outside.0)).unwrap();
        fs::write(&one, "model").unwrap();
        fs::write(format!("{}/unused", outside.0), "").unwrap();
        yard.file("data/old", "");
        let script = format!(
            "cat {one} >/dev/null; echo new >data/new; cat data/old; curl -s https://api.example.com/; \
             cat /none/such 2>/dev/null; test -s data/new && cat {one} >/dev/null && echo 1"
        );
        pack(&yard, "needy", &script, "");
        let ran = yard.run(&["call", "needy", "--trace-sandbox"]);
        assert_ne!(ran.code, 0, "{ran:?}");
        let report = &ran.stderr;
        let data = yard.path("data").display().to_string();
        row(report, &["refused: not shown", "read", &one]);
        row(report, &["refused: read-only", "write", &format!("{data}/new")]);
        row(report, &["refused: no network", "resolve", "api.example.com"]);
        row(report, &["allowed", "read", &format!("{data}/old")]);
        row(report, &["allowed", "execute", "/bin/sh"]);
        row(report, &["does not exist", "read", "/none/such"]);
        let proposed = declaration(report, "needy");
        let expected =
            format!("sandbox: {{network: [api.example.com], fs: {{read: [{one}], write: [data]}}}}");
        assert_eq!(proposed, expected, "{run_as:?}: {report}");
        // With it the tool works, and what is declared beyond the need is left out.
        let more = proposed.replace("read: [", &format!("read: [{}/unused, ", outside.0));
        pack(&yard, "needy", &script, &more);
        let ran = yard.run(&["call", "needy", "--trace-sandbox"]).expect(0);
        assert_eq!(ran.stdout.trim(), "1");
        assert_eq!(declaration(&ran.stderr, "needy"), proposed, "{run_as:?}: {}", ran.stderr);
    }
}

/// A folder in `/var/lib` or, for an ordinary user, wherever one can be created outside `/tmp`.
struct Outside(String);

impl Outside {
    fn new() -> Outside {
        let base =
            if crate::support::is_root() { "/var/lib".to_owned() } else { std::env::var("HOME").unwrap() };
        let folder = format!("{base}/toolyard-trace-{}", crate::support::marker());
        fs::create_dir_all(&folder).unwrap();
        Outside(folder)
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn tracing_changes_no_decision_of_the_sandbox() {
    let yard = Yard::new();
    let script = "for file in /etc/shadow /root/.profile toolyard.toml; do \
                  (echo x >>$file) 2>/dev/null && echo wrote $file; done; \
                  unshare --user true 2>/dev/null && echo unshared; cat .toolyard/* 2>/dev/null; echo 1";
    pack(&yard, "hostile", script, "");
    for arguments in [&["call", "hostile"][..], &["call", "hostile", "--trace-sandbox"]] {
        assert_eq!(yard.run(arguments).expect(0).stdout.trim(), "1");
    }
}

#[test]
fn a_tool_that_needs_nothing_gets_no_declaration() {
    let yard = Yard::new();
    pack(&yard, "modest", "python3 -c 'import json; print(json.dumps(1))'", "");
    let report = yard.run(&["call", "modest", "--trace-sandbox"]).expect(0).stderr;
    assert_eq!(declaration(&report, "modest"), "", "{report}");
    yard.file("tools/bare.tool.yaml", "id: bare\nkind: cli\nentry: [echo, '1']\nsandbox: none\n");
    let report = yard.run(&["call", "bare", "--trace-sandbox"]).expect(0).stderr;
    assert!(report.contains("'bare' ran no program in a sandbox"), "{report}");
    yard.run(&["call", "modest", "--trace-sandbox", "--url", "http://127.0.0.1:1"]).expect(2);
}

#[test]
fn a_run_is_traced_at_level_landlock_too() {
    let yard = Yard::new();
    yard.file("toolyard.toml", "[sandbox]\nlevel = \"landlock\"\n");
    let outside = Outside::new();
    let one = format!("{}/one", outside.0);
    fs::write(&one, "").unwrap();
    pack(&yard, "reader", &format!("cat {one} && echo 1"), "");
    let report = yard.run(&["call", "reader", "--trace-sandbox"]).stderr;
    row(&report, &["refused: not shown", "read", &one]);
    assert_eq!(declaration(&report, "reader"), format!("sandbox: {{fs: {{read: [{one}]}}}}"));
}
