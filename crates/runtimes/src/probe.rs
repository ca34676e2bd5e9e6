//! Asks the shim of a version manager which interpreter it starts: in the sandbox, with no variables of the owner
//! and a deadline.

use crate::interpreter::Lookup;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use toolyard_sandbox::{Command, Confinement, Exchange, Finished, SandboxLevel};

const LIMIT: Duration = Duration::from_secs(5);
const MAX_ANSWER: usize = 4096;

/// The path that the shim prints. `None` if it prints none in time, or if this machine has no sandbox.
pub fn ask(lookup: Lookup<'_>, shim: &Path, arguments: &[&str]) -> Option<PathBuf> {
    let level = lookup.launcher.sandbox_level();
    if level == SandboxLevel::None {
        return None;
    }
    let manager = manager(shim).filter(|folder| lookup.places.refusal(folder, false, None).is_none());
    let mut env = lookup.host.base_env();
    // Version managers look for their folder there; nothing else of it is visible.
    env.extend(manager.and_then(Path::parent).map(|home| ("HOME".into(), home.into())));
    let command = Command {
        program: shim.to_owned(),
        argv: std::iter::once(shim.into()).chain(arguments.iter().map(OsString::from)).collect(),
        env,
        cwd: PathBuf::from("/usr"),
        confinement: Confinement {
            read: std::iter::once(shim).chain(manager).map(Path::to_owned).collect(),
            hidden: vec![lookup.places.state.clone()],
            memory: Some(512 << 20),
            cpu: Some(LIMIT),
            processes: Some(64),
            files: Some(256),
            tmp_bytes: 1 << 20,
            ..Confinement::at(level)
        },
    };
    let finished = run(lookup, command)?;
    let answer = String::from_utf8(finished.stdout.into()).ok().filter(|_| finished.exit.is_success())?;
    Some(PathBuf::from(answer.trim()))
}

/// The folder of the version manager: `DIR` of `DIR/shims/python3`.
fn manager(shim: &Path) -> Option<&Path> {
    let folder = shim.parent()?;
    folder.file_name().is_some_and(|name| name == "shims").then(|| folder.parent()).flatten()
}

/// On a thread of its own, because files are read inside and outside of an async runtime.
fn run(lookup: Lookup<'_>, command: Command) -> Option<Finished> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
            let deadline = Instant::now() + LIMIT;
            let stdin = bytes::Bytes::new();
            let exchange = Exchange { stdin, output_cap: MAX_ANSWER, deadline, on_listener: None };
            runtime.block_on(lookup.launcher.run(&command, exchange)).ok()
        });
        thread.join().ok().flatten()
    })
}
