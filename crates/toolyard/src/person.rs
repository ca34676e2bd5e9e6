//! The person at the terminal as the other end of a call: sees progress and log lines, and can be asked.

use crate::output::{self, Status};
use std::io::IsTerminal;
use toolyard_protocol::text::visible;
use toolyard_protocol::{
    Answer, Ask, AskFuture, Caller, Error, ErrorKind, LogLine, Nobody, Payload, Progress, Question,
};
use toolyard_wire::form::{self, Form};
use toolyard_wire::render;

/// A longer message would not fit on the line that is rewritten.
const MAX_MESSAGE: usize = 50;

pub struct Person {
    status: Status,
    can_be_asked: bool,
    /// One question at a time: there is one keyboard.
    keyboard: tokio::sync::Mutex<()>,
}

impl Person {
    pub fn new(status: Status) -> Person {
        let can_be_asked = std::io::stdin().is_terminal() && output::has_terminal();
        Person { status, can_be_asked, keyboard: tokio::sync::Mutex::new(()) }
    }

    async fn answer(&self, question: Question) -> Result<Answer, Error> {
        let _keyboard = self.keyboard.lock().await;
        let _rest = self.status.rest();
        match &question.body {
            Ask::Elicit(body) => fill_in(Form::read(body)?).await,
            Ask::ElicitUrl(body) => visit(body).await,
            Ask::Sample(_) | Ask::Roots => Nobody.ask(question).await,
        }
    }
}

impl Caller for Person {
    fn progress(&self, Progress { done, total, message }: Progress) {
        let far = match total {
            Some(total) if total > 0.0 => format!(", {:.0} %", done / total * 100.0),
            _ => format!(", {done}"),
        };
        let message = visible(&message.unwrap_or_default()).replace('\n', " ");
        let message: String = message.chars().take(MAX_MESSAGE).collect();
        self.status.progress(format!("{far} {message}"));
    }

    fn log(&self, line: LogLine) {
        let logger = line.logger.map_or(String::new(), |logger| format!("[{}]", visible(&logger)));
        self.status.note(format!("{}{logger}: {}", line.level.as_str(), render::value(&line.data)));
    }

    fn ask(&self, question: Question) -> AskFuture<'_> {
        if !self.can_be_asked {
            return Nobody.ask(question);
        }
        Box::pin(self.answer(question))
    }
}

async fn fill_in(form: Form) -> Result<Answer, Error> {
    output::note(format!("The tool asks: {}", form.message));
    output::note("(:decline says no, :cancel or Ctrl-D says nothing)");
    if form.fields.is_empty() {
        return Ok(match typed("Enter to agree: ").await? {
            Typed::Line(_) => form::accepted(&[]),
            Typed::No(answer) => answer,
        });
    }
    let mut values = Vec::with_capacity(form.fields.len());
    for field in form.fields {
        let value = loop {
            match typed(&field.prompt()).await? {
                Typed::No(answer) => return Ok(answer),
                Typed::Line(line) => match field.read(&line) {
                    Ok(value) => break value,
                    Err(what) => output::note(format!("  {what}")),
                },
            }
        };
        values.extend(value.map(|value| (field.name, value)));
    }
    Ok(form::accepted(&values))
}

async fn visit(body: &Payload) -> Result<Answer, Error> {
    let (message, url) = form::page(body)?;
    output::note(format!("The tool asks: {message}\n  {url}"));
    Ok(match typed("Open it, then press Enter (:decline says no): ").await? {
        Typed::Line(_) => form::visited(),
        Typed::No(answer) => answer,
    })
}

enum Typed {
    Line(String),
    No(Answer),
}

/// One line. The thread that waits for it may be left behind; it ends with the program.
async fn typed(prompt: &str) -> Result<Typed, Error> {
    output::ask(prompt);
    let (give, take) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().read_line(&mut line);
        // Whoever asked may be gone.
        let _ = give.send(read.map(|_| line));
    });
    let line = take.await.map_err(|_| unreadable("nothing was read"))?;
    let line = line.map_err(|error| unreadable(&error.to_string()))?;
    Ok(match line.trim() {
        "" if line.is_empty() => Typed::No(form::cancelled()),
        ":cancel" => Typed::No(form::cancelled()),
        ":decline" => Typed::No(form::declined()),
        _ => Typed::Line(line),
    })
}

fn unreadable(what: &str) -> Error {
    Error::new(ErrorKind::Unavailable, format!("the terminal cannot be read: {what}"))
}
