//! The daemon's handle to the launcher: probes the system once, then runs one program per call.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use tokio::sync::Semaphore;
use tokio::time::{self, Instant};

use super::cgroup::{Cgroups, Group, Version};
use super::diagnosis::{Facts, Weakness};
use super::image::Image;
use super::input::Stdin;
use super::launch_script::{Landlock, SystemView};
use super::limits::{LimitExceeded, LimitMonitor, MachineWatch, TreeLimits};
use super::network_pool::NetworkPool;
use super::output::{OverCap, Stderr, Stdout};
use super::output_memory::OutputMemory;
use super::probe::{executable_image, probe, probe_cgroup, probe_sandbox, retried};
use super::reaper::Reaper;
use super::start::{Admitted, Started, open_channels};
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
    weakness: Option<Weakness>,
    pub(super) system: Arc<SystemView>,
    pub(super) view_pool: Arc<ViewPool>,
    pub(super) network_pool: Arc<NetworkPool>,
    pub(super) permits: Arc<Semaphore>,
    output_memory: OutputMemory,
    pub(super) reaper: Reaper,
    /// Where groups are created, or why they cannot be; found when first needed.
    cgroups: OnceLock<Result<Arc<Cgroups>, String>>,
    machine: MachineWatch,
}

#[derive(Clone, Debug)]
pub struct Options {
    /// Concurrent children; further calls wait for a permit.
    pub max_live: usize,
    /// Bytes of large outputs, of all children together; further ones wait.
    pub output_memory: usize,
    /// Use exactly this level instead of the strongest available one.
    pub level: Option<TreeLevel>,
    /// Use cgroups for limits where they can be created.
    pub cgroups: bool,
    /// Use no Landlock rights but these, as on an older kernel.
    pub landlock: Option<Landlock>,
}

impl Default for Options {
    fn default() -> Options {
        Options { max_live: 256, output_memory: 64 << 20, level: None, cgroups: true, landlock: None }
    }
}

impl Launcher {
    /// Probes what this system supports; writes the launcher to `fallback_dir` if a memfd cannot be executed.
    pub fn new(fallback_dir: &Path) -> Result<Launcher, LauncherError> {
        Launcher::with_options(fallback_dir, Options::default())
    }

    pub fn with_options(fallback_dir: &Path, options: Options) -> Result<Launcher, LauncherError> {
        let image = executable_image(fallback_dir)?;
        // Why there is no namespace for process trees.
        let mut refused = None;
        let (level, levels) = match options.level {
            Some(level) => {
                retried(|| probe(&image, level))
                    .map_err(|source| LauncherError::LevelRefused { level, source })?;
                (level, vec![level])
            }
            None => {
                let mut works = |level: &TreeLevel| {
                    let probed = retried(|| probe(&image, *level));
                    let works = probed.is_ok();
                    refused = probed.err().or(refused.take());
                    works
                };
                let level =
                    TreeLevel::ALL.into_iter().find(|level| works(level)).ok_or(LauncherError::NoLevel)?;
                let weaker = TreeLevel::ALL.into_iter().filter(|other| *other >= level);
                (level, weaker.collect::<Vec<_>>())
            }
        };
        let reaper = Reaper::start().map_err(LauncherError::Thread)?;
        let machine = MachineWatch::start().map_err(LauncherError::Thread)?;
        let rights = Landlock::detect();
        let rights = options.landlock.map_or(rights, |most| rights.and(most));
        let system = SystemView::new(level, &image, rights);
        // Without a pid namespace the full sandbox is not tried; what refused that one is the reason.
        let mut error = refused.filter(|_| level == TreeLevel::Subreaper);
        let mut works = |level: &SandboxLevel| {
            let probed = retried(|| probe_sandbox(&image, &levels, *level, &system));
            let works = probed.is_ok();
            error = error.take().or(probed.err());
            works
        };
        let sandbox = SandboxLevel::ALL.into_iter().find(|level| works(level)).unwrap_or(SandboxLevel::None);
        let error = error.map(|error| error.to_string()).unwrap_or_default();
        let weakness = Facts::read(rights.protects_files()).weakness(sandbox, &error);
        let permits = Semaphore::new(options.max_live.clamp(1, Semaphore::MAX_PERMITS));
        let cgroups = OnceLock::new();
        if !options.cgroups {
            let _ = cgroups.set(Err("they were switched off".to_owned()));
        }
        Ok(Launcher {
            image: Arc::new(image),
            level,
            levels,
            sandbox,
            weakness,
            system: Arc::new(system),
            view_pool: Arc::default(),
            network_pool: Arc::default(),
            permits: Arc::new(permits),
            output_memory: OutputMemory::new(options.output_memory),
            reaper,
            cgroups,
            machine,
        })
    }

    pub fn level(&self) -> TreeLevel {
        self.level
    }

    /// The strongest sandbox level this system supports, as probed at start.
    pub fn sandbox_level(&self) -> SandboxLevel {
        self.sandbox
    }

    /// The memory for large outputs, which other runners share.
    pub fn output_memory(&self) -> &OutputMemory {
        &self.output_memory
    }

    /// Why the sandbox is weaker than [`SandboxLevel::Full`].
    pub fn weakness(&self) -> Option<&Weakness> {
        self.weakness.as_ref()
    }

    /// The Landlock rights that are used.
    pub fn landlock(&self) -> Landlock {
        self.system.landlock
    }

    /// Why Landlock cannot be used; `None` if it can.
    pub fn no_landlock(&self) -> Option<Weakness> {
        Facts::read(self.system.landlock.protects_files()).no_landlock()
    }

    /// The version of the cgroups that limit process trees, or why none can be created here.
    pub fn cgroups(&self) -> Result<Version, &str> {
        self.find_cgroups().map(|cgroups| cgroups.version())
    }

    fn find_cgroups(&self) -> Result<&Arc<Cgroups>, &str> {
        let found = self.cgroups.get_or_init(|| {
            let cgroups = Cgroups::find()?;
            let limits = TreeLimits { processes: Some(64), ..TreeLimits::default() };
            let group = cgroups.take(limits).map_err(|error| error.to_string())?;
            probe_cgroup(&self.image, &self.levels, &self.system, &group)
                .map_err(|error| format!("a process cannot be started in a cgroup: {error}"))?;
            Ok(cgroups)
        });
        found.as_ref().map_err(String::as_str)
    }

    /// The group of a run with limits; without one, the tree is watched.
    pub(super) fn group(&self, confinement: &Confinement) -> Option<Group> {
        let limits = TreeLimits::of(confinement);
        if limits.is_empty() {
            return None;
        }
        self.find_cgroups().ok()?.take(limits).ok()
    }

    pub(super) fn monitor(
        &self,
        command: &Command,
        tree: &ProcessTree,
        group: Option<Group>,
    ) -> LimitMonitor {
        LimitMonitor::new(&command.confinement, tree.launcher(), group, &self.machine)
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
        self.system.filter(confinement, true)
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
        let stdout = Stdout::new(ours.stdout, exchange.output_cap, &self.output_memory);
        let mut stdout = stdout.map_err(ChildError::Spawn)?;
        let mut stderr = Stderr::new(ours.stderr).map_err(ChildError::Spawn)?;
        let started = self.start(command, admitted, ours.control, theirs, exchange.on_listener)?;
        let Started { mut tree, script, mut monitor } = started;
        let ended = pump_io(&mut tree, &mut stdin, &mut stdout, &mut stderr, &mut monitor, deadline).await;
        let record = match ended {
            Ok(record) => record,
            Err(reason) => {
                tree.kill();
                tree.wait().await;
                return Err(reason.into_error(exchange.output_cap, stderr.finish()));
            }
        };
        if let Some(exceeded) = monitor.at_end() {
            return Err(KillReason::LimitExceeded(exceeded).into_error(exchange.output_cap, stderr.finish()));
        }
        let (exit, level) = self.exit_from_record(record, command, script.as_ref())?;
        let stderr_tail = stderr.finish();
        let sandbox = command.confinement.level;
        let stdout = match time::timeout_at(deadline, stdout.finish()).await {
            Ok(stdout) => stdout.map_err(KillReason::from),
            Err(_) => Err(KillReason::OutputWaits),
        };
        match stdout {
            Ok(stdout) => Ok(Finished { stdout, stderr_tail, exit, level, sandbox }),
            Err(reason) => Err(reason.into_error(exchange.output_cap, stderr_tail)),
        }
    }
}

/// Why the daemon kills a run.
#[derive(Debug)]
pub enum KillReason {
    Deadline,
    /// At the deadline, its output waits for memory.
    OutputWaits,
    OverCap,
    LimitExceeded(LimitExceeded),
}

impl KillReason {
    pub fn into_error(self, cap: usize, stderr_tail: String) -> ChildError {
        match self {
            KillReason::Deadline => ChildError::Timeout { stderr_tail },
            KillReason::OutputWaits => ChildError::NoOutputMemory { stderr_tail },
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
            () = &mut deadline => {
                return Err(if stdout.is_waiting() { KillReason::OutputWaits } else { KillReason::Deadline });
            }
            exceeded = monitor.exceeded() => return Err(KillReason::LimitExceeded(exceeded)),
            read = stdout.read(), if stdout.is_open() => read?,
            () = stderr.read(), if stderr.is_open() => {}
            () = stdin.write(), if stdin.is_open() => {}
        }
    }
}
