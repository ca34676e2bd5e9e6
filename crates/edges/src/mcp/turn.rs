//! One request of a stateless client under way: the work, and the line between it and whoever carries its messages.
//!
//! A question does not travel by itself here. The turn reports that it waits, is put aside, and goes on when the
//! client repeats its request with the answers.

use super::talk::{Said, Talk, Who, run};
use super::{Mcp, lock};
use bytes::Bytes;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};
use toolyard_protocol::{
    Answer, AskFuture, Caller, Error, ErrorKind, LogLevel, LogLine, Payload, Progress, Question,
};
use toolyard_wire::mcp::capabilities::ClientCapabilities;
use toolyard_wire::mcp::failure::Failure;
use toolyard_wire::mcp::{Revision, ask, notifications};

/// Questions that come this close together are asked together.
const TOGETHER: Duration = Duration::from_millis(15);

/// Messages that may wait to be carried away; more are dropped, oldest first.
const MAX_WAITING: usize = 1000;

pub(super) struct Turn {
    work: Pin<Box<dyn Future<Output = Said> + Send>>,
    line: Arc<Line>,
    ended: Option<Said>,
}

/// What happens next.
pub(super) enum Step {
    Message(Bytes),
    /// The work waits for answers to these.
    Asks(Vec<Question>),
    Ended(Said),
}

/// What the client wants to hear during the request that it waits for now.
pub(super) struct Voice {
    /// Raw.
    pub token: Option<Bytes>,
    pub log: Option<LogLevel>,
    pub client: ClientCapabilities,
}

struct Line {
    state: Mutex<State>,
    wake: Notify,
    revision: Revision,
}

struct State {
    voice: Voice,
    last_progress: f64,
    messages: VecDeque<Bytes>,
    /// Answers that came before their questions.
    known: Vec<(String, Payload)>,
    open: Vec<(Question, oneshot::Sender<Answer>)>,
    asked: Option<Instant>,
    /// The capability that a question would have needed.
    missing: Option<&'static str>,
}

impl Turn {
    pub fn begin(mcp: &Arc<Mcp>, talk: Talk, who: Who, voice: Voice, known: Vec<(String, Payload)>) -> Turn {
        let line = Arc::new(Line {
            revision: who.revision,
            wake: Notify::new(),
            state: Mutex::new(State {
                voice,
                last_progress: f64::NEG_INFINITY,
                messages: VecDeque::new(),
                known,
                open: Vec::new(),
                asked: None,
                missing: None,
            }),
        });
        let (mcp, caller) = (mcp.clone(), line.clone());
        let work = Box::pin(async move {
            let said = run(&mcp, talk, &who, caller.as_ref()).await;
            // A tool that could do without the answer has succeeded; one that could not fails for want of it.
            match lock(&caller.state).missing {
                Some(required) if said.is_failure() => Said::Failed(Failure::missing_capability(required)),
                _ => said,
            }
        });
        Turn { work, line, ended: None }
    }

    /// Goes on with the answers of a repeated request, which also says anew what its client wants to hear.
    pub fn resume(&mut self, voice: Voice, answers: Vec<(String, Payload)>) {
        let mut state = lock(&self.line.state);
        state.voice = voice;
        state.last_progress = f64::NEG_INFINITY;
        for (key, answer) in answers {
            state.answer(key, answer);
        }
        state.asked = (!state.open.is_empty()).then(Instant::now);
    }

    /// Nothing is lost when the future is dropped before it is done.
    pub async fn step(&mut self) -> Step {
        loop {
            let asked = {
                let mut state = lock(&self.line.state);
                if let Some(message) = state.messages.pop_front() {
                    return Step::Message(message);
                }
                state.asked
            };
            if let Some(said) = self.ended.take() {
                return Step::Ended(said);
            }
            let together = asked.map(|asked| asked + TOGETHER);
            tokio::select! {
                biased;
                said = &mut self.work => self.ended = Some(said),
                _ = self.line.wake.notified() => {}
                _ = until(together), if together.is_some() => {
                    let mut state = lock(&self.line.state);
                    state.asked = None;
                    let questions: Vec<_> = state.open.iter().map(|(question, _)| question.clone()).collect();
                    if !questions.is_empty() {
                        return Step::Asks(questions);
                    }
                }
            }
        }
    }

    /// Answers that were given so far and may be needed again.
    pub fn known(&self) -> Vec<(String, Payload)> {
        lock(&self.line.state).known.clone()
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
        let place = self
            .open
            .iter()
            .position(|(question, _)| question.key == key && ask::fits(&question.body, &answer));
        if let Some(place) = place {
            // Fails when the tool no longer waits; then nobody needs the answer.
            let _ = self.open.swap_remove(place).1.send(Answer(answer.clone()));
        }
        self.known.retain(|(known, _)| *known != key);
        self.known.push((key, answer));
    }

    fn say(&mut self, message: Vec<u8>) {
        if self.messages.len() >= MAX_WAITING {
            self.messages.pop_front();
        }
        self.messages.push_back(message.into());
    }
}

impl Caller for Line {
    fn progress(&self, progress: Progress) {
        let mut state = lock(&self.state);
        // Progress only ever grows.
        if progress.done > state.last_progress
            && let Some(token) = state.voice.token.clone()
        {
            state.last_progress = progress.done;
            state.say(notifications::progress(&token, &progress, self.revision));
            drop(state);
            self.wake.notify_one();
        }
    }

    fn log(&self, line: LogLine) {
        let mut state = lock(&self.state);
        if state.voice.log.is_some_and(|level| line.level >= level) {
            state.say(notifications::message(&line));
            drop(state);
            self.wake.notify_one();
        }
    }

    fn ask(&self, question: Question) -> AskFuture<'_> {
        let waiting = {
            let mut state = lock(&self.state);
            let known = state.known.iter().find(|(key, _)| *key == question.key);
            if let Some((_, answer)) = known.filter(|(_, answer)| ask::fits(&question.body, answer)) {
                return Box::pin(std::future::ready(Ok(Answer(answer.clone()))));
            }
            if !ask::is_allowed(&question.body, state.voice.client) {
                state.missing = Some(ask::required(&question.body));
                return Box::pin(std::future::ready(Err(cannot_be_asked())));
            }
            let (send, receive) = oneshot::channel();
            state.open.push((question, send));
            state.asked = Some(Instant::now());
            receive
        };
        self.wake.notify_one();
        Box::pin(async move {
            waiting.await.map_err(|_| Error::new(ErrorKind::Cancelled, "the question was withdrawn"))
        })
    }
}

/// The error for a question that the client did not say it can answer.
pub(super) fn cannot_be_asked() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the tool asks something that this client did not declare it can answer",
    )
    .hint("use a client with that capability, or a tool that does not ask")
}
