//! Asks a program of a version manager which interpreter a shim starts: in the sandbox, with no variables of the owner
//! and a deadline.

use crate::interpreter::Lookup;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use toolyard_sandbox::{Command, Confinement, Exchange, Finished, SandboxLevel};

const LIMIT: Duration = Duration::from_secs(5);
const MAX_ANSWER: usize = 4096;

/// A program that prints a path, and what it needs for that.
pub struct Question {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    /// Besides the search path and the locale.
    pub env: Vec<(OsString, OsString)>,
    /// Those that exist and may be shown to a tool.
    pub read: Vec<PathBuf>,
}

impl Question {
    /// The shim itself, started with arguments that make its interpreter print its own path.
    pub fn of_shim(shim: &Path, arguments: &[&str]) -> Question {
        let folder = shim.parent().filter(|folder| folder.file_name().is_some_and(|name| name == "shims"));
        let manager = folder.and_then(Path::parent);
        Question {
            program: shim.to_owned(),
            arguments: arguments.iter().map(OsString::from).collect(),
            // Version managers look for their folder there; nothing else of it is visible.
            env: manager
                .and_then(Path::parent)
                .map(|home| ("HOME".into(), home.into()))
                .into_iter()
                .collect(),
            read: manager.map(Path::to_owned).into_iter().collect(),
        }
    }
}

/// The path that the program prints. `None` if it prints none in time, or if this machine has no sandbox.
pub fn ask(lookup: Lookup<'_>, question: &Question) -> Option<PathBuf> {
    let level = lookup.launcher.sandbox_level();
    if level == SandboxLevel::None {
        return None;
    }
    let program = &question.program;
    let is_shown = |path: &&PathBuf| path.exists() && lookup.places.refusal(path, false, None).is_none();
    let read = std::iter::once(program).chain(question.read.iter().filter(is_shown)).cloned().collect();
    let mut env = lookup.host.base_env();
    env.extend(question.env.iter().cloned());
    let command = Command {
        program: program.clone(),
        argv: std::iter::once(program.into()).chain(question.arguments.iter().cloned()).collect(),
        env,
        cwd: PathBuf::from("/usr"),
        confinement: Confinement {
            read,
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
