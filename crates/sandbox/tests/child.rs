//! Runs real processes through the launcher, at every containment level the system supports.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test states what it expects, in its helpers too"
)]

#[path = "../../../tests/require.rs"]
mod require;

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use bytes::Bytes;
use require::require;
use rustix::io::FdFlags;
use rustix::process::{getegid, geteuid};
use toolyard_sandbox::{
    ChildError, ChildSession, Command, Confinement, Event, Exchange, Exit, Finished, KillReason, Launcher,
    Options, SessionOptions, TreeLevel,
};

/// Reached only by a hang.
const TIMEOUT: Duration = Duration::from_secs(60);
const CAP: usize = 4 << 20;

fn launchers() -> Vec<Launcher> {
    let forced = |level| {
        Launcher::with_options(&env::temp_dir(), Options { level: Some(level), ..Options::default() })
    };
    let all: Vec<_> = TreeLevel::ALL.into_iter().filter_map(|level| forced(level).ok()).collect();
    assert!(!all.is_empty(), "no containment level works on this system");
    require(all.len() > 1, "namespaces are refused, so that only the subreaper is tested");
    all
}

fn command(program: &str, arguments: &[&str]) -> Command {
    Command {
        program: program.into(),
        argv: [program].iter().chain(arguments).map(OsString::from).collect(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        cwd: "/".into(),
        confinement: Confinement::none(),
    }
}

fn sh(script: &str) -> Command {
    command("/bin/sh", &["-c", script])
}

fn exchange(stdin: impl Into<Bytes>) -> Exchange {
    within(TIMEOUT, stdin)
}

fn within(limit: Duration, stdin: impl Into<Bytes>) -> Exchange {
    Exchange { stdin: stdin.into(), output_cap: CAP, deadline: Instant::now() + limit, on_listener: None }
}

async fn finished(launcher: &Launcher, command: &Command, stdin: impl Into<Bytes>) -> Finished {
    let finished = launcher.run(command, exchange(stdin)).await.expect("the program runs");
    assert_eq!(finished.level, launcher.level());
    finished
}

async fn failed(command: &Command) -> ChildError {
    let launcher = Launcher::new(&env::temp_dir()).unwrap();
    launcher.run(command, exchange("")).await.expect_err("must fail")
}

/// A folder of this test alone; its path marks the processes of the test in every process list.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("toolyard-child-{}-{}-", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn script(&self, name: &str, text: &str, mode: u32) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A leader that ignores TERM, INT and HUP, a background child, and a daemonised grandchild.
    fn hostile(&self) -> Command {
        let script = r#"
            trap '' TERM INT HUP
            if [ "$1" = leaf ]; then
                : > "$0.$2"
                while :; do sleep 0.1; done
            fi
            sh "$0" leaf child &
            (setsid sh "$0" leaf grandchild &)
            while :; do sleep 0.1; done
        "#;
        command("/bin/sh", &[&self.script("hostile", script, 0o644)])
    }

    fn hostile_is_up(&self) -> bool {
        self.0.join("hostile.child").exists() && self.0.join("hostile.grandchild").exists()
    }

    /// Live processes of this test, optionally without launchers, which exit a moment after their tree.
    fn alive(&self, launchers_too: bool) -> Vec<String> {
        let marker = self.0.to_str().unwrap();
        let of = |entry: fs::DirEntry| {
            let line = fs::read(entry.path().join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let counts = launchers_too || !line.starts_with("toolyard-launcher");
            (counts && line.contains(marker)).then_some(line)
        };
        fs::read_dir("/proc").unwrap().filter_map(Result::ok).filter_map(of).collect()
    }

    fn assert_dead_within(&self, limit: Duration) {
        let gone = eventually(limit, || self.alive(true).is_empty());
        assert!(gone, "survivors: {:?}", self.alive(true));
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn eventually(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if holds() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

#[tokio::test]
async fn the_strongest_level_that_works_is_chosen() {
    assert_eq!(Launcher::new(&env::temp_dir()).unwrap().level(), launchers()[0].level());
}

#[tokio::test]
async fn bytes_go_in_and_come_out() {
    for launcher in launchers() {
        let finished = finished(&launcher, &command("/bin/cat", &[]), "hello").await;
        assert_eq!((&finished.stdout[..], finished.exit), (&b"hello"[..], Exit::Code(0)));
        assert_eq!(finished.stderr_tail, "");
    }
}

#[tokio::test]
async fn exit_codes_and_signals_are_told_apart() {
    for launcher in launchers() {
        let exit = finished(&launcher, &sh("echo why >&2; exit 7"), "").await;
        assert_eq!((exit.exit, exit.stderr_tail.as_str()), (Exit::Code(7), "why"));
        for (signal, number) in [("TERM", 15), ("ABRT", 6), ("KILL", 9)] {
            let exit = finished(&launcher, &sh(&format!("kill -{signal} $$")), "").await.exit;
            assert_eq!(exit, Exit::Signal(number));
        }
    }
}

#[tokio::test]
async fn a_megabyte_passes_both_ways_without_deadlock() {
    let text: Bytes = (0..1 << 20).map(|i: u32| (i % 251) as u8).collect();
    for launcher in launchers() {
        let finished = finished(&launcher, &command("/bin/cat", &[]), text.clone()).await;
        assert!(finished.stdout == text, "{} bytes came back", finished.stdout.len());
    }
}

#[tokio::test]
async fn a_tool_that_ignores_its_input_is_no_error() {
    let big = Bytes::from(vec![b'x'; 1 << 20]);
    for launcher in launchers() {
        for script in ["echo ok", "exec <&-; sleep 0.1; echo ok"] {
            assert_eq!(finished(&launcher, &sh(script), big.clone()).await.stdout, &b"ok\n"[..]);
        }
    }
}

#[tokio::test]
async fn a_flood_of_stderr_neither_blocks_nor_fills_memory() {
    for launcher in launchers() {
        let script = "i=0; while [ $i -lt 40000 ]; do echo noise $i; i=$((i+1)); done >&2; echo done";
        let finished = finished(&launcher, &sh(script), "").await;
        assert_eq!(finished.stdout, &b"done\n"[..]);
        assert!(finished.stderr_tail.ends_with("noise 39999"), "{}", finished.stderr_tail);
        assert_eq!(finished.stderr_tail.lines().count(), 20);
    }
}

#[tokio::test]
async fn endless_output_is_cut_at_the_cap() {
    for launcher in launchers() {
        let exchange = Exchange { output_cap: 100_000, ..exchange("") };
        match launcher.run(&sh("echo why >&2; yes"), exchange).await {
            Err(ChildError::OutputOverCap { cap: 100_000, stderr_tail }) => assert_eq!(stderr_tail, "why"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn output_of_exactly_the_cap_is_accepted_and_one_byte_more_is_not() {
    for launcher in launchers() {
        let exchange = |cap| Exchange { output_cap: cap, ..exchange("12345") };
        assert_eq!(launcher.run(&command("/bin/cat", &[]), exchange(5)).await.unwrap().stdout, &b"12345"[..]);
        let over = launcher.run(&command("/bin/cat", &[]), exchange(4)).await;
        assert!(matches!(over, Err(ChildError::OutputOverCap { cap: 4, .. })), "{over:?}");
    }
}

/// Prints a mebibyte.
const LARGE: &str = "head -c 1048576 /dev/zero";

#[tokio::test]
async fn a_large_output_counts_until_it_is_dropped_and_others_wait_for_it() {
    let options = Options { output_memory: 5 << 20, ..Options::default() };
    let launcher = Launcher::with_options(&env::temp_dir(), options).unwrap();
    // Each may have 4 MiB; what it does not need is given back.
    let first = launcher.run(&sh(LARGE), exchange("")).await.unwrap().stdout;
    let second = launcher.run(&sh(LARGE), exchange("")).await.unwrap().stdout.slice(..10);
    let small = launcher.run(&sh("head -c 9000 /dev/zero"), exchange("")).await.unwrap().stdout;
    assert_eq!((first.len(), second.len(), small.len()), (1 << 20, 10, 9000), "a small one needs no space");
    let late = sh("echo why >&2; head -c 20000 /dev/zero");
    match launcher.run(&late, within(Duration::from_secs(1), "")).await {
        Err(ChildError::NoOutputMemory { stderr_tail }) => assert_eq!(stderr_tail, "why"),
        other => panic!("{other:?}"),
    }
    let (command, began) = (sh(LARGE), Instant::now());
    let waiting = launcher.run(&command, exchange(""));
    let (third, ()) = tokio::join!(waiting, async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        drop(second);
    });
    assert_eq!(third.unwrap().stdout.len(), 1 << 20);
    assert!(began.elapsed() >= Duration::from_millis(300), "it did not wait: {:?}", began.elapsed());
}

#[tokio::test]
async fn a_long_line_of_a_session_waits_for_memory_too() {
    let options = Options { output_memory: 2 << 20, ..Options::default() };
    let launcher = Launcher::with_options(&env::temp_dir(), options).unwrap();
    let held =
        launcher.run(&sh(LARGE), Exchange { output_cap: 1 << 20, ..exchange("") }).await.unwrap().stdout;
    let command = sh("echo short; head -c 1500000 /dev/zero | tr '\\0' x; echo; echo last");
    let admitted = launcher.admit(&command, Instant::now() + TIMEOUT).await.unwrap();
    let options = SessionOptions { stdin: Bytes::new(), line_cap: 1 << 21, on_listener: None };
    let mut session = launcher.open(&command, admitted, options).unwrap();
    let line = async |session: &mut ChildSession<'_>| match session.event().await.unwrap() {
        Event::Line(line) => line.len(),
        Event::Exited => panic!("exited"),
    };
    assert_eq!(line(&mut session).await, 5);
    let early = tokio::time::timeout(Duration::from_millis(300), line(&mut session)).await;
    assert!(early.is_err(), "it did not wait");
    assert!(matches!(session.deadline_reached(), KillReason::OutputWaits));
    drop(held);
    assert_eq!((line(&mut session).await, line(&mut session).await), (1_500_000, 4));
    assert!(matches!(session.event().await, Ok(Event::Exited)));
}

#[tokio::test]
async fn at_the_deadline_a_hostile_tree_is_dead() {
    for launcher in launchers() {
        let scratch = Scratch::new();
        let result = launcher.run(&scratch.hostile(), within(Duration::from_secs(3), "")).await;
        assert!(matches!(result, Err(ChildError::Timeout { .. })), "{result:?}");
        assert!(scratch.hostile_is_up(), "the tree did not come up in time to be killed");
        assert_eq!(scratch.alive(false), Vec::<String>::new(), "at {}", launcher.level());
        scratch.assert_dead_within(TIMEOUT);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_the_run_kills_a_hostile_tree() {
    for launcher in launchers() {
        let scratch = Scratch::new();
        let hostile = scratch.hostile();
        let launcher = Arc::new(launcher);
        let run = tokio::spawn(async move { launcher.run(&hostile, exchange("")).await });
        assert!(eventually(TIMEOUT, || scratch.hostile_is_up()));
        run.abort();
        assert!(run.await.unwrap_err().is_cancelled());
        scratch.assert_dead_within(Duration::from_secs(2));
    }
}

#[tokio::test]
async fn children_that_outlive_the_tool_neither_delay_it_nor_survive() {
    for launcher in launchers() {
        let scratch = Scratch::new();
        let script = r#"
            if [ "$1" = leaf ]; then : > "$0.up"; while :; do sleep 0.1; done; fi
            (setsid sh "$0" leaf &)
            sh "$0" leaf &
            while [ ! -e "$0.up" ]; do sleep 0.02; done
            echo done
        "#;
        let script = scratch.script("lingering", script, 0o644);
        let finished = finished(&launcher, &command("/bin/sh", &[&script]), "").await;
        assert_eq!((&finished.stdout[..], finished.exit), (&b"done\n"[..], Exit::Code(0)));
        assert_eq!(scratch.alive(false), Vec::<String>::new(), "at {}", launcher.level());
        scratch.assert_dead_within(TIMEOUT);
    }
}

#[tokio::test]
async fn orphans_are_reaped_while_the_tool_runs() {
    for launcher in launchers() {
        let script = "i=0; while [ $i -lt 50 ]; do (true &); i=$((i+1)); done; sleep 0.2; echo done";
        assert_eq!(finished(&launcher, &sh(script), "").await.stdout, &b"done\n"[..]);
    }
}

#[tokio::test]
async fn a_program_that_cannot_start_says_why() {
    let scratch = Scratch::new();
    let absent = failed(&command("/no/such/program", &[])).await;
    assert!(
        matches!(&absent, ChildError::ProgramMissing { program } if program == Path::new("/no/such/program"))
    );
    assert_eq!(absent.to_string(), "cannot start /no/such/program: file not found");

    let orphaned = scratch.script("orphaned", "#!/no/such/interpreter\n", 0o755);
    assert!(matches!(failed(&command(&orphaned, &[])).await, ChildError::InterpreterMissing { .. }));

    let plain = scratch.script("plain", "text", 0o644);
    assert!(matches!(failed(&command(&plain, &[])).await, ChildError::NotExecutable { .. }));
    let shapeless = scratch.script("shapeless", "text", 0o755);
    assert!(matches!(failed(&command(&shapeless, &[])).await, ChildError::NotExecutable { .. }));
    assert!(matches!(failed(&command("/", &[])).await, ChildError::NotExecutable { .. }));

    let nowhere = Command { cwd: "/no/such/place".into(), ..sh("true") };
    assert!(matches!(failed(&nowhere).await, ChildError::WorkingDirectory { .. }));
}

#[tokio::test]
async fn invalid_arguments_and_environments_are_rejected_before_the_start() {
    assert!(matches!(
        failed(&command("/bin/echo", &["a", "b\0c"])).await,
        ChildError::NulInArgument { index: 2 }
    ));
    for (name, value) in [("A", "b\0"), ("A=B", "c"), ("", "d")] {
        let bad = Command { env: vec![(name.into(), value.into())], ..sh("true") };
        assert!(matches!(failed(&bad).await, ChildError::BadEnvironment { .. }));
    }
    assert!(matches!(failed(&command("/bin/\0", &[])).await, ChildError::NulInPath { .. }));
    let long = "x".repeat(4 << 20);
    assert!(matches!(failed(&command("/bin/echo", &[&long])).await, ChildError::ArgumentsTooLong));
}

#[tokio::test]
async fn a_tool_has_its_stdio_and_no_other_descriptor() {
    // A descriptor that could leak: without close-on-exec, with a high number.
    let leak = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 57).unwrap();
    rustix::io::fcntl_setfd(&leak, FdFlags::empty()).unwrap();
    for launcher in launchers() {
        // 3 is the folder that ls itself opens.
        let finished = finished(&launcher, &command("/bin/ls", &["/proc/self/fd"]), "").await;
        assert_eq!(String::from_utf8_lossy(&finished.stdout), "0\n1\n2\n3\n");
    }
    drop(leak);
}

#[tokio::test]
async fn environment_folder_arguments_user_and_signals_are_exactly_as_specified() {
    let scratch = Scratch::new();
    let cwd = scratch.0.canonicalize().unwrap();
    let me = (geteuid().as_raw(), getegid().as_raw());
    for launcher in launchers() {
        let env = vec![("A".into(), "1".into()), ("B".into(), "x=y z".into())];
        let output = finished(&launcher, &Command { env, ..command("/usr/bin/env", &[]) }, "").await.stdout;
        assert_eq!(output, &b"A=1\nB=x=y z\n"[..]);

        let script = r#"pwd; echo "$0|$1|$2"; id -u; id -g; grep -E '^Sig(Blk|Ign)' /proc/self/status"#;
        let mut command = Command { cwd: cwd.clone(), ..sh(script) };
        command.argv.extend(["name".into(), "".into(), "two words".into()]);
        let output = finished(&launcher, &command, "").await.stdout;
        let zero = "0000000000000000";
        let expected = format!(
            "{}\nname||two words\n{}\n{}\nSigBlk:\t{zero}\nSigIgn:\t{zero}\n",
            cwd.display(),
            me.0,
            me.1
        );
        assert_eq!(String::from_utf8_lossy(&output), expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn excess_calls_wait_for_a_permit_and_the_wait_counts_towards_the_deadline() {
    let options = Options { max_live: 2, ..Options::default() };
    let launcher = Arc::new(Launcher::with_options(&env::temp_dir(), options).unwrap());
    let runs: Vec<_> = (0..20)
        .map(|i| {
            let launcher = Arc::clone(&launcher);
            tokio::spawn(
                async move { launcher.run(&command("/bin/cat", &[]), exchange(i.to_string())).await },
            )
        })
        .collect();
    for (i, run) in runs.into_iter().enumerate() {
        assert_eq!(run.await.unwrap().unwrap().stdout, i.to_string().as_bytes());
    }
    let slow = sh("sleep 100");
    let limit = Duration::from_secs(5);
    let (a, b, late) = tokio::join!(
        launcher.run(&slow, within(limit, "")),
        launcher.run(&slow, within(limit, "")),
        launcher.run(&slow, within(Duration::from_millis(100), "")),
    );
    for result in [a, b, late] {
        assert!(matches!(result, Err(ChildError::Timeout { .. })), "{result:?}");
    }
}

#[test]
fn when_the_host_is_killed_nothing_survives_it() {
    for launcher in launchers() {
        let scratch = Scratch::new();
        scratch.hostile();
        let mut host = process::Command::new(env::current_exe().unwrap())
            .args(["--exact", "host_of_a_hostile_tree", "--ignored", "--nocapture"])
            .env("HOST_SCRIPT", scratch.0.join("hostile"))
            .env("HOST_LEVEL", format!("{:?}", launcher.level()))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        assert!(eventually(TIMEOUT, || scratch.hostile_is_up()), "at {}", launcher.level());
        host.kill().unwrap();
        host.wait().unwrap();
        scratch.assert_dead_within(Duration::from_secs(2));
    }
}

/// The process that is killed.
#[tokio::test]
#[ignore = "helper of when_the_host_is_killed_nothing_survives_it"]
async fn host_of_a_hostile_tree() {
    let (script, level) = (env::var("HOST_SCRIPT").unwrap(), env::var("HOST_LEVEL").unwrap());
    let launcher = launchers().into_iter().find(|l| format!("{:?}", l.level()) == level).unwrap();
    launcher.run(&command("/bin/sh", &[&script]), exchange("")).await.unwrap();
}

#[test]
fn everything_here_holds_for_an_ordinary_user_too() {
    if !require(geteuid().is_root(), "the tests do not run as root, so that no other user is tested") {
        return;
    }
    // A copy, since the build folder may be accessible to root only.
    let scratch = Scratch::new();
    fs::set_permissions(&scratch.0, fs::Permissions::from_mode(0o755)).unwrap();
    let copy = scratch.0.join("suite");
    fs::copy(env::current_exe().unwrap(), &copy).unwrap();
    let output = process::Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(&copy)
        .args(["--skip", "everything_here_holds"])
        .current_dir("/")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "as an ordinary user:\n{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(!text.contains(" 0 passed"), "{text}");
}
