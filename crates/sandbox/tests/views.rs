//! Runs with the same grants get copies of one pooled view. They must see what a new view would show, and
//! nothing of each other. If run by root, all tests run once more as an ordinary user.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test states what it expects, in its helpers too"
)]

#[path = "../../../tests/require.rs"]
mod require;

use std::path::PathBuf;
use std::process::{self, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs};

use require::require;
use rustix::process::geteuid;
use toolyard_sandbox::{Command, Confinement, Exchange, Grant, Launcher, SandboxLevel};

/// A yard that is writable as a whole, with a hidden state folder.
struct Yard {
    root: PathBuf,
    launcher: Launcher,
}

impl Yard {
    fn new() -> Yard {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("toolyard-views-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let root = env::temp_dir().canonicalize().unwrap().join(name);
        fs::create_dir_all(root.join("state/envs")).unwrap();
        fs::write(root.join("state/secret"), "SECRET").unwrap();
        fs::write(root.join("note"), "first").unwrap();
        Yard { root, launcher: Launcher::new(&env::temp_dir()).unwrap() }
    }

    async fn sh(&self, script: &str) -> String {
        let confinement = Confinement {
            read: vec![self.root.join("state/envs")],
            grants: vec![Grant::open(&self.root, true).unwrap()],
            hidden: vec![self.root.join("state")],
            ..Confinement::at(SandboxLevel::Full)
        };
        let command = Command {
            program: "/bin/sh".into(),
            argv: ["sh", "-c", script].map(Into::into).into(),
            env: vec![("PATH".into(), "/usr/bin:/bin".into())],
            cwd: self.root.clone(),
            confinement,
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        let exchange = Exchange { stdin: "".into(), output_cap: 1 << 20, deadline, on_listener: None };
        let finished = self.launcher.run(&command, exchange).await.unwrap();
        assert!(finished.exit.is_success(), "{script}: {finished:?}");
        String::from_utf8(finished.stdout.into()).unwrap()
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

macro_rules! yard_or_return {
    () => {{
        let yard = Yard::new();
        if !require(yard.launcher.sandbox_level() == SandboxLevel::Full, "mount namespaces are refused") {
            return;
        }
        yard
    }};
}

#[tokio::test]
async fn runs_leave_nothing_for_each_other() {
    let yard = yard_or_return!();
    let look = "find /tmp /dev/shm/ -name left; ls -A state; \
                test -d /proc/$$ && echo own; touch /tmp/left /dev/shm/left; \
                for dir in state /etc /dev / /.own /proc /var; do touch $dir/left 2>/dev/null && echo wrote $dir; done; true";
    let first = yard.sh(look).await;
    assert_eq!(
        first, "envs\nown\n",
        "only the granted part of the hidden folder is visible, and no other folder is writable"
    );
    for _ in 0..3 {
        assert_eq!(yard.sh(look).await, first);
    }
}

#[tokio::test]
async fn replaced_files_are_visible_and_hidden_folders_stay_hidden() {
    let yard = yard_or_return!();
    let look = "cat note; ls -A state; cat state/secret 2>/dev/null; true";
    assert_eq!(yard.sh(look).await, "firstenvs\n");
    // The masked folder is removed, and its inode number may be reused.
    for _ in 0..3 {
        fs::remove_dir_all(yard.root.join("state")).unwrap();
        fs::create_dir_all(yard.root.join("state/envs")).unwrap();
        fs::write(yard.root.join("state/secret"), "SECRET").unwrap();
        assert_eq!(yard.sh(look).await, "firstenvs\n");
    }
    let away = yard.root.with_extension("away");
    fs::rename(&yard.root, &away).unwrap();
    fs::create_dir_all(yard.root.join("state/envs")).unwrap();
    fs::write(yard.root.join("note"), "second").unwrap();
    assert_eq!(yard.sh(look).await, "secondenvs\n");
    fs::remove_dir_all(away).unwrap();
}

#[tokio::test]
async fn concurrent_first_runs_all_succeed() {
    let yard = std::sync::Arc::new(yard_or_return!());
    let runs: Vec<_> = (0..16)
        .map(|n| {
            let yard = yard.clone();
            tokio::spawn(
                async move { yard.sh(&format!("echo {n} >/tmp/mine; sleep 0.1; cat /tmp/mine")).await },
            )
        })
        .collect();
    for (n, run) in runs.into_iter().enumerate() {
        assert_eq!(run.await.unwrap(), format!("{n}\n"));
    }
}

#[test]
fn later_mounts_are_visible() {
    if !require(geteuid().is_root(), "the tests do not run as root, so that nothing can be mounted") {
        return;
    }
    let output = process::Command::new("unshare")
        .arg("--mount")
        .arg(env::current_exe().unwrap())
        .args(["--exact", "mounting_over_a_yard", "--ignored"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// In a mount namespace of its own, so that the machine's mounts are not changed.
#[tokio::test]
#[ignore = "helper of later_mounts_are_visible"]
async fn mounting_over_a_yard() {
    let yard = yard_or_return!();
    fs::create_dir(yard.root.join("disk")).unwrap();
    assert_eq!(yard.sh("ls -A disk").await, "");
    let mount = |arguments: &[&str]| {
        let done =
            process::Command::new(arguments[0]).args(&arguments[1..]).arg(yard.root.join("disk")).status();
        assert!(done.unwrap().success(), "{arguments:?}");
    };
    mount(&["mount", "-t", "tmpfs", "tmpfs"]);
    fs::write(yard.root.join("disk/file"), "").unwrap();
    assert_eq!(yard.sh("ls -A disk").await, "file\n");
    mount(&["umount"]);
    assert_eq!(yard.sh("ls -A disk").await, "");
}

#[test]
fn all_this_holds_for_an_ordinary_user_too() {
    if !require(geteuid().is_root(), "the tests do not run as root, so that no other user is tested") {
        return;
    }
    let output = process::Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all"])
        .arg(env::current_exe().unwrap())
        .args(["--skip", "all_this_holds", "--skip", "later_mounts", "--test-threads", "2"])
        .env("TMPDIR", "/tmp")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
