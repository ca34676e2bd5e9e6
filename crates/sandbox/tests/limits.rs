//! Limits of process trees: everything that a tree holds counts, at every sandbox level, in a cgroup and without one.
//! If run by root, all tests run once more as an ordinary user.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test states what it expects, in its helpers too"
)]

#[path = "../../../tests/require.rs"]
mod require;

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, process};

use require::require;
use rustix::process::geteuid;
use toolyard_sandbox::{
    ChildError, Command, Confinement, Exchange, Finished, Launcher, Options, SandboxLevel, TreeLevel,
};

const PYTHON: &str = "/usr/bin/python3";
const MEMORY: u64 = 100 << 20;
const TIMEOUT: Duration = Duration::from_secs(20);

/// Whether times mean something: not on an emulated processor (`scripts/test-vm`).
fn has_a_real_processor() -> bool {
    require(
        env::var_os("YARD_EMULATED").is_none(),
        "the processor is emulated, so that no times are measured",
    )
}

/// Every way in which limits are enforced on this machine.
fn launchers() -> Vec<(&'static str, Launcher)> {
    let launcher = |cgroups| {
        let options = Options { cgroups, ..Options::default() };
        Launcher::with_options(&env::temp_dir(), options).unwrap()
    };
    let grouped = launcher(true);
    let mut all = vec![("watched", launcher(false))];
    let can = grouped.cgroups().map(|_| ());
    if can.is_ok() {
        all.push(("cgroup", grouped));
    } else if geteuid().is_root() {
        require(false, &format!("limits by cgroups are not tested: {can:?}"));
    }
    all
}

fn levels(launcher: &Launcher) -> impl Iterator<Item = SandboxLevel> + use<> {
    let strongest = launcher.sandbox_level();
    SandboxLevel::ALL.into_iter().filter(move |level| *level <= strongest)
}

fn limited(level: SandboxLevel) -> Confinement {
    Confinement { memory: Some(MEMORY), processes: Some(60), ..Confinement::at(level) }
}

async fn python(launcher: &Launcher, confinement: Confinement, script: &str) -> Result<Finished, ChildError> {
    let command = Command {
        program: PYTHON.into(),
        argv: vec![PYTHON.into(), "-c".into(), script.into()],
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        cwd: "/".into(),
        confinement,
    };
    launcher.run(&command, exchange()).await
}

fn exchange() -> Exchange {
    let deadline = Instant::now() + TIMEOUT;
    Exchange { stdin: "".into(), output_cap: 1 << 20, deadline, on_listener: None }
}

/// What a run printed.
fn output(run: Result<Finished, ChildError>) -> String {
    let finished = run.expect("the program ends by itself");
    assert!(finished.exit.is_success(), "{finished:?}");
    String::from_utf8_lossy(&finished.stdout).trim().to_owned()
}

/// Runs `take` with 40 and with 300 MiB under a limit of 100: the first is allowed, the second exceeds it.
async fn assert_counted(take: &str) {
    for (how, launcher) in launchers() {
        for level in levels(&launcher) {
            let script =
                |mib: u32| format!("MIB = {mib}\n{take}\nimport time; time.sleep(0.6); print('held')");
            let held = python(&launcher, limited(level), &script(40)).await;
            assert_eq!(output(held), "held", "{how} at {level}");
            let over = python(&launcher, limited(level), &script(300)).await;
            assert!(
                matches!(over, Err(ChildError::MemoryOverCap { limit: MEMORY, .. })),
                "{how} at {level}: {over:?}"
            );
        }
    }
}

#[tokio::test]
async fn ordinary_memory_counts() {
    assert_counted("held = bytearray(MIB << 20)\nfor at in range(0, MIB << 20, 4096): held[at] = 1").await;
}

/// A memfd that no process has mapped. Where it could not be counted it cannot be created.
#[tokio::test]
async fn memory_in_a_file_counts() {
    let write = "import os\nfile = os.memfd_create('held')\nfor _ in range(300): os.write(file, bytes(1 << 20))\nimport time; time.sleep(0.6)";
    for (how, launcher) in launchers() {
        for level in levels(&launcher) {
            let run = python(&launcher, limited(level), write).await;
            if how == "watched" && level > SandboxLevel::None {
                let finished = run.unwrap();
                assert!(finished.stderr_tail.contains("[Errno 38]"), "{how} at {level}: {finished:?}");
                let shared =
                    "import mmap\nheld = mmap.mmap(-1, 40 << 20)\nheld.write(bytes(40 << 20))\nprint('held')";
                assert_eq!(output(python(&launcher, limited(level), shared).await), "held");
            } else {
                assert!(matches!(run, Err(ChildError::MemoryOverCap { .. })), "{how} at {level}: {run:?}");
            }
        }
    }
}

/// Pages of shared memory stay when a process unmaps them from its own tables.
#[tokio::test]
async fn shared_memory_that_is_not_resident_counts() {
    let take = "import mmap\nheld = mmap.mmap(-1, MIB << 20)\nfor at in range(0, MIB << 20, 4 << 20):\n held[at:at + (4 << 20)] = bytes(4 << 20)\n held.madvise(mmap.MADV_DONTNEED, at, 4 << 20)";
    assert_counted(take).await;
}

#[tokio::test]
async fn socket_buffers_count() {
    let take = "import resource, socket\nresource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))\nheld, sent = [], 0\nwhile sent < MIB << 20:\n a, b = socket.socketpair()\n held.append(b)\n a.setblocking(False)\n try:\n  while True: sent += a.send(bytes(65536))\n except BlockingIOError: pass\n if len(held) % 2: held.append(a)";
    assert_counted(take).await;
}

#[tokio::test]
async fn the_time_of_children_that_nobody_waits_for_counts() {
    let cpu = Some(Duration::from_secs(2));
    let script = |seconds: &str| {
        format!(
            "import os, signal, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nfor _ in range(30):\n if os.fork() == 0:\n  while time.process_time() < {seconds}: pass\n  os._exit(0)\n time.sleep({seconds} * 1.5)\nprint('done')"
        )
    };
    for (how, launcher) in launchers() {
        for level in levels(&launcher) {
            let confinement = || Confinement { cpu, ..limited(level) };
            let run = python(&launcher, confinement(), &script("0.2")).await;
            assert!(matches!(run, Err(ChildError::CpuOverCap { .. })), "{how} at {level}: {run:?}");
            assert_eq!(output(python(&launcher, confinement(), &script("0.001")).await), "done", "{how}");
        }
    }
}

/// A tree that slept is looked at rarely, but not when the machine's memory or processes change.
#[tokio::test]
async fn a_tree_that_wakes_up_is_stopped_early() {
    if !has_a_real_processor() {
        return;
    }
    let memory = "held = []\nfor _ in range(4000): held.append(bytearray(os.urandom(1 << 16)) * 16)";
    let processes = "for _ in range(2000):\n try:\n  if os.fork() == 0: time.sleep(9); os._exit(0)\n except OSError:\n  if os.getuid(): print('refused', flush=True); os._exit(0)\n  time.sleep(0.01)";
    for (how, launcher) in launchers() {
        for (burst, what) in [(memory, "memory"), (processes, "processes")] {
            let script = format!("import os, time\ntime.sleep(3)\n{burst}\nprint('through')");
            let started = Instant::now();
            let run = python(&launcher, limited(SandboxLevel::None), &script).await;
            let stopped = match run {
                // The kernel counts the processes of an ordinary user's own user namespace (RLIMIT_NPROC).
                Ok(finished) if &finished.stdout[..] == b"refused\n" => "processes",
                Err(ChildError::MemoryOverCap { .. }) => "memory",
                Err(ChildError::ProcessesOverCap { .. }) => "processes",
                other => panic!("{how}: {other:?}"),
            };
            assert_eq!(stopped, what, "{how}");
            assert!(started.elapsed() < Duration::from_millis(4500), "{how}: {:?}", started.elapsed());
        }
    }
}

/// Two hundred process trees with limits that do nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sleeping_trees_cost_nothing() {
    if !has_a_real_processor() {
        return;
    }
    for (how, launcher) in launchers() {
        let launcher = Arc::new(launcher);
        let trees: Vec<_> = (0..200)
            .map(|_| {
                let launcher = Arc::clone(&launcher);
                tokio::spawn(async move {
                    let command = Command {
                        program: "/bin/sleep".into(),
                        argv: vec!["sleep".into(), "60".into()],
                        env: Vec::new(),
                        cwd: "/".into(),
                        confinement: Confinement {
                            memory: Some(1 << 30),
                            processes: Some(256),
                            ..Confinement::at(SandboxLevel::None)
                        },
                    };
                    let deadline = Instant::now() + Duration::from_secs(60);
                    launcher.run(&command, Exchange { deadline, ..exchange() }).await
                })
            })
            .collect();
        // Until all have started and were seen to do nothing.
        tokio::time::sleep(Duration::from_secs(9)).await;
        let (cpu, wall) = (own_cpu(), Instant::now());
        tokio::time::sleep(Duration::from_secs(8)).await;
        let share = (own_cpu() - cpu).as_secs_f64() / wall.elapsed().as_secs_f64();
        println!("200 sleeping trees, {how}: {:.2} % of a core", share * 100.0);
        assert!(trees.iter().all(|tree| !tree.is_finished()), "they sleep");
        trees.into_iter().for_each(|tree| tree.abort());
        assert!(share <= 0.02, "{how}: {:.1} % of a core", share * 100.0);
    }
}

/// User and system time of this process.
fn own_cpu() -> Duration {
    // SAFETY: an all-zero rusage is valid, and the call only writes into it.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let part = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    part(usage.ru_utime) + part(usage.ru_stime)
}

/// Groups are used again by later runs, and no run is charged for an earlier one.
#[tokio::test]
async fn runs_in_one_group_do_not_add_up() {
    let options = Options { level: Some(TreeLevel::Subreaper), ..Options::default() };
    let launcher = Launcher::with_options(&env::temp_dir(), options).unwrap();
    if !require(launcher.cgroups().is_ok(), "no cgroup can be created, so that none is used again") {
        return;
    }
    for _ in 0..8 {
        let cpu = Some(Duration::from_millis(700));
        let confinement = Confinement { cpu, ..limited(SandboxLevel::None) };
        let script =
            "import time\nheld = bytearray(60 << 20)\nwhile time.process_time() < 0.2: pass\nprint('done')";
        assert_eq!(output(python(&launcher, confinement, script).await), "done");
    }
}

/// Each launcher has groups of its own, also in one process, and removes no others.
#[tokio::test]
async fn launchers_do_not_share_groups() {
    let new = || Launcher::new(&env::temp_dir()).unwrap();
    let (one, other) = (new(), new());
    if !require(one.cgroups().is_ok(), "no cgroup can be created, so that none can be shared") {
        return;
    }
    assert!(other.cgroups().is_ok());
    assert_eq!(output(python(&one, limited(SandboxLevel::None), "print('one')").await), "one");
    assert_eq!(output(python(&other, limited(SandboxLevel::None), "print('other')").await), "other");
    drop(other);
    // A memfd of an unconfined program: only a group that is still there ends the program for it.
    let write =
        "import os\nfile = os.memfd_create('held')\nfor _ in range(300): os.write(file, bytes(1 << 20))";
    let over = python(&one, limited(SandboxLevel::None), write).await;
    assert!(matches!(over, Err(ChildError::MemoryOverCap { .. })), "{over:?}");
}

/// Runs the same tests as an unprivileged user.
#[test]
fn all_this_holds_for_an_ordinary_user_too() {
    if !require(geteuid().is_root(), "the tests do not run as root, so that no other user is tested") {
        return;
    }
    let sleeping = "sleeping_trees_cost_nothing";
    // What is measured must not run beside the others.
    for tests in [&["--skip", "all_this_holds", "--skip", "group", "--skip", sleeping][..], &[sleeping]] {
        let status = process::Command::new("setpriv")
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all"])
            .arg(env::current_exe().unwrap())
            .args(tests)
            .args(["--nocapture", "--test-threads", "2"])
            .env("TMPDIR", "/tmp")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&status.stdout);
        println!("{output}");
        assert!(status.status.success(), "{output}\n{}", String::from_utf8_lossy(&status.stderr));
    }
}
