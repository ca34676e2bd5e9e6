//! Runs a tool as a child process: arguments on stdin, one response on stdout.

use crate::denials::FailedRun;
use crate::dialog;
use crate::host::Host;
use crate::installation::is_system;
use crate::interpreter::{self, Lookup};
use crate::proxy_clients;
use crate::sandbox_builder::NetworkPolicy;
use crate::sandbox_builder::SandboxBuilder;
use crate::secrets::SecretBinding;
use crate::secrets::Secrets;
use crate::shims;
use crate::trace_report::TracedRun;
use crate::uv::UvEnvironment;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use toolyard_engine::{PrepareFuture, Run, RunFuture, Runner};
use toolyard_formats::template::{Input, Template};
use toolyard_protocol::{Error, ErrorKind, Outcome, Sandbox, Timestamp};
use toolyard_sandbox::proxy::{self, Reachable, RequestedHosts};
use toolyard_sandbox::{
    Admitted, ChildError, Command, Confinement, Exchange, Finished, Launcher, OnListener, SandboxLevel,
};
use toolyard_wire::child_io::{self, Contract};
use toolyard_wire::context;

/// Runs one tool; holds everything that does not change between calls.
pub struct CommandRunner {
    pub launcher: Arc<Launcher>,
    pub host: Arc<Host>,
    /// The yard's root: the child's working directory and the base of paths in `entry`.
    pub root: PathBuf,
    pub program: Program,
    /// Arguments after the program.
    pub arguments: Vec<Template>,
    /// Names of variables passed through from the host.
    pub passed_env: Vec<String>,
    /// Secrets that this tool gets in its environment.
    pub secret_bindings: Vec<SecretBinding>,
    pub secrets: Arc<Secrets>,
    pub contract: Contract,
    pub sandbox_builder: SandboxBuilder,
}

/// The program to start.
pub enum Program {
    /// A path relative to the yard, or a name on the search path. Resolved at each call, so that a program
    /// installed later is found.
    Named(String),
    /// An interpreter that was resolved once, with its display name.
    Resolved { path: PathBuf, name: String },
    /// The interpreter of an environment that is prepared before the call.
    Prepared(Arc<UvEnvironment>),
}

/// What one run executes.
struct Executable {
    program: PathBuf,
    /// Its `argv[0]`.
    name: OsString,
    /// What a script finds by its first line, if it is outside the system folders.
    interpreter: Option<PathBuf>,
}

impl Runner for CommandRunner {
    fn run<'a>(&'a self, run: Run<'a>) -> RunFuture<'a> {
        Box::pin(self.exchange(run))
    }

    fn prepare<'a>(&'a self) -> PrepareFuture<'a> {
        Box::pin(async move {
            match &self.program {
                Program::Prepared(environment) => {
                    environment.ready(Instant::now() + Duration::from_secs(3600)).await.map(|_| true)
                }
                _ => Ok(false),
            }
        })
    }

    fn announces_start(&self) -> bool {
        true
    }

    fn secrets_fingerprint(&self) -> Option<[u8; 32]> {
        self.secrets.fingerprint(self.secret_bindings.iter().map(|secret| &secret.name))
    }
}

impl CommandRunner {
    async fn exchange(&self, run: Run<'_>) -> Result<Outcome, Error> {
        let executable = self.executable(&run).await?;
        let command = self.command(&run, executable)?;
        // Dropped with the run, however it ends.
        let proxy = Arc::new(ProxyTask::default());
        let result = match run.spec.behavior.dialog {
            true => dialog::run_dialog(self, &run, &command, &proxy).await,
            false => self.run_to_end(&run, &command, &proxy).await,
        };
        if let Some(trace) = self.host.trace() {
            let traced = TracedRun {
                confinement: &command.confinement,
                request: &self.sandbox_builder.sandbox_request,
                places: &self.sandbox_builder.places,
                launcher: &self.launcher,
                source: &run.spec.source,
                requested_hosts: proxy.requested.list(),
            };
            trace.finish(traced.report(&trace.log.entries()));
        }
        self.explain(result, &run, &command.confinement, &proxy)
    }

    async fn run_to_end(
        &self,
        run: &Run<'_>,
        command: &Command,
        proxy: &Arc<ProxyTask>,
    ) -> Result<Outcome, Error> {
        let exchange = Exchange {
            stdin: child_io::request(self.contract, &run.call.arguments),
            output_cap: run.spec.limits.output,
            deadline: run.deadline,
            on_listener: self.on_listener(proxy),
        };
        let admitted = self.admit(run, command).await?;
        match self.launcher.run_admitted(command, admitted, exchange).await {
            Ok(finished) => self.read(finished),
            Err(error) => Err(self.translate(error, run)),
        }
    }

    /// Adds to an error what the sandbox refused.
    fn explain(
        &self,
        mut result: Result<Outcome, Error>,
        run: &Run<'_>,
        confinement: &Confinement,
        proxy: &ProxyTask,
    ) -> Result<Outcome, Error> {
        let error = match &mut result {
            Ok(outcome) => outcome.error_mut(),
            Err(error) => Some(error),
        };
        if let Some(error) = error {
            let failed = FailedRun {
                confinement,
                request: &self.sandbox_builder.sandbox_request,
                places: &self.sandbox_builder.places,
                launcher: &self.launcher,
                source: &run.spec.source,
                requested_hosts: proxy.requested.list(),
            };
            let stderr = error.details.stderr.as_deref().unwrap_or_default();
            if let Some(why) = failed.explain(&[&error.message, stderr]) {
                error.hint =
                    Some(error.hint.take().map_or_else(|| why.clone(), |hint| format!("{why}; {hint}")));
            }
        }
        result
    }

    /// Waits until the command can start, and announces it: what follows starts it without a pause.
    pub(crate) async fn admit(&self, run: &Run<'_>, command: &Command) -> Result<Admitted<'_>, Error> {
        let admitted = self.launcher.admit(command, run.deadline).await;
        let admitted = admitted.map_err(|error| self.translate(error, run))?;
        run.caller.begin_work()?;
        Ok(admitted)
    }

    /// Serves the proxy for the listed hosts on the socket that the launcher opened in the tool's network.
    pub(crate) fn on_listener(&self, proxy: &Arc<ProxyTask>) -> Option<OnListener> {
        let NetworkPolicy::Hosts(rules) = &self.sandbox_builder.sandbox_request.network else { return None };
        let host = self.host.clone();
        let is_own_port = Arc::new(move |port| host.is_own_port(port));
        let reachable = Reachable { hosts: rules.clone(), requested: proxy.requested.clone(), is_own_port };
        let proxy = proxy.clone();
        Some(Box::new(move |listener| {
            // If the socket cannot be registered, its connections are never accepted.
            if listener.set_nonblocking(true).is_ok()
                && let Ok(listener) = tokio::net::TcpListener::from_std(listener)
            {
                proxy.set(tokio::spawn(proxy::serve(listener, reachable)));
            }
        }))
    }

    async fn executable(&self, run: &Run<'_>) -> Result<Executable, Error> {
        let (program, name) = match &self.program {
            Program::Named(name) => {
                let found = self.host.program(name, &self.root).ok_or_else(|| program_missing(name))?;
                let program = self.behind_shim(found.clone()).await;
                // Interpreters locate their own files by `argv[0]`.
                let name = if program == found { name.into() } else { program.clone().into() };
                (program, name)
            }
            Program::Resolved { path, .. } => (path.clone(), path.into()),
            Program::Prepared(environment) => {
                let path = environment.ready(run.deadline).await?;
                (path.clone(), path.into())
            }
        };
        let interpreter = match &self.program {
            Program::Named(_) if !is_system(&program) => interpreter::named_in_script(&program),
            _ => None,
        };
        let interpreter = interpreter.and_then(|name| self.host.program(&name, &self.root));
        let interpreter = match interpreter {
            Some(found) => Some(self.behind_shim(found).await).filter(|found| !is_system(found)),
            None => None,
        };
        Ok(Executable { program, name, interpreter })
    }

    /// The program that a version manager starts by this name.
    async fn behind_shim(&self, found: PathBuf) -> PathBuf {
        if let Some(target) = self.host.shim_target(&found) {
            return target;
        }
        let (host, launcher) = (self.host.clone(), self.launcher.clone());
        let (places, asked) = (self.sandbox_builder.places.clone(), found.clone());
        let asking = tokio::task::spawn_blocking(move || {
            shims::real_program(Lookup { host: &host, launcher: &launcher, places: &places }, &asked)
        });
        asking.await.unwrap_or(found)
    }

    fn command(&self, run: &Run<'_>, executable: Executable) -> Result<Command, Error> {
        let Executable { program, name, interpreter } = executable;
        let mut argv = vec![name];
        let templated = self.arguments.iter().any(|argument| argument.literal().is_none());
        let input = templated.then(|| Input::new(&run.call.arguments)).transpose()?;
        for argument in &self.arguments {
            argv.push(match (argument.literal(), &input) {
                (Some(text), _) => text.into(),
                (None, Some(input)) => argument.render(input)?.into(),
                (None, None) => return Err(Error::new(ErrorKind::Internal, "template without input")),
            });
        }
        let environment = match &self.program {
            Program::Prepared(environment) => Some(environment.folder()),
            _ => None,
        };
        let interpreter = interpreter.as_deref();
        let mut confinement = self.sandbox_builder.confinement(&program, interpreter, environment)?;
        confinement.trace = self.host.trace().map(|trace| trace.log.clone());
        // The programs beside it are of the same version.
        let beside = interpreter.unwrap_or(&program);
        let beside = (!self.sandbox_builder.places.is_inside_yard(beside)).then(|| beside.parent()).flatten();
        let env = self.env(run, &confinement, beside)?;
        Ok(Command { program, argv, env, cwd: self.root.clone(), confinement })
    }

    fn env(
        &self,
        run: &Run<'_>,
        confinement: &Confinement,
        first_on_path: Option<&Path>,
    ) -> Result<Vec<(OsString, OsString)>, Error> {
        let mut env = self.host.env_with_first(first_on_path);
        if let Some((home, tmp)) = confinement.private_folders() {
            env.extend([("HOME".into(), home.into()), ("TMPDIR".into(), tmp.into())]);
        }
        let passed = self
            .passed_env
            .iter()
            .filter_map(|name| Some((OsString::from(name), self.host.var(name)?.to_owned())));
        let context = run.spec.behavior.context.then(|| {
            let text = context::write(run.call, &self.root.to_string_lossy(), wall_clock(run.deadline));
            ("TOOLYARD_CONTEXT".into(), String::from_utf8_lossy(&text).into_owned().into())
        });
        let secrets = self.secret_bindings.iter().map(|secret| {
            Ok((OsString::from(&secret.variable), OsString::from(self.secrets.get(&secret.name)?)))
        });
        let secrets: Vec<_> = secrets.collect::<Result<_, Error>>()?;
        let proxy = match &self.sandbox_builder.sandbox_request.network {
            NetworkPolicy::Hosts(rules) if confinement.level == SandboxLevel::Full => {
                let is_passed = |name: &str| self.passed_env.iter().any(|passed| passed == name);
                proxy_clients::environment(rules, |name| {
                    is_passed(name).then(|| self.host.var(name)).flatten()
                })
            }
            _ => Vec::new(),
        };
        let all = passed.chain(context).chain(secrets).chain(proxy);
        for (name, value) in all {
            env.retain(|(known, _)| *known != name);
            env.push((name, value));
        }
        Ok(env)
    }

    /// A reported error takes precedence over the exit status; otherwise any status except 0 is a failure.
    pub(crate) fn read(&self, finished: Finished) -> Result<Outcome, Error> {
        let Finished { stdout, stderr_tail, exit, sandbox, .. } = finished;
        let stderr_tail = self.secrets.redact_tail(stderr_tail);
        let failed = !exit.is_success();
        let mut outcome = match child_io::read(self.contract, stdout) {
            Ok(answer) if !failed || answer.outcome.error().is_some() => answer.outcome,
            Err(error) if !failed => return Err(error.with(|details| details.stderr = tail(&stderr_tail))),
            _ => return Err(exit_error(&exit.to_string(), &stderr_tail)),
        };
        outcome.meta.sandbox = Some(protocol_sandbox(sandbox));
        if let Some(error) = outcome.error_mut() {
            error.details.stderr = tail(&stderr_tail);
            error.details.exit = failed.then(|| exit.to_string());
        }
        Ok(outcome)
    }

    /// Converts a child error to an error of the error table.
    pub(crate) fn translate(&self, error: ChildError, run: &Run<'_>) -> Error {
        let tail = |stderr: &str| tail(&self.secrets.redact_tail(stderr.to_owned()));
        let name = &run.spec.exposed;
        match error {
            ChildError::Timeout { stderr_tail } => {
                let limit = run.spec.limits.timeout.as_millis();
                Error::new(
                    ErrorKind::Timeout,
                    format!("'{name}' did not finish in time (its limit is {limit} ms)"),
                )
                .hint("raise 'timeoutMs' in the tool's file if it needs longer")
                .with(|details| details.stderr = tail(&stderr_tail))
            }
            ChildError::NoOutputMemory { stderr_tail } => Error::new(
                ErrorKind::Busy,
                format!(
                    "the output of '{name}' found no memory in time: too many results wait for their clients"
                ),
            )
            .hint("try again later, or raise [server] max_buffered_bytes")
            .with(|details| details.stderr = tail(&stderr_tail)),
            ChildError::OutputOverCap { cap, stderr_tail } => Error::new(
                ErrorKind::OutputTooLarge,
                format!("'{name}' wrote more than {cap} bytes and was stopped"),
            )
            .hint("print less, or raise 'limits.output' in the tool's file")
            .with(|details| details.stderr = tail(&stderr_tail)),
            ChildError::MemoryOverCap { ref stderr_tail, .. }
            | ChildError::CpuOverCap { ref stderr_tail, .. }
            | ChildError::ProcessesOverCap { ref stderr_tail, .. } => {
                let stderr = tail(stderr_tail);
                Error::new(ErrorKind::ToolFailed, format!("'{name}' was stopped: {error}"))
                    .hint("raise the limit under 'sandbox' (or 'policy') in the tool's file if it needs more")
                    .with(|details| details.stderr = stderr)
            }
            ChildError::Confinement { .. } => {
                Error::new(ErrorKind::Unavailable, format!("'{name}' was not started: {error}"))
                    .hint("'toolyard doctor' shows which sandbox this machine supports")
            }
            error @ (ChildError::ProgramMissing { .. }
            | ChildError::NotExecutable { .. }
            | ChildError::InterpreterMissing { .. }) => {
                Error::new(ErrorKind::FileNotFound, error.to_string())
                    .hint("correct 'entry' in the tool's file")
            }
            error @ (ChildError::NulInArgument { .. } | ChildError::ArgumentsTooLong) => {
                Error::new(ErrorKind::InvalidInput, error.to_string())
            }
            error => Error::new(ErrorKind::Internal, format!("'{name}' could not be started: {error}")),
        }
    }
}

/// Converts the sandbox level to its protocol type.
pub fn protocol_sandbox(level: SandboxLevel) -> Sandbox {
    match level {
        SandboxLevel::Full => Sandbox::Full,
        SandboxLevel::Landlock => Sandbox::Landlock,
        SandboxLevel::None => Sandbox::None,
    }
}

/// The proxy task of one run, aborted on drop, and the hosts that it was asked for.
#[derive(Default)]
pub(crate) struct ProxyTask {
    task: Mutex<Option<tokio::task::JoinHandle<()>>>,
    requested: RequestedHosts,
}

impl ProxyTask {
    fn set(&self, task: tokio::task::JoinHandle<()>) {
        *self.task.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(task);
    }
}

impl Drop for ProxyTask {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            task.abort();
        }
    }
}

fn program_missing(name: &str) -> Error {
    Error::new(ErrorKind::FileNotFound, format!("the program '{name}' was not found or is not executable"))
        .hint("install it or correct 'entry' in the tool's file; paths there are relative to the yard")
}

fn exit_error(exit: &str, stderr: &str) -> Error {
    let last = stderr.lines().rev().find(|line| !line.trim().is_empty());
    let message = match last {
        Some(line) => format!("the tool failed ({exit}): {line}"),
        None => format!("the tool failed ({exit}) without output on stderr"),
    };
    Error::new(ErrorKind::ToolFailed, message).with(|details| {
        details.exit = Some(exit.to_owned());
        details.stderr = tail(stderr);
    })
}

pub(crate) fn tail(stderr: &str) -> Option<String> {
    (!stderr.trim().is_empty()).then(|| stderr.to_owned())
}

/// Converts the deadline to wall-clock time for the tool.
fn wall_clock(deadline: Instant) -> Timestamp {
    let left = deadline.saturating_duration_since(Instant::now());
    let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO) + left;
    Timestamp::from_unix_ms(at.as_millis() as u64)
}
