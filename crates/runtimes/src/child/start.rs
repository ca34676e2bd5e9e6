//! From a command to a running tree: what a run needs before it may start, and how its end is read.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{self, Instant};

use super::plan::{self, Empty, Plan};
use super::record::{self, Record};
use super::spawn::Prepared;
use super::tree::Tree;
use super::{ChildError, Command, Confinement, Exit, Launcher, Level, OnListener, TreeLevel, fds};

/// A command that has its place among the live children.
pub struct Admitted<'a> {
    prepared: Prepared,
    plan: Option<Plan>,
    shared: Option<&'a Empty>,
    view: Option<Arc<OwnedFd>>,
    permit: OwnedSemaphorePermit,
}

/// One side of every channel to a child.
pub struct Ends {
    pub stdin: OwnedFd,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    pub control: OwnedFd,
}

/// Our side and the child's.
pub fn ends() -> io::Result<(Ends, Ends)> {
    let (stdin_theirs, stdin) = fds::pipe()?;
    let (stdout, stdout_theirs) = fds::pipe()?;
    let (stderr, stderr_theirs) = fds::pipe()?;
    let (control, control_theirs) = fds::socket_pair()?;
    let theirs =
        Ends { stdin: stdin_theirs, stdout: stdout_theirs, stderr: stderr_theirs, control: control_theirs };
    Ok((Ends { stdin, stdout, stderr, control }, theirs))
}

impl Launcher {
    /// Waits for a free place, at most until the deadline, and gets everything ready for the start.
    pub(super) async fn admit(
        &self,
        command: &Command,
        deadline: Instant,
    ) -> Result<Admitted<'_>, ChildError> {
        let confinement = &command.confinement;
        let permit = self.place(deadline).await?;
        // Only now: while a run waits for its place, what a view shows can change.
        let view = self.view(confinement).await;
        let plan = Plan::new(confinement, &self.system, &command.cwd, view.is_some())?;
        let shared = self.system.shared(confinement.level);
        let flags = flags(&self.levels, confinement.level, plan.is_some(), shared);
        let prepared = Prepared::new(&flags, command)?;
        Ok(Admitted { prepared, plan, shared, view, permit })
    }

    /// Starts the launcher with its ends of the channels. Ours must be registered already: afterwards nothing
    /// may fail.
    pub(super) fn start(
        &self,
        command: &Command,
        Admitted { prepared, plan, shared, view, permit }: Admitted<'_>,
        control: OwnedFd,
        theirs: Ends,
        on_listener: Option<OnListener>,
    ) -> Result<(Tree, Option<Plan>), ChildError> {
        let control = Tree::register(control).map_err(ChildError::Spawn)?;
        if let Some(plan) = &plan {
            send(control.get_ref(), plan)?;
        }
        let mut namespaces = shared.map(Empty::descriptors).unwrap_or_default();
        namespaces.extend(view.as_deref().map(|view| (view, plan::MOUNTS as i32)));
        let handed = [&theirs.stdin, &theirs.stdout, &theirs.stderr, &theirs.control];
        let pid = prepared
            .spawn(&self.image.path, handed, namespaces)
            .map_err(|error| not_spawned(error, command))?;
        Ok((Tree::new(control, pid, self.reaper.handle(), permit, on_listener), plan))
    }

    /// How the program ended, by the launcher's own word.
    pub(super) fn read_end(
        &self,
        record: Option<Record>,
        command: &Command,
        plan: Option<&Plan>,
    ) -> Result<(Exit, TreeLevel), ChildError> {
        read_record(record, command, plan).inspect_err(|error| {
            if matches!(error, ChildError::Confinement { .. }) {
                self.views.forget();
            }
        })
    }

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
