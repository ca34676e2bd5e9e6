//! Runs the commands shown in the README and the guide and compares their output.
//!
//! In a `console` block a line `$ command` is run by a shell in a folder with `examples/yard`; the lines
//! after it are its output, on either stream. `…` matches anything within a line, a line `…` any lines.

use crate::support::{Yard, planted, run_for};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

#[test]
fn every_command_shown_prints_what_is_shown() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md")];
    let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    pages.extend(docs.filter(|path| path.extension().is_some_and(|ending| ending == "md")));
    let mut ran = 0;
    for page in pages {
        let steps = steps(&std::fs::read_to_string(&page).unwrap());
        if steps.is_empty() {
            continue;
        }
        // Each page starts from the same yard; its blocks build on one another.
        let base = Yard::new();
        std::fs::remove_file(base.path("toolyard.toml")).unwrap();
        crate::examples::copy_folder(&root.join("examples"), &base.path("examples"));
        for Step { command, expected } in steps {
            let printed = run(&base, &command);
            assert!(
                fits(&expected, &printed),
                "{}: $ {command}\n--- shown\n{expected}\n--- printed\n{printed}",
                page.display()
            );
            ran += 1;
        }
    }
    assert!(ran >= 12, "only {ran} commands were found");
}

struct Step {
    command: String,
    expected: String,
}

fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if inside && let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { command: command.to_owned(), expected: String::new() });
        } else if inside && let Some(step) = steps.last_mut() {
            step.expected += line;
            step.expected.push('\n');
        }
    }
    steps
}

fn run(base: &Yard, command: &str) -> String {
    let program: PathBuf = env!("CARGO_BIN_EXE_toolyard").into();
    let mut shell = Command::new("sh");
    // One stream: results first, then the notes of stderr.
    shell.args(["-c", &format!("{command} 2>stderr.txt; cat stderr.txt")]).current_dir(base.root());
    let path = std::env::var("PATH").unwrap_or_default();
    let tools = std::env::var("YARD_TEST_TOOLS").unwrap_or_default();
    shell.env("PATH", format!("{}:{tools}:{path}", program.parent().unwrap().display()));
    shell.env(planted::VARIABLE, planted::secret());
    let ran = run_for(shell, Duration::from_secs(60));
    // Notes go to stderr, so a page may show them before or after the result.
    ran.stdout
}

/// Whether the printed lines match the pattern; stdout and stderr may come in any order.
fn fits(expected: &str, printed: &str) -> bool {
    let patterns: Vec<&str> = expected.lines().collect();
    let mut lines: Vec<&str> = printed.lines().collect();
    let any_lines = patterns.contains(&"…");
    for pattern in patterns.iter().filter(|pattern| **pattern != "…") {
        match lines.iter().position(|line| fits_line(pattern, line)) {
            Some(at) => drop(lines.remove(at)),
            None => return false,
        }
    }
    any_lines || lines.iter().all(|line| line.trim().is_empty())
}

fn fits_line(pattern: &str, line: &str) -> bool {
    let parts: Vec<&str> = pattern.split('…').collect();
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return false };
    if parts.len() == 1 {
        return pattern.trim_end() == line.trim_end();
    }
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    for part in &parts[1..parts.len() - 1] {
        match rest.find(part.trim()) {
            Some(at) => rest = &rest[at + part.trim().len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}
