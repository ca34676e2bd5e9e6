//! Sandboxed children: real programs that try to escape, at every sandbox level. If run by root, all tests
//! run once more as an ordinary user.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test states what it expects, in its helpers too"
)]

#[path = "sandbox/own.rs"]
mod own;
#[path = "../../../tests/require.rs"]
mod require;

use std::ffi::OsString;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use require::require;
use rustix::process::geteuid;
use toolyard_sandbox::{
    ChildError, Command, Confinement, Exchange, Finished, Grant, Launcher, Network, SandboxLevel,
};

const TIMEOUT: Duration = Duration::from_secs(120);
const PYTHON: &str = "/usr/bin/python3";
const NOT_FULL: &str = "namespaces are refused, so that the full level is not tested";

/// A yard with a tool's folder, a writable folder and a state folder, and a private folder beside the yard.
struct Yard {
    outer: PathBuf,
    launcher: Launcher,
}

impl Yard {
    fn new() -> Yard {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("toolyard-sandbox-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let outer = env::temp_dir().canonicalize().unwrap().join(name);
        for dir in ["yard/tools", "yard/data", "yard/.toolyard/envs/one", "home"] {
            fs::create_dir_all(outer.join(dir)).unwrap();
        }
        for (file, text) in [
            ("yard/tools/tool.txt", "a tool"),
            ("yard/data/old.txt", "old data"),
            ("yard/.toolyard/secret.txt", "SECRET"),
            ("yard/.toolyard/envs/one/lib.txt", "a library"),
            ("home/diary.txt", "SECRET"),
        ] {
            fs::write(outer.join(file), text).unwrap();
        }
        Yard { outer, launcher: Launcher::new(&env::temp_dir()).unwrap() }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.outer.join(path)
    }

    /// The sandbox levels that this machine supports.
    fn levels(&self) -> Vec<SandboxLevel> {
        let here = self.launcher.sandbox_level();
        require(here == SandboxLevel::Full, NOT_FULL);
        let levels: Vec<_> =
            [SandboxLevel::Full, SandboxLevel::Landlock].into_iter().filter(|level| *level <= here).collect();
        assert!(!levels.is_empty(), "this machine supports no sandbox level");
        levels
    }

    fn confinement(&self, level: SandboxLevel) -> Confinement {
        Confinement {
            read: vec![self.path("yard")],
            grants: vec![Grant::open(&self.path("yard/data"), true).unwrap()],
            hidden: vec![self.path("yard/.toolyard")],
            ..Confinement::at(level)
        }
    }

    fn command(&self, confinement: Confinement, program: &str, arguments: &[&str]) -> Command {
        Command {
            program: program.into(),
            argv: [program].iter().chain(arguments).map(OsString::from).collect(),
            env: vec![("PATH".into(), "/usr/bin:/bin".into()), ("OUTER".into(), self.outer.clone().into())],
            cwd: self.path("yard"),
            confinement,
        }
    }

    async fn run(
        &self,
        confinement: Confinement,
        program: &str,
        arguments: &[&str],
    ) -> Result<Finished, ChildError> {
        let command = self.command(confinement, program, arguments);
        self.launcher.run(&command, exchange()).await
    }

    async fn sh(&self, confinement: Confinement, script: &str) -> ShellOutput {
        let level = confinement.level;
        let finished = self.run(confinement, "/bin/sh", &["-c", script]).await.expect("sh runs");
        assert_eq!(finished.sandbox, level);
        ShellOutput::new(finished)
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.outer);
    }
}

#[derive(Debug)]
struct ShellOutput {
    out: String,
    err: String,
    ok: bool,
}

impl ShellOutput {
    fn new(finished: Finished) -> ShellOutput {
        let out = String::from_utf8_lossy(&finished.stdout).trim().to_owned();
        ShellOutput { out, err: finished.stderr_tail, ok: finished.exit.is_success() }
    }
}

#[tokio::test]
async fn what_is_granted_works() {
    let yard = Yard::new();
    for level in yard.levels() {
        let script =
            "cat && cat tools/tool.txt data/old.txt && echo new > data/new.txt && cat data/new.txt && pwd";
        let output = yard.sh(yard.confinement(level), script).await;
        let pwd = yard.path("yard");
        assert_eq!(output.out, format!("ina toolold datanew\n{}", pwd.display()), "{level}: {output:?}");
        assert_eq!(fs::read_to_string(yard.path("yard/data/new.txt")).unwrap(), "new\n");
    }
}

/// Runs every attack of `sandbox/attacks.py` against real targets outside the sandbox.
#[tokio::test]
async fn no_attack_succeeds() {
    let yard = Yard::new();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let _unix = UnixListener::bind(yard.path("home/socket")).unwrap();
    let name = SocketAddr::from_abstract_name(yard.outer.as_os_str().as_encoded_bytes()).unwrap();
    let _abstract = UnixListener::bind_addr(&name).unwrap();
    let mut outside = process::Command::new("/bin/sleep")
        .arg("60")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    for level in yard.levels() {
        let script = include_str!("sandbox/attacks.py");
        let mut command = yard.command(yard.confinement(level), PYTHON, &["-c", script]);
        let port = tcp.local_addr().unwrap().port().to_string();
        command.env.push(("PORT".into(), port.into()));
        command.env.push(("OUTSIDE".into(), outside.id().to_string().into()));
        let output = ShellOutput::new(yard.launcher.run(&command, exchange()).await.unwrap());
        assert!(output.ok, "{level}: {output:?}");
        let through: Vec<&str> = output.out.lines().filter(|line| line.ends_with("=ok")).collect();
        assert!(through.is_empty(), "{level}: {through:?}");
        assert!(output.out.lines().count() > 60, "{level}: the script stopped early: {output:?}");
    }
    assert!(outside.try_wait().unwrap().is_none());
    outside.kill().unwrap();
    outside.wait().unwrap();
    for (file, text) in [("home/diary.txt", "SECRET"), ("yard/tools/tool.txt", "a tool")] {
        assert_eq!(fs::read_to_string(yard.path(file)).unwrap(), text);
    }
}

#[tokio::test]
async fn at_the_full_level_names_outside_do_not_exist() {
    let yard = Yard::new();
    if !require(yard.launcher.sandbox_level() == SandboxLevel::Full, NOT_FULL) {
        return;
    }
    let script = "ls -A $OUTER; ls -A .toolyard; ls -A /root /home /mnt /work 2>/dev/null; ls /proc >/tmp/seen; grep -cE '^[0-9]+$' /tmp/seen";
    let output = yard.sh(yard.confinement(SandboxLevel::Full), script).await;
    // The shell and ls; the init is not in the sandbox.
    assert_eq!(output.out, "yard\n2", "{output:?}");
}

#[tokio::test]
async fn a_path_granted_inside_a_hidden_folder_is_visible_and_nothing_beside_it() {
    let yard = Yard::new();
    for level in yard.levels() {
        let mut confinement = yard.confinement(level);
        confinement.read.push(yard.path("yard/.toolyard/envs/one"));
        let output = yard.sh(confinement, "cat .toolyard/envs/one/lib.txt; cat .toolyard/secret.txt").await;
        assert_eq!((output.out.as_str(), output.ok), ("a library", false), "{level}: {output:?}");
    }
}

#[tokio::test]
async fn links_in_granted_paths_are_preserved() {
    let yard = Yard::new();
    fs::create_dir_all(yard.path("elsewhere/versions/3")).unwrap();
    fs::write(yard.path("elsewhere/versions/3/lib.txt"), "three").unwrap();
    std::os::unix::fs::symlink("versions/3", yard.path("elsewhere/current")).unwrap();
    std::os::unix::fs::symlink(yard.path("elsewhere"), yard.path("yard/linked")).unwrap();
    for level in yard.levels() {
        let mut confinement = yard.confinement(level);
        confinement.read.push(yard.path("yard/linked/current"));
        let script =
            "cat linked/current/lib.txt; readlink linked/current; cat $OUTER/elsewhere/versions/3/lib.txt";
        let output = yard.sh(confinement, script).await;
        assert_eq!(output.out, "threeversions/3\nthree", "{level}: {output:?}");
    }
}

/// Between the check of a grant and the start, its path may lead to something else.
#[tokio::test]
async fn only_what_was_opened_is_granted() {
    let yard = Yard::new();
    let (data, away) = (yard.path("yard/data"), yard.path("away"));
    for level in yard.levels() {
        let checked = yard.confinement(level);
        assert!(yard.sh(checked.clone(), "touch data/allowed").await.ok, "{level}");
        for (replace, errno) in [
            ((|data| fs::create_dir(data).unwrap()) as fn(&PathBuf), libc::ESTALE),
            (|data| std::os::unix::fs::symlink("../home", data).unwrap(), libc::ELOOP),
        ] {
            fs::rename(&data, &away).unwrap();
            replace(&data);
            let ran = yard.run(checked.clone(), "/bin/sh", &["-c", "touch data/written"]).await;
            let Err(ChildError::Confinement { source, .. }) = ran else { panic!("{level}: {ran:?}") };
            assert_eq!(source.raw_os_error(), Some(errno), "{level}: {source}");
            let linked = Grant::open(&data, true).map(|_| ());
            assert_eq!(
                linked.err().and_then(|error| error.raw_os_error()),
                (errno == libc::ELOOP).then_some(errno)
            );
            assert!(!yard.path("home/written").exists());
            if errno == libc::ELOOP { fs::remove_file(&data) } else { fs::remove_dir(&data) }.unwrap();
            fs::rename(&away, &data).unwrap();
        }
        assert!(yard.sh(checked, "touch data/allowed").await.ok, "{level}: it is back");
    }
}

#[tokio::test]
async fn without_its_complete_sandbox_a_program_is_not_started() {
    let yard = Yard::new();
    let begun = yard.path("yard/data/begun");
    for level in yard.levels() {
        let missing =
            Confinement { read: vec![yard.path("yard"), yard.path("none")], ..yard.confinement(level) };
        let relative = Confinement { read: vec!["data".into()], ..yard.confinement(level) };
        for confinement in [missing, relative] {
            let error = yard.run(confinement, "/bin/sh", &["-c", "touch data/begun"]).await.unwrap_err();
            assert!(matches!(error, ChildError::Confinement { .. }), "{level}: {error}");
        }
    }
    if require(yard.launcher.sandbox_level() == SandboxLevel::Full, NOT_FULL) {
        // Detected only in the launcher: the working directory is not in the view.
        let blind = Confinement { read: Vec::new(), ..yard.confinement(SandboxLevel::Full) };
        let mut command = yard.command(blind, "/bin/sh", &["-c", "touch data/begun"]);
        command.cwd = yard.path("home");
        let error = yard.launcher.run(&command, exchange()).await.unwrap_err();
        assert!(error.to_string().contains("working directory"), "{error}");
    }
    let hosts = Confinement { network: Network::Hosts, ..yard.confinement(SandboxLevel::Landlock) };
    assert!(matches!(yard.run(hosts, "/bin/true", &[]).await, Err(ChildError::Confinement { .. })));
    assert!(!begun.exists());
}

#[tokio::test]
async fn interpreters_run_normally() {
    let yard = Yard::new();
    for level in yard.levels() {
        for (program, script) in [
            (
                PYTHON,
                "import json, ssl, subprocess, tempfile, threading, multiprocessing, socket; a, b = socket.socketpair(); t = threading.Thread(target=print, args=('ok',)); t.start(); t.join(); assert subprocess.run(['true']).returncode == 0",
            ),
            (
                "/usr/bin/node",
                "const { execFileSync } = require('child_process'); console.log(execFileSync('echo', ['ok']).toString().trim())",
            ),
            ("/usr/bin/php", "echo json_encode('ok') === '\"ok\"' ? 'ok' : 'no';"),
            ("/usr/bin/perl", "use POSIX; use File::Spec; print `echo ok`;"),
            ("/usr/bin/awk", "BEGIN { print \"ok\" }"),
        ] {
            if !Path::new(program).exists() {
                continue;
            }
            let flag = match program {
                "/usr/bin/php" => Some("-r"),
                "/usr/bin/awk" => None,
                PYTHON => Some("-c"),
                _ => Some("-e"),
            };
            let arguments: Vec<&str> = flag.into_iter().chain([script]).collect();
            let output =
                ShellOutput::new(yard.run(yard.confinement(level), program, &arguments).await.unwrap());
            assert_eq!((output.out.as_str(), output.ok), ("ok", true), "{program} at {level}: {output:?}");
        }
    }
}

#[tokio::test]
async fn an_interpreter_under_a_home_folder_needs_its_prefix_and_no_more() {
    let yard = Yard::new();
    let venv = yard.path("home/venv");
    let made =
        process::Command::new(PYTHON).args(["-m", "venv", "--without-pip"]).arg(&venv).status().unwrap();
    assert!(made.success());
    for level in yard.levels() {
        let mut confinement = yard.confinement(level);
        confinement.read.push(venv.clone());
        let python = venv.join("bin/python");
        let script = "import sys, os; print(sys.prefix); os.listdir(os.environ['OUTER'] + '/home/venv'); open(os.environ['OUTER'] + '/home/diary.txt')";
        let output =
            ShellOutput::new(yard.run(confinement, python.to_str().unwrap(), &["-c", script]).await.unwrap());
        assert_eq!(output.out, venv.to_str().unwrap(), "{level}: {output:?}");
        assert!(!output.ok && output.err.contains("diary"), "{level}: {output:?}");
    }
}

#[tokio::test]
async fn a_setuid_program_gains_nothing() {
    let yard = Yard::new();
    let source = yard.path("yard/suid.c");
    fs::write(&source, "#include <stdio.h>\n#include <unistd.h>\nint main(void) { printf(\"%d %d\\n\", geteuid(), getuid()); }").unwrap();
    let program = yard.path("yard/tools/suid");
    let compiled = process::Command::new("cc").arg(&source).arg("-o").arg(&program).status();
    if !require(compiled.is_ok_and(|status| status.success()), "there is no C compiler") {
        return;
    }
    // Owned by another user where that is permitted.
    let _ = std::os::unix::fs::chown(&program, Some(12345), None);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o6755)).unwrap();
    for level in yard.levels() {
        let output = ShellOutput::new(
            yard.run(yard.confinement(level), program.to_str().unwrap(), &[]).await.unwrap(),
        );
        let (effective, real) = output.out.split_once(' ').unwrap();
        assert_eq!(effective, real, "{level}");
    }
}

#[tokio::test]
async fn bombs_are_stopped() {
    let yard = Yard::new();
    let with = |change: fn(&mut Confinement), level: SandboxLevel| {
        let mut confinement = yard.confinement(level);
        change(&mut confinement);
        confinement
    };
    for level in yard.levels().into_iter().chain([SandboxLevel::None]) {
        let forks = with(|c| c.processes = Some(40), level);
        let script = "import os\nwhile True:\n try: os.fork()\n except OSError: pass";
        let command = yard.command(forks, PYTHON, &["-c", script]);
        let deadline = Instant::now() + Duration::from_secs(5);
        let error = yard.launcher.run(&command, Exchange { deadline, ..exchange() }).await;
        let killed = matches!(error, Err(ChildError::ProcessesOverCap { limit: 40, .. }));
        // For an ordinary user the kernel stops the bomb (RLIMIT_NPROC), and it idles until the deadline.
        let timed_out = error.as_ref().is_err_and(|error| matches!(error, ChildError::Timeout { .. }));
        assert!(killed || timed_out, "{level}: {error:?}");

        let memory = with(|c| c.memory = Some(100 << 20), level);
        let script = "x = []\nwhile True: x.append(bytearray(1 << 20))";
        let error = yard.run(memory, PYTHON, &["-c", script]).await.unwrap_err();
        assert!(matches!(error, ChildError::MemoryOverCap { limit: 104_857_600, .. }), "{level}: {error}");

        let cpu = with(|c| c.cpu = Some(Duration::from_millis(300)), level);
        let script = "import os\nos.fork()\nwhile True: pass";
        let error = yard.run(cpu, PYTHON, &["-c", script]).await.unwrap_err();
        assert!(matches!(error, ChildError::CpuOverCap { .. }), "{level}: {error}");
    }
}

#[tokio::test]
async fn limits_leave_an_honest_program_alone() {
    let yard = Yard::new();
    for level in yard.levels().into_iter().chain([SandboxLevel::None]) {
        let confinement = Confinement {
            memory: Some(128 << 20),
            cpu: Some(Duration::from_secs(20)),
            processes: Some(16),
            files: Some(64),
            file_size: Some(1 << 20),
            ..yard.confinement(level)
        };
        let output = yard
            .sh(confinement, "ulimit -n; ulimit -c; for i in 1 2 3 4; do sleep 0.1 & done; wait; echo ok")
            .await;
        let core = if level == SandboxLevel::None { output.out.lines().nth(1).unwrap() } else { "0" };
        assert_eq!(output.out, format!("64\n{core}\nok"), "{level}: {output:?}");
    }
}

#[tokio::test]
async fn a_disk_filler_is_limited_to_its_own_space() {
    let yard = Yard::new();
    for level in yard.levels() {
        let confinement =
            Confinement { tmp_bytes: 1 << 20, file_size: Some(1 << 20), ..yard.confinement(level) };
        let script = "head -c 8000000 /dev/zero > data/big; wc -c < data/big; for d in /tmp /dev/shm; do head -c 900000 /dev/zero > $d/a; head -c 900000 /dev/zero > $d/b; cat $d/* 2>/dev/null | wc -c; done";
        let output = yard.sh(confinement, script).await;
        let sizes: Vec<u64> = output.out.lines().map(|line| line.trim().parse().unwrap()).collect();
        assert_eq!(sizes.len(), 3, "{level}: {output:?}");
        assert!(sizes.iter().all(|size| *size <= 1 << 20), "{level}: {output:?}");
    }
}

#[tokio::test]
async fn with_a_host_list_only_the_proxy_is_reachable() {
    let yard = Yard::new();
    if !require(yard.launcher.sandbox_level() == SandboxLevel::Full, NOT_FULL) {
        return;
    }
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let confinement = Confinement { network: Network::Hosts, ..yard.confinement(SandboxLevel::Full) };
    let script = "
import os, socket
with socket.create_connection(('127.0.0.1', 3128), 30) as s:
    print(s.recv(9).decode())
for family, kind, port in ((socket.AF_INET, socket.SOCK_STREAM, int(os.environ['PORT'])), (socket.AF_INET, socket.SOCK_DGRAM, 53)):
    try:
        s = socket.socket(family, kind)
        s.connect(('127.0.0.1', port))
        s.send(b'x')
        s.recv(1)
        print('through')
    except OSError:
        print('denied')
";
    let mut command = yard.command(confinement, PYTHON, &["-c", script]);
    command.env.push(("PORT".into(), other.local_addr().unwrap().port().to_string().into()));
    let serve = |listener: TcpListener| {
        thread::spawn(move || {
            use std::io::Write;
            listener.accept().unwrap().0.write_all(b"the proxy").unwrap();
        });
    };
    let exchange = Exchange { on_listener: Some(Box::new(serve)), ..exchange() };
    let output = ShellOutput::new(yard.launcher.run(&command, exchange).await.unwrap());
    assert_eq!(output.out, "the proxy\ndenied\ndenied", "{output:?}");
}

#[tokio::test]
async fn with_the_network_allowed_raw_sockets_are_denied() {
    let yard = Yard::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    for level in yard.levels() {
        let confinement = Confinement { network: Network::Allow, ..yard.confinement(level) };
        let script = "
import os, socket
socket.create_connection(('127.0.0.1', int(os.environ['PORT'])), 30).close()
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()
print('through')
for family, kind, protocol in ((socket.AF_INET, socket.SOCK_RAW, 1), (socket.AF_PACKET, socket.SOCK_RAW, 0), (socket.AF_VSOCK, socket.SOCK_STREAM, 0)):
    try:
        socket.socket(family, kind, protocol)
        print('through')
    except OSError:
        print('denied')
";
        let mut command = yard.command(confinement, PYTHON, &["-c", script]);
        command.env.push(("PORT".into(), port.clone().into()));
        let output = ShellOutput::new(yard.launcher.run(&command, exchange()).await.unwrap());
        assert_eq!(output.out, "through\ndenied\ndenied\ndenied", "{level}: {output:?}");
    }
}

/// Runs the same tests as an unprivileged user.
#[test]
fn all_this_holds_for_an_ordinary_user_too() {
    if !require(geteuid().is_root(), "the tests do not run as root, so that no other user is tested") {
        return;
    }
    let status = process::Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all"])
        .arg(env::current_exe().unwrap())
        .args(["--skip", "all_this_holds", "--test-threads", "2"])
        .env("TMPDIR", "/tmp")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stdout));
}

fn exchange() -> Exchange {
    let deadline = Instant::now() + TIMEOUT;
    Exchange { stdin: "in".into(), output_cap: 1 << 20, deadline, on_listener: None }
}
