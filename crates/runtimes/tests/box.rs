//! Confined children: real programs that try to get out, at every level that claims to stop them. Run by root,
//! everything is run once more as an ordinary user.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test states what it expects, in its helpers too"
)]

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, process};

use toolyard_runtimes::child::{
    ChildError, Command, Confinement, Exchange, Finished, Launcher, Level, Network,
};

const PATIENCE: Duration = Duration::from_secs(120);
const PERL: &str = "/usr/bin/perl";
const PYTHON: &str = "/usr/bin/python3";

/// A yard with a tool's folder, a folder to write in, a state folder, and a stranger's folder beside it.
struct Yard {
    outer: PathBuf,
    launcher: Launcher,
}

impl Yard {
    fn new() -> Yard {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("toolyard-box-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
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

    /// The levels that claim to stop things, as far as this machine has them.
    fn levels(&self) -> Vec<Level> {
        let here = self.launcher.sandbox_level();
        let levels: Vec<_> =
            [Level::Full, Level::Landlock].into_iter().filter(|level| *level <= here).collect();
        assert!(!levels.is_empty(), "this machine confines nothing");
        levels
    }

    fn confinement(&self, level: Level) -> Confinement {
        Confinement {
            read: vec![self.path("yard")],
            write: vec![self.path("yard/data")],
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
        let deadline = Instant::now() + PATIENCE;
        let exchange = Exchange { stdin: "in".into(), output_cap: 1 << 20, deadline, on_listener: None };
        self.launcher.run(&command, exchange).await
    }

    async fn sh(&self, confinement: Confinement, script: &str) -> Said {
        let level = confinement.level;
        let finished = self.run(confinement, "/bin/sh", &["-c", script]).await.expect("sh runs");
        assert_eq!(finished.sandbox, level);
        Said::new(finished)
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.outer);
    }
}

#[derive(Debug)]
struct Said {
    out: String,
    err: String,
    ok: bool,
}

impl Said {
    fn new(finished: Finished) -> Said {
        let out = String::from_utf8_lossy(&finished.stdout).trim().to_owned();
        Said { out, err: finished.stderr_tail, ok: finished.exit.is_success() }
    }
}

#[tokio::test]
async fn what_is_granted_works() {
    let yard = Yard::new();
    for level in yard.levels() {
        let script =
            "cat && cat tools/tool.txt data/old.txt && echo new > data/new.txt && cat data/new.txt && pwd";
        let said = yard.sh(yard.confinement(level), script).await;
        let pwd = yard.path("yard");
        assert_eq!(said.out, format!("ina toolold datanew\n{}", pwd.display()), "{level}: {said:?}");
        assert_eq!(fs::read_to_string(yard.path("yard/data/new.txt")).unwrap(), "new\n");
    }
}

#[tokio::test]
async fn dump() {
    let yard = Yard::new();
    for level in yard.levels() {
        eprintln!("== {level}");
        let said = yard.sh(yard.confinement(level), "id; ls -la / /etc /dev /proc/1 . .toolyard; ls /proc; cat /proc/self/status | grep -E 'Cap|Sec|NoNew'; cat /proc/self/mountinfo | cut -d' ' -f4-7; ps aux; ls /root $OUTER").await;
        eprintln!("{} {}", said.out, said.err);
    }
}
