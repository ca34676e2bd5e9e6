//! All printing goes through this module. When stdout is closed (`| head`), the program exits with 0.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard};
use toolyard_protocol::text::escape_control;
use toolyard_protocol::{Error, ErrorKind, Outcome};
use toolyard_wire::envelope;

/// Writes text for people to stdout and ends with a newline. Names and descriptions come from files and
/// servers: control characters in them are made visible and never reach the terminal.
pub fn line(text: impl AsRef<str>) {
    raw(escape_control(text.as_ref()) + "\n");
}

/// Writes data, such as JSON or a result, to stdout and ends with a newline. Programs get it as it is; on a
/// terminal control characters are made visible.
pub fn data(bytes: impl AsRef<[u8]>) {
    if stdout_is_terminal() {
        return line(String::from_utf8_lossy(bytes.as_ref()));
    }
    raw([bytes.as_ref(), b"\n"].concat());
}

/// Writes to stdout as it is.
pub fn raw(bytes: impl AsRef<[u8]>) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = out.write_all(bytes.as_ref()).and_then(|()| out.flush()) {
        end_unwritten(&error);
    }
}

/// Stdout for many lines of data, as [`data`] writes them.
pub fn stream() -> Box<dyn Write> {
    let out = std::io::BufWriter::new(std::io::stdout().lock());
    match stdout_is_terminal() {
        true => Box::new(VisibleLines { out, line: Vec::new() }),
        false => Box::new(out),
    }
}

/// Makes control characters visible, line by line, so that no character is cut.
struct VisibleLines<W: Write> {
    out: W,
    line: Vec<u8>,
}

impl<W: Write> Write for VisibleLines<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.out.write_all(escape_control(&String::from_utf8_lossy(&self.line)).as_bytes())?;
                self.line.clear();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.write_all(escape_control(&String::from_utf8_lossy(&self.line)).as_bytes())?;
        self.line.clear();
        self.out.flush()
    }
}

/// Ends the program because stdout cannot be written.
pub fn end_unwritten(error: &std::io::Error) -> ! {
    // A closed stdout means that the reader has what it wanted; anything else loses output.
    if error.kind() == std::io::ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    note(format!("error[EINTERNAL]: cannot write to stdout: {error}"));
    std::process::exit(ErrorKind::Internal.row().exit.into());
}

/// Whether stdout is a terminal.
pub fn stdout_is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Stdin and stdout, for a command that speaks a protocol on them and prints nothing else.
pub fn pipes() -> (tokio::io::Stdin, tokio::io::Stdout) {
    (tokio::io::stdin(), tokio::io::stdout())
}

/// Writes text for people to stderr, as [`line`] does to stdout.
pub fn note(text: impl AsRef<str>) {
    raw_note(escape_control(text.as_ref()) + "\n");
}

/// Writes to stderr as it is. There is no other place to report that it cannot be written.
pub fn raw_note(bytes: impl AsRef<[u8]>) {
    let _ = std::io::stderr().lock().write_all(bytes.as_ref());
}

/// Writes a prompt to stderr, without a newline.
pub fn ask(question: &str) {
    let mut err = std::io::stderr().lock();
    let _ = write!(err, "{}", escape_control(question)).and_then(|()| err.flush());
}

/// Whether stderr is a terminal.
pub fn stderr_is_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// Replaces the current line of the terminal; an empty text clears it.
pub fn rewrite(text: &str) {
    let mut err = std::io::stderr().lock();
    let text = escape_control(text);
    let _ = write!(err, "\r\x1b[2K{text}").and_then(|()| err.flush());
}

/// Prints an error, as text or as a result envelope, and returns its exit code.
pub fn report(error: &Error, json: bool) -> u8 {
    if json {
        data(envelope::write_result(&Outcome::failure(error.clone())));
    } else {
        show_error(error);
    }
    error.kind.row().exit
}

pub fn show_error(error: &Error) {
    note(format!("error[{}]: {}", error.code(), error.message));
    for violation in error.details.violations.iter().skip(1) {
        match violation.pointer.as_str() {
            "" => note(format!("  {}", violation.message)),
            pointer => note(format!("  at {pointer}: {}", violation.message)),
        }
    }
    if let Some(stderr) = &error.details.stderr {
        note("  end of the tool's stderr:");
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
    // A cell is one line, so that no text can look like another row.
    let visible = |cell: &String| escape_control(cell).replace('\n', "\\n").replace('\t', " ");
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(visible).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    for row in &rows {
        let mut text = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            text.push_str(&format!("{cell:<width$}  "));
        }
        line(text.trim_end());
    }
}

/// Activity indicator on stderr: shown on a terminal after 300 ms, cleared when dropped.
pub struct Spinner {
    status: Status,
    task: Option<tokio::task::JoinHandle<()>>,
}

impl Spinner {
    pub fn start(what: String) -> Spinner {
        let status =
            Status(Arc::new(Mutex::new(StatusText { what, progress: String::new(), paused: false })));
        let task = stderr_is_terminal().then(|| tokio::spawn(spin(status.clone())));
        Spinner { status, task }
    }

    /// Handle for other output to the same terminal.
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
    /// The user is being prompted on the same terminal.
    paused: bool,
}

impl Status {
    /// Shown from the next frame on.
    pub fn progress(&self, progress: String) {
        self.lock().progress = progress;
    }

    /// Writes a separate line to stderr.
    pub fn note(&self, text: impl AsRef<str>) {
        let _shown = self.lock();
        if stderr_is_terminal() {
            rewrite("");
        }
        note(text);
    }

    /// Pauses the spinner until the guard is dropped.
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
        // Most calls end sooner; a spinner would only flicker.
        let early = started.elapsed().as_millis() < 300 && progress.is_empty();
        if !paused && !early {
            let seconds = started.elapsed().as_secs();
            rewrite(&format!("{frame} {what} … {seconds} s{progress}"));
        }
    }
}
