//! The only place that prints. A reader that goes away (`| head`) ends the program quietly.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard};
use toolyard_protocol::{Error, Outcome};
use toolyard_wire::envelope;

/// Writes to stdout and ends with a newline.
pub fn line(bytes: impl AsRef<[u8]>) {
    let mut out = std::io::stdout().lock();
    let written =
        out.write_all(bytes.as_ref()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
    if written.is_err() {
        // Nobody reads any more; there is no one left to tell.
        std::process::exit(0);
    }
}

/// Writes to stdout as it is.
pub fn raw(bytes: impl AsRef<[u8]>) {
    let mut out = std::io::stdout().lock();
    if out.write_all(bytes.as_ref()).and_then(|()| out.flush()).is_err() {
        // Nobody reads any more; there is no one left to tell.
        std::process::exit(0);
    }
}

/// Whether a person sees stdout.
pub fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// The standard pipes, for a command that speaks a protocol on them and prints nothing else.
pub fn pipes() -> (tokio::io::Stdin, tokio::io::Stdout) {
    (tokio::io::stdin(), tokio::io::stdout())
}

/// Writes to stderr.
pub fn note(text: impl AsRef<str>) {
    let _ = writeln!(std::io::stderr().lock(), "{}", text.as_ref());
}

/// Writes a question to stderr and leaves the cursor behind it.
pub fn ask(question: &str) {
    let mut err = std::io::stderr().lock();
    let _ = write!(err, "{question}").and_then(|()| err.flush());
}

/// Whether a person sees stderr.
pub fn has_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// Replaces the line on the terminal; an empty text wipes it.
pub fn rewrite(text: &str) {
    let mut err = std::io::stderr().lock();
    let _ = write!(err, "\r\x1b[2K{text}").and_then(|()| err.flush());
}

/// Shows an error the documented way and gives its exit code.
pub fn report(error: &Error, json: bool) -> u8 {
    if json {
        line(envelope::write_result(&Outcome::failure(error.clone())));
    } else {
        show_error(error);
    }
    error.kind.row().exit
}

pub fn show_error(error: &Error) {
    note(format!("error[{}]: {}", error.code(), error.message));
    for violation in error.details.violations.iter().skip(1) {
        let pointer = if violation.pointer.is_empty() { "the value itself" } else { &violation.pointer };
        note(format!("  at {pointer}: {}", violation.message));
    }
    if let Some(stderr) = &error.details.stderr {
        note("  the tool's last words on stderr:");
        for text in stderr.lines() {
            note(format!("  | {text}"));
        }
    }
    if let Some(hint) = &error.hint {
        note(format!("  hint: {hint}"));
    }
    if let Some(id) = error.correlation_id {
        note(format!("  call: {id}"));
    }
}

/// A table with aligned columns; the last column is not padded.
pub fn table(rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    for row in rows {
        let mut text = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            text.push_str(&format!("{cell:<width$}  "));
        }
        line(text.trim_end());
    }
}

/// Shows that something is under way, on a terminal only and only when it takes a while; wiped when dropped.
pub struct Spinner {
    status: Status,
    task: Option<tokio::task::JoinHandle<()>>,
}

impl Spinner {
    pub fn start(what: String) -> Spinner {
        let status =
            Status(Arc::new(Mutex::new(StatusText { what, progress: String::new(), paused: false })));
        let task = has_terminal().then(|| tokio::spawn(spin(status.clone())));
        Spinner { status, task }
    }

    /// What else is to be said on the same terminal goes through this.
    pub fn status(&self) -> Status {
        self.status.clone()
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
            rewrite("");
        }
    }
}

/// The line that the spinner rewrites.
#[derive(Clone)]
pub struct Status(Arc<Mutex<StatusText>>);

struct StatusText {
    what: String,
    progress: String,
    /// Someone is being asked, on the same lines.
    paused: bool,
}

impl Status {
    /// Shown from the next turn of the spinner on.
    pub fn progress(&self, progress: String) {
        self.lock().progress = progress;
    }

    /// Writes a line of its own to stderr.
    pub fn note(&self, text: impl AsRef<str>) {
        let _shown = self.lock();
        if has_terminal() {
            rewrite("");
        }
        note(text);
    }

    /// The spinner rests until the guard is dropped.
    pub fn pause(&self) -> SpinnerPause {
        self.lock().paused = true;
        rewrite("");
        SpinnerPause(self.clone())
    }

    fn lock(&self) -> MutexGuard<'_, StatusText> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

pub struct SpinnerPause(Status);

impl Drop for SpinnerPause {
    fn drop(&mut self) {
        self.0.lock().paused = false;
    }
}

async fn spin(status: Status) {
    let started = std::time::Instant::now();
    for frame in ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"].iter().cycle() {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        let shown = status.lock();
        let StatusText { what, progress, paused } = &*shown;
        // Most calls are over before anyone could read what is under way.
        let early = started.elapsed().as_millis() < 300 && progress.is_empty();
        if !paused && !early {
            let seconds = started.elapsed().as_secs();
            rewrite(&format!("{frame} {what} … {seconds} s{progress}"));
        }
    }
}
