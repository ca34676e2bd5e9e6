//! Which folder is the yard, and that looking at one, or at a folder that is none, creates nothing.

use crate::support::{CommandOutput, Kind, RunAs, TIMEOUT, Yard, is_root, require, run_for};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Runs a command in a folder, with variables.
#[track_caller]
fn run_in(yard: &Yard, folder: &Path, variables: &[(&str, &Path)], arguments: &[&str]) -> CommandOutput {
    let mut command = yard.command();
    command.current_dir(folder).args(arguments).envs(variables.iter().copied());
    run_for(command, TIMEOUT)
}

/// A folder beside the yard, so that no folder above it is one.
fn beside(yard: &Yard, name: &str) -> PathBuf {
    let folder = yard.root().join("..").join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::canonicalize(folder).unwrap()
}

fn everything_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            found.extend(everything_below(&entry));
        }
        found.push(entry);
    }
    found
}

#[test]
fn the_nearest_yard_upwards_is_found() {
    let yard = Yard::new();
    yard.shell(Kind::Cli, "here", "pwd | sed 's/.*/\"&\"/'").file("src/deep/x", "");
    let deep = yard.path("src/deep");
    assert!(run_in(&yard, &deep, &[], &["list"]).expect(0).stdout.contains("here"));
    let root = fs::canonicalize(yard.root()).unwrap();
    assert_eq!(run_in(&yard, &deep, &[], &["call", "here"]).expect(0).stdout.trim(), root.to_str().unwrap());
    run_in(&yard, &deep, &[], &["new", "tool", "--kind", "cli", "added"]).expect(0);
    assert!(yard.path("tools/added.tool.yaml").exists());
    assert!(!yard.path("src/deep/.toolyard").exists());
    // A yard inside a yard is nearer.
    yard.file("src/tools/sub/inner.tool.yaml", "id: inner\nkind: cli\nentry: [echo, '1']\n");
    let listed = run_in(&yard, &deep, &[], &["list"]).expect(0).stdout;
    assert!(listed.contains("inner") && !listed.contains("here"), "{listed}");
}

#[test]
fn each_mark_of_a_yard_is_known_and_a_folder_named_tools_is_none() {
    let base = Yard::without_secret();
    for (mark, is_yard) in [
        ("toolyard.toml", true),
        (".toolyard/x", true),
        ("tools/a/b/t.tool.yaml", true),
        ("tools/t.tool.yml", true),
        ("tools/t/tool.json", true),
        ("prompts/REGISTRY.yaml", true),
        ("resources/a.resource.yaml", true),
        ("tools/script.py", false),
        ("tools/node_modules/x/tool.json", false),
        ("toolyard.toml/x", false),
    ] {
        let folder = beside(&base, &format!("mark-{}", mark.replace('/', "-")));
        let (file, below) = (folder.join(mark), folder.join("below"));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::create_dir(&below).unwrap();
        fs::write(&file, "").unwrap();
        let ran = run_in(&base, &below, &[], &["prompt", "list"]);
        let missing = ran.stderr.contains("there is no yard in");
        assert_eq!(missing, !is_yard, "{mark}: {ran:?}");
    }
}

#[test]
fn a_named_yard_wins_over_the_variable_and_the_variable_over_the_folder() {
    let yard = Yard::new();
    yard.shell(Kind::Cli, "found", "echo 1");
    let (flag, variable) = (beside(&yard, "flag"), beside(&yard, "variable"));
    for (folder, name) in [(&flag, "flagged"), (&variable, "in_variable")] {
        let file = format!("id: {name}\nkind: cli\nentry: [echo, '1']\n");
        fs::create_dir(folder.join("tools")).unwrap();
        fs::write(folder.join("tools/a.tool.yaml"), file).unwrap();
    }
    let listed = |variables: &[(&str, &Path)], arguments: &[&str]| {
        run_in(&yard, &yard.root(), variables, arguments).expect(0).stdout
    };
    let set = [("TOOLYARD_YARD", variable.as_path())];
    assert!(listed(&[], &["list"]).contains("found"));
    assert!(listed(&set, &["list"]).contains("in_variable"));
    assert!(listed(&set, &["list", "--yard", flag.to_str().unwrap()]).contains("flagged"));
    assert!(listed(&[("TOOLYARD_YARD", Path::new(""))], &["list"]).contains("found"), "empty is unset");
    let server = {
        let mut command = yard.command();
        command.args(["serve", flag.to_str().unwrap(), "--listen", "127.0.0.1:0"]).envs(set);
        crate::support::Server::start(command)
    };
    assert_eq!(server.get("/v1/tools").json()[0]["exposed"], "flagged");
    let gone = run_in(&yard, &yard.root(), &[("TOOLYARD_YARD", Path::new("nowhere"))], &["list"]).expect(4);
    assert!(gone.stderr.contains("the yard nowhere cannot be opened"), "{gone:?}");
}

#[test]
fn the_search_ends_at_the_home_folder() {
    let yard = Yard::new();
    let inside = yard.path("home/project");
    fs::create_dir_all(&inside).unwrap();
    run_in(&yard, &inside, &[("HOME", &yard.path("elsewhere"))], &["list"]).expect(0);
    let ran = run_in(&yard, &inside, &[("HOME", &yard.path("home"))], &["list"]).expect(4);
    assert!(ran.stderr.contains("there is no yard in"), "{ran:?}");
}

#[test]
fn a_yard_above_that_others_can_plant_is_not_used() {
    let yard = Yard::new();
    yard.shell(Kind::Cli, "planted", "echo 1").file("mine/x", "");
    let mine = yard.path("mine");
    run_in(&yard, &mine, &[], &["call", "planted"]).expect(0);
    fs::set_permissions(yard.root(), fs::Permissions::from_mode(0o1777)).unwrap();
    let ran = run_in(&yard, &mine, &[], &["call", "planted"]).expect(4);
    assert!(ran.stderr.contains("because other users can write to it"), "{ran:?}");
    run_in(&yard, &mine, &[], &["call", "planted", "--yard", ".."]).expect(0);
    run_in(&yard, &yard.root(), &[], &["call", "planted"]).expect(0);
    fs::set_permissions(yard.root(), fs::Permissions::from_mode(0o755)).unwrap();
    if RunAs::all().len() > 1 {
        std::os::unix::fs::chown(yard.root(), Some(12345), None).unwrap();
        run_in(&yard, &mine, &[], &["call", "planted"]).expect(4);
    }
}

/// Every command, with arguments that it accepts.
const COMMANDS: &[&[&str]] = &[
    &["list"],
    &["show", "x"],
    &["show", "x://y"],
    &["call", "x"],
    &["batch", "/dev/null"],
    &["job", "list"],
    &["job", "show", "01a1e1c8-9afe-7a29-b01d-f175b396abd4"],
    &["job", "watch", "01a1e1c8-9afe-7a29-b01d-f175b396abd4"],
    &["job", "wait", "01a1e1c8-9afe-7a29-b01d-f175b396abd4"],
    &["job", "cancel", "01a1e1c8-9afe-7a29-b01d-f175b396abd4"],
    &["resource", "list"],
    &["resource", "read", "x://y"],
    &["resource", "write", "x://y", "/dev/null"],
    &["resource", "rm", "x://y"],
    &["check"],
    &["prompt", "list"],
    &["prompt", "get", "x"],
    &["test"],
    &["prepare"],
    &["secret", "set", "NAME"],
    &["secret", "list"],
    &["secret", "rm", "NAME"],
    &["serve", "--listen", "127.0.0.1:0"],
    &["stdio"],
    &["audit", "list"],
    &["audit", "verify"],
    &["audit", "export"],
    &["state", "prune"],
    &["state", "verify"],
];

#[test]
fn no_command_creates_anything_in_a_folder_that_is_no_yard() {
    let yard = Yard::without_secret();
    let nothing = beside(&yard, "nothing");
    for arguments in COMMANDS {
        let ran = run_in(&yard, &nothing, &[], arguments).expect(4);
        assert!(ran.stderr.contains("error[EINVAL]: there is no yard in "), "{arguments:?}: {ran:?}");
        assert!(ran.stderr.contains("--yard DIR") && ran.stderr.contains("toolyard init"), "{ran:?}");
        assert_eq!(everything_below(&nothing), [] as [&Path; 0], "{arguments:?}");
    }
    // These need no yard.
    let doctor = run_in(&yard, &nothing, &[], &["doctor"]).expect(0);
    assert!(doctor.stdout.contains("yard: none here") && doctor.stdout.contains("sandbox: "), "{doctor:?}");
    run_in(&yard, &nothing, &[], &["completions", "bash"]).expect(0);
    assert_eq!(everything_below(&nothing), [] as [&Path; 0]);
}

/// Commands that only look, and change what is there.
const LOOKING: &[&str] = &["list", "show", "check", "doctor", "job", "audit", "state"];
const LOOKING_SUBCOMMANDS: &[[&str; 2]] =
    &[["resource", "list"], ["prompt", "list"], ["secret", "list"], ["secret", "rm"]];

fn looks(arguments: &[&str]) -> bool {
    LOOKING.contains(&arguments[0]) || LOOKING_SUBCOMMANDS.iter().any(|known| arguments.starts_with(known))
}

#[test]
fn looking_at_a_named_yard_creates_nothing_there() {
    let yard = Yard::without_secret();
    let (outside, temporary) = (beside(&yard, "outside"), beside(&yard, "temporary"));
    let in_memory = |words: &[&str]| run_in(&yard, &outside, &[("TMPDIR", &temporary)], words);
    // Where memory cannot be executed, the launcher must be a file, but not one of the yard.
    let as_file = |words: &[&str]| {
        let mut command = std::process::Command::new("unshare");
        let script = "echo 2 >/proc/sys/vm/memfd_noexec && exec \"$@\"";
        command.args(["--pid", "--fork", "--mount-proc", "sh", "-c", script, "sh"]);
        command.arg(crate::support::toolyard_path()).args(words);
        command.current_dir(&outside).env("HOME", yard.home()).env("TMPDIR", &temporary);
        run_for(command, TIMEOUT)
    };
    let is_root =
        require(is_root(), "the tests do not run as root, so that memory cannot be made not executable");
    for (folder, is_file) in [("empty", false), ("empty-without-memfd", true)] {
        if is_file && !is_root {
            continue;
        }
        let run = |words: &[&str]| if is_file { as_file(words) } else { in_memory(words) };
        let empty = beside(&yard, folder);
        let mut ran = 0;
        for arguments in COMMANDS.iter().copied().chain([&["doctor"][..]]).filter(|words| looks(words)) {
            let named = [arguments, &["--yard", empty.to_str().unwrap()]].concat();
            let output = run(&named);
            assert!([0, 4].contains(&output.code), "{arguments:?}: {output:?}");
            assert_eq!(everything_below(&empty), [] as [&Path; 0], "{arguments:?}");
            ran += 1;
        }
        assert!(ran >= 18, "{ran}");
        // An empty folder is a yard to those who say so: it can be served, and then has state.
        run(&["test", "--yard", empty.to_str().unwrap()]).expect(0);
        assert!(empty.join(".toolyard").is_dir());
        let launcher =
            everything_below(&empty).iter().any(|path| path.to_string_lossy().contains("launcher-"));
        assert_eq!(launcher, is_file);
    }
    assert_eq!(everything_below(&temporary), [] as [&Path; 0]);
}

#[test]
fn resources_of_an_unused_yard_are_listed_without_creating_its_stores() {
    let yard = Yard::without_secret();
    yard.file("toolyard.toml", "[builtin]\nartifacts = true\njobs = true\ntools = true\n");
    let listed = yard.run(&["resource", "list", "--json"]).expect(0).json();
    assert!(!listed["resourceTemplates"].as_array().unwrap().is_empty(), "{listed}");
    assert!(!yard.path(".toolyard").exists());
}
