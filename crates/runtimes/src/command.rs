//! Runs a tool as a child process: arguments in on stdin, one answer out on stdout.

use crate::child::{ChildError, Command, Exchange, Exit, Finished, Launcher};
use crate::host::Host;
use bytes::Bytes;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use toolyard_engine::{Run, RunFuture, Runner};
use toolyard_protocol::{Error, ErrorKind, Outcome};
use toolyard_wire::answer::{self, Contract};

/// Everything about a child that does not change from call to call.
pub struct CommandRunner {
    pub launcher: Arc<Launcher>,
    pub host: Arc<Host>,
    /// The yard's root: the child's working folder, and what paths in `entry` are relative to.
    pub root: PathBuf,
    /// Program and arguments, each element one argument.
    pub argv: Vec<String>,
    /// Names of variables that are passed on from the host.
    pub env: Vec<String>,
    pub contract: Contract,
}

impl Runner for CommandRunner {
    fn run<'a>(&'a self, run: Run<'a>) -> RunFuture<'a> {
        Box::pin(self.exchange(run))
    }
}

impl CommandRunner {
    async fn exchange(&self, run: Run<'_>) -> Result<Outcome, Error> {
        let command = self.command()?;
        let exchange = Exchange {
            stdin: answer::request(self.contract, &run.call.arguments),
            output_cap: run.spec.limits.output,
            deadline: run.deadline,
        };
        match self.launcher.run(&command, exchange).await {
            Ok(finished) => self.read(finished),
            Err(error) => Err(translate(error, &run)),
        }
    }

    fn command(&self) -> Result<Command, Error> {
        let name = self.argv.first().map_or("", String::as_str);
        let program = self.host.program(name, &self.root).ok_or_else(|| missing(name))?;
        let mut env = self.host.base_env();
        for name in &self.env {
            if let Some(value) = self.host.var(name) {
                env.retain(|(known, _)| known != name.as_str());
                env.push((name.into(), value.to_owned()));
            }
        }
        let argv = self.argv.iter().map(OsString::from).collect();
        Ok(Command { program, argv, env, cwd: self.root.clone() })
    }

    /// A tool's own error report counts even when it exits with a status; any other exit but 0 is a failure.
    fn read(&self, finished: Finished) -> Result<Outcome, Error> {
        let failed = finished.exit != Exit::Code(0);
        let answered = answer::read(self.contract, Bytes::from(finished.stdout));
        let mut outcome = match answered {
            Ok(answer) if !failed || answer.outcome.error().is_some() => answer.outcome,
            Ok(_) => return Err(died(&finished.exit, &finished.stderr_tail)),
            Err(_) if failed => return Err(died(&finished.exit, &finished.stderr_tail)),
            Err(error) => return Err(error.with(|details| details.stderr = tail(&finished.stderr_tail))),
        };
        if let Some(error) = outcome.error_mut() {
            error.details.stderr = tail(&finished.stderr_tail);
            error.details.exit = failed.then(|| finished.exit.to_string());
        }
        Ok(outcome)
    }
}

/// What the file of a tool names as program and this machine does not have.
fn missing(name: &str) -> Error {
    Error::new(ErrorKind::FileNotFound, format!("the program '{name}' is not there or is not executable"))
        .hint("install it or correct 'entry' in the tool's file; paths there are relative to the yard")
}

fn died(exit: &Exit, stderr: &str) -> Error {
    let last = stderr.lines().rev().find(|line| !line.trim().is_empty());
    let message = match last {
        Some(line) => format!("the tool failed ({exit}): {line}"),
        None => format!("the tool failed ({exit}) and said nothing on stderr"),
    };
    Error::new(ErrorKind::ToolFailed, message).with(|details| {
        details.exit = Some(exit.to_string());
        details.stderr = tail(stderr);
    })
}

fn tail(stderr: &str) -> Option<String> {
    (!stderr.trim().is_empty()).then(|| stderr.to_owned())
}

/// A child error in the words of the error table.
fn translate(error: ChildError, run: &Run<'_>) -> Error {
    let name = &run.spec.exposed;
    match error {
        ChildError::Timeout { stderr_tail } => {
            let limit = run.spec.limits.timeout.as_millis();
            Error::new(ErrorKind::Timeout, format!("'{name}' did not finish in time (its limit is {limit} ms)"))
                .hint("raise 'timeoutMs' in the tool's file if it needs longer")
                .with(|details| details.stderr = tail(&stderr_tail))
        }
        ChildError::OutputOverCap { cap, stderr_tail } => {
            Error::new(ErrorKind::OutputTooLarge, format!("'{name}' wrote more than {cap} bytes and was stopped"))
                .hint("print less, or raise 'limits.output' in the tool's file")
                .with(|details| details.stderr = tail(&stderr_tail))
        }
        error @ (ChildError::ProgramMissing { .. }
        | ChildError::InterpreterMissing { .. }
        | ChildError::NotExecutable { .. }) => {
            Error::new(ErrorKind::FileNotFound, error.to_string()).hint("correct 'entry' in the tool's file")
        }
        error @ (ChildError::NulInArgument { .. } | ChildError::ArgumentsTooLong) => {
            Error::new(ErrorKind::InvalidInput, error.to_string())
        }
        error => Error::new(ErrorKind::Internal, format!("'{name}' could not be started: {error}")),
    }
}
