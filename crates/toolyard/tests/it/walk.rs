//! `docs/walk.md` against what really runs: the source files of one warm `tools/call` over HTTP, found by callgrind.

use crate::docs::repository;
use crate::instructions::{CALL, HEADERS, valgrind};
use crate::support::{Client, Server, Yard};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The most files a call may run through, and the most stations of the page they are named under.
const MAX_FILES: usize = 45;
const MAX_STATIONS: usize = 12;

/// Calls that are traced, each by itself. What runs now and then only, such as a look for changed secrets, is not part of
/// a call: a file counts when it ran in every one of them.
const TRACED: usize = 5;

#[test]
fn the_walk_names_every_file_that_a_warm_call_runs_through() {
    let Some(valgrind) = valgrind() else { return };
    let page = std::fs::read_to_string(repository().join("docs/walk.md")).unwrap();
    let stations = page.lines().filter(|line| line.starts_with("## ")).count();
    assert!(stations <= MAX_STATIONS, "{stations} stations; at most {MAX_STATIONS}");
    let named: BTreeSet<String> = page
        .split("](../")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(path, _)| path.to_owned())
        .filter(|path| path.ends_with(".rs"))
        .collect();
    let ran = files_of_a_warm_call(valgrind);
    println!("{} files of a warm call, under {stations} stations", ran.len());
    let missing: Vec<_> = ran.difference(&named).collect();
    let idle: Vec<_> = named.difference(&ran).collect();
    assert!(
        missing.is_empty() && idle.is_empty(),
        "not named: {missing:#?}; named, but did not run: {idle:#?}"
    );
    assert!(ran.len() <= MAX_FILES, "a call runs through {} files; at most {MAX_FILES}: {ran:#?}", ran.len());
}

fn files_of_a_warm_call(mut valgrind: Command) -> BTreeSet<String> {
    let yard = Yard::without_secret();
    yard.file("toolyard.toml", "[builtin]\necho = true\n");
    let profile = yard.home().join("callgrind");
    valgrind.args(["--separate-threads=yes", &format!("--callgrind-out-file={}", profile.display())]);
    valgrind.arg(crate::support::toolyard_path());
    valgrind.args(["serve", "--listen", "127.0.0.1:0"]).current_dir(yard.root()).env("HOME", yard.home());
    let server = Server::start(valgrind);
    let mut client = Client::connect(&server.address);
    let mut call = || {
        let answer = client.send("POST", "/mcp", HEADERS, CALL.as_bytes());
        assert_eq!(answer.status, 200, "{answer:?}");
    };
    (0..20).for_each(|_| call());
    // Each dump covers what ran since the one before.
    for _ in 0..=TRACED {
        let dumped =
            Command::new("callgrind_control").args(["--dump", &server.pid().to_string()]).output().unwrap();
        assert!(dumped.status.success(), "{}", String::from_utf8_lossy(&dumped.stderr));
        call();
        // Until the worker has parked, so that the whole call is in one dump.
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(client);
    assert_eq!(server.stop(), 0);
    let calls: Vec<BTreeSet<String>> =
        (2..2 + TRACED).map(|dump| files_of_the_calls_thread(&profile, dump)).collect();
    let every = calls.iter().skip(1).fold(calls[0].clone(), |all, one| &all & one);
    assert!(!every.is_empty(), "no call was found in the profile: {calls:#?}");
    every
}

/// The files of the thread that carried out the call. Other threads do work that no call waits for.
fn files_of_the_calls_thread(profile: &Path, dump: usize) -> BTreeSet<String> {
    let name = format!("{}.{dump}-", profile.file_name().unwrap().to_str().unwrap());
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(profile.parent().unwrap()).unwrap() {
        let entry = entry.unwrap();
        if !entry.file_name().to_str().unwrap().starts_with(&name) {
            continue;
        }
        let (files, carried_out_the_call) = read_profile(&std::fs::read_to_string(entry.path()).unwrap());
        if carried_out_the_call {
            found.extend(files);
        }
    }
    found
}

/// Reads callgrind's format: `fl=`, `fi=` and `fe=` name the file of the cost lines that follow, `fn=` their function, and
/// the line after `calls=` is the cost of the called function. Names stand once and are then referred to by number.
fn read_profile(text: &str) -> (BTreeSet<String>, bool) {
    let (mut files, mut functions) = (BTreeMap::new(), BTreeMap::new());
    let (mut file, mut function) = (String::new(), String::new());
    let (mut is_call, mut position, mut executes) = (false, 0_i64, false);
    let mut ran = BTreeSet::new();
    for line in text.lines() {
        if let Some((key, value)) = line.split_once('=') {
            match key {
                "fl" | "fi" | "fe" => file = resolve(&mut files, value),
                "cfi" | "cfl" => drop(resolve(&mut files, value)),
                "fn" => function = resolve(&mut functions, value),
                "cfn" => drop(resolve(&mut functions, value)),
                "calls" => is_call = true,
                _ => {}
            }
            continue;
        }
        let Some(at) = line.split(' ').next().filter(|at| at.starts_with(['+', '-', '*']) || is_number(at))
        else {
            continue;
        };
        match at.as_bytes() {
            [b'*'] => {}
            [b'+' | b'-', ..] => position += at.parse::<i64>().unwrap(),
            _ => position = at.parse().unwrap(),
        }
        if std::mem::take(&mut is_call) {
            continue;
        }
        executes |= function.contains("toolyard_engine::execute");
        // Line 0 is glue of the compiler's; functions of other crates that are compiled here are not ours.
        if position != 0
            && function.contains("toolyard")
            && let Some((_, path)) = file.split_once("/crates/").or_else(|| file.split_once("crates/"))
            && path.split('/').nth(1) == Some("src")
        {
            ran.insert(format!("crates/{path}"));
        }
    }
    (ran, executes)
}

/// `(12) name` defines a name, `(12)` refers to it.
fn resolve(names: &mut BTreeMap<String, String>, value: &str) -> String {
    match value.split_once(") ") {
        Some((number, name)) => {
            names.insert(number.to_owned(), name.to_owned());
            name.to_owned()
        }
        None => names.get(value.trim_end_matches(')')).cloned().unwrap_or_default(),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
