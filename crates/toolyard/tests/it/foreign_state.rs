//! State folders that are not the yard's own: what came with a download decides nothing, and no file of the owner is
//! changed through it.

use crate::support::{
    CommandOutput, Kind, RunAs, Running, Server, TIMEOUT, Yard, eventually, run_for, signal,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Commands that read or write the state folder.
const USING: &[&[&str]] = &[
    &["call", "tool"],
    &["serve", "--listen", "127.0.0.1:0"],
    &["stdio"],
    &["test"],
    &["prepare"],
    &["token"],
    &["secret", "set", "stored"],
    &["secret", "list"],
    &["secret", "rm", "stored"],
    &["job", "list"],
    &["resource", "list"],
    &["audit", "list"],
    &["audit", "verify"],
    &["audit", "export"],
    &["state", "verify"],
    &["state", "prune"],
];

/// Commands that work without it.
const LOOKING: &[&[&str]] = &[&["list"], &["check"], &["show", "tool"], &["prompt", "list"]];

fn yard_of(run_as: RunAs) -> Yard {
    let yard = Yard::of(run_as);
    yard.tool(Kind::Cli, "tool", &["/bin/echo", "1"], json!({"secrets": {}}));
    yard
}

/// As unpacking an archive makes it: the same files, of the same owner and with the same modes.
fn unpacked(yard: &Yard, run_as: RunAs) -> Yard {
    let copy = Yard::of(run_as);
    fs::remove_dir_all(copy.root()).unwrap();
    assert!(Command::new("cp").arg("-a").arg(yard.root()).arg(copy.root()).status().unwrap().success());
    copy
}

/// Paths, modes and contents of everything in a folder; links are not followed.
fn everything(folder: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut all = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        all.insert(folder.clone(), (fs::metadata(&folder).unwrap().mode(), Vec::new()));
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            let meta = entry.metadata().unwrap();
            match meta.is_dir() {
                true => folders.push(entry.path()),
                false if meta.is_file() => {
                    all.insert(entry.path(), (meta.mode(), fs::read(entry.path()).unwrap()));
                }
                false => {
                    let target = fs::read_link(entry.path()).unwrap().into_os_string().into_encoded_bytes();
                    all.insert(entry.path(), (0, target));
                }
            }
        }
    }
    all
}

/// Every command that uses the state is refused with the reason, the others work and warn; nothing changes in the
/// state folder and in what is `precious`.
#[track_caller]
fn assert_refused(yard: &Yard, state: &Path, precious: &Path, reason: &str) {
    let before = (everything(state), everything(precious));
    for words in USING {
        let refused = run_with_input(yard, words).expect(7);
        assert!(refused.stderr.contains(reason), "{words:?}: {refused:?}");
        assert_eq!((everything(state), everything(precious)), before, "{words:?} changed something");
    }
    for words in LOOKING {
        let looked = yard.run(words).expect(0);
        assert!(
            looked.stderr.contains("warning: ") && looked.stderr.contains(reason),
            "{words:?}: {looked:?}"
        );
        assert_eq!((everything(state), everything(precious)), before, "{words:?} changed something");
    }
    let doctor = yard.run(&["doctor"]).expect(9).stdout;
    assert!(doctor.contains("FAIL state folder") && doctor.contains(reason), "{doctor}");
    assert_eq!((everything(state), everything(precious)), before, "doctor changed something");
}

fn run_with_input(yard: &Yard, words: &[&str]) -> CommandOutput {
    let mut command = Command::new("sh");
    let program = yard.command();
    command.args(["-c", "echo a-value-of-a-secret | \"$@\"", "sh"]).arg(program.get_program());
    command.args(program.get_args()).args(words).current_dir(yard.root()).env_clear();
    command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    run_for(command, TIMEOUT)
}

fn lines(file: &Path) -> usize {
    fs::read_to_string(file).map_or(0, |text| text.lines().count())
}

/// A yard whose server was killed while it ran a job that is run again at the next start.
fn yard_with_open_job(run_as: RunAs) -> (Yard, String) {
    let yard = yard_of(run_as);
    let script = "echo x >>ran; while [ -e wait ]; do sleep 0.05; done; echo 1";
    let extra = json!({"secrets": {}, "sandbox": "none", "timing": "async_long",
        "annotations": {"idempotentHint": true}});
    yard.tool(Kind::Cli, "job", &["/bin/sh", "-c", script], extra).file("wait", "");
    let server = yard.serve();
    let answer = server.client().send("POST", "/v1/tools/job", &[("prefer", "respond-async")], b"{}");
    let id = answer.json()["meta"]["job_id"].as_str().unwrap().to_owned();
    eventually("the job runs", TIMEOUT, || lines(&yard.path("ran")) == 1);
    server.kill();
    fs::remove_file(yard.path("ran")).unwrap();
    fs::remove_file(yard.path("wait")).unwrap();
    (yard, id)
}

#[test]
fn a_job_that_came_with_a_yard_does_not_run() {
    for run_as in RunAs::all() {
        let (yard, id) = yard_with_open_job(run_as);
        let token = yard.run(&["token"]).expect(0).stdout;
        let copy = unpacked(&yard, run_as);
        let reason = "came from elsewhere: it was copied, unpacked or cloned";
        assert_refused(&copy, &copy.path(".toolyard"), &copy.root(), reason);
        assert!(copy.run(&["list"]).stderr.contains("run 'toolyard state adopt'"), "the remedy is named");
        // Nothing says where it came from.
        fs::remove_file(copy.path(".toolyard/origin")).unwrap();
        assert_refused(&copy, &copy.path(".toolyard"), &copy.root(), "it has no file 'origin'");
        // Its owner takes it over: the job ends, and what others may know is no longer valid.
        let adopted = copy.run(&["state", "adopt"]).expect(0).stdout;
        assert!(adopted.contains("1 open job(s) ended as unknown"), "{adopted}");
        let server = copy.serve();
        assert_eq!(server.get(&format!("/v1/jobs/{id}")).json()["state"], "unknown", "{run_as:?}");
        assert_ne!(copy.run(&["token"]).expect(0).stdout, token);
        std::thread::sleep(std::time::Duration::from_millis(500));
        assert!(!copy.path("ran").exists(), "{run_as:?}: the job of the copy ran");
        drop(server);
        // Control: where it was created, the same job is run again, also after the yard was moved.
        let moved = yard.root().with_file_name("moved");
        fs::rename(yard.root(), &moved).unwrap();
        let mut command = yard_command(&yard, &moved);
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        let server = Server::start(command);
        eventually("the job runs again", TIMEOUT, || lines(&moved.join("ran")) == 1);
        drop(server);
    }
}

/// A command of the yard, in another folder.
fn yard_command(yard: &Yard, folder: &Path) -> Command {
    fs::create_dir_all(yard.root()).unwrap();
    let mut command = yard.command();
    command.current_dir(folder);
    command
}

#[test]
fn the_state_of_another_yard_is_not_used() {
    for run_as in RunAs::all() {
        let owner = yard_of(run_as);
        owner.tool(
            Kind::Cli,
            "show",
            &["/bin/sh", "-c", "echo ${#KEY}"],
            json!({"secrets": {"KEY": "secret:stored"}}),
        );
        run_with_input(&owner, &["secret", "set", "stored"]).expect(0);
        let token = owner.run(&["token"]).expect(0).stdout;
        let state = owner.path(".toolyard");
        let stranger = yard_of(run_as);
        fs::copy(owner.path("tools/show.tool.yaml"), stranger.path("tools/show.tool.yaml")).unwrap();
        stranger.file("toolyard.toml", format!("[state]\ndir = {state:?}\n"));
        assert_refused(&stranger, &state, &owner.root(), "belongs to another yard");
        let refused = stranger.run(&["call", "show"]).expect(7);
        assert!(refused.stderr.contains("belongs to another yard"), "{refused:?}");
        // Nor can it be taken over from there.
        let refused = stranger.run(&["state", "adopt"]).expect(7);
        assert!(refused.stderr.contains("belongs to another yard"), "{refused:?}");
        // Control: its own yard still uses it.
        assert_eq!(owner.run(&["call", "show"]).expect(0).stdout.trim(), "19", "{run_as:?}");
        assert_eq!(owner.run(&["token"]).expect(0).stdout, token);
    }
}

#[test]
fn a_folder_that_is_no_state_folder_is_neither_filled_nor_closed() {
    for run_as in RunAs::all() {
        let yard = yard_of(run_as);
        yard.file("pages/page", "x").file("empty/x", "");
        fs::remove_file(yard.path("empty/x")).unwrap();
        let set = |folder: &str| {
            fs::set_permissions(yard.path(folder), fs::Permissions::from_mode(0o755)).unwrap();
            yard.file(
                "toolyard.toml",
                format!("[state]\ndir = {:?}\n[builtin]\njobs = true\n", yard.path(folder)),
            );
        };
        set("pages");
        assert_refused(&yard, &yard.path("pages"), &yard.path("pages"), "it has no file 'origin'");
        let refused = yard.run(&["state", "adopt"]).expect(7);
        assert!(
            refused.stderr.contains("contains 'page', which is no part of a state folder"),
            "{refused:?}"
        );
        assert_eq!(fs::metadata(yard.path("pages")).unwrap().mode() & 0o777, 0o755);
        // Control: an empty folder is used and closed, but not by looking.
        set("empty");
        for words in
            [&["list"][..], &["job", "list"], &["resource", "list"], &["secret", "list"], &["state", "adopt"]]
        {
            yard.run(words).expect(0);
            assert_eq!(fs::read_dir(yard.path("empty")).unwrap().count(), 0, "{words:?}");
            assert_eq!(fs::metadata(yard.path("empty")).unwrap().mode() & 0o777, 0o755, "{words:?}");
        }
        yard.run(&["call", "tool"]).expect(0);
        assert_eq!(fs::metadata(yard.path("empty")).unwrap().mode() & 0o777, 0o700, "{run_as:?}");
        assert!(yard.path("empty/audit").is_dir());
    }
}

#[test]
fn files_are_not_changed_through_links_in_a_state_folder() {
    for run_as in RunAs::all() {
        let yard = yard_of(run_as);
        yard.file("precious/file", "precious ".repeat(20)).file("precious/folder/inner", "x");
        let precious = yard.path("precious");
        let targets = [
            ("audit", "folder"),
            ("blobs", "folder"),
            ("cache.sqlite", "file"),
            ("yard.sqlite", "new"),
            ("token", "file"),
            ("mcp.key", "file"),
            ("steady-clock", "file"),
            ("audit-index.sqlite", "new"),
        ];
        for (name, target) in targets {
            // In a folder that was shipped, and in one that is the yard's own.
            fs::create_dir(yard.path(".toolyard")).unwrap();
            own(&yard, run_as, ".toolyard");
            symlink(precious.join(target), yard.path(".toolyard").join(name)).unwrap();
            own(&yard, run_as, &format!(".toolyard/{name}"));
            assert_refused(&yard, &yard.path(".toolyard"), &precious, "it has no file 'origin'");
            let reason = format!("contains '{name}', which is a symbolic link");
            let refused = yard.run(&["state", "adopt"]).expect(7);
            assert!(refused.stderr.contains(&reason), "{refused:?}");
            fs::remove_dir_all(yard.path(".toolyard")).unwrap();
            yard.run(&["token"]).expect(0);
            let _ = fs::remove_file(yard.path(".toolyard").join(name));
            symlink(precious.join(target), yard.path(".toolyard").join(name)).unwrap();
            let reason = format!("contains the symbolic link '{name}'");
            assert_refused(&yard, &yard.path(".toolyard"), &precious, &reason);
            // Control: the same folder without the link.
            fs::remove_file(yard.path(".toolyard").join(name)).unwrap();
            yard.run(&["call", "tool"]).expect(0);
            fs::remove_dir_all(yard.path(".toolyard")).unwrap();
        }
    }
}

fn own(yard: &Yard, run_as: RunAs, path: &str) {
    if run_as == RunAs::Nobody {
        std::os::unix::fs::lchown(yard.path(path), Some(65534), Some(65534)).unwrap();
    }
}

#[test]
fn a_token_or_a_key_that_others_can_read_is_not_used() {
    for run_as in RunAs::all() {
        let yard = yard_of(run_as);
        for (file, content, words) in [
            ("token", "a".repeat(64), &["serve", "--listen", "127.0.0.1:0"][..]),
            ("token", "a".repeat(64), &["token"]),
            ("mcp.key", "k".repeat(32), &["stdio"]),
            ("mcp.key", "k".repeat(32), &["serve", "--listen", "127.0.0.1:0"]),
        ] {
            // Without a mark of this yard, whatever its mode.
            let name = format!(".toolyard/{file}");
            yard.file(&name, &content);
            fs::set_permissions(yard.path(&name), fs::Permissions::from_mode(0o600)).unwrap();
            let refused = yard.run(words).expect(7);
            assert!(refused.stderr.contains("it has no file 'origin'"), "{words:?}, {run_as:?}: {refused:?}");
            fs::remove_dir_all(yard.path(".toolyard")).unwrap();
            // Put into the yard's own folder afterwards, as git does.
            yard.run(&["call", "tool"]).expect(0);
            yard.file(&name, &content);
            fs::set_permissions(yard.path(&name), fs::Permissions::from_mode(0o644)).unwrap();
            let refused = yard.run(words).expect(7);
            let reason = format!("{file} is accessible to other users (mode 644), and is not used");
            assert!(refused.stderr.contains(&reason), "{words:?}, {run_as:?}: {refused:?}");
            fs::remove_dir_all(yard.path(".toolyard")).unwrap();
        }
        // Control: a token of the owner's own choice.
        yard.run(&["call", "tool"]).expect(0);
        yard.file(".toolyard/token", "a".repeat(64));
        fs::set_permissions(yard.path(".toolyard/token"), fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(yard.run(&["token"]).expect(0).stdout.trim(), "a".repeat(64));
    }
}

#[test]
fn the_origin_is_a_private_file_of_the_owner() {
    for run_as in RunAs::all() {
        let yard = yard_of(run_as);
        yard.run(&["call", "tool"]).expect(0);
        let origin = yard.path(".toolyard/origin");
        assert_eq!(fs::metadata(&origin).unwrap().mode() & 0o777, 0o600);
        fs::set_permissions(&origin, fs::Permissions::from_mode(0o644)).unwrap();
        let reason = "origin is accessible to other users (mode 644)";
        assert_refused(&yard, &yard.path(".toolyard"), &yard.root(), reason);
        if run_as == RunAs::Nobody {
            chown(&origin, Some(65533), None).unwrap();
            let refused = yard.run(&["call", "tool"]).expect(7);
            assert!(refused.stderr.contains("origin belongs to another user"), "{refused:?}");
            chown(&origin, Some(65534), None).unwrap();
        }
        fs::set_permissions(&origin, fs::Permissions::from_mode(0o600)).unwrap();
        if run_as == RunAs::Nobody {
            for (path, reason) in [
                (yard.path(".toolyard/audit"), "contains 'audit', which belongs to another user"),
                (yard.path(".toolyard"), "belongs to another user"),
            ] {
                chown(&path, Some(65533), None).unwrap();
                assert!(yard.run(&["call", "tool"]).expect(7).stderr.contains(reason), "{reason}");
                chown(&path, Some(65534), None).unwrap();
            }
            // Root does not use the state of another user: it could lead anywhere.
            let mut command = Command::new(crate::support::toolyard_path());
            command.args(["call", "tool", "--yard"]).arg(yard.root()).env("HOME", yard.home());
            let refused = run_for(command, TIMEOUT).expect(7);
            assert!(refused.stderr.contains("belongs to another user"), "{refused:?}");
        }
        yard.run(&["call", "tool"]).expect(0);
    }
}

#[test]
fn processes_that_create_the_state_folder_at_once_agree() {
    for round in 0..3 {
        let yard = yard_of(RunAs::CurrentUser);
        let start = |words: &[&str]| {
            let mut command = yard.command();
            command.args(words);
            Running::start(command)
        };
        let running: Vec<Running> = (0..12)
            .map(|index| match index % 3 {
                0 => start(&["token"]),
                1 => start(&["call", "tool"]),
                _ => start(&["job", "list"]),
            })
            .collect();
        let ended: Vec<CommandOutput> = running.into_iter().map(|one| one.finish(TIMEOUT)).collect();
        assert!(ended.iter().all(|one| one.code == 0), "round {round}: {ended:?}");
        let tokens: Vec<&str> = ended.iter().step_by(3).map(|one| one.stdout.as_str()).collect();
        assert!(tokens.iter().all(|token| *token == tokens[0] && token.len() == 65), "{tokens:?}");
        let left = fs::read_dir(yard.path(".toolyard")).unwrap().flatten();
        let left: Vec<_> =
            left.map(|entry| entry.file_name()).filter(|name| name.as_encoded_bytes()[0] == b'.').collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn only_a_folder_that_is_wholly_the_owners_and_not_in_use_is_adopted() {
    let (yard, _) = yard_with_open_job(RunAs::CurrentUser);
    let copy = unpacked(&yard, RunAs::CurrentUser);
    let inside = copy.path(".toolyard/audit/extra");
    let refuse = |what: &str| {
        let before = everything(&copy.path(".toolyard"));
        let refused = copy.run(&["state", "adopt"]).expect(7);
        assert!(refused.stderr.contains(what), "{what}: {refused:?}");
        assert_eq!(everything(&copy.path(".toolyard")), before, "{what}: it is not adopted by half");
        fs::remove_file(&inside).unwrap();
    };
    symlink("/etc/passwd", &inside).unwrap();
    refuse("contains 'audit/extra', which is a symbolic link");
    fs::hard_link(copy.path("toolyard.toml"), &inside).unwrap();
    refuse("contains 'audit/extra', which is a hard link to another file");
    if crate::support::is_root() {
        fs::write(&inside, "").unwrap();
        chown(&inside, Some(65533), None).unwrap();
        refuse("contains 'audit/extra', which is the property of another user");
    }
    // A server that started before the folder lost its origin.
    copy.run(&["state", "adopt"]).expect(0);
    let server = copy.serve();
    fs::remove_file(copy.path(".toolyard/origin")).unwrap();
    let refused = copy.run(&["state", "adopt"]).expect(9);
    assert!(
        refused.stderr.contains("is in use") && refused.stderr.contains("stop the yard's servers"),
        "{refused:?}"
    );
    signal(server.pid(), libc::SIGKILL);
    drop(server);
    let adopted = copy.run(&["state", "adopt", "--json"]).expect(0).json();
    assert_eq!(adopted, json!({"jobs_ended": 0}));
    assert!(copy.run(&["state", "adopt"]).expect(0).stderr.contains("is this yard's own already"));
    copy.run(&["audit", "verify"]).expect(0);
}
