//! What a tool may use of the file system: what its file declares, opened without links, and never what would let it
//! give itself more. Each attack has its control: the same access where it is allowed.

use crate::support::{CommandOutput, RunAs, Server, TIMEOUT, Yard, run_for};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tries to read or write a path, and says what came of it.
const PROBE: &str = "import os, sys\n\
    def read(path):\n    \
    try:\n        return os.listdir(path) if os.path.isdir(path) else open(path).read()\n    \
    except OSError as error:\n        return {'errno': error.errno}\n\
    def write(path, text='x'):\n    \
    try:\n        os.makedirs(os.path.dirname(path), exist_ok=True)\n        open(path, 'w').write(text)\n        return 'written'\n    \
    except OSError as error:\n        return {'errno': error.errno}\n\
    def run(do, path, to=''):\n    \
    if do == 'swap':\n        os.rename(path, path + '.away')\n        os.symlink(to, path)\n        return 'swapped'\n    \
    if do == 'who':\n        return [sys.executable, sys.prefix]\n    \
    return read(path) if do == 'read' else write(path, to or 'x')\n";

fn tool(yard: &Yard, name: &str, fs: &str) {
    let file = format!("id: {name}\nkind: python\nentry: tools.probe:run\nsandbox: {{fs: {{{fs}}}}}\n");
    yard.file("tools/probe.py", PROBE).file(&format!("tools/{name}.tool.yaml"), file);
}

/// The result of a call, or the error's message.
#[track_caller]
fn call(yard: &Yard, name: &str, arguments: Value) -> Value {
    result(&yard.call(name, &arguments).1)
}

fn result(envelope: &Value) -> Value {
    let (data, error) = (&envelope["data"], &envelope["error"]["message"]);
    [error, &data["result"], data].into_iter().find(|value| !value.is_null()).cloned().unwrap_or_default()
}

/// A folder outside the yard that everybody can use.
fn outside(yard: &Yard, name: &str) -> PathBuf {
    let folder = fs::canonicalize(yard.home()).unwrap().parent().unwrap().join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    folder
}

fn real(path: PathBuf) -> PathBuf {
    fs::canonicalize(path).unwrap()
}

const ENOENT: i32 = 2;

#[test]
fn nothing_that_would_let_a_tool_permit_itself_more_is_writable() {
    for run_as in RunAs::all() {
        let yard = Yard::of(run_as);
        yard.file("data/.keep", "").file("prompts/x", "").file("skills/x", "").file("resources/x", "");
        yard.file(".venv/x", "").file(".git/x", "").file("mcp.json", "{}");
        let root = real(yard.root());
        let (whole, above) = (root.display().to_string(), root.parent().unwrap().display().to_string());
        tool(&yard, "first", "write: [data]");
        assert_eq!(call(&yard, "first", json!({"do": "write", "path": "data/new"})), "written", "{run_as:?}");
        for (path, reason) in [
            (".", "would make tools writable"),
            ("tools", "would make tools writable"),
            ("tools/made", "lies in tools"),
            ("prompts", "would make prompts writable"),
            ("resources", "would make resources writable"),
            ("skills", "would make skills writable"),
            ("toolyard.toml", "would make toolyard.toml writable"),
            ("mcp.json", "would make mcp.json writable"),
            (".venv", "would make .venv writable"),
            (".git", "would make .git writable"),
            (".toolyard", "lies in the state folder"),
            (&whole, "would make tools writable"),
            (&above, "contains a home folder"),
        ] {
            tool(&yard, "wide", &format!("write: ['{path}']"));
            let checked = yard.run(&["check"]).stdout;
            assert!(checked.contains(reason), "{path}, {run_as:?}: {checked}");
            let evil = json!({"do": "write", "path": "tools/made/evil.tool.yaml",
                "to": "id: evil\nkind: cli\nentry: [echo, '1']\nsandbox: none\n"});
            let answer = call(&yard, "wide", evil);
            assert!(answer != "written", "{path}, {run_as:?}: {answer}");
            assert!(!yard.path("tools/made").exists(), "{path}, {run_as:?}");
        }
    }
}

#[test]
fn a_tool_without_a_sandbox_is_not_made_of_what_another_may_write() {
    for run_as in RunAs::all() {
        let yard = Yard::of(run_as);
        yard.file("lib/other.sh", "echo '\"as written\"'\n").file("lib/notes.txt", "data");
        let other = "id: other\nkind: cli\nentry: [/bin/sh, lib/other.sh]\nsandbox: none\n";
        yard.file("tools/other.tool.yaml", other);
        assert_eq!(call(&yard, "other", json!({})), "as written", "{run_as:?}: control");
        tool(&yard, "t", "write: [lib]");
        let checked = yard.run(&["check"]).expect(3).stdout;
        let reason = "its entry names lib/other.sh, which tools/t.tool.yaml lets a tool write, and it runs without a sandbox";
        assert!(checked.contains(reason), "{run_as:?}: {checked}");
        let evil = json!({"do": "write", "path": "lib/other.sh", "to": "echo '\"replaced\"'\n"});
        assert_eq!(call(&yard, "t", evil), "written", "{run_as:?}");
        let refused = yard.call("other", &json!({})).1;
        assert_eq!(refused["error"]["error_details"]["kind"], "unknown_tool", "{run_as:?}: {refused}");
        // Control: it runs once its code is elsewhere, with data of that folder that it declares.
        yard.file("tools/other.sh", "cat \"$1\"\n").file("lib/notes.txt", "\"data\"");
        let entry = "id: other\nkind: cli\nentry: [/bin/sh, tools/other.sh, lib/notes.txt]\n";
        yard.file("tools/other.tool.yaml", format!("{entry}sandbox: {{fs: {{read: [lib]}}}}\n"));
        assert_eq!(call(&yard, "other", json!({})), "data", "{run_as:?}");
        assert_eq!(call(&yard, "t", json!({"do": "write", "path": "lib/new"})), "written", "{run_as:?}");
    }
}

#[test]
fn a_yard_that_a_tool_made_is_not_found_by_itself() {
    for run_as in RunAs::all() {
        let yard = Yard::of(run_as);
        yard.file("data/.keep", "")
            .file("own/tools/mine.tool.yaml", "id: mine\nkind: cli\nentry: [echo, '1']\n");
        tool(&yard, "first", "write: [data]");
        let evil = "id: evil\nkind: cli\nentry: [echo, '1']\nsandbox: none\n";
        let made = json!({"do": "write", "path": "data/tools/evil.tool.yaml", "to": evil});
        assert_eq!(call(&yard, "first", made), "written");
        let list_in = |folder: &str, more: &[&str]| {
            let mut command = yard.command();
            command.current_dir(yard.path(folder)).arg("list").args(more);
            run_for(command, TIMEOUT)
        };
        let refused = list_in("data", &[]);
        assert!(refused.stderr.contains("lies where the tool 'first'"), "{run_as:?}: {refused:?}");
        assert!(!refused.stdout.contains("evil"), "{run_as:?}: {refused:?}");
        // Control: one that no tool can write is found, and one that is named is used.
        assert!(list_in("own", &[]).expect(0).stdout.contains("mine"));
        assert!(list_in("data", &["--yard", "."]).expect(0).stdout.contains("evil"));
    }
}

#[test]
fn a_link_in_the_yard_grants_nothing() {
    for run_as in RunAs::all() {
        let yard = Yard::of(run_as);
        let target = outside(&yard, "outside");
        fs::write(target.join("note"), "not for tools").unwrap();
        symlink(&target, yard.path("data")).unwrap();
        for access in ["read", "write"] {
            tool(&yard, "linked", &format!("{access}: [data]"));
            let checked = yard.run(&["check"]).expect(3).stdout;
            assert!(checked.contains("is a symbolic link or leads through one"), "{run_as:?}: {checked}");
            assert!(checked.contains(target.to_str().unwrap()), "the real path is named: {checked}");
        }
        assert_ne!(call(&yard, "linked", json!({"do": "write", "path": "data/new"})), "written");
        assert!(!target.join("new").exists(), "{run_as:?}");
        // Controls: a folder of the yard, and the same folder as an absolute path, which `show` prints.
        fs::remove_file(yard.path("data")).unwrap();
        yard.file("data/.keep", "");
        tool(&yard, "linked", "write: [data]");
        assert_eq!(
            call(&yard, "linked", json!({"do": "write", "path": "data/new"})),
            "written",
            "{run_as:?}"
        );
        tool(&yard, "linked", &format!("write: ['{}']", target.display()));
        let checked = yard.run(&["check"]).expect(0).stdout;
        let words = format!("it may write {}, which is outside the yard", target.display());
        assert!(checked.contains(&words), "{checked}");
        let shown = yard.run(&["show", "linked"]).expect(0).stdout;
        assert!(shown.contains(&format!("write {}  (tool file)", target.display())), "{shown}");
        assert_eq!(call(&yard, "linked", json!({"do": "write", "path": target.join("new")})), "written");
    }
}

#[test]
fn a_tool_cannot_redirect_the_grant_of_another() {
    for run_as in RunAs::all() {
        // The folder itself, and a folder above it.
        for (granted, swapped) in [("data/out", "data/out"), ("data/a/b", "data/a")] {
            let yard = Yard::of(run_as);
            let target = outside(&yard, "outside");
            fs::create_dir_all(target.join("b")).unwrap();
            fs::set_permissions(target.join("b"), fs::Permissions::from_mode(0o777)).unwrap();
            yard.file(&format!("{granted}/.keep"), "");
            tool(&yard, "attacker", "write: [data]");
            tool(&yard, "victim", &format!("write: ['{granted}']"));
            let server = yard.serve();
            let post = |name: &str, body: Value| server.post(name, body.to_string()).json();
            let write = json!({"do": "write", "path": yard.path(granted).join("new")});
            assert_eq!(post("victim", write.clone())["body"], "written", "{run_as:?}: control");
            let swap = json!({"do": "swap", "path": yard.path(swapped), "to": target});
            assert_eq!(post("attacker", swap)["body"], "swapped", "{run_as:?}");
            let answer = post("victim", write);
            assert!(
                answer.to_string().contains("is a symbolic link or leads through one"),
                "{run_as:?}: {answer}"
            );
            assert!(!target.join("new").exists() && !target.join("b/new").exists(), "{run_as:?}");
        }
        let yard = Yard::of(run_as);
        yard.file("data/a/b/.keep", "");
        for nested in ["write: [data, data/a/b]", "write: [data], read: [data/a]"] {
            tool(&yard, "nested", nested);
            let checked = yard.run(&["check"]).expect(3).stdout;
            assert!(checked.contains("which the tool may write already"), "{nested}: {checked}");
        }
    }
}

/// The check and the use are not the same moment: a swap in between must not help.
#[test]
fn a_path_that_is_swapped_all_the_time_never_leads_outside() {
    for level in ["full", "landlock"] {
        for run_as in RunAs::all() {
            let yard = Yard::of(run_as);
            let target = outside(&yard, "outside");
            fs::create_dir_all(target.join("b")).unwrap();
            fs::set_permissions(target.join("b"), fs::Permissions::from_mode(0o777)).unwrap();
            yard.file("data/a/b/.keep", "")
                .file("toolyard.toml", format!("[sandbox]\nlevel = \"{level}\"\n"));
            tool(&yard, "victim", "write: [data/a/b]");
            let server = yard.serve();
            let (folder, away, link) = (yard.path("data/a"), yard.path("data/away"), yard.path("data/link"));
            symlink(&target, &link).unwrap();
            let stop = AtomicBool::new(false);
            let write = json!({"do": "write", "path": yard.path("data/a/b/new")}).to_string();
            let outcomes: Vec<String> = std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        fs::rename(&folder, &away).unwrap();
                        fs::rename(&link, &folder).unwrap();
                        std::thread::sleep(std::time::Duration::from_micros(300));
                        fs::rename(&folder, &link).unwrap();
                        fs::rename(&away, &folder).unwrap();
                        std::thread::sleep(std::time::Duration::from_micros(300));
                    }
                });
                let outcomes =
                    (0..60).map(|_| server.post("victim", &write).json()["body"].to_string()).collect();
                stop.store(true, Ordering::Relaxed);
                outcomes
            });
            assert!(!target.join("b/new").exists(), "{level}, {run_as:?}: written outside");
            let written = outcomes.iter().filter(|outcome| *outcome == "\"written\"").count();
            assert!(written < outcomes.len(), "{level}, {run_as:?}: no swap was seen");
            assert_eq!(
                server.post("victim", &write).json()["body"],
                "written",
                "{level}, {run_as:?}: control"
            );
        }
    }
}

#[test]
fn a_virtual_environment_grants_only_a_python_installation() {
    for run_as in RunAs::all() {
        let yard = Yard::of(run_as);
        let private = outside(&yard, "private");
        fs::write(private.join("secret"), "not for tools").unwrap();
        let read = json!({"do": "read", "path": private.join("secret")});
        let config = format!("home = {}\nversion = 3\n", private.display());
        // At the root of the yard, where no environment is.
        yard.file("pyvenv.cfg", &config);
        yard.executable(
            "bin/peek",
            format!("#!/bin/sh\ncat {}/secret && exit\necho '\"nothing\"'\n", private.display()),
        );
        yard.file("tools/peek.tool.yaml", "id: peek\nkind: cli\nentry: [bin/peek]\n");
        assert_eq!(call(&yard, "peek", json!({})), "nothing", "{run_as:?}");
        // A real environment works, and `home` or a link that leads elsewhere does not.
        let made = Command::new("/usr/bin/python3")
            .args(["-m", "venv", "--without-pip"])
            .arg(yard.path(".venv"))
            .status();
        assert!(made.unwrap().success());
        tool(&yard, "t", "");
        let who = call(&yard, "t", json!({"do": "who", "path": ""}));
        assert_eq!(who[1], json!(real(yard.path(".venv"))), "{run_as:?}: control");
        yard.file(".venv/pyvenv.cfg", &config);
        assert_eq!(call(&yard, "t", read.clone())["errno"], ENOENT, "{run_as:?}");
        yard.file(".venv/pyvenv.cfg", format!("home = {}\n", yard.path(".toolyard/secrets").display()));
        let state = json!({"do": "read", "path": yard.path(".toolyard/secrets")});
        assert_eq!(call(&yard, "t", state)["errno"], ENOENT, "{run_as:?}");
        // Control: the same folder, declared.
        fs::remove_file(yard.path(".venv/pyvenv.cfg")).unwrap();
        fs::remove_dir_all(yard.path(".venv")).unwrap();
        tool(&yard, "t", &format!("read: ['{}']", private.display()));
        assert_eq!(call(&yard, "t", read), "not for tools", "{run_as:?}");
    }
}

/// A copy of the machine's Python at a place of the owner.
fn python_at(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::copy(real(PathBuf::from("/usr/bin/python3")), path).unwrap();
}

#[test]
fn an_interpreter_shows_its_own_files_and_not_the_folder_it_shares() {
    for run_as in RunAs::all() {
        for (program, private) in [
            (".local/bin/python3", ".local/share/keyrings/secret"),
            (".local/bin/python3", ".local/bin/other"),
            ("bin/python3", "documents/secret"),
            ("apps/py/bin/python3", "apps/py/secret"),
            ("apps/python3", "apps/secret"),
        ] {
            let yard = Yard::of(run_as);
            let home = real(yard.home());
            python_at(&home.join(program));
            fs::create_dir_all(home.join(private).parent().unwrap()).unwrap();
            fs::write(home.join(private), "not for tools").unwrap();
            tool(&yard, "t", "");
            let call = |arguments: Value| {
                let mut command = yard.command();
                let path = format!("{}:/usr/bin:/bin", home.join(program).parent().unwrap().display());
                command.env("PATH", path).args(["call", "t", &arguments.to_string(), "--json"]);
                result(&run_for(command, TIMEOUT).json())
            };
            let who = call(json!({"do": "who", "path": ""}));
            assert_eq!(who[0], json!(home.join(program)), "{run_as:?}: control");
            let seen = call(json!({"do": "read", "path": home.join(private)}));
            assert_eq!(seen["errno"], ENOENT, "{program} shows {private}, {run_as:?}: {seen}");
        }
    }
}

#[test]
fn a_yard_that_is_a_home_folder_is_refused_until_it_says_so() {
    for run_as in RunAs::all() {
        let yard = Yard::of(run_as);
        yard.file("private", "the owner's");
        tool(&yard, "t", "");
        let run = |words: &[&str]| {
            let mut command = yard.command();
            command.env("HOME", yard.root()).args(words);
            run_for(command, TIMEOUT)
        };
        let checked = run(&["check"]).expect(3).stdout;
        assert!(checked.contains("holds the home folder") && checked.contains("allow_home"), "{checked}");
        let read = json!({"do": "read", "path": "private"}).to_string();
        assert_eq!(run(&["call", "t", &read]).code, 4, "{run_as:?}");
        yard.file("toolyard.toml", "[sandbox]\nallow_home = true\n");
        assert!(run(&["call", "t", &read]).expect(0).stdout.contains("the owner's"), "{run_as:?}: control");
    }
}

#[test]
fn no_grant_opens_the_state_folder_or_a_home_folder() {
    for run_as in RunAs::all() {
        let yard = Yard::of(run_as);
        yard.file("data/note", "for tools");
        tool(&yard, "t", "read: [data]");
        assert_eq!(
            call(&yard, "t", json!({"do": "read", "path": "data/note"})),
            "for tools",
            "{run_as:?}: control"
        );
        fs::create_dir_all(yard.path(".toolyard/secrets")).unwrap();
        let state = real(yard.path(".toolyard")).display().to_string();
        let home = real(yard.home()).display().to_string();
        for (path, reason) in [
            (".toolyard", "lies in the state folder"),
            (".toolyard/secrets", "lies in the state folder"),
            (state.as_str(), "lies in the state folder"),
            (home.as_str(), "is a home folder"),
            ("/root", "would expose too much"),
            ("/etc", "would expose too much"),
            ("/proc/self", "belongs to the kernel"),
        ] {
            tool(&yard, "t", &format!("read: ['{path}']"));
            let checked = yard.run(&["check"]).expect(3).stdout;
            assert!(checked.contains(reason), "{path}, {run_as:?}: {checked}");
        }
    }
}

#[test]
fn a_state_folder_that_is_a_link_is_refused_and_one_that_others_can_read_is_closed() {
    for run_as in RunAs::all() {
        let yard = Yard::of(run_as);
        tool(&yard, "t", "");
        let elsewhere = outside(&yard, "elsewhere");
        symlink(&elsewhere, yard.path(".toolyard")).unwrap();
        let who = json!({"do": "who", "path": ""}).to_string();
        for words in [&["list"][..], &["call", "t", &who], &["secret", "list"], &["audit", "list"]] {
            let refused: CommandOutput = yard.run(words);
            assert!(refused.stderr.contains("is a symbolic link"), "{words:?}, {run_as:?}: {refused:?}");
        }
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0, "{run_as:?}: it was followed");
        fs::remove_file(yard.path(".toolyard")).unwrap();
        yard.run(&["call", "t", &who]).expect(0);
        fs::set_permissions(yard.path(".toolyard"), fs::Permissions::from_mode(0o755)).unwrap();
        assert!(yard.run(&["doctor"]).stdout.contains("is open to other users"), "{run_as:?}");
        yard.run(&["call", "t", &who]).expect(0);
        assert_eq!(fs::metadata(yard.path(".toolyard")).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(!yard.run(&["doctor"]).stdout.contains("is open to other users"), "{run_as:?}");
    }
}

#[test]
fn show_prints_what_is_in_force_with_its_origin() {
    for run_as in RunAs::all() {
        let yard = Yard::of(run_as);
        yard.file("data/.keep", "");
        let models = outside(&yard, "models");
        python_at(&yard.home().join(".local/bin/python3"));
        yard.file("tools/probe.py", PROBE).file(
            "tools/t.tool.yaml",
            format!(
                "id: t\nkind: python\nentry: tools.probe:run\n\
             sandbox: {{network: ['*.example.com', '127.0.0.1:80'], fs: {{read: ['{}'], write: [data]}}}}\n",
                models.display()
            ),
        );
        let show = |server: Option<&Server>| {
            let mut command = yard.command();
            command.env("PATH", format!("{}:/usr/bin:/bin", yard.home().join(".local/bin").display()));
            command.args(["show", "t"]);
            command.args(server.map(|server| format!("--url=http://{}", server.address)));
            run_for(command, TIMEOUT).expect(0).stdout
        };
        let root = real(yard.root());
        let (page, home) = (show(None), yard.home());
        for line in [
            "network         *.example.com, 127.0.0.1:80".to_owned(),
            format!("files           read  {}  (yard)", root.display()),
            format!("read  {}  (program)", home.join(".local/bin/python3").display()),
            format!("read  {}  (tool file)", models.display()),
            format!("write {}  (tool file)", root.join("data").display()),
        ] {
            assert!(page.contains(&line), "no {line:?} in:\n{page}");
        }
        let server = yard.serve();
        assert!(show(Some(&server)).contains(&format!("write {}  (tool file)", root.join("data").display())));
        yard.file("tools/free.tool.yaml", "id: free\nkind: cli\nentry: [echo, '1']\nsandbox: none\n");
        let free = yard.run(&["show", "free"]).expect(0).stdout;
        assert!(free.contains("sandbox         none") && !free.contains("(yard)"), "{free}");
    }
}
