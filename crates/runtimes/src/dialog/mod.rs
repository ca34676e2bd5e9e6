//! A conversation with a tool: its messages go to the caller, the caller's answers to its stdin.

mod clock;
mod pace;
mod talk;

use crate::child::{ChildError, Command, Cut, Ended, Event, Finished, Live, Opening};
use crate::command::{CommandRunner, ProxyTask, tail};
use std::sync::Arc;
use std::time::Instant;
use talk::{End, Talk};
use tokio::time::sleep_until;
use toolyard_engine::Run;
use toolyard_protocol::{Error, ErrorKind, Outcome};
use toolyard_wire::dialog;

/// Messages of one run, their bytes in all, and the longest one.
const MAX_MESSAGES: usize = 10_000;
const MAX_MESSAGE_BYTES: usize = 16 << 20;
const MAX_MESSAGE: usize = 1 << 20;
/// Questions that may wait for their answers at the same time.
const MAX_OPEN: usize = 64;

/// Runs the tool to its end. Dropping the future withdraws its questions and kills its tree.
pub async fn converse(runner: &CommandRunner, run: &Run<'_>, command: &Command) -> Result<Outcome, Error> {
    // Ends with the run, whatever ends that.
    let proxy = Arc::new(ProxyTask::default());
    let opening = Opening {
        stdin: dialog::request(runner.contract, &run.call.arguments),
        // A message may be longer than the tool's answer.
        line_cap: run.spec.limits.output.max(MAX_MESSAGE),
        deadline: run.deadline,
        on_listener: runner.on_listener(&proxy),
    };
    let opened = runner.launcher.open(command, opening).await;
    let mut live = opened.map_err(|error| runner.translate(error, run))?;
    let mut talk = Talk::new(run, runner.contract);
    let stopped = exchange(&mut live, &mut talk).await;
    talk.deliver_last();
    match stopped {
        Ok(()) => match live.finish().await {
            Ok(ended) => read(runner, talk, ended),
            Err(error) => Err(runner.translate(error, run)),
        },
        Err(stop) => Err(stopped_error(runner, run, talk.is_asking(), stop, live).await),
    }
}

/// Why we end a conversation ourselves.
enum Stop {
    Cut(Cut),
    /// The tool broke the rules of the dialogue.
    Broken(Error),
}

impl From<Cut> for Stop {
    fn from(cut: Cut) -> Stop {
        Stop::Cut(cut)
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Broken(error)
    }
}

/// Until the program has ended by itself.
async fn exchange(live: &mut Live<'_>, talk: &mut Talk<'_>) -> Result<(), Stop> {
    loop {
        let end = talk.time_is_up_at();
        let wakes = talk.wakes_at();
        tokio::select! {
            event = live.event() => match event? {
                Event::Line(line) => talk.hear(line, live)?,
                Event::Ended => return Ok(()),
            },
            answered = talk.next_answer(), if talk.is_asking() => {
                live.send(answered).map_err(|refused| not_read(refused.waiting))?;
            }
            () = sleep_until(wakes.unwrap_or(end).into()), if wakes.is_some() => talk.deliver_due(Instant::now()),
            () = sleep_until(end.into()) => return Err(Stop::Cut(Cut::Deadline)),
        }
    }
}

fn read(runner: &CommandRunner, talk: Talk<'_>, ended: Ended) -> Result<Outcome, Error> {
    let Ended { exit, stderr_tail, level, sandbox } = ended;
    let stdout = match talk.into_end() {
        End::Answer(stdout) => stdout,
        End::Rpc(rpc) => {
            let stderr = tail(&runner.secrets.hide_in_tail(stderr_tail));
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
    asking: bool,
    stop: Stop,
    live: Live<'_>,
) -> Error {
    match stop {
        Stop::Broken(error) => {
            let stderr = runner.secrets.hide_in_tail(live.kill().await);
            error.with(|details| details.stderr = tail(&stderr))
        }
        Stop::Cut(Cut::OverCap) => {
            let (cap, stderr_tail) = (run.spec.limits.output, live.kill().await);
            runner.translate(ChildError::OutputOverCap { cap, stderr_tail }, run)
        }
        Stop::Cut(cut) => {
            let late = matches!(cut, Cut::Deadline);
            let error = runner.translate(live.cut(cut).await, run);
            match asking && late {
                true => error.hint("a question of the tool was not answered in time"),
                false => error,
            }
        }
    }
}

fn not_read(waiting: usize) -> Error {
    let message =
        format!("the tool does not read the answers to its questions: {waiting} bytes wait on its stdin");
    Error::new(ErrorKind::ToolFailed, message).hint("read one line from stdin for each question")
}
