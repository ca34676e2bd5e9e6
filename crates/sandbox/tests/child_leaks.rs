//! Runs leave no descriptor and no zombie, however they end. The only test in its process, so that no other
//! descriptors are counted.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test states what it expects, in its helpers too"
)]

use std::time::{Duration, Instant};
use std::{env, fs, thread};

use toolyard_sandbox::{Command, Confinement, Exchange, Launcher};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_leave_neither_descriptor_nor_zombie() {
    let launcher = Launcher::new(&env::temp_dir()).unwrap();
    every_end(&launcher).await;
    let before = descriptors();
    for _ in 0..20 {
        every_end(&launcher).await;
    }
    let end = Instant::now() + Duration::from_secs(30);
    while (descriptors() > before || children() > 0) && Instant::now() < end {
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(children(), 0, "launchers not reaped");
    assert_eq!(descriptors(), before);
}

/// A successful run, one over the output cap, one timed out, one that cannot start, and some dropped early.
async fn every_end(launcher: &Launcher) {
    assert_eq!(launcher.run(&sh("cat"), exchange(100, 60_000)).await.unwrap().stdout, &b"in"[..]);
    launcher.run(&sh("yes"), exchange(100, 60_000)).await.unwrap_err();
    launcher.run(&sh("sleep 100"), exchange(100, 20)).await.unwrap_err();
    let missing = Command { program: "/no/such/program".into(), ..sh("") };
    launcher.run(&missing, exchange(100, 60_000)).await.unwrap_err();
    for milliseconds in [0, 1, 3] {
        let command = sh("sleep 100");
        let run = launcher.run(&command, exchange(100, 60_000));
        assert!(tokio::time::timeout(Duration::from_millis(milliseconds), run).await.is_err());
    }
}

fn sh(script: &str) -> Command {
    Command {
        program: "/bin/sh".into(),
        argv: ["sh", "-c", script].map(Into::into).to_vec(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        cwd: "/".into(),
        confinement: Confinement::none(),
    }
}

fn exchange(output_cap: usize, milliseconds: u64) -> Exchange {
    let deadline = Instant::now() + Duration::from_millis(milliseconds);
    Exchange { stdin: "in".into(), output_cap, deadline, on_listener: None }
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Children of every thread, zombies included.
fn children() -> usize {
    let of = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).unwrap_or_default();
    let tasks = fs::read_dir("/proc/self/task").unwrap().filter_map(Result::ok);
    tasks.map(|task| of(task).split_whitespace().count()).sum()
}
