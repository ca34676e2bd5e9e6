//! The launcher as the daemon sees it: made ready once, then one run per call.

use std::ffi::CString;
use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::time::{self, Instant};

use super::image::Image;
use super::input::Stdin;
use super::output::{OverCap, Stderr, Stdout};
use super::probe::{executable_image, probe};
use super::reaper::Reaper;
use super::record::{self, Record};
use super::spawn::Prepared;
use super::tree::Tree;
use super::{ChildError, Command, Exchange, Exit, Finished, LauncherError, Level, TreeLevel, fds};

/// Starts tools; one per process, shared.
pub struct Launcher {
    image: Image,
    level: TreeLevel,
    /// The level and the weaker ones below it, as the launcher reads them.
    flags: CString,
    places: Arc<Semaphore>,
    reaper: Reaper,
}

#[derive(Clone, Debug)]
pub struct Options {
    /// Children alive at the same time; more calls wait for a place.
    pub max_live: usize,
    /// Use this way of holding trees and no other, instead of the strongest that works.
    pub level: Option<TreeLevel>,
}

impl Default for Options {
    fn default() -> Options {
        Options { max_live: 256, level: None }
    }
}

impl Launcher {
    /// Finds out what this system allows. `fallback_dir` gets a copy of the launcher where anonymous memory
    /// can't be executed.
    pub fn new(fallback_dir: &Path) -> Result<Launcher, LauncherError> {
        Launcher::with_options(fallback_dir, Options::default())
    }

    pub fn with_options(fallback_dir: &Path, options: Options) -> Result<Launcher, LauncherError> {
        let image = executable_image(fallback_dir)?;
        let (level, flags) = match options.level {
            Some(level) => {
                probe(&image, level).map_err(|source| LauncherError::LevelRefused { level, source })?;
                (level, vec![level.letter()])
            }
            None => {
                let works = |level: &TreeLevel| probe(&image, *level).is_ok();
                let level = TreeLevel::ALL.into_iter().find(works).ok_or(LauncherError::NoLevel)?;
                let weaker = TreeLevel::ALL.into_iter().filter(|other| *other >= level);
                (level, weaker.map(TreeLevel::letter).collect())
            }
        };
        let reaper = Reaper::start().map_err(LauncherError::Reaper)?;
        let flags = CString::new(flags).unwrap_or_default();
        let places = Semaphore::new(options.max_live.clamp(1, Semaphore::MAX_PERMITS));
        Ok(Launcher { image, level, flags, places: Arc::new(places), reaper })
    }

    pub fn level(&self) -> TreeLevel {
        self.level
    }

    /// The strongest confinement this machine gives, found out once by trying.
    pub fn sandbox_level(&self) -> Level {
        Level::None
    }

    /// Runs one program to its end. Returns, and is safe to drop at any time, only with the whole tree dead or
    /// told to die; must be called inside a tokio runtime with I/O and time enabled.
    pub async fn run(&self, command: &Command, exchange: Exchange) -> Result<Finished, ChildError> {
        let prepared = Prepared::new(&self.flags, command)?;
        let deadline = Instant::from_std(exchange.deadline);
        let place = Arc::clone(&self.places).acquire_owned();
        let permit = match time::timeout_at(deadline, place).await {
            Ok(Ok(permit)) if Instant::now() < deadline => permit,
            _ => return Err(ChildError::Timeout { stderr_tail: String::new() }),
        };

        let (stdin_theirs, stdin) = fds::pipe().map_err(ChildError::Spawn)?;
        let (stdout, stdout_theirs) = fds::pipe().map_err(ChildError::Spawn)?;
        let (stderr, stderr_theirs) = fds::pipe().map_err(ChildError::Spawn)?;
        let (control, control_theirs) = fds::socket_pair().map_err(ChildError::Spawn)?;
        let mut stdin = Stdin::new(stdin, exchange.stdin).map_err(ChildError::Spawn)?;
        let mut stdout = Stdout::new(stdout, exchange.output_cap).map_err(ChildError::Spawn)?;
        let mut stderr = Stderr::new(stderr).map_err(ChildError::Spawn)?;
        let control = Tree::register(control).map_err(ChildError::Spawn)?;
        let pid = prepared
            .spawn(&self.image.path, [&stdin_theirs, &stdout_theirs, &stderr_theirs, &control_theirs])
            .map_err(|error| not_spawned(error, command))?;
        let mut tree = Tree::new(control, pid, self.reaper.handle(), permit);
        drop((stdin_theirs, stdout_theirs, stderr_theirs, control_theirs));

        let ended = converse(&mut tree, &mut stdin, &mut stdout, &mut stderr, deadline).await;
        let record = match ended {
            Ok(record) => record,
            Err(cut) => {
                tree.kill();
                tree.dead().await;
                let stderr_tail = stderr.finish();
                return Err(match cut {
                    Cut::Deadline => ChildError::Timeout { stderr_tail },
                    Cut::OverCap => ChildError::OutputOverCap { cap: exchange.output_cap, stderr_tail },
                });
            }
        };
        let (exit, level) = read_record(record, command)?;
        let stderr_tail = stderr.finish();
        match stdout.finish() {
            Ok(stdout) => Ok(Finished { stdout, stderr_tail, exit, level, sandbox: Level::None }),
            Err(OverCap) => Err(ChildError::OutputOverCap { cap: exchange.output_cap, stderr_tail }),
        }
    }
}

/// Why we end a run ourselves.
enum Cut {
    Deadline,
    OverCap,
}

impl From<OverCap> for Cut {
    fn from(_: OverCap) -> Cut {
        Cut::OverCap
    }
}

/// Moves bytes until the tree is dead, the deadline comes or the output is too long.
async fn converse(
    tree: &mut Tree,
    stdin: &mut Stdin,
    stdout: &mut Stdout,
    stderr: &mut Stderr,
    deadline: Instant,
) -> Result<Option<Record>, Cut> {
    let deadline = time::sleep_until(deadline);
    tokio::pin!(deadline);
    loop {
        tokio::select! {
            record = tree.dead() => return Ok(record),
            () = &mut deadline => return Err(Cut::Deadline),
            read = stdout.read(), if stdout.is_open() => read?,
            () = stderr.read(), if stderr.is_open() => {}
            () = stdin.write(), if stdin.is_open() => {}
        }
    }
}

fn read_record(record: Option<Record>, command: &Command) -> Result<(Exit, TreeLevel), ChildError> {
    let record = record.ok_or(ChildError::LauncherDied)?;
    let error = io::Error::from_raw_os_error(record.errno);
    match (record.stage, TreeLevel::from_letter(record.level)) {
        (record::STAGE_RAN, Some(level)) => Ok((Exit::from_wait_status(record.status), level)),
        (record::STAGE_EXEC, _) => Err(not_executed(error, command)),
        (record::STAGE_SETUP, _) => Err(ChildError::Tree(error)),
        _ => Err(ChildError::LauncherDied),
    }
}

/// The launcher did not start; the tool's arguments or directory may be the reason.
fn not_spawned(error: io::Error, command: &Command) -> ChildError {
    match error.raw_os_error() {
        Some(libc::E2BIG) => ChildError::ArgumentsTooLong,
        Some(libc::ENOENT | libc::ENOTDIR | libc::EACCES | libc::ELOOP)
            if std::fs::read_dir(&command.cwd).is_err() =>
        {
            ChildError::WorkingDirectory { cwd: command.cwd.clone(), source: error }
        }
        _ => ChildError::Spawn(error),
    }
}

fn not_executed(error: io::Error, command: &Command) -> ChildError {
    let program = command.program.clone();
    match error.raw_os_error() {
        // The kernel says the same for a script whose interpreter is not there.
        Some(libc::ENOENT) if command.cwd.join(&program).exists() => {
            ChildError::InterpreterMissing { program }
        }
        Some(libc::ENOENT | libc::ENOTDIR) => ChildError::ProgramMissing { program },
        Some(libc::EACCES | libc::ENOEXEC | libc::EPERM | libc::EISDIR) => {
            ChildError::NotExecutable { program, source: error }
        }
        Some(libc::E2BIG) => ChildError::ArgumentsTooLong,
        _ => ChildError::Spawn(error),
    }
}
