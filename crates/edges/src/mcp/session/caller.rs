//! The caller of a call in a session: sends progress and log lines as notifications, questions as requests.

use crate::mcp::lock;
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
        if !self.out.send(request).await {
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
            self.out.try_send(message);
        }
    }

    fn log(&self, line: LogLine) {
        if self.session.logs_at(line.level) && self.session.handshake.takes_notifications() {
            self.out.try_send(notifications::message(&line));
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

impl MessageSink {
    /// Sends a notification, which is dropped when there is no space.
    fn try_send(&self, message: Vec<u8>) {
        match self {
            MessageSink::Stream(outbox) => outbox.send(message),
            MessageSink::Queue(queue) => queue.try_send(message),
            MessageSink::Discard => {}
        }
    }

    /// `false` when the client cannot receive it.
    async fn send(&self, message: Vec<u8>) -> bool {
        match self {
            MessageSink::Stream(outbox) => {
                outbox.send(message);
                true
            }
            MessageSink::Queue(queue) => queue.send(message.into()).await,
            MessageSink::Discard => false,
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
            self.caller.out.try_send(notifications::cancelled(&id, "the answer is no longer needed"));
        }
    }
}
