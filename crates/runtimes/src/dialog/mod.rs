//! Runs a tool with dialog: forwards its messages to the caller, and the caller's answers to its stdin.

mod pausable_deadline;
mod session;
mod throttle;

use crate::command::{CommandRunner, ProxyTask, tail};
use session::{DialogSession, FinalMessage};
use std::sync::Arc;
use std::time::Instant;
use tokio::time::sleep_until;
use toolyard_engine::Run;
use toolyard_protocol::{Error, ErrorKind, Outcome};
use toolyard_sandbox::{
    ChildError, ChildSession, Command, Event, Exited, Finished, KillReason, SessionOptions,
};
use toolyard_wire::dialog;

/// Limits per run: number of messages, their total bytes, and bytes of one message.
const MAX_MESSAGES: usize = 10_000;
const MAX_MESSAGE_BYTES: usize = 16 << 20;
const MAX_MESSAGE: usize = 1 << 20;
/// Questions that may be open at the same time.
const MAX_OPEN_QUESTIONS: usize = 64;

/// Runs the tool to its end. Dropping the future cancels its questions and kills its process tree.
pub async fn run_dialog(
    runner: &CommandRunner,
    run: &Run<'_>,
    command: &Command,
    proxy: &Arc<ProxyTask>,
) -> Result<Outcome, Error> {
    let options = SessionOptions {
        stdin: dialog::request(runner.contract, &run.call.arguments),
        // A message may be longer than the output limit of the tool.
        line_cap: run.spec.limits.output.max(MAX_MESSAGE),
        on_listener: runner.on_listener(proxy),
    };
    let admitted = runner.admit(run, command).await?;
    let opened = runner.launcher.open(command, admitted, options);
    let mut child = opened.map_err(|error| runner.translate(error, run))?;
    let mut session = DialogSession::new(run, runner.contract);
    let stopped = exchange(&mut child, &mut session).await;
    session.flush_last();
    match stopped {
        Ok(()) => match child.finish().await {
            Ok(ended) => read(runner, session, ended),
            Err(error) => Err(runner.translate(error, run)),
        },
        Err(stop) => Err(stopped_error(runner, run, session.has_open_questions(), stop, child).await),
    }
}

/// Why the run is stopped.
enum Stop {
    Killed(KillReason),
    /// The tool violated the dialog protocol.
    ProtocolViolation(Error),
}

impl From<KillReason> for Stop {
    fn from(reason: KillReason) -> Stop {
        Stop::Killed(reason)
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::ProtocolViolation(error)
    }
}

/// Processes events until the program exits by itself.
async fn exchange(child: &mut ChildSession<'_>, session: &mut DialogSession<'_>) -> Result<(), Stop> {
    loop {
        let end = session.deadline();
        let wakes = session.next_wake();
        tokio::select! {
            event = child.event() => match event? {
                Event::Line(line) => session.handle_line(line, child)?,
                Event::Exited => return Ok(()),
            },
            answer = session.next_answer(), if session.has_open_questions() => {
                child.send(answer).map_err(|full| stdin_full_error(full.queued))?;
            }
            () = sleep_until(wakes.unwrap_or(end).into()), if wakes.is_some() => session.flush_due(Instant::now()),
            () = sleep_until(end.into()) => return Err(Stop::Killed(child.deadline_reached())),
        }
    }
}

fn read(runner: &CommandRunner, session: DialogSession<'_>, ended: Exited) -> Result<Outcome, Error> {
    let Exited { exit, stderr_tail, level, sandbox } = ended;
    let stdout = match session.into_final_message() {
        FinalMessage::Answer(stdout) => stdout,
        FinalMessage::Rpc(rpc) => {
            let stderr = tail(&runner.secrets.redact_tail(stderr_tail));
            return Err(Error::new(ErrorKind::ToolFailed, rpc.message.clone()).with(|details| {
                details.rpc = Some(rpc);
                details.exit = (!exit.is_success()).then(|| exit.to_string());
                details.stderr = stderr;
            }));
        }
    };
    runner.read(Finished { stdout, stderr_tail, exit, level, sandbox })
}

async fn stopped_error(
    runner: &CommandRunner,
    run: &Run<'_>,
    questions_open: bool,
    stop: Stop,
    child: ChildSession<'_>,
) -> Error {
    match stop {
        Stop::ProtocolViolation(error) => {
            let stderr = runner.secrets.redact_tail(child.kill().await);
            error.with(|details| details.stderr = tail(&stderr))
        }
        Stop::Killed(KillReason::OverCap) => {
            let (cap, stderr_tail) = (run.spec.limits.output, child.kill().await);
            runner.translate(ChildError::OutputOverCap { cap, stderr_tail }, run)
        }
        Stop::Killed(reason) => {
            let late = matches!(reason, KillReason::Deadline);
            let error = runner.translate(child.kill_with_error(reason).await, run);
            match questions_open && late {
                true => error.hint("a question of the tool was not answered in time"),
                false => error,
            }
        }
    }
}

fn stdin_full_error(queued: usize) -> Error {
    let message = format!("the tool does not read the answers to its questions: {queued} bytes are queued");
    Error::new(ErrorKind::ToolFailed, message).hint("read one line from stdin for each question")
}
