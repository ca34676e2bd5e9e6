//! A child that is talked with: lines out as they come, lines in at any time.
//!
//! Reading never waits for writing: what the child does not take stays in a bounded queue.

use std::time::Instant;

use bytes::Bytes;

use super::input::Queue;
use super::launcher::Cut;
use super::output::{Lines, Stderr};
use super::plan::Plan;
use super::record::Record;
use super::start::ends;
use super::tree::Tree;
use super::watch::Watch;
use super::{ChildError, Command, Exit, Launcher, Level, OnListener, TreeLevel};

pub use super::input::NotRead;

/// How a conversation begins.
pub struct Opening {
    /// What the child reads first; its stdin stays open after it.
    pub stdin: Bytes,
    /// The longest line accepted, in bytes.
    pub line_cap: usize,
    /// Until when a free place is waited for; what comes later is up to whoever holds the conversation.
    pub deadline: Instant,
    /// As in [`super::Exchange`].
    pub on_listener: Option<OnListener>,
}

/// The tree dies when this is dropped.
pub struct Live<'a> {
    launcher: &'a Launcher,
    command: &'a Command,
    plan: Option<Plan>,
    tree: Tree,
    stdin: Queue,
    stdout: Lines,
    stderr: Stderr,
    watch: Watch,
    line_cap: usize,
    /// What the launcher said when the tree was dead; lines may still wait in the pipe.
    dead: Option<Option<Record>>,
}

pub enum Event {
    /// Without its line break. The last one may have had none.
    Line(Bytes),
    /// The program ended by itself, and every line was given.
    Ended,
}

/// How it ended.
pub struct Ended {
    pub exit: Exit,
    pub stderr_tail: String,
    pub level: TreeLevel,
    pub sandbox: Level,
}

impl Launcher {
    /// Starts a program to talk with.
    pub async fn open<'a>(&'a self, command: &'a Command, opening: Opening) -> Result<Live<'a>, ChildError> {
        let Opening { stdin, line_cap, deadline, on_listener } = opening;
        let admitted = self.admit(command, deadline.into()).await?;
        let (ours, theirs) = ends().map_err(ChildError::Spawn)?;
        let stdin = Queue::new(ours.stdin, stdin).map_err(ChildError::Spawn)?;
        let stdout = Lines::new(ours.stdout, line_cap).map_err(ChildError::Spawn)?;
        let stderr = Stderr::new(ours.stderr).map_err(ChildError::Spawn)?;
        let (tree, plan) = self.start(command, admitted, ours.control, theirs, on_listener)?;
        let watch = Watch::new(&command.confinement, tree.launcher());
        Ok(Live { launcher: self, command, plan, tree, stdin, stdout, stderr, watch, line_cap, dead: None })
    }
}

impl Live<'_> {
    /// What happens next; bytes move meanwhile. May be dropped and called again.
    pub async fn event(&mut self) -> Result<Event, Cut> {
        loop {
            if let Some(line) = self.stdout.next()? {
                return Ok(Event::Line(line));
            }
            if self.dead.is_some() {
                if self.stdout.fill_now() {
                    continue;
                }
                // The pipe is at its end now, so that a last line without its break counts as one.
                return Ok(self.stdout.next()?.map_or(Event::Ended, Event::Line));
            }
            tokio::select! {
                record = self.tree.dead() => self.dead = Some(record),
                excess = self.watch.excess() => return Err(Cut::Excess(excess)),
                () = self.stdout.fill(), if self.stdout.is_open() => {}
                () = self.stderr.read(), if self.stderr.is_open() => {}
                () = self.stdin.write(), if self.stdin.has_work() => {}
            }
        }
    }

    /// Queues bytes for the child's stdin.
    pub fn send(&mut self, bytes: Bytes) -> Result<(), NotRead> {
        self.stdin.push(bytes)
    }

    /// Whether the child closed its stdin, as far as that showed.
    pub fn is_deaf(&self) -> bool {
        self.stdin.is_broken()
    }

    /// Nothing more will be said to the child; what it has not taken is dropped.
    pub fn close_stdin(&mut self) {
        self.stdin.close();
    }

    /// After [`Event::Ended`].
    pub async fn finish(mut self) -> Result<Ended, ChildError> {
        let record = match self.dead {
            Some(record) => record,
            None => self.tree.dead().await,
        };
        let (exit, level) = self.launcher.read_end(record, self.command, self.plan.as_ref())?;
        let stderr_tail = self.stderr.finish();
        Ok(Ended { exit, stderr_tail, level, sandbox: self.command.confinement.level })
    }

    /// Kills the tree and gives the last words of its stderr.
    pub async fn kill(mut self) -> String {
        self.tree.kill();
        self.tree.dead().await;
        self.stderr.finish()
    }

    /// Kills the tree and says why.
    pub async fn cut(self, cut: Cut) -> ChildError {
        let cap = self.line_cap;
        cut.into_error(cap, self.kill().await)
    }
}
