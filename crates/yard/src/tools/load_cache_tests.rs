//! A load reads only what changed, and gives the same result as a fresh load.

use super::changes::Changes;
use super::{Loaded, Loader};
use crate::testing::{Folder, echo};
use std::time::Duration;
use toolyard_engine::{Registry, Snapshot};

/// Lets stamps settle, so that they alone decide.
fn rest() {
    std::thread::sleep(Duration::from_millis(60));
}

/// Everything that a caller could tell from a snapshot.
fn shape(snapshot: &Snapshot) -> (Vec<String>, Vec<String>) {
    let tools = snapshot.entries().iter().map(|entry| format!("{} {:?}", entry.spec.name, entry.spec.digest));
    let problems =
        snapshot.problems().iter().map(|problem| format!("{}: {}", problem.source, problem.message));
    (tools.collect(), problems.collect())
}

fn load_as_fresh(folder: &Folder, loader: &Loader) -> Loaded {
    let (ours, fresh) = (loader.load().into_snapshot(), folder.loader().load().into_snapshot());
    assert_eq!(shape(&ours), shape(&fresh));
    loader.load()
}

#[test]
fn only_the_edited_one_of_a_thousand_files_is_read() {
    let folder = Folder::new("thousand");
    for n in 0..1000 {
        folder.write(&format!("tools/f{}/t{n}.tool.yaml", n / 20), &echo(&format!("t{n}"), "one"));
    }
    rest();
    let loader = folder.loader();
    let first = loader.load();
    assert_eq!((first.read, first.candidates.len(), first.problems.len()), (1000, 1000, 0));
    assert_eq!(loader.load().read, 0);
    folder.write("tools/f3/t77.tool.yaml", &echo("t77", "two"));
    rest();
    let second = loader.load();
    assert_eq!((second.read, second.candidates.len()), (1, 1000));
    let is_reused = |n: usize| std::ptr::eq(&*first.candidates[n].entry, &*second.candidates[n].entry);
    assert_eq!((0..1000).filter(|n| !is_reused(*n)).count(), 1);
    assert!(loader.difference().is_none());
    folder.remove("tools/f3");
    assert!(loader.difference().is_some());
    let third = loader.load();
    assert_eq!((third.read, third.candidates.len()), (0, 980));
}

#[test]
fn a_load_with_known_changes_checks_only_those() {
    let folder = Folder::new("known-changes");
    for name in ["a", "b"] {
        folder.write(&format!("tools/{name}.tool.yaml"), &echo(name, "one"));
    }
    rest();
    let loader = folder.loader();
    assert_eq!(loader.load().read, 2);
    folder.write("tools/a.tool.yaml", &echo("a", "two"));
    folder.write("tools/c.tool.yaml", &echo("c", "one"));
    rest();
    let after = |place: &str| loader.load_changes(&Changes::from_iter([folder.path.join(place)]));
    let elsewhere = after("tools/b.tool.yaml");
    assert_eq!((elsewhere.read, elsewhere.candidates.len()), (1, 3), "new files are always found");
    assert_eq!(after("tools/a.tool.yaml").read, 1);
    assert_eq!(loader.load().read, 0);
    // Just written: an unreliable stamp is checked again, whatever the changes say.
    folder.write("tools/a.tool.yaml", &echo("a", "six"));
    assert_eq!(after("tools/a.tool.yaml").read, 1);
    folder.write("tools/a.tool.yaml", &echo("a", "ten"));
    assert_eq!(after("tools/b.tool.yaml").read, 1);
}

#[test]
fn schemas_and_scripts_are_part_of_a_tool_there_or_not() {
    let folder = Folder::new("parts");
    let tool = "id: t\nkind: cli\nentry: [sh, scripts/run.sh, '{{ input.a }}']\nschema: {input: {$ref: ./in.json}}\n";
    folder.write("tools/x/t.tool.yaml", tool);
    let loader = folder.loader();
    rest();
    let broken = loader.load();
    assert!(broken.candidates.is_empty() && broken.problems[0].message.contains("tools/x/in.json"));
    assert_eq!(loader.load().read, 0, "a broken file is not read again for nothing");

    folder.write("tools/x/in.json", r#"{"type": "object"}"#);
    rest();
    let without_script = load_as_fresh(&folder, &loader);
    let digest = |loaded: &Loaded| loaded.candidates[0].entry.spec.digest;
    let mut digests = vec![digest(&without_script)];
    for (file, text) in [
        ("scripts/run.sh", "echo 1"),
        ("scripts/run.sh", "echo 2"),
        ("tools/x/in.json", r#"{"type": "object", "properties": {"a": {"$ref": "deep/a.json"}}}"#),
        ("tools/x/deep/a.json", r#"{"type": "string"}"#),
        ("tools/x/deep/a.json", r#"{"type": "number"}"#),
    ] {
        folder.write(file, text);
        rest();
        let loaded = load_as_fresh(&folder, &loader);
        match loaded.candidates.first() {
            Some(_) => digests.push(digest(&loaded)),
            None => assert!(loaded.problems[0].message.contains("deep/a.json"), "{:?}", loaded.problems),
        }
    }
    assert_eq!(digests.len(), 5);
    digests.dedup();
    assert_eq!(digests.len(), 5, "each edit changes the digest");
}

#[test]
fn a_file_written_a_moment_ago_is_compared_by_content() {
    let folder = Folder::new("young");
    let loader = folder.loader();
    let written_and_loaded = || (folder.write("tools/t.tool.yaml", &echo("t", "one")), loader.load());
    let (mut path, mut first) = written_and_loaded();
    // On a busy machine the moment may be over before the load; then it is tried again.
    for _ in 0..50 {
        if !first.inputs[0].is_reliable() {
            break;
        }
        (path, first) = written_and_loaded();
    }
    assert!(!first.inputs[0].is_reliable());
    let second = loader.load();
    assert_eq!(second.read, 0, "the content is the same, so the tool stays");
    assert!(second.candidates[0].entry.runner.files_version().is_some());
    // Written in place, same size: only the times differ, and they are too recent to be reliable.
    std::fs::write(&path, echo("t", "two")).unwrap();
    assert_eq!(load_as_fresh(&folder, &loader).candidates.len(), 1);
    assert!(first.candidates[0].entry.runner.files_version().is_none());
    rest();
    assert_eq!(loader.load().read, 0);
    assert!(loader.load().inputs[0].is_reliable());
}

#[test]
fn a_program_that_comes_or_becomes_executable_is_noticed() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("program");
    folder.write("tools/t.tool.yaml", "id: t\nkind: cli\nentry: [bin/run]\n");
    let loader = folder.loader();
    rest();
    assert_eq!(loader.load().problems.len(), 1);
    let path = folder.write("bin/run", "#!/bin/sh\necho 1\n");
    rest();
    assert_eq!(load_as_fresh(&folder, &loader).problems.len(), 1);
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    rest();
    assert_eq!(load_as_fresh(&folder, &loader).problems.len(), 0);
}

#[test]
fn removed_tools_leave_no_cache_entries() {
    let folder = Folder::new("vanished");
    let limited = |n: usize| format!("{}concurrency: 2\n", echo(&format!("t{n}"), "one"));
    for n in 0..20 {
        folder.write(&format!("tools/t{n}.tool.yaml"), &limited(n));
    }
    let loader = folder.loader();
    loader.load();
    assert_eq!(super::lock(&loader.limiters).len(), 20);
    for n in 0..20 {
        folder.remove(&format!("tools/t{n}.tool.yaml"));
    }
    loader.load();
    assert!(super::lock(&loader.limiters).is_empty());
    assert_eq!(super::lock(&loader.load_cache).len(), 0);
}

#[test]
fn a_reload_says_what_changed() {
    let folder = Folder::new("changes");
    let (loader, registry) = (folder.loader(), Registry::default());
    let reload = || registry.update(loader.load().into_snapshot());
    assert!(reload().is_empty());
    for name in ["a", "b", "c"] {
        folder.write(&format!("tools/{name}.tool.yaml"), &echo(name, "one"));
    }
    assert_eq!(reload().to_string(), "0 changed, 3 added (a, b, c), 0 removed, 0 problem(s)");
    folder.write("tools/a.tool.yaml", &echo("a", "another"));
    folder.write("tools/b.tool.yaml", "id: b\n");
    folder.remove("tools/c.tool.yaml");
    let changes = reload();
    assert_eq!(changes.to_string(), "1 changed (a), 0 added, 2 removed (b, c), 1 problem(s)");
    assert_eq!(changes.problems[0].source, "tools/b.tool.yaml");
    assert!(changes.changes_listing() && reload().is_empty());
    folder.remove("tools/b.tool.yaml");
    let fixed = reload();
    assert!(!fixed.is_empty() && !fixed.changes_listing(), "a solved problem is no change of the list");
}
