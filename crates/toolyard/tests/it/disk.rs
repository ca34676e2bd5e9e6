//! A full disk under the audit log: nothing runs unaudited, and calls work again once there is free space.

use crate::support::{Kind, Server, TIMEOUT, Yard, eventually, is_root, require};
use serde_json::json;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

/// The server in a mount namespace of its own, with a small tmpfs as state folder. `None` where mounts are refused.
fn serve_on_a_small_disk(yard: &Yard, size: &str) -> Option<(Server, PathBuf)> {
    let state = yard.path(".toolyard");
    fs::create_dir(&state).unwrap();
    let program = yard.command();
    let unshare: &[&str] = if is_root() { &["-m"] } else { &["-r", "-m"] };
    let mount = format!("mount -t tmpfs -o size={size},mode=700 tmpfs '{}'", state.display());
    let possible = Command::new("unshare").args(unshare).args(["sh", "-c", &mount]).status();
    if !require(
        possible.is_ok_and(|status| status.success()),
        "mounts are refused, so there is no disk to fill",
    ) {
        return None;
    }
    let serve =
        format!("{mount} && exec '{}' serve --listen 127.0.0.1:0", program.get_program().to_string_lossy());
    let mut command = Command::new("unshare");
    command.args(unshare).args(["sh", "-c", &serve]).current_dir(yard.root()).env_clear();
    command.env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin").env("HOME", "/nonexistent");
    let server = Server::start(command);
    let seen = PathBuf::from(format!("/proc/{}/root{}", server.pid(), state.display()));
    Some((server, seen))
}

fn fill(file: &PathBuf) {
    let mut ballast = fs::File::create(file).unwrap();
    while ballast.write_all(&[1; 4096]).is_ok() {}
    while ballast.write_all(&[1]).is_ok() {}
}

#[test]
fn a_full_disk_refuses_calls_before_they_run_and_free_space_restores_them() {
    let yard = Yard::without_secret();
    let script = "echo x >>data/ran; echo '{\"n\":1}'";
    let writes = json!({"sandbox": {"fs": {"write": ["data"]}}});
    yard.file("data/.keep", "");
    yard.tool(Kind::Cli, "tool", &["/bin/sh", "-c", script], writes);
    let Some((server, state)) = serve_on_a_small_disk(&yard, "256k") else { return };
    let runs = || fs::read_to_string(yard.path("data/ran")).map_or(0, |text| text.lines().count());
    // Opening the database may take up the space for a moment.
    eventually("a call runs", TIMEOUT, || server.post("tool", "{}").status == 200);
    let (ballast, mut before) = (state.join("ballast"), runs());
    for _ in 0..2 {
        fill(&ballast);
        let mut refused = 0;
        // The log may use up its reserved space; then calls must be refused before they run.
        for _ in 0..200 {
            let answer = server.post("tool", json!({"fill": "x".repeat(2000)}).to_string());
            if answer.status == 200 {
                before += 1;
                continue;
            }
            refused += 1;
            let error = answer.json()["error"].clone();
            assert_eq!(
                (answer.status, &error["details"]["kind"]),
                (503, &json!("audit_unavailable")),
                "{error}"
            );
            assert!(error["message"].as_str().unwrap().contains("no space for the audit log"), "{error}");
            assert!(error["details"]["hint"].as_str().unwrap().contains("free space"), "{error}");
            assert_eq!(error["details"]["retryable"], true);
        }
        assert!(refused > 100, "the disk was not full");
        assert_eq!(runs(), before, "a refused call ran");
        assert_eq!(server.get("/healthz").status, 200);
        fs::remove_file(&ballast).unwrap();
        assert_eq!(server.post("tool", "{}").status, 200);
        before += 1;
        assert_eq!(runs(), before);
    }
    // The log is intact; it is read in the server's mount namespace.
    let copy = Yard::new();
    assert!(Command::new("cp").arg("-r").arg(&state).arg(copy.path(".toolyard")).status().unwrap().success());
    copy.run(&["state", "adopt"]).expect(0);
    let verified = copy.run(&["audit", "verify", "--json"]).expect(0).json();
    assert_eq!(verified["intact"], true, "{verified}");
    assert_eq!(server.stop(), 0);
}

#[test]
fn a_state_folder_that_cannot_be_created_refuses_calls_with_the_reason() {
    let yard = Yard::new();
    yard.shell(Kind::Cli, "tool", "touch ran; echo 1").file("blocked", "a file, no folder");
    yard.file("toolyard.toml", "[state]\ndir = \"blocked/state\"\n");
    let ran = yard.run(&["call", "tool"]).expect(9);
    assert!(ran.stderr.contains("blocked/state") && ran.stderr.contains("hint: "), "{ran:?}");
    assert!(!yard.path("ran").exists());
    yard.run(&["doctor"]).expect(9);
}

#[test]
fn a_state_folder_that_is_removed_refuses_calls_until_it_is_back() {
    let yard = Yard::new();
    let writes = |timing: &str| json!({"timing": timing, "sandbox": {"fs": {"write": ["data"]}}});
    yard.file("data/.keep", "");
    for timing in ["sync", "async_short"] {
        yard.tool(
            Kind::Cli,
            timing,
            &["/bin/sh", "-c", "echo x >>data/ran; echo '{\"n\":1}'"],
            writes(timing),
        );
    }
    let server = yard.serve();
    let runs = || fs::read_to_string(yard.path("data/ran")).map_or(0, |text| text.lines().count());
    let call = |tool: &str| server.client().send("POST", &format!("/v1/tools/{tool}"), &[], b"{}");
    for tool in ["sync", "async_short"] {
        assert_eq!(call(tool).status, 200);
    }
    fs::remove_dir_all(yard.path(".toolyard")).unwrap();
    for tool in ["sync", "async_short", "sync"] {
        let refused = call(tool);
        assert_eq!((refused.status, runs()), (503, 2), "{}", refused.json());
    }
    assert!(!yard.path(".toolyard").exists(), "it is not created again");
    fs::create_dir(yard.path(".toolyard")).unwrap();
    for tool in ["sync", "async_short"] {
        assert_eq!(call(tool).status, 200, "{}", call(tool).json());
    }
    assert_eq!(server.stop(), 0);
    // No command created it, so that the next one does not know it until its owner says whose it is.
    let refused = yard.run(&["audit", "export"]).expect(7);
    assert!(refused.stderr.contains("it has no file 'origin'"), "{refused:?}");
    yard.run(&["state", "adopt"]).expect(0);
    let kinds: Vec<String> =
        yard.records().iter().map(|record| record["kind"].as_str().unwrap().to_owned()).collect();
    assert!(kinds.iter().filter(|kind| *kind == "end").count() >= 2, "{kinds:?}");
}

#[test]
fn a_server_stops_although_the_disk_is_full_and_a_job_runs() {
    let yard = Yard::without_secret();
    for (name, safe) in [("once", false), ("again", true)] {
        let extra = json!({"timing": "async_long", "annotations": {"idempotentHint": safe}});
        yard.tool(Kind::Cli, name, &["/bin/sh", "-c", "sleep 1000"], extra);
    }
    let Some((mut server, state)) = serve_on_a_small_disk(&yard, "8m") else { return };
    let mut jobs = Vec::new();
    for tool in ["once", "again"] {
        let answer = server.client().send("POST", &format!("/v1/tools/{tool}"), &[], b"{}");
        assert_eq!(answer.status, 202, "{}", answer.json());
        jobs.push(answer.json()["data"]["job_id"].as_str().unwrap().to_owned());
    }
    let is_running = |id: &String| server.get(&format!("/v1/jobs/{id}")).json()["state"] == "running";
    crate::support::eventually("both run", crate::support::TIMEOUT, || jobs.iter().all(is_running));
    fill(&state.join("ballast"));
    let started = std::time::Instant::now();
    crate::support::signal(server.pid(), libc::SIGTERM);
    server.wait(std::time::Duration::from_secs(20));
    assert!(started.elapsed() < std::time::Duration::from_secs(15), "it took {:?}", started.elapsed());
}
