//! Finds interpreters and resolves the shims of version managers.

use crate::host::Host;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A program that runs scripts.
pub struct Interpreter {
    /// What `doctor` calls it.
    pub label: &'static str,
    /// The names it goes by, the best first.
    pub names: &'static [&'static str],
    /// The arguments that make it print its own path; empty when it is never a shim.
    pub self_path: &'static [&'static str],
}

impl Interpreter {
    /// The real executable, because a shim costs 100 ms per start and needs the owner's home folder.
    pub fn find(&self, host: &Host, root: &Path) -> Option<PathBuf> {
        self.names
            .iter()
            .find_map(|name| host.program(name, root))
            .map(|found| self.real_executable(host, found))
    }

    /// The same for an interpreter named in a tool file.
    pub fn find_named(&self, host: &Host, root: &Path, name: &str) -> Option<PathBuf> {
        host.program(name, root).map(|found| self.real_executable(host, found))
    }

    fn real_executable(&self, host: &Host, found: PathBuf) -> PathBuf {
        if self.self_path.is_empty() || !is_script(&found) {
            return found;
        }
        host.resolve_shim(&found, || {
            let printed = run_helper(host, &found, self.self_path, None, Duration::from_secs(20)).ok()?;
            let path = PathBuf::from(printed.trim());
            (path.is_absolute() && path.is_file()).then_some(path)
        })
    }
}

fn is_script(path: &Path) -> bool {
    let mut start = [0u8; 2];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && &start == b"#!"
}

/// Runs a helper program with the owner's environment and returns its output; only for set-up, not for calls.
pub fn run_helper(
    host: &Host,
    program: &Path,
    args: &[&str],
    cwd: Option<&Path>,
    limit: Duration,
) -> Result<String, String> {
    let name = program.display();
    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .envs(host.variables())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(cwd) = cwd {
        command.current_dir(cwd);
    }
    let mut child = command.spawn().map_err(|error| format!("cannot start {name}: {error}"))?;
    // Drained on separate threads, because a full pipe would block the program.
    let stdout = drain(child.stdout.take());
    let stderr = drain(child.stderr.take());
    let end = Instant::now() + limit;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{name} did not finish within {} s", limit.as_secs()));
            }
        }
    };
    let text = |thread: std::thread::JoinHandle<String>| thread.join().unwrap_or_default();
    let (stdout, stderr) = (text(stdout), text(stderr));
    if status.success() {
        return Ok(stdout);
    }
    let last: Vec<&str> = stderr.lines().filter(|line| !line.trim().is_empty()).collect();
    Err(format!("{name} failed ({status}): {}", last[last.len().saturating_sub(3)..].join(" / ")))
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            // Bounded; longer output is not needed.
            let _ = pipe.take(1 << 20).read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
