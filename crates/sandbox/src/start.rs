//! Starts a command: acquires a permit, prepares script and view, spawns the launcher, decodes its record.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{self, Instant};

use super::cgroup::Group;
use super::launch_script::{self, LaunchScript, Pooled, SharedNamespaces};
use super::limits::LimitMonitor;
use super::network_pool::RunNetwork;
use super::spawn::SpawnArgs;
use super::tree::{ProcessTree, Receivers};
use super::{
    ChildError, Command, Confinement, Exit, Launcher, Network, OnListener, SandboxLevel, TreeLevel, fds,
};
use toolyard_launcher::record::{self, Record};

/// A command that holds a permit to run.
pub struct Admitted<'a> {
    spawn_args: SpawnArgs,
    script: Option<LaunchScript>,
    shared: Option<&'a SharedNamespaces>,
    view: Option<Arc<OwnedFd>>,
    group: Option<Group>,
    network: RunNetwork,
    permit: OwnedSemaphorePermit,
}

/// A command that runs.
pub struct Started {
    pub tree: ProcessTree,
    pub script: Option<LaunchScript>,
    pub monitor: LimitMonitor,
}

/// One side of every channel to a child.
pub struct Channels {
    pub stdin: OwnedFd,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    pub control: OwnedFd,
}

/// Our side and the child's.
pub fn open_channels() -> io::Result<(Channels, Channels)> {
    let (stdin_theirs, stdin) = fds::pipe()?;
    let (stdout, stdout_theirs) = fds::pipe()?;
    let (stderr, stderr_theirs) = fds::pipe()?;
    let (control, control_theirs) = fds::socket_pair()?;
    let theirs = Channels {
        stdin: stdin_theirs,
        stdout: stdout_theirs,
        stderr: stderr_theirs,
        control: control_theirs,
    };
    Ok((Channels { stdin, stdout, stderr, control }, theirs))
}

impl Launcher {
    /// Waits for a permit, at most until the deadline, and prepares the start. Nothing has run yet.
    pub async fn admit(
        &self,
        command: &Command,
        deadline: std::time::Instant,
    ) -> Result<Admitted<'_>, ChildError> {
        let confinement = &command.confinement;
        let permit = self.acquire_permit(deadline.into()).await?;
        // Not earlier: the files behind the view can change while the run waits for its permit.
        let view = self.view(confinement).await;
        let group = self.group(confinement);
        let shared = self.system.shared(confinement.level);
        let is_pooled = shared.is_some() && confinement.network == Network::Deny;
        let network = is_pooled.then(|| self.network_pool.take()).flatten();
        let pooled = Pooled { view: view.is_some(), network: network.is_some() };
        let network = RunNetwork::new(&self.network_pool, network);
        let script = LaunchScript::new(confinement, &self.system, &command.cwd, pooled, group.as_ref())?;
        let flags = flags(&self.levels, confinement.level, script.is_some(), shared);
        let spawn_args = SpawnArgs::new(&flags, command)?;
        Ok(Admitted { spawn_args, script, shared, view, network, group, permit })
    }

    /// Starts the launcher with its ends of the channels. Ours must already be registered, because nothing
    /// may fail afterwards.
    pub(super) fn start(
        &self,
        command: &Command,
        Admitted { spawn_args, script, shared, view, network, group, permit }: Admitted<'_>,
        control: OwnedFd,
        theirs: Channels,
        on_listener: Option<OnListener>,
    ) -> Result<Started, ChildError> {
        let control = ProcessTree::register(control).map_err(ChildError::Spawn)?;
        if let Some(script) = &script {
            send(control.get_ref(), script)?;
        }
        let mut namespaces = shared.map(SharedNamespaces::descriptors).unwrap_or_default();
        namespaces.extend(view.as_deref().map(|view| (view, launch_script::FD_VIEW as i32)));
        namespaces.extend(group.iter().flat_map(launch_script::cgroup_descriptors));
        namespaces.extend(network.descriptor().map(|network| (network, launch_script::FD_NETNS as i32)));
        let passed = [&theirs.stdin, &theirs.stdout, &theirs.stderr, &theirs.control];
        let pid = spawn_args
            .spawn(&self.image.path, passed, namespaces)
            .map_err(|error| spawn_error(error, command))?;
        let receivers = Receivers { network, on_listener, trace: command.confinement.trace.clone() };
        let tree = ProcessTree::new(control, pid, self.reaper.handle(), permit, receivers);
        let monitor = self.monitor(command, &tree, group);
        Ok(Started { tree, script, monitor })
    }

    /// How the program ended, according to the launcher's record.
    pub(super) fn exit_from_record(
        &self,
        record: Option<Record>,
        command: &Command,
        script: Option<&LaunchScript>,
    ) -> Result<(Exit, TreeLevel), ChildError> {
        decode_record(record, command, script).inspect_err(|error| {
            if matches!(error, ChildError::Confinement { .. }) {
                self.view_pool.clear();
            }
        })
    }

    async fn acquire_permit(&self, deadline: Instant) -> Result<OwnedSemaphorePermit, ChildError> {
        match time::timeout_at(deadline, Arc::clone(&self.permits).acquire_owned()).await {
            Ok(Ok(permit)) if Instant::now() < deadline => Ok(permit),
            _ => Err(ChildError::Timeout { stderr_tail: String::new() }),
        }
    }

    /// The view for this confinement, pooled or created; `None` if the run must create its own.
    async fn view(&self, confinement: &Confinement) -> Option<Arc<OwnedFd>> {
        // A pooled view can be entered only together with the shared user namespace.
        self.system.shared(confinement.level)?;
        let script = LaunchScript::view(confinement, &self.system).ok()?;
        if let Some(view) = self.view_pool.find(&script) {
            return Some(view);
        }
        let (view_pool, image, system) = (self.view_pool.clone(), self.image.clone(), self.system.clone());
        let levels = self.levels.clone();
        let view = tokio::task::spawn_blocking(move || view_pool.create(&script, &image, &levels, &system));
        view.await.ok().flatten()
    }
}

/// The launcher's flags argument. [`SandboxLevel::Full`] needs a pid namespace, so it excludes the subreaper.
pub fn flags(
    levels: &[TreeLevel],
    sandbox: SandboxLevel,
    with_script: bool,
    shared: Option<&SharedNamespaces>,
) -> CString {
    let fits = |level: &&TreeLevel| sandbox < SandboxLevel::Full || **level != TreeLevel::Subreaper;
    let levels = levels.iter().filter(fits).map(|level| level.letter());
    let join = shared.is_some_and(SharedNamespaces::has_user_namespace).then_some(record::FLAG_JOIN);
    let flags = levels.chain(with_script.then_some(record::FLAG_SCRIPT)).chain(join).collect::<Vec<_>>();
    CString::new(flags).unwrap_or_default()
}

/// Writes the script to the socket, where the launcher reads it once it is started.
fn send(control: &OwnedFd, script: &LaunchScript) -> Result<(), ChildError> {
    let failed = |source| ChildError::Confinement { step: "send the launch script".into(), source };
    match fds::write(control, script.bytes()).map_err(failed)? {
        n if n == script.bytes().len() => Ok(()),
        _ => Err(failed(io::Error::from_raw_os_error(libc::EMSGSIZE))),
    }
}

fn decode_record(
    record: Option<Record>,
    command: &Command,
    script: Option<&LaunchScript>,
) -> Result<(Exit, TreeLevel), ChildError> {
    let record = record.ok_or(ChildError::LauncherDied)?;
    let error = io::Error::from_raw_os_error(record.errno);
    match (record.stage, TreeLevel::from_letter(record.level)) {
        (record::STAGE_RAN, Some(level)) => Ok((Exit::from_wait_status(record.status), level)),
        (record::STAGE_EXEC, _) => Err(exec_error(error, command)),
        (record::STAGE_SETUP, _) => Err(ChildError::ProcessTree(error)),
        (record::STAGE_CONFINE, _) => Err(match script {
            Some(script) => script.step_error(record.status, error),
            None => ChildError::LauncherDied,
        }),
        _ => Err(ChildError::LauncherDied),
    }
}

/// The launcher did not start, possibly because of the tool's arguments or working directory.
fn spawn_error(error: io::Error, command: &Command) -> ChildError {
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

fn exec_error(error: io::Error, command: &Command) -> ChildError {
    let program = command.program.clone();
    match error.raw_os_error() {
        // The kernel also returns ENOENT for a script whose interpreter is missing.
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
