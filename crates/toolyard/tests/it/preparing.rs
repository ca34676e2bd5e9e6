//! Preparing the environment of a uv script is a run in a sandbox, without the owner's environment, and one that
//! failed is not repeated.

use crate::support::{CommandOutput, RunAs, Yard, eventually, require, run_for};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(100);

fn manifest(yard: &Yard, more: &str) {
    let file = format!(
        r#"{{"id": "u", "runtime": "python-uv-script", "entry": {{"script": "tools/u/u.py"}}, "policy": {{"cpu_time_ms": 20000}}{more}}}"#
    );
    yard.file("tools/u/tool.json", file);
}

#[track_caller]
fn run(yard: &Yard, path: &str, words: &[&str]) -> CommandOutput {
    let mut command = yard.command();
    command.env("PATH", format!("{path}:/usr/bin:/bin")).env("OWNER_SECRET", "for nobody").args(words);
    run_for(command, LIMIT)
}

/// A program named `uv` that says what it sees in its working folder, counts its runs there, and fails.
fn failing_uv(yard: &Yard) -> (String, PathBuf) {
    let home = yard.home();
    fs::write(home.join("private"), "not for uv").unwrap();
    let traces = home.join("traces");
    fs::create_dir(&traces).unwrap();
    fs::set_permissions(&traces, fs::Permissions::from_mode(0o777)).unwrap();
    let text = format!(
        "#!/bin/sh\nmkdir -p \"$HOME\"\nw=$HOME/..\necho run >> \"$w/count\"\n\
         {{ echo \"secret=$OWNER_SECRET\"; cat {0}/private; echo ran > {0}/traces/ran; }} > \"$w/seen\" 2>&1\n\
         echo no such package >&2\nexit 2\n",
        home.display()
    );
    fs::create_dir(home.join("bin")).unwrap();
    fs::write(home.join("bin/uv"), text).unwrap();
    fs::set_permissions(home.join("bin/uv"), fs::Permissions::from_mode(0o755)).unwrap();
    (home.join("bin").display().to_string(), traces.join("ran"))
}

/// What the runs left in the folders of their environments: how often uv ran, and what it saw.
fn runs(yard: &Yard) -> (usize, String) {
    let (mut count, mut seen) = (0, String::new());
    for entry in fs::read_dir(yard.path(".toolyard/uv")).into_iter().flatten().flatten() {
        let read = |name: &str| fs::read_to_string(entry.path().join("work").join(name)).unwrap_or_default();
        count += read("count").lines().count();
        seen += &read("seen");
    }
    (count, seen)
}

fn script(dependency: &str) -> String {
    format!("# /// script\n# dependencies = [{dependency:?}]\n# ///\nprint(1)\n")
}

#[test]
fn a_preparation_is_confined_and_a_failed_one_is_not_repeated() {
    for run_as in RunAs::all() {
        let yard = Yard::of(run_as);
        let (path, mark) = failing_uv(&yard);
        manifest(&yard, "");
        yard.file("tools/u/u.py", script("nothing"));
        let prepared = run(&yard, &path, &["prepare"]).expect(9);
        assert!(prepared.stderr.contains("no such package"), "{run_as:?}: {prepared:?}");
        assert!(!mark.exists(), "{run_as:?}: uv wrote outside its folder");
        let (count, seen) = runs(&yard);
        assert_eq!(count, 1, "{run_as:?}");
        assert!(seen.contains("secret=\n") && !seen.contains("not for uv"), "{run_as:?}: {seen}");
        // Neither a call nor a server nor a reload tries again, and each says why.
        let called = run(&yard, &path, &["call", "u"]).expect(9);
        assert!(called.stderr.contains("not tried again until"), "{run_as:?}: {called:?}");
        let mut command = yard.command();
        command.env("PATH", format!("{path}:/usr/bin:/bin")).args(["serve", "--listen", "127.0.0.1:0"]);
        let server = crate::support::Server::start(command);
        eventually("the server says so", LIMIT, || server.stderr().contains("not tried again until"));
        manifest(&yard, r#", "description": "changed""#);
        let changed = || String::from_utf8_lossy(&server.get("/v1/tools/u").body).contains("changed");
        eventually("the reload", LIMIT, changed);
        assert_eq!(runs(&yard).0, 1, "{run_as:?}");
        // Other dependencies are tried, and so is everything by the command.
        yard.file("tools/u/u.py", script("other"));
        eventually("the new attempt", LIMIT, || runs(&yard).0 == 2);
        drop(server);
        run(&yard, &path, &["prepare"]).expect(9);
        assert_eq!(runs(&yard).0, 3, "{run_as:?}");
        // Control: outside the sandbox the same program leaves its trace and sees everything.
        let own = yard.home().join("own/home");
        fs::create_dir_all(&own).unwrap();
        let ran =
            Command::new(yard.home().join("bin/uv")).env("HOME", &own).env("OWNER_SECRET", "seen").output();
        assert_eq!(ran.unwrap().status.code(), Some(2));
        let seen = fs::read_to_string(yard.home().join("own/seen")).unwrap();
        assert!(mark.exists() && seen.contains("secret=seen") && seen.contains("not for uv"), "{seen}");
    }
}

#[test]
fn a_preparation_has_a_network_unless_the_yard_denies_it() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for run_as in RunAs::all() {
        for (setting, words) in [("allow", "net=yes --no-build"), ("deny", "net=no --no-build --offline")] {
            let yard = Yard::of(run_as);
            let uv = format!(
                "#!/bin/bash\nnet=no; (exec 3<>/dev/tcp/127.0.0.1/{port}) && net=yes\necho net=$net \"${{@:5}}\" >&2\nexit 1\n"
            );
            fs::create_dir(yard.home().join("bin")).unwrap();
            fs::write(yard.home().join("bin/uv"), uv).unwrap();
            fs::set_permissions(yard.home().join("bin/uv"), fs::Permissions::from_mode(0o755)).unwrap();
            manifest(&yard, "");
            yard.file("tools/u/u.py", script("x"))
                .file("toolyard.toml", format!("[prepare]\nnetwork = {setting:?}\n"));
            let ran = run(&yard, &yard.home().join("bin").display().to_string(), &["prepare"]).expect(9);
            assert!(ran.stderr.contains(words), "{setting}, {run_as:?}: {ran:?}");
        }
    }
}

/// A package of the yard without a wheel: its build backend records what it can reach.
fn package(yard: &Yard) {
    yard.file(
        "pkg/pyproject.toml",
        "[project]\nname = \"evil\"\nversion = \"1.0\"\n\
         [build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n",
    );
    let home = yard.home();
    yard.file(
        "pkg/backend.py",
        format!(
            "import os, zipfile\n\
             def build_wheel(folder, config_settings=None, metadata_directory=None):\n    \
             seen = {{'secret': os.environ.get('OWNER_SECRET')}}\n    \
             try:\n        seen['private'] = open('{0}/private').read()\n    \
             except OSError as error:\n        seen['private'] = error.errno\n    \
             try:\n        open('{0}/traces/ran', 'w').close()\n    \
             except OSError:\n        pass\n    \
             name = 'evil-1.0-py3-none-any.whl'\n    \
             with zipfile.ZipFile(os.path.join(folder, name), 'w') as wheel:\n        \
             wheel.writestr('evil.py', 'SEEN = ' + repr(seen))\n        \
             wheel.writestr('evil-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: evil\\nVersion: 1.0\\n')\n        \
             wheel.writestr('evil-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n        \
             wheel.writestr('evil-1.0.dist-info/RECORD', '')\n    \
             return name\n",
            home.display()
        ),
    );
    yard.file(
        "tools/u/u.py",
        "# /// script\n# dependencies = [\"evil\"]\n# [tool.uv.sources]\n# evil = { path = \"../../pkg\" }\n# ///\n\
         import evil, json\nprint(json.dumps(evil.SEEN))\n",
    );
}

#[test]
fn packages_are_built_only_where_the_tool_says_so_and_then_in_the_sandbox() {
    let tools = std::env::var("YARD_TEST_TOOLS").unwrap_or_default();
    if !require(PathBuf::from(&tools).join("uv").exists(), "uv is not in YARD_TEST_TOOLS") {
        return;
    }
    for run_as in RunAs::all() {
        let yard = Yard::of(run_as);
        // A copy, for a user who cannot enter the folder of the tests.
        fs::create_dir(yard.home().join("bin")).unwrap();
        fs::copy(PathBuf::from(&tools).join("uv"), yard.home().join("bin/uv")).unwrap();
        let path = yard.home().join("bin").display().to_string();
        fs::write(yard.home().join("private"), "not for builds").unwrap();
        fs::create_dir(yard.home().join("traces")).unwrap();
        fs::set_permissions(yard.home().join("traces"), fs::Permissions::from_mode(0o777)).unwrap();
        package(&yard);
        manifest(&yard, "");
        let refused = run(&yard, &path, &["prepare"]).expect(9);
        assert!(refused.stderr.contains("\"prepare\": {\"build\": true}"), "{run_as:?}: {refused:?}");
        assert!(!yard.home().join("traces/ran").exists(), "{run_as:?}: the package was built");
        manifest(&yard, r#", "prepare": {"build": true}"#);
        // Everything is there, so that the package index is not needed.
        yard.file("toolyard.toml", "[prepare]\nnetwork = \"deny\"\n");
        run(&yard, &path, &["prepare"]).expect(0);
        let called: Value = run(&yard, &path, &["call", "u", "--json"]).expect(0).json();
        assert_eq!(called["data"], json!({"secret": null, "private": 2}), "{run_as:?}: {called}");
        assert!(!yard.home().join("traces/ran").exists(), "{run_as:?}: the build wrote outside");
    }
}
