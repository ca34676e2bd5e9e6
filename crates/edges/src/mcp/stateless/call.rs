//! One request of a stateless client in progress: the work, and the queue of its messages to the transport.
//!
//! A question does not travel by itself here. The call reports its questions, is parked, and is resumed when the
//! client repeats its request with the answers.

use crate::mcp::methods::operation::{Operation, OperationResult, Requester, run};
use crate::mcp::{Mcp, lock};
use bytes::Bytes;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};
use toolyard_protocol::{
    Caller, Error, ErrorKind, InputFuture, InputRequest, InputResponse, LogLevel, LogLine, Payload, Progress,
};
use toolyard_wire::mcp::capabilities::ClientCapabilities;
use toolyard_wire::mcp::failure::Failure;
use toolyard_wire::mcp::{Revision, input_requests, notifications};

/// Questions that come this close together are asked together.
const QUESTION_BATCH_WINDOW: Duration = Duration::from_millis(15);

/// Messages that may wait to be carried away; more are dropped, oldest first.
const MAX_WAITING: usize = 1000;

pub(in crate::mcp) struct StatelessCall {
    work: Pin<Box<dyn Future<Output = OperationResult> + Send>>,
    stateless_caller: Arc<StatelessCaller>,
    finished: Option<OperationResult>,
}

/// What happens next.
pub(in crate::mcp) enum CallEvent {
    Message(Bytes),
    /// The work waits for answers to these.
    Questions(Vec<InputRequest>),
    Finished(OperationResult),
}

/// What the client wants to hear during the request that it waits for now.
pub(in crate::mcp) struct ClientPreferences {
    /// Raw.
    pub token: Option<Bytes>,
    pub log: Option<LogLevel>,
    pub client: ClientCapabilities,
}

struct StatelessCaller {
    state: Mutex<State>,
    wake: Notify,
    revision: Revision,
}

struct State {
    preferences: ClientPreferences,
    last_progress: f64,
    messages: VecDeque<Bytes>,
    /// Answers that came before their questions.
    known: Vec<(String, Payload)>,
    open: Vec<(InputRequest, oneshot::Sender<InputResponse>)>,
    last_question_at: Option<Instant>,
    /// The capability that a question would have needed.
    missing: Option<&'static str>,
}

impl StatelessCall {
    pub fn begin(
        mcp: &Arc<Mcp>,
        operation: Operation,
        requester: Requester,
        preferences: ClientPreferences,
        known: Vec<(String, Payload)>,
    ) -> StatelessCall {
        let stateless_caller = Arc::new(StatelessCaller {
            revision: requester.revision,
            wake: Notify::new(),
            state: Mutex::new(State {
                preferences,
                last_progress: f64::NEG_INFINITY,
                messages: VecDeque::new(),
                known,
                open: Vec::new(),
                last_question_at: None,
                missing: None,
            }),
        });
        let (mcp, caller) = (mcp.clone(), stateless_caller.clone());
        let work = Box::pin(async move {
            let result = run(&mcp, operation, &requester, caller.as_ref()).await;
            // A tool that could do without the answer has succeeded; one that could not fails for want of it.
            match lock(&caller.state).missing {
                Some(required) if result.is_failure() => {
                    OperationResult::Failed(Failure::missing_capability(required))
                }
                _ => result,
            }
        });
        StatelessCall { work, stateless_caller, finished: None }
    }

    /// Goes on with the answers of a repeated request, which also says anew what its client wants to hear.
    pub fn resume(&mut self, preferences: ClientPreferences, answers: Vec<(String, Payload)>) {
        let mut state = lock(&self.stateless_caller.state);
        state.preferences = preferences;
        state.last_progress = f64::NEG_INFINITY;
        for (key, answer) in answers {
            state.answer(key, answer);
        }
        state.last_question_at = (!state.open.is_empty()).then(Instant::now);
    }

    /// Nothing is lost when the future is dropped before it is done.
    pub async fn next_event(&mut self) -> CallEvent {
        loop {
            let last_question_at = {
                let mut state = lock(&self.stateless_caller.state);
                if let Some(message) = state.messages.pop_front() {
                    return CallEvent::Message(message);
                }
                state.last_question_at
            };
            if let Some(result) = self.finished.take() {
                return CallEvent::Finished(result);
            }
            let batch_deadline =
                last_question_at.map(|last_question_at| last_question_at + QUESTION_BATCH_WINDOW);
            tokio::select! {
                biased;
                result = &mut self.work => self.finished = Some(result),
                _ = self.stateless_caller.wake.notified() => {}
                _ = until(batch_deadline), if batch_deadline.is_some() => {
                    let mut state = lock(&self.stateless_caller.state);
                    state.last_question_at = None;
                    let questions: Vec<_> = state.open.iter().map(|(question, _)| question.clone()).collect();
                    if !questions.is_empty() {
                        return CallEvent::Questions(questions);
                    }
                }
            }
        }
    }

    /// Answers that were given so far and may be needed again.
    pub fn known(&self) -> Vec<(String, Payload)> {
        lock(&self.stateless_caller.state).known.clone()
    }
}

async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant.into()).await,
        None => std::future::pending().await,
    }
}

impl State {
    fn answer(&mut self, key: String, answer: Payload) {
        let index = self.open.iter().position(|(question, _)| {
            question.key == key && input_requests::is_valid_response(&question.body, &answer)
        });
        if let Some(index) = index {
            // Fails when the tool no longer waits; then nobody needs the answer.
            let _ = self.open.swap_remove(index).1.send(InputResponse(answer.clone()));
        }
        self.known.retain(|(known, _)| *known != key);
        self.known.push((key, answer));
    }

    fn push_message(&mut self, message: Vec<u8>) {
        if self.messages.len() >= MAX_WAITING {
            self.messages.pop_front();
        }
        self.messages.push_back(message.into());
    }
}

impl Caller for StatelessCaller {
    fn progress(&self, progress: Progress) {
        let mut state = lock(&self.state);
        // Progress only ever grows.
        if progress.done > state.last_progress
            && let Some(token) = state.preferences.token.clone()
        {
            state.last_progress = progress.done;
            state.push_message(notifications::progress(&token, &progress, self.revision));
            drop(state);
            self.wake.notify_one();
        }
    }

    fn log(&self, line: LogLine) {
        let mut state = lock(&self.state);
        if state.preferences.log.is_some_and(|level| line.level >= level) {
            state.push_message(notifications::message(&line));
            drop(state);
            self.wake.notify_one();
        }
    }

    fn request_input(&self, question: InputRequest) -> InputFuture<'_> {
        let waiting = {
            let mut state = lock(&self.state);
            let known = state.known.iter().find(|(key, _)| *key == question.key);
            if let Some((_, answer)) =
                known.filter(|(_, answer)| input_requests::is_valid_response(&question.body, answer))
            {
                return Box::pin(std::future::ready(Ok(InputResponse(answer.clone()))));
            }
            if !input_requests::is_supported(&question.body, state.preferences.client) {
                state.missing = Some(input_requests::required_capability(&question.body));
                return Box::pin(std::future::ready(Err(question_not_supported())));
            }
            let (send, receive) = oneshot::channel();
            state.open.push((question, send));
            state.last_question_at = Some(Instant::now());
            receive
        };
        self.wake.notify_one();
        Box::pin(async move {
            waiting.await.map_err(|_| Error::new(ErrorKind::Cancelled, "the question was withdrawn"))
        })
    }
}

/// The error for a question that the client did not say it can answer.
pub(in crate::mcp) fn question_not_supported() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the tool asks something that this client did not declare it can answer",
    )
    .hint("use a client with that capability, or a tool that does not ask")
}
