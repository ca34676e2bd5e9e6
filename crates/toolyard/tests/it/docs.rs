//! Pages that are generated from the code or refer to its files are compared with it.

use std::fmt::Write;
use std::path::PathBuf;
use toolyard_protocol::error_table::{EXIT_DAMAGED, EXIT_USAGE, McpErrorMapping, TABLE};

pub fn repository() -> PathBuf {
    std::fs::canonicalize(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap()
}

/// Compares with the file, or writes it when `UPDATE_GOLDEN` is set.
fn assert_page(path: &str, text: &str) {
    let file = repository().join(path);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&file, text).unwrap();
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(found == text, "{path} is not what the code says; run the tests once with UPDATE_GOLDEN=1");
}

#[test]
fn the_page_of_errors_is_the_error_table() {
    let mut page = format!(
        "# Errors\n\n\
         Every way a call can fail, and what each protocol calls it. This page is generated from\n\
         `crates/protocol/src/error_table.rs`; a test compares the two (`UPDATE_GOLDEN=1` rewrites it).\n\n\
         On the command line an error reads `error[CODE]: message`, a hint follows, and the program ends with the\n\
         exit code. With `--json` the result envelope is printed instead. Two more exit codes are no errors of a call:\n\
         {EXIT_USAGE} is a wrong command line, whose message and usage are on stderr with `--json` too; {EXIT_DAMAGED} is damage that\n\
         `audit verify` or `state verify` found, such as a broken hash chain.\n\n\
         | kind | error type | code | category | MCP | HTTP | exit | retry | meaning |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for row in TABLE {
        let mcp = match row.mcp {
            McpErrorMapping::ErrorResult => "`isError`".to_owned(),
            McpErrorMapping::JsonRpc(code) => code.to_string(),
        };
        let retry = if row.retryable { "yes" } else { "no" };
        let (name, kind, code, category) = (row.name, row.error_type, row.code, row.category);
        let (http, exit, meaning) = (row.http, row.exit, row.meaning);
        writeln!(
            page,
            "| `{name}` | {kind} | {code} | {category} | {mcp} | {http} | {exit} | {retry} | {meaning} |"
        )
        .unwrap();
    }
    assert_page("docs/errors.md", &page);
}

#[test]
fn links_between_pages_lead_somewhere() {
    let docs = repository().join("docs");
    for page in std::fs::read_dir(&docs).unwrap().map(|entry| entry.unwrap().path()) {
        if page.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = std::fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link) {
            let path = link.split('#').next().unwrap_or_default();
            if path.is_empty() || path.contains("://") {
                continue;
            }
            assert!(docs.join(path).exists(), "{} links to {link}, which does not exist", page.display());
        }
    }
}

#[test]
fn every_test_in_the_table_of_threats_exists() {
    let page = std::fs::read_to_string(repository().join("docs/security.md")).unwrap();
    let named: Vec<(&str, &str)> = page.split('`').filter_map(|word| word.split_once(".rs::")).collect();
    assert!(named.len() > 30, "only {} tests are named", named.len());
    for (file, test) in named {
        let path = repository().join("crates").join(format!("{file}.rs"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}.rs: {error}"));
        let (before, _) = text
            .split_once(&format!("fn {test}()"))
            .unwrap_or_else(|| panic!("there is no test '{test}' in {file}.rs"));
        let attribute = before.trim_end().trim_end_matches("async").trim_end().lines().last();
        assert!(attribute.is_some_and(|line| line.ends_with("test]")), "'{test}' in {file}.rs is no test");
    }
    for row in page.lines().filter(|line| line.starts_with("| ") && line.ends_with("| – |")) {
        assert!(row.contains("not yet: "), "neither shown by a test nor left open: {row}");
    }
}
