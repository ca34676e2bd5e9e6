//! The other end of a call in a session: progress and log go out as notifications, questions as requests.

use super::backlog::Backlog;
use super::lock;
use super::outbox::Outbox;
use super::session::Session;
use super::turn::cannot_be_asked;
use bytes::Bytes;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use toolyard_protocol::{Answer, AskFuture, Caller, Error, ErrorKind, LogLine, Payload, Progress, Question};
use toolyard_wire::jsonrpc::RequestId;
use toolyard_wire::mcp::{ask, notifications};

/// Where messages besides the answer go.
#[derive(Clone)]
pub(super) enum Out {
    /// On the answer of the POST.
    Stream(Arc<Outbox>),
    /// On a line that everything shares.
    Line(Arc<Backlog>),
    /// The client takes nothing but the answer.
    Nowhere,
}

pub(super) struct SessionCaller {
    session: Arc<Session>,
    out: Out,
    token: Option<Bytes>,
    last_progress: Mutex<f64>,
}

impl SessionCaller {
    /// `token` is the raw token under which progress is wanted.
    pub fn new(session: Arc<Session>, out: Out, token: Option<Bytes>) -> SessionCaller {
        SessionCaller { session, out, token, last_progress: Mutex::new(f64::NEG_INFINITY) }
    }

    async fn question(&self, question: Question) -> Result<Answer, Error> {
        let hello = self.session.hello;
        if !ask::is_allowed(&question.body, hello.capabilities) {
            return Err(cannot_be_asked());
        }
        let busy = || Error::new(ErrorKind::Busy, "too many questions to this client are open");
        let (number, answer) = self.session.asking().ok_or_else(busy)?;
        let mut open = Open { caller: self, number, answered: false };
        let request = ask::write_request(&RequestId::number(number), &question, hello.revision);
        if !self.out.say(request).await {
            return Err(Error::new(
                ErrorKind::Unavailable,
                "the tool asks, and the client takes no questions",
            ));
        }
        let answer = answer.await;
        open.answered = true;
        match answer {
            Ok(Ok(raw)) => {
                let answer = Payload::json(raw);
                let fits = ask::fits(&question.body, &answer);
                let wrong = || {
                    Error::new(
                        ErrorKind::Unavailable,
                        "the client's answer is not of the form that was asked for",
                    )
                };
                if fits { Ok(Answer(answer)) } else { Err(wrong()) }
            }
            Ok(Err(message)) => {
                Err(Error::new(ErrorKind::Unavailable, format!("the client did not answer: {message}")))
            }
            Err(_) => Err(Error::new(ErrorKind::Cancelled, "the session ended before the answer came")),
        }
    }
}

impl Caller for SessionCaller {
    fn progress(&self, progress: Progress) {
        let Some(token) = &self.token else { return };
        let mut last = lock(&self.last_progress);
        // Progress only ever grows.
        if progress.done > *last {
            *last = progress.done;
            self.out.try_say(notifications::progress(token, &progress, self.session.hello.revision));
        }
    }

    fn log(&self, line: LogLine) {
        if self.session.wants(line.level) && self.session.hello.takes_notifications() {
            self.out.try_say(notifications::message(&line));
        }
    }

    fn ask(&self, question: Question) -> AskFuture<'_> {
        Box::pin(self.question(question))
    }

    fn close_stream(&self, retry_ms: Option<u64>) {
        if let Out::Stream(outbox) = &self.out {
            outbox.leave(retry_ms.map(Duration::from_millis));
        }
    }
}

impl Out {
    /// What nobody waits for is dropped when there is no room.
    fn try_say(&self, message: Vec<u8>) {
        match self {
            Out::Stream(outbox) => outbox.say(message),
            // A reader that slow misses some progress.
            Out::Line(line) => line.say(message),
            Out::Nowhere => {}
        }
    }

    /// `false` when nobody can hear it.
    async fn say(&self, message: Vec<u8>) -> bool {
        match self {
            Out::Stream(outbox) => {
                outbox.say(message);
                true
            }
            Out::Line(line) => line.send(message.into()).await,
            Out::Nowhere => false,
        }
    }
}

/// A question under way. When the call ends before the answer, the client is told to stop asking.
struct Open<'a> {
    caller: &'a SessionCaller,
    number: u64,
    answered: bool,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.caller.session.no_longer_asking(self.number);
            let id = RequestId::number(self.number);
            self.caller.out.try_say(notifications::cancelled(&id, "the answer is no longer needed"));
        }
    }
}
