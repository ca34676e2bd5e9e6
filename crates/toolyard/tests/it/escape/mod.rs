//! The escape suite: every known way out of the sandbox, attempted by a tool of the real program at each level, as
//! root and as an ordinary user.
//!
//! Each attempt has a positive control, the same code by the same user without a sandbox, and must end exactly as
//! [`table`] says: another error number fails the test, and so does a `possible` that is not. Attempts must not harm
//! the machine, not even in the control: what would (a reboot, another clock, swap space) is called with invalid
//! arguments, and the control is that the kernel answers about those instead of refusing the call.
//!
//! The table in `docs/sandbox.md` is written from what was observed (`UPDATE_GOLDEN=1`).

mod fixture;
mod table;

use crate::support::{RunAs, Yard, assert_no_survivor, require};
use fixture::{Fixture, Outcomes};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use table::{AREAS, Attempt, Control, attempts};

const LEVELS: [&str; 2] = ["full", "landlock"];

/// How the attempts of one user ended, at one level and without a sandbox.
struct Run {
    level: &'static str,
    run_as: RunAs,
    sandboxed: Outcomes,
    unconfined: Outcomes,
}

#[test]
fn every_attempt_to_escape_ends_as_the_guide_says() {
    let users = RunAs::all();
    let cases = LEVELS.into_iter().flat_map(|level| users.iter().map(move |run_as| (level, *run_as)));
    let runs: Vec<Run> = std::thread::scope(|scope| {
        let started: Vec<_> =
            cases.map(|(level, run_as)| scope.spawn(move || attempt_all(level, run_as))).collect();
        started.into_iter().map(|run| run.join().unwrap()).collect()
    });
    let wrong: Vec<String> =
        runs.iter().flat_map(|run| attempts().filter_map(|attempt| mistake(run, attempt))).collect();
    assert!(wrong.is_empty(), "{} outcomes are not as expected:\n{}", wrong.len(), wrong.join("\n"));
    let is_lacking = |run: &Run| run.unconfined.values().any(|control| control.starts_with("lacking: "));
    let is_complete = runs.len() == 4 && !runs.iter().any(is_lacking);
    if require(is_complete, "the table of the guide needs every attempt of both users") {
        compare_with_the_guide(&runs);
    }
}

fn attempt_all(level: &'static str, run_as: RunAs) -> Run {
    let fixture = Fixture::new(run_as, level);
    let (sandboxed, unconfined, marker) = (fixture.sandboxed(), fixture.unconfined(), fixture.marker());
    drop(fixture);
    assert_no_survivor(&marker, Duration::from_secs(5));
    Run { level, run_as, sandboxed, unconfined }
}

/// What is wrong with an attempt or with its control.
fn mistake(run: &Run, attempt: &Attempt) -> Option<String> {
    let Run { level, run_as, .. } = run;
    let (name, is_root) = (attempt.name, is_root(*run_as));
    let expected = if *level == "full" { attempt.full } else { attempt.landlock };
    let (of_root, of_user) = expected.split_once(" / ").unwrap_or((expected, expected));
    let expected = if is_root { of_root } else { of_user };
    let (outcome, control) = (&run.sandboxed[name], &run.unconfined[name]);
    if let Some(lack) = control.strip_prefix("lacking: ") {
        require(false, &format!("{name} is not attempted: {lack}"));
        return None;
    }
    if outcome != expected {
        return Some(format!("{name} at {level} as {run_as:?}: {outcome}, expected {expected}"));
    }
    let works = control == "possible";
    let should_work = is_root || attempt.control == Control::AnyUser;
    (works != should_work).then(|| format!("the control of {name} as {run_as:?}: {control}"))
}

fn is_root(run_as: RunAs) -> bool {
    run_as == RunAs::CurrentUser && crate::support::is_root()
}

fn compare_with_the_guide(runs: &[Run]) {
    let mut table = "| attempt | full | landlock | without a sandbox |\n|---|---|---|---|\n".to_owned();
    for area in AREAS {
        table += &format!("| **{}** | | | |\n", area.title);
        for Attempt { name, what, .. } in area.attempts {
            let [full, landlock] = LEVELS.map(|level| {
                let of_level = runs.iter().filter(|run| run.level == level);
                let mut outcomes: Vec<_> = of_level.map(|run| run.sandboxed[*name].as_str()).collect();
                outcomes.dedup();
                outcomes.join(" / ")
            });
            let works = |run: &Run| run.unconfined[*name] == "possible";
            let who = if runs.iter().all(works) { "any user" } else { "root" };
            table += &format!("| {what} | {full} | {landlock} | {who} |\n");
        }
    }
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sandbox.md");
    let text = fs::read_to_string(&page).unwrap();
    let (head, rest) = text.split_once("<!-- table -->\n").expect("the mark before the table");
    let rest = rest.trim_start_matches('\n').lines().skip_while(|line| line.starts_with('|'));
    let tail = rest.collect::<Vec<_>>().join("\n");
    let wanted = format!("{head}<!-- table -->\n\n{table}\n{}\n", tail.trim_start());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&page, &wanted).unwrap();
    }
    assert_eq!(fs::read_to_string(&page).unwrap(), wanted, "run the tests with UPDATE_GOLDEN=1");
}

#[test]
fn tools_that_cannot_be_sandboxed_are_refused_unless_the_yard_allows_them() {
    let yard = Yard::new();
    yard.file(
        "tools/t.tool.yaml",
        "id: t\nkind: cli\nentry: [echo, '1']\nsandbox: {network: [example.com]}\n",
    );
    yard.file("toolyard.toml", "[sandbox]\nlevel = \"landlock\"\n");
    let checked = yard.run(&["check"]).expect(3).stdout;
    assert!(
        checked.contains("cannot be sandboxed on this machine: a list of hosts needs the level full"),
        "{checked}"
    );
    yard.file("toolyard.toml", "[sandbox]\nlevel = \"landlock\"\nrequire = \"none\"\n");
    let checked = yard.run(&["check"]).expect(0).stdout;
    assert!(checked.contains("note: ") && checked.contains("as toolyard.toml allows"), "{checked}");
    assert_eq!(yard.serve().post("t", "{}").json()["meta"]["sandbox"], "none");
    for (wrong, what) in [
        ("sandbox: {network: egress-proxy}", "names no hosts"),
        ("sandbox: {network: ['https://x']}", "is not a host"),
        ("sandbox: {fs: {write: ['/']}}", "would expose too much"),
        ("sandbox: {fs: {read: ['../x']}}", "contains '..'"),
        ("sandbox: {fs: {read: [/proc/1]}}", "belongs to the kernel"),
        ("sandbox: {memmory: 5}", "did you mean"),
        ("sandbox: off", "must be 'none' or a map"),
    ] {
        yard.file("tools/t.tool.yaml", format!("id: t\nkind: cli\nentry: [echo, '1']\n{wrong}\n"));
        let checked = yard.run(&["check"]).expect(3).stdout;
        assert!(checked.contains(what), "{wrong}: {checked}");
    }
}

#[test]
fn a_list_of_hosts_opens_those_hosts_and_no_other() {
    let allowed = crate::support::Upstream::json("{\"reached\": true}");
    let other = crate::support::Upstream::json("{}");
    for run_as in RunAs::all() {
        let yard = Yard::of(run_as);
        let code = "import socket, urllib.request\n\
            def run(url, direct):\n    \
            if direct:\n        \
            socket.create_connection(('127.0.0.1', direct), 2)\n        return 'connected'\n    \
            return urllib.request.urlopen(url, timeout=5).read().decode()\n";
        yard.file("tools/fetch.py", code);
        yard.file(
            "tools/fetch.tool.yaml",
            format!(
                "id: fetch\nkind: python\nentry: tools.fetch:run\nsandbox: {{network: ['127.0.0.1:{}']}}\n",
                allowed.port
            ),
        );
        let call = |url: String, direct: u16| yard.call("fetch", &json!({"url": url, "direct": direct}));
        let (ran, envelope) = call(format!("http://127.0.0.1:{}/", allowed.port), 0);
        assert_eq!(ran.code, 0, "{run_as:?}: {envelope}");
        assert_eq!(envelope["data"]["result"], "{\"reached\": true}");
        for url in [
            format!("http://127.0.0.1:{}/", other.port),
            format!("http://localhost:{}/", other.port),
            "http://example.com/".to_owned(),
        ] {
            let (ran, envelope) = call(url.clone(), 0);
            assert_ne!(ran.code, 0, "{run_as:?} reached {url}: {envelope}");
        }
        for port in [other.port, allowed.port] {
            assert_ne!(call(String::new(), port).0.code, 0, "{run_as:?} went around the proxy");
        }
    }
    assert!(other.seen().is_empty(), "{:?}", other.seen());
}

#[test]
fn a_tool_without_a_sandbox_is_marked_everywhere() {
    let yard = Yard::new();
    yard.file("tools/free.tool.yaml", "id: free\nkind: cli\nentry: [echo, '1']\nsandbox: none\n");
    let checked = yard.run(&["check"]).expect(0).stdout;
    assert!(checked.contains("note: tools/free.tool.yaml: it runs without a sandbox"), "{checked}");
    assert!(yard.run(&["list"]).expect(0).stdout.contains("(no sandbox)"));
    assert_eq!(yard.run(&["list", "--json"]).expect(0).json()[0]["sandbox"], "none");
    assert!(yard.run(&["doctor"]).expect(0).stdout.contains("without a sandbox"));
    assert_eq!(yard.serve().post("free", "{}").json()["meta"]["sandbox"], "none");
}

#[test]
fn an_interpreter_in_the_home_folder_works_in_the_sandbox() {
    for run_as in RunAs::all() {
        let yard = Yard::of(run_as);
        let versions = yard.home().join(".manager/versions/3");
        let made = std::process::Command::new("/usr/bin/python3")
            .args(["-m", "venv", "--without-pip"])
            .arg(&versions)
            .status();
        assert!(made.unwrap().success());
        fs::create_dir_all(yard.home().join(".manager/shims")).unwrap();
        let shim = yard.home().join(".manager/shims/python3");
        fs::write(&shim, format!("#!/bin/sh\nexec {}/bin/python3 \"$@\"\n", versions.display())).unwrap();
        fs::set_permissions(&shim, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(yard.home().join("private"), "not for tools").unwrap();
        let code = "import os, sys\ndef run(home):\n    return {'prefix': sys.prefix, 'home': os.path.exists(home + '/private')}\n";
        yard.file("tools/where.py", code)
            .file("tools/where.tool.yaml", "id: where\nkind: python\nentry: tools.where:run\n");
        let mut command = yard.command();
        let path = format!("{}:/usr/bin:/bin", shim.parent().unwrap().display());
        command.env("PATH", path).args([
            "call",
            "where",
            &json!({"home": yard.home()}).to_string(),
            "--json",
        ]);
        let envelope = crate::support::run_for(command, crate::support::TIMEOUT).json();
        assert_eq!(envelope["data"], json!({"prefix": versions, "home": false}), "{run_as:?}: {envelope}");
    }
}
