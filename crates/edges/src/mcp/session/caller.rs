//! The caller of a call in a session: sends progress and log lines as notifications, questions as requests.

use crate::mcp::lock;
use crate::mcp::messages::Class;
use crate::mcp::send_queue::SendQueue;
use crate::mcp::session::Session;
use crate::mcp::session::outbox::Outbox;
use crate::mcp::stateless::question_not_supported;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use toolyard_protocol::{
    Caller, Error, ErrorKind, InputFuture, InputRequest, InputResponse, LogLine, Payload, Progress,
};
use toolyard_wire::jsonrpc::{Request, RequestId};
use toolyard_wire::mcp::meta::ProgressReports;
use toolyard_wire::mcp::{input_requests, notifications};

/// Where messages other than the response go.
#[derive(Clone)]
pub(in crate::mcp) enum MessageSink {
    /// To the response stream of the POST.
    Stream(Arc<Outbox>),
    /// To the send queue of a duplex connection.
    Queue(Arc<SendQueue>),
    /// The client accepts only the response.
    Discard,
}

pub(in crate::mcp) struct SessionCaller {
    session: Arc<Session>,
    out: MessageSink,
    progress: Mutex<ProgressReports>,
}

impl SessionCaller {
    pub fn new(session: Arc<Session>, out: MessageSink, request: &Request) -> SessionCaller {
        SessionCaller { session, out, progress: Mutex::new(ProgressReports::read(&request.params)) }
    }

    /// `false` when the client cannot receive it.
    fn send(&self, class: Class, message: Vec<u8>) -> bool {
        match &self.out {
            MessageSink::Stream(outbox) => {
                outbox.send(class, message);
                self.session.make_room(outbox.max_bytes());
                true
            }
            MessageSink::Queue(queue) => queue.send(class, message),
            MessageSink::Discard => false,
        }
    }

    async fn ask_client(&self, question: InputRequest) -> Result<InputResponse, Error> {
        let handshake = self.session.handshake;
        if !input_requests::is_supported(&question.body, handshake.capabilities) {
            return Err(question_not_supported());
        }
        let busy = || Error::new(ErrorKind::Busy, "too many questions to this client are open");
        let (number, answer) = self.session.register_request().ok_or_else(busy)?;
        let mut pending = PendingQuestion { caller: self, number, answered: false };
        let request =
            input_requests::write_request(&RequestId::number(number), &question, handshake.revision);
        if !self.send(Class::Required, request) {
            return Err(Error::new(
                ErrorKind::Unavailable,
                "the tool asks a question, but the client cannot receive it",
            ));
        }
        let answer = answer.await;
        pending.answered = true;
        match answer {
            Ok(Ok(raw)) => {
                let answer = Payload::json(raw);
                let fits = input_requests::is_valid_response(&question.body, &answer);
                let wrong =
                    || Error::new(ErrorKind::Unavailable, "the client's answer does not match the question");
                if fits { Ok(InputResponse(answer)) } else { Err(wrong()) }
            }
            Ok(Err(message)) => {
                Err(Error::new(ErrorKind::Unavailable, format!("the client did not answer: {message}")))
            }
            Err(_) => Err(Error::new(ErrorKind::Cancelled, "the session ended before the client answered")),
        }
    }
}

impl Caller for SessionCaller {
    fn progress(&self, progress: Progress) {
        // Locked while it is sent, so that reports stay in order.
        let mut reports = lock(&self.progress);
        if let Some(message) = reports.next(&progress, self.session.handshake.revision) {
            self.send(Class::Notification, message);
        }
    }

    fn log(&self, line: LogLine) {
        if self.session.logs_at(line.level) && self.session.handshake.takes_notifications() {
            self.send(Class::Notification, notifications::message(&line));
        }
    }

    fn request_input(&self, question: InputRequest) -> InputFuture<'_> {
        Box::pin(self.ask_client(question))
    }

    fn close_stream(&self, retry_ms: Option<u64>) {
        if let MessageSink::Stream(outbox) = &self.out {
            outbox.disconnect_reader(retry_ms.map(Duration::from_millis));
        }
    }
}

/// An open question. When the call ends before the answer, the request to the client is cancelled.
struct PendingQuestion<'a> {
    caller: &'a SessionCaller,
    number: u64,
    answered: bool,
}

impl Drop for PendingQuestion<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.caller.session.cancel_request(self.number);
            let id = RequestId::number(self.number);
            let message = notifications::cancelled(&id, "the answer is no longer needed");
            // Not a notification that may be dropped: the client would answer a question that nobody has.
            self.caller.send(Class::Required, message);
        }
    }
}
