//! The daemon's handle to the launcher: probes the system once, then runs one program per call.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::time::{self, Instant};

use super::image::Image;
use super::input::Stdin;
use super::launch_script::SystemView;
use super::limits::{LimitExceeded, LimitMonitor};
use super::network_pool::NetworkPool;
use super::output::{OverCap, Stderr, Stdout};
use super::probe::{executable_image, probe, probe_sandbox};
use super::reaper::Reaper;
use super::start::{Admitted, open_channels};
use super::tree::ProcessTree;
use super::view_pool::ViewPool;
use super::{ChildError, Command, Confinement, Exchange, Finished, LauncherError, SandboxLevel, TreeLevel};
use toolyard_launcher::record::Record;

/// Starts child processes; one shared instance per daemon.
pub struct Launcher {
    pub(super) image: Arc<Image>,
    level: TreeLevel,
    /// `level` and the weaker levels to fall back to.
    pub(super) levels: Vec<TreeLevel>,
    sandbox: SandboxLevel,
    pub(super) system: Arc<SystemView>,
    pub(super) view_pool: Arc<ViewPool>,
    pub(super) network_pool: Arc<NetworkPool>,
    pub(super) permits: Arc<Semaphore>,
    pub(super) reaper: Reaper,
}

#[derive(Clone, Debug)]
pub struct Options {
    /// Concurrent children; further calls wait for a permit.
    pub max_live: usize,
    /// Use exactly this level instead of the strongest available one.
    pub level: Option<TreeLevel>,
}

impl Default for Options {
    fn default() -> Options {
        Options { max_live: 256, level: None }
    }
}

impl Launcher {
    /// Probes what this system supports; writes the launcher to `fallback_dir` if a memfd cannot be executed.
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
        let system = SystemView::new(level, &image);
        let works = |level: &SandboxLevel| probe_sandbox(&image, &levels, *level, &system).is_ok();
        let sandbox = SandboxLevel::ALL.into_iter().find(works).unwrap_or(SandboxLevel::None);
        let permits = Semaphore::new(options.max_live.clamp(1, Semaphore::MAX_PERMITS));
        let (image, system, permits) = (Arc::new(image), Arc::new(system), Arc::new(permits));
        let (view_pool, network_pool) = (Arc::default(), Arc::default());
        Ok(Launcher { image, level, levels, sandbox, system, view_pool, network_pool, permits, reaper })
    }

    pub fn level(&self) -> TreeLevel {
        self.level
    }

    /// The strongest sandbox level this system supports, as probed at start.
    pub fn sandbox_level(&self) -> SandboxLevel {
        self.sandbox
    }

    /// Whether every sandboxed program sees this path, as far as the machine has it.
    pub fn shows(&self, path: &Path) -> bool {
        self.system.shows(path)
    }

    /// Whether a program sees this path with [`super::Network::Allow`] only.
    pub fn shows_with_network(&self, path: &Path) -> bool {
        SystemView::shows_with_network(path)
    }

    /// The seccomp filter for this confinement as BPF instructions; for comparison with other sandboxes.
    pub fn filter(&self, confinement: &Confinement) -> Vec<u8> {
        self.system.filter(confinement)
    }

    /// Runs one program to its end. The whole tree is dead when this returns; dropping the future kills it.
    /// Must be called inside a tokio runtime with I/O and time enabled.
    pub async fn run(&self, command: &Command, exchange: Exchange) -> Result<Finished, ChildError> {
        let admitted = self.admit(command, exchange.deadline).await?;
        self.run_admitted(command, admitted, exchange).await
    }

    /// [`Launcher::run`] for an admitted command, which starts when this is first polled.
    pub async fn run_admitted(
        &self,
        command: &Command,
        admitted: Admitted<'_>,
        exchange: Exchange,
    ) -> Result<Finished, ChildError> {
        let deadline = Instant::from_std(exchange.deadline);
        let (ours, theirs) = open_channels().map_err(ChildError::Spawn)?;
        let mut stdin = Stdin::new(ours.stdin, exchange.stdin).map_err(ChildError::Spawn)?;
        let mut stdout = Stdout::new(ours.stdout, exchange.output_cap).map_err(ChildError::Spawn)?;
        let mut stderr = Stderr::new(ours.stderr).map_err(ChildError::Spawn)?;
        let (mut tree, script) = self.start(command, admitted, ours.control, theirs, exchange.on_listener)?;

        let mut monitor = LimitMonitor::new(&command.confinement, tree.launcher());
        let ended = pump_io(&mut tree, &mut stdin, &mut stdout, &mut stderr, &mut monitor, deadline).await;
        let record = match ended {
            Ok(record) => record,
            Err(reason) => {
                tree.kill();
                tree.wait().await;
                return Err(reason.into_error(exchange.output_cap, stderr.finish()));
            }
        };
        let (exit, level) = self.exit_from_record(record, command, script.as_ref())?;
        let stderr_tail = stderr.finish();
        let sandbox = command.confinement.level;
        match stdout.finish() {
            Ok(stdout) => Ok(Finished { stdout, stderr_tail, exit, level, sandbox }),
            Err(over) => Err(KillReason::from(over).into_error(exchange.output_cap, stderr_tail)),
        }
    }
}

/// Why the daemon kills a run.
#[derive(Debug)]
pub enum KillReason {
    Deadline,
    OverCap,
    LimitExceeded(LimitExceeded),
}

impl KillReason {
    pub fn into_error(self, cap: usize, stderr_tail: String) -> ChildError {
        match self {
            KillReason::Deadline => ChildError::Timeout { stderr_tail },
            KillReason::OverCap => ChildError::OutputOverCap { cap, stderr_tail },
            KillReason::LimitExceeded(LimitExceeded::Memory(limit)) => {
                ChildError::MemoryOverCap { limit, stderr_tail }
            }
            KillReason::LimitExceeded(LimitExceeded::Cpu(limit)) => {
                ChildError::CpuOverCap { limit, stderr_tail }
            }
            KillReason::LimitExceeded(LimitExceeded::Processes(limit)) => {
                ChildError::ProcessesOverCap { limit, stderr_tail }
            }
        }
    }
}

impl From<OverCap> for KillReason {
    fn from(_: OverCap) -> KillReason {
        KillReason::OverCap
    }
}

/// Copies stdio until the tree is dead, or the deadline, a limit or the output cap is reached.
async fn pump_io(
    tree: &mut ProcessTree,
    stdin: &mut Stdin,
    stdout: &mut Stdout,
    stderr: &mut Stderr,
    monitor: &mut LimitMonitor,
    deadline: Instant,
) -> Result<Option<Record>, KillReason> {
    let deadline = time::sleep_until(deadline);
    tokio::pin!(deadline);
    loop {
        tokio::select! {
            record = tree.wait() => return Ok(record),
            () = &mut deadline => return Err(KillReason::Deadline),
            exceeded = monitor.exceeded() => return Err(KillReason::LimitExceeded(exceeded)),
            read = stdout.read(), if stdout.is_open() => read?,
            () = stderr.read(), if stderr.is_open() => {}
            () = stdin.write(), if stdin.is_open() => {}
        }
    }
}
