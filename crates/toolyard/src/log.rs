//! The log of `serve` and `stdio`: events of `tracing`, as text or JSON lines on stderr, secrets redacted.
//! A thread of its own writes, so that a stderr that nobody reads cannot stop a call.

use crate::output;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use toolyard_engine::Severity;
use toolyard_protocol::text::escape_control;
use toolyard_protocol::{Error, ErrorKind, Payload, Redactor};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Lines beyond this wait for no one: they are dropped and counted.
const MAX_QUEUED_BYTES: usize = 4 << 20;

/// How long the end of the program waits for the last lines.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
pub struct LogOptions {
    /// Log every call, as on a terminal; twice (-vv): with the details of failed calls
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Log warnings and errors only
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
    /// Format of the log on stderr; RUST_LOG=TARGET=LEVEL,… chooses what is in it
    #[arg(long, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    log_format: LogFormat,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

/// The running log. Dropping it writes the lines that are still queued.
pub struct Log {
    queue: Arc<Queue>,
    format: LogFormat,
}

impl Log {
    /// Starts the log; `quiet` are the levels of the program and of calls while stderr is no terminal.
    pub fn start(options: &LogOptions, quiet: (LevelFilter, LevelFilter)) -> Result<Log, Error> {
        let is_terminal = output::stderr_is_terminal();
        let filter = match std::env::var("RUST_LOG") {
            Ok(text) if !text.is_empty() => text.parse::<Targets>().map_err(|error| {
                Error::new(ErrorKind::InvalidInput, format!("RUST_LOG is invalid: {error}"))
                    .hint("for example RUST_LOG=debug or RUST_LOG=warn,toolyard::call=info")
            })?,
            _ => options.filter(is_terminal, quiet),
        };
        let (lines, received) = channel();
        let queue = Arc::new(Queue {
            lines,
            bytes: AtomicUsize::new(0),
            dropped: AtomicUsize::new(0),
            redactor: OnceLock::new(),
        });
        let writer = queue.clone();
        let is_json = options.log_format == LogFormat::Json;
        std::thread::Builder::new()
            .name("log".into())
            .spawn(move || writer.write_all(&received, is_json))
            .map_err(|error| Error::new(ErrorKind::Unavailable, format!("the log cannot start: {error}")))?;
        let format = tracing_subscriber::fmt::layer().with_writer(queue.clone());
        let registry = tracing_subscriber::registry().with(filter);
        let started = if is_json {
            registry.with(format.json().flatten_event(true)).try_init()
        } else {
            let color = is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
            registry.with(format.with_ansi(color)).try_init()
        };
        started.map_err(|error| Error::new(ErrorKind::Internal, format!("the log cannot start: {error}")))?;
        std::panic::set_hook(Box::new(|panic| {
            tracing::error!(target: "toolyard", "{}", one_line(&panic.to_string()));
        }));
        Ok(Log { queue, format: options.log_format })
    }

    /// From now on these secrets are redacted in every line.
    pub fn redact(&self, redactor: Arc<dyn Redactor>) {
        // Set once: a program opens one yard.
        let _ = self.queue.redactor.set(redactor);
    }

    /// Logs the error that ends the program, where text on stderr would be no line of the log.
    pub fn report(&self, ended: Result<u8, Error>) -> Result<u8, Error> {
        match ended {
            Err(error) if self.format == LogFormat::Json => {
                tracing::error!(target: "toolyard", code = error.code(), hint = error.hint, "{}", one_line(&error.message));
                Ok(error.kind.row().exit)
            }
            ended => ended,
        }
    }
}

/// A problem of a file or a setting: an event of the log, or a line on stderr for a command without one.
pub fn problem(severity: Severity, text: &str) {
    if !tracing::dispatcher::has_been_set() {
        return output::note(format!("{}: {text}", severity.as_str()));
    }
    match severity {
        Severity::Error => tracing::error!(target: "toolyard", "{}", one_line(text)),
        Severity::Warning => tracing::warn!(target: "toolyard", "{}", one_line(text)),
        Severity::Note => tracing::info!(target: "toolyard", "{}", one_line(text)),
    }
}

/// No text can forge another line of the log.
fn one_line(text: &str) -> String {
    escape_control(text).replace('\n', "\\n")
}

impl Drop for Log {
    fn drop(&mut self) {
        let (flushed, wait) = sync_channel(1);
        if self.queue.lines.send(Message::Flush(flushed)).is_ok() {
            // A stderr that is not read loses the last lines.
            let _ = wait.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

impl LogOptions {
    fn filter(&self, is_terminal: bool, quiet: (LevelFilter, LevelFilter)) -> Targets {
        let (level, calls) = match self.verbose {
            _ if self.quiet => (LevelFilter::WARN, LevelFilter::WARN),
            0 if !is_terminal => quiet,
            0 | 1 => (LevelFilter::INFO, LevelFilter::INFO),
            _ => (LevelFilter::DEBUG, LevelFilter::DEBUG),
        };
        // Events of other crates are for those who ask for them by RUST_LOG.
        Targets::new().with_target("toolyard", level).with_target("toolyard::call", calls)
    }
}

enum Message {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

/// Lines on their way to stderr, bounded in bytes.
struct Queue {
    lines: Sender<Message>,
    bytes: AtomicUsize,
    dropped: AtomicUsize,
    redactor: OnceLock<Arc<dyn Redactor>>,
}

impl Queue {
    fn write_all(&self, received: &Receiver<Message>, is_json: bool) {
        for message in received {
            let line = match message {
                Message::Line(line) => line,
                Message::Flush(flushed) => {
                    // The sender may have given up.
                    let _ = flushed.send(());
                    continue;
                }
            };
            self.bytes.fetch_sub(line.len(), Ordering::Relaxed);
            let redacted = self.redactor.get().and_then(|redactor| redact(redactor.as_ref(), &line, is_json));
            output::raw_note(redacted.as_deref().unwrap_or(&line));
            let dropped = self.dropped.swap(0, Ordering::Relaxed);
            if dropped > 0 {
                tracing::warn!(target: "toolyard", lines = dropped, "the log lost lines: stderr was not read in time");
            }
        }
    }
}

fn redact(redactor: &dyn Redactor, line: &[u8], is_json: bool) -> Option<Vec<u8>> {
    if is_json {
        let mut line = redactor.payload(&Payload::json(line.trim_ascii_end().to_vec()))?.bytes().to_vec();
        line.push(b'\n');
        return Some(line);
    }
    redactor.text(&String::from_utf8_lossy(line)).map(String::into_bytes)
}

impl Write for &Queue {
    /// Gets one whole line.
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let queued = self.bytes.fetch_add(line.len(), Ordering::Relaxed);
        if queued + line.len() > MAX_QUEUED_BYTES || self.lines.send(Message::Line(line.to_vec())).is_err() {
            self.bytes.fetch_sub(line.len(), Ordering::Relaxed);
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_not_written_are_bounded_in_bytes_and_counted() {
        let (lines, received) = channel();
        let queue = Queue { lines, bytes: 0.into(), dropped: 0.into(), redactor: OnceLock::new() };
        let line = vec![b'x'; 1 << 20];
        for _ in 0..6 {
            assert_eq!((&queue).write(&line).ok(), Some(line.len()));
        }
        assert_eq!(received.try_iter().count(), MAX_QUEUED_BYTES >> 20);
        assert_eq!(queue.dropped.load(Ordering::Relaxed), 2);
    }
}
