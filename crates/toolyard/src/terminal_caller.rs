//! The terminal user as the caller of a tool: shows progress and log lines and answers questions.

use crate::output::{self, Status};
use std::io::IsTerminal;
use toolyard_protocol::text::escape_control;
use toolyard_protocol::{
    Caller, Error, ErrorKind, InputFuture, InputRequest, InputRequestBody, InputResponse, LogLine,
    NoopCaller, Payload, Progress,
};
use toolyard_wire::form::{self, Form};
use toolyard_wire::render;

/// Longer progress messages are cut to fit the status line.
const MAX_MESSAGE: usize = 50;

pub struct TerminalCaller {
    status: Status,
    is_interactive: bool,
    /// Held while a question is open: there is one keyboard.
    keyboard: tokio::sync::Mutex<()>,
}

impl TerminalCaller {
    pub fn new(status: Status) -> TerminalCaller {
        let is_interactive = std::io::stdin().is_terminal() && output::stderr_is_terminal();
        TerminalCaller { status, is_interactive, keyboard: tokio::sync::Mutex::new(()) }
    }

    async fn answer(&self, question: InputRequest) -> Result<InputResponse, Error> {
        let _keyboard = self.keyboard.lock().await;
        let _pause = self.status.pause();
        match &question.body {
            InputRequestBody::Elicit(body) => fill_form(Form::read(body)?).await,
            InputRequestBody::ElicitUrl(body) => open_url(body).await,
            InputRequestBody::Sample(_) | InputRequestBody::Roots => NoopCaller.request_input(question).await,
        }
    }
}

impl Caller for TerminalCaller {
    fn progress(&self, Progress { done, total, message }: Progress) {
        let progress_text = match total {
            Some(total) if total > 0.0 => format!(", {:.0} %", done / total * 100.0),
            _ => format!(", {done}"),
        };
        let message = escape_control(&message.unwrap_or_default()).replace('\n', " ");
        let message: String = message.chars().take(MAX_MESSAGE).collect();
        self.status.progress(format!("{progress_text} {message}"));
    }

    fn log(&self, line: LogLine) {
        let logger = line.logger.map_or(String::new(), |logger| format!("[{}]", escape_control(&logger)));
        self.status.note(format!("{}{logger}: {}", line.level.as_str(), render::value(&line.data)));
    }

    fn request_input(&self, question: InputRequest) -> InputFuture<'_> {
        if !self.is_interactive {
            return NoopCaller.request_input(question);
        }
        Box::pin(self.answer(question))
    }
}

async fn fill_form(form: Form) -> Result<InputResponse, Error> {
    output::note(format!("The tool asks: {}", form.message));
    output::note("(:decline declines, :cancel or Ctrl-D cancels the question)");
    if form.fields.is_empty() {
        return Ok(match read_input("Press Enter to accept: ").await? {
            Input::Line(_) => form::accepted(&[]),
            Input::Refused(answer) => answer,
        });
    }
    let mut values = Vec::with_capacity(form.fields.len());
    for field in form.fields {
        let value = loop {
            match read_input(&field.prompt()).await? {
                Input::Refused(answer) => return Ok(answer),
                Input::Line(line) => match field.read(&line) {
                    Ok(value) => break value,
                    Err(what) => output::note(format!("  {what}")),
                },
            }
        };
        values.extend(value.map(|value| (field.name, value)));
    }
    Ok(form::accepted(&values))
}

async fn open_url(body: &Payload) -> Result<InputResponse, Error> {
    let (message, url) = form::page(body)?;
    output::note(format!("The tool asks: {message}\n  {url}"));
    Ok(match read_input("Open the address, then press Enter (:decline declines): ").await? {
        Input::Line(_) => form::visited(),
        Input::Refused(answer) => answer,
    })
}

enum Input {
    Line(String),
    Refused(InputResponse),
}

/// Reads one line on a thread of its own: a blocked read of stdin cannot be cancelled.
async fn read_input(prompt: &str) -> Result<Input, Error> {
    output::ask(prompt);
    let (sender, receiver) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().read_line(&mut line);
        // Fails when the call was cancelled meanwhile.
        let _ = sender.send(read.map(|_| line));
    });
    let line = receiver.await.map_err(|_| unreadable("nothing was read"))?;
    let line = line.map_err(|error| unreadable(&error.to_string()))?;
    Ok(match line.trim() {
        "" if line.is_empty() => Input::Refused(form::cancelled()),
        ":cancel" => Input::Refused(form::cancelled()),
        ":decline" => Input::Refused(form::declined()),
        _ => Input::Line(line),
    })
}

fn unreadable(what: &str) -> Error {
    Error::new(ErrorKind::Unavailable, format!("the terminal cannot be read: {what}"))
}
