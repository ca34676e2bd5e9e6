//! The launcher as the daemon sees it: made ready once, then one run per call.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{self, Instant};

use super::image::Image;
use super::input::Stdin;
use super::output::{OverCap, Stderr, Stdout};
use super::plan::{self, Empty, Plan, System};
use super::probe::{executable_image, probe, probe_sandbox};
use super::reaper::Reaper;
use super::record::{self, Record};
use super::spawn::Prepared;
use super::tree::Tree;
use super::views::Views;
use super::watch::{Excess, Watch};
use super::{
    ChildError, Command, Confinement, Exchange, Exit, Finished, LauncherError, Level, TreeLevel, fds,
};

/// Starts tools; one per process, shared.
pub struct Launcher {
    image: Arc<Image>,
    level: TreeLevel,
    /// The level and the weaker ones below it.
    levels: Vec<TreeLevel>,
    sandbox: Level,
    system: Arc<System>,
    views: Arc<Views>,
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
        let (level, levels) = match options.level {
            Some(level) => {
                probe(&image, level).map_err(|source| LauncherError::LevelRefused { level, source })?;
                (level, vec![level])
            }
            None => {
                let works = |level: &TreeLevel| probe(&image, *level).is_ok();
                let level = TreeLevel::ALL.into_iter().find(works).ok_or(LauncherError::NoLevel)?;
                let weaker = TreeLevel::ALL.into_iter().filter(|other| *other >= level);
                (level, weaker.collect::<Vec<_>>())
            }
        };
        let reaper = Reaper::start().map_err(LauncherError::Reaper)?;
        let system = System::new(level, &image);
        let works = |level: &Level| probe_sandbox(&image, &levels, *level, &system).is_ok();
        let sandbox = Level::ALL.into_iter().find(works).unwrap_or(Level::None);
        let places = Semaphore::new(options.max_live.clamp(1, Semaphore::MAX_PERMITS));
        let (image, system, views) = (Arc::new(image), Arc::new(system), Arc::default());
        Ok(Launcher { image, level, levels, sandbox, system, views, places: Arc::new(places), reaper })
    }

    pub fn level(&self) -> TreeLevel {
        self.level
    }

    /// The strongest confinement this machine gives, found out once by trying.
    pub fn sandbox_level(&self) -> Level {
        self.sandbox
    }

    /// The system call filter that a program so confined gets, as the kernel takes it: to compare with others.
    pub fn filter(&self, confinement: &Confinement) -> Vec<u8> {
        self.system.filter(confinement)
    }

    /// Runs one program to its end. Returns, and is safe to drop at any time, only with the whole tree dead or
    /// told to die; must be called inside a tokio runtime with I/O and time enabled.
    pub async fn run(&self, command: &Command, exchange: Exchange) -> Result<Finished, ChildError> {
        let confinement = &command.confinement;
        let deadline = Instant::from_std(exchange.deadline);
        let permit = self.place(deadline).await?;
        // Only now: while a run waits for its place, what a view shows can change.
        let view = self.view(confinement).await;
        let plan = Plan::new(confinement, &self.system, &command.cwd, view.is_some())?;
        let shared = self.system.shared(confinement.level);
        let flags = flags(&self.levels, confinement.level, plan.is_some(), shared);
        let prepared = Prepared::new(&flags, command)?;

        let (stdin_theirs, stdin) = fds::pipe().map_err(ChildError::Spawn)?;
        let (stdout, stdout_theirs) = fds::pipe().map_err(ChildError::Spawn)?;
        let (stderr, stderr_theirs) = fds::pipe().map_err(ChildError::Spawn)?;
        let (control, control_theirs) = fds::socket_pair().map_err(ChildError::Spawn)?;
        let mut stdin = Stdin::new(stdin, exchange.stdin).map_err(ChildError::Spawn)?;
        let mut stdout = Stdout::new(stdout, exchange.output_cap).map_err(ChildError::Spawn)?;
        let mut stderr = Stderr::new(stderr).map_err(ChildError::Spawn)?;
        let control = Tree::register(control).map_err(ChildError::Spawn)?;
        if let Some(plan) = &plan {
            send(control.get_ref(), plan)?;
        }
        let mut namespaces = shared.map(Empty::descriptors).unwrap_or_default();
        namespaces.extend(view.as_deref().map(|view| (view, plan::MOUNTS as i32)));
        let theirs = [&stdin_theirs, &stdout_theirs, &stderr_theirs, &control_theirs];
        let pid = prepared
            .spawn(&self.image.path, theirs, namespaces)
            .map_err(|error| not_spawned(error, command))?;
        let mut tree = Tree::new(control, pid, self.reaper.handle(), permit, exchange.on_listener);
        drop((stdin_theirs, stdout_theirs, stderr_theirs, control_theirs));

        let mut watch = Watch::new(confinement, tree.launcher());
        let ended = converse(&mut tree, &mut stdin, &mut stdout, &mut stderr, &mut watch, deadline).await;
        let record = match ended {
            Ok(record) => record,
            Err(cut) => {
                tree.kill();
                tree.dead().await;
                return Err(cut.told(exchange.output_cap, stderr.finish()));
            }
        };
        let (exit, level) = read_record(record, command, plan.as_ref()).inspect_err(|error| {
            if matches!(error, ChildError::Confinement { .. }) {
                self.views.forget();
            }
        })?;
        let stderr_tail = stderr.finish();
        match stdout.finish() {
            Ok(stdout) => Ok(Finished { stdout, stderr_tail, exit, level, sandbox: confinement.level }),
            Err(OverCap) => Err(ChildError::OutputOverCap { cap: exchange.output_cap, stderr_tail }),
        }
    }
}

impl Launcher {
    async fn place(&self, deadline: Instant) -> Result<OwnedSemaphorePermit, ChildError> {
        match time::timeout_at(deadline, Arc::clone(&self.places).acquire_owned()).await {
            Ok(Ok(permit)) if Instant::now() < deadline => Ok(permit),
            _ => Err(ChildError::Timeout { stderr_tail: String::new() }),
        }
    }

    /// The view that a run so confined copies, kept or made; `None` when it must make its own.
    async fn view(&self, confinement: &Confinement) -> Option<Arc<OwnedFd>> {
        // Namespaces of ours can be entered only where users are shared, too.
        self.system.shared(confinement.level)?;
        let plan = Plan::view(confinement, &self.system).ok()?;
        if let Some(view) = self.views.find(&plan) {
            return Some(view);
        }
        let (views, image, system) = (self.views.clone(), self.image.clone(), self.system.clone());
        let levels = self.levels.clone();
        let made = tokio::task::spawn_blocking(move || views.make(&plan, &image, &levels, &system));
        made.await.ok().flatten()
    }
}

/// Why we end a run ourselves.
enum Cut {
    Deadline,
    OverCap,
    Excess(Excess),
}

impl Cut {
    fn told(self, cap: usize, stderr_tail: String) -> ChildError {
        match self {
            Cut::Deadline => ChildError::Timeout { stderr_tail },
            Cut::OverCap => ChildError::OutputOverCap { cap, stderr_tail },
            Cut::Excess(Excess::Memory(limit)) => ChildError::MemoryOverCap { limit, stderr_tail },
            Cut::Excess(Excess::Cpu(limit)) => ChildError::CpuOverCap { limit, stderr_tail },
            Cut::Excess(Excess::Processes(limit)) => ChildError::ProcessesOverCap { limit, stderr_tail },
        }
    }
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
    watch: &mut Watch,
    deadline: Instant,
) -> Result<Option<Record>, Cut> {
    let deadline = time::sleep_until(deadline);
    tokio::pin!(deadline);
    loop {
        tokio::select! {
            record = tree.dead() => return Ok(record),
            () = &mut deadline => return Err(Cut::Deadline),
            excess = watch.excess() => return Err(Cut::Excess(excess)),
            read = stdout.read(), if stdout.is_open() => read?,
            () = stderr.read(), if stderr.is_open() => {}
            () = stdin.write(), if stdin.is_open() => {}
        }
    }
}

/// What the launcher reads as its flags. A full confinement needs a namespace to stand in.
pub fn flags(levels: &[TreeLevel], sandbox: Level, with_plan: bool, shared: Option<&Empty>) -> CString {
    let fits = |level: &&TreeLevel| sandbox < Level::Full || **level != TreeLevel::Subreaper;
    let levels = levels.iter().filter(fits).map(|level| level.letter());
    let join = shared.is_some_and(Empty::has_users).then_some(record::FLAG_JOIN);
    let flags = levels.chain(with_plan.then_some(record::FLAG_PLAN)).chain(join).collect::<Vec<_>>();
    CString::new(flags).unwrap_or_default()
}

/// The plan waits in the socket for the launcher, which does not exist yet.
fn send(control: &OwnedFd, plan: &Plan) -> Result<(), ChildError> {
    let failed = |source| ChildError::Confinement { step: "hand over the plan".into(), source };
    match fds::write(control, plan.bytes()).map_err(failed)? {
        n if n == plan.bytes().len() => Ok(()),
        _ => Err(failed(io::Error::from_raw_os_error(libc::EMSGSIZE))),
    }
}

fn read_record(
    record: Option<Record>,
    command: &Command,
    plan: Option<&Plan>,
) -> Result<(Exit, TreeLevel), ChildError> {
    let record = record.ok_or(ChildError::LauncherDied)?;
    let error = io::Error::from_raw_os_error(record.errno);
    match (record.stage, TreeLevel::from_letter(record.level)) {
        (record::STAGE_RAN, Some(level)) => Ok((Exit::from_wait_status(record.status), level)),
        (record::STAGE_EXEC, _) => Err(not_executed(error, command)),
        (record::STAGE_SETUP, _) => Err(ChildError::Tree(error)),
        (record::STAGE_CONFINE, _) => Err(match plan {
            Some(plan) => plan.failed(record.status, error),
            None => ChildError::LauncherDied,
        }),
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
