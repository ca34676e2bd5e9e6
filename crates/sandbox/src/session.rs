//! A session with a child: its output lines are delivered as they arrive, input can be sent at any time.
//!
//! Reading never waits for writing: unread input stays in a bounded queue.

use bytes::Bytes;

use super::input::StdinQueue;
use super::launch_script::LaunchScript;
use super::launcher::KillReason;
use super::limits::LimitMonitor;
use super::output::{Lines, Stderr};
use super::start::{Admitted, Started, open_channels};
use super::tree::ProcessTree;
use super::{ChildError, Command, Exit, Launcher, OnListener, SandboxLevel, TreeLevel};
use toolyard_launcher::record::Record;

pub use super::input::StdinFull;

/// How a session is opened.
pub struct SessionOptions {
    /// The first input of the child; its stdin stays open.
    pub stdin: Bytes,
    /// The longest line accepted, in bytes.
    pub line_cap: usize,
    /// As in [`super::Exchange`].
    pub on_listener: Option<OnListener>,
}

/// The tree dies when this is dropped.
pub struct ChildSession<'a> {
    launcher: &'a Launcher,
    command: &'a Command,
    script: Option<LaunchScript>,
    tree: ProcessTree,
    stdin: StdinQueue,
    stdout: Lines,
    stderr: Stderr,
    monitor: LimitMonitor,
    line_cap: usize,
    /// The launcher's record once the tree is dead; the pipe may still contain lines.
    record: Option<Option<Record>>,
}

pub enum Event {
    /// Without its line break, which the last line may lack.
    Line(Bytes),
    /// The program exited by itself and every line was delivered.
    Exited,
}

/// How the program ended.
pub struct Exited {
    pub exit: Exit,
    pub stderr_tail: String,
    pub level: TreeLevel,
    pub sandbox: SandboxLevel,
}

impl Launcher {
    /// Starts an admitted program and opens a session with it.
    pub fn open<'a>(
        &'a self,
        command: &'a Command,
        admitted: Admitted<'a>,
        options: SessionOptions,
    ) -> Result<ChildSession<'a>, ChildError> {
        let SessionOptions { stdin, line_cap, on_listener } = options;
        let (ours, theirs) = open_channels().map_err(ChildError::Spawn)?;
        let stdin = StdinQueue::new(ours.stdin, stdin).map_err(ChildError::Spawn)?;
        let stdout = Lines::new(ours.stdout, line_cap, self.output_memory()).map_err(ChildError::Spawn)?;
        let stderr = Stderr::new(ours.stderr).map_err(ChildError::Spawn)?;
        let Started { tree, script, monitor } =
            self.start(command, admitted, ours.control, theirs, on_listener)?;
        Ok(ChildSession {
            launcher: self,
            command,
            script,
            tree,
            stdin,
            stdout,
            stderr,
            monitor,
            line_cap,
            record: None,
        })
    }
}

impl ChildSession<'_> {
    /// Copies stdio until the next event. Cancel-safe.
    pub async fn event(&mut self) -> Result<Event, KillReason> {
        loop {
            if let Some(line) = self.stdout.next()? {
                return Ok(Event::Line(line));
            }
            if self.record.is_some() {
                if self.stdout.fill_rest().await {
                    continue;
                }
                // At the end of the pipe, a last line without line break counts as a line.
                return Ok(self.stdout.next()?.map_or(Event::Exited, Event::Line));
            }
            tokio::select! {
                record = self.tree.wait() => self.record = Some(record),
                exceeded = self.monitor.exceeded() => return Err(KillReason::LimitExceeded(exceeded)),
                () = self.stdout.fill(), if self.stdout.is_open() => {}
                () = self.stderr.read(), if self.stderr.is_open() => {}
                () = self.stdin.write(), if self.stdin.has_pending() => {}
            }
        }
    }

    /// Why the session ends at its deadline.
    pub fn deadline_reached(&self) -> KillReason {
        if self.stdout.is_waiting() { KillReason::OutputWaits } else { KillReason::Deadline }
    }

    /// Queues bytes for the child's stdin.
    pub fn send(&mut self, bytes: Bytes) -> Result<(), StdinFull> {
        self.stdin.push(bytes)
    }

    /// Whether a write to the child's stdin has failed.
    pub fn is_stdin_closed(&self) -> bool {
        self.stdin.is_broken()
    }

    /// Closes the child's stdin; unwritten input is dropped.
    pub fn close_stdin(&mut self) {
        self.stdin.close();
    }

    /// Returns the exit status; call it after [`Event::Exited`].
    pub async fn finish(mut self) -> Result<Exited, ChildError> {
        let record = match self.record {
            Some(record) => record,
            None => self.tree.wait().await,
        };
        if let Some(exceeded) = self.monitor.at_end() {
            return Err(KillReason::LimitExceeded(exceeded).into_error(self.line_cap, self.stderr.finish()));
        }
        let (exit, level) = self.launcher.exit_from_record(record, self.command, self.script.as_ref())?;
        let stderr_tail = self.stderr.finish();
        Ok(Exited { exit, stderr_tail, level, sandbox: self.command.confinement.level })
    }

    /// Kills the tree and returns the tail of its stderr.
    pub async fn kill(mut self) -> String {
        self.tree.kill();
        self.tree.wait().await;
        self.stderr.finish()
    }

    /// Kills the tree and returns the error for `reason`.
    pub async fn kill_with_error(self, reason: KillReason) -> ChildError {
        let cap = self.line_cap;
        reason.into_error(cap, self.kill().await)
    }
}
