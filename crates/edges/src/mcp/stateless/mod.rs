//! Revision 2026-07-28: requests are self-contained; only calls that wait for answers have state.
//!
//! The server sends no requests. A call returns its questions as its result, is parked, and is resumed when
//! the client repeats its request with the answers.

pub(super) mod listen;
pub(super) mod parked;
mod seal;

use crate::buffers::{Held, Holder, Share};
use crate::mcp::messages::{Class, Messages};
use crate::mcp::methods::operation::{Operation, OperationResult, Requester, run};
use crate::mcp::methods::{self, Client};
use crate::mcp::{Mcp, methods::tasks};
use bytes::Bytes;
use seal::Sealed;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};
use toolyard_protocol::{
    Caller, Error, ErrorKind, Identity, InputFuture, InputRequest, InputResponse, LogLevel, LogLine, Payload,
    Progress,
};
use toolyard_wire::jsonrpc::{Request, RequestId};
use toolyard_wire::mcp::failure::Failure;
use toolyard_wire::mcp::meta::ClientCapabilities;
use toolyard_wire::mcp::meta::{MetaError, ProgressReports, RequestMeta};
use toolyard_wire::mcp::{Method, Revision, input_requests, notifications};

pub(super) const REVISION: Revision = Revision::V2026_07_28;

/// The messages of one request: what precedes its answer, then the answer.
pub(super) enum Exchange {
    Answered(Vec<u8>),
    Running(Box<ParkableCall>),
    /// A stream of changes.
    Subscribed(Box<listen::Subscription>),
    Over,
}

/// One message to the client.
pub(super) struct Outgoing {
    pub class: Class,
    pub message: Bytes,
    /// The HTTP status of an answer that is sent alone.
    pub http: u16,
}

impl Exchange {
    /// The next message; `None` after the last one. Cancel-safe.
    pub async fn next(&mut self, mcp: &Mcp) -> Option<Outgoing> {
        let event = match self {
            Exchange::Running(parkable) => parkable.call.next_event().await,
            Exchange::Subscribed(subscription) => {
                return Some(Outgoing::new(Class::Required, subscription.next().await?));
            }
            Exchange::Answered(_) | Exchange::Over => {
                let Exchange::Answered(answer) = std::mem::replace(self, Exchange::Over) else { return None };
                return Some(Outgoing::new(Class::Answer, answer));
            }
        };
        let result = match event {
            CallEvent::Message(message) => return Some(Outgoing::new(Class::Notification, message)),
            event => event,
        };
        let Exchange::Running(parkable) = std::mem::replace(self, Exchange::Over) else { return None };
        Some(match result {
            CallEvent::Finished(result) => {
                let (http, answer) = result.write(&parkable.request.id, REVISION);
                Outgoing { http, ..Outgoing::new(Class::Answer, answer) }
            }
            CallEvent::Questions(questions) => Outgoing::new(Class::Answer, parkable.park(mcp, &questions)),
            CallEvent::Message(message) => Outgoing::new(Class::Notification, message),
        })
    }
}

impl Outgoing {
    fn new(class: Class, message: impl Into<Bytes>) -> Outgoing {
        Outgoing { class, message: message.into(), http: 200 }
    }
}

/// The id of the failed request, and its error.
type Rejected = (RequestId, Failure);

/// A call with what is needed to park it.
pub(super) struct ParkableCall {
    pub call: StatelessCall,
    pub request: Request,
    identity: Identity,
}

impl ParkableCall {
    /// Parks the call and returns the `input_required` result with its questions.
    pub fn park(self: Box<Self>, mcp: &Mcp, questions: &[InputRequest]) -> Vec<u8> {
        let ParkableCall { call, request, identity } = *self;
        let mut handle = [0; 16];
        mcp.engine.random.fill(&mut handle);
        let known = call.known();
        let answers =
            input_requests::write_responses(known.iter().map(|(key, answer)| (key.as_str(), answer)));
        let keep = mcp.options.park_for;
        let sealed = Sealed {
            handle,
            expires: mcp.engine.clock.now().unix_ms() + keep.as_millis() as u64,
            digest: digest(mcp, &identity, &request),
            answers: if answers.len() > seal::MAX_ANSWERS { b"{}".to_vec() } else { answers },
        };
        mcp.parked.put(handle, Instant::now() + keep, call);
        input_requests::write_input_required(
            &request.id,
            REVISION,
            questions,
            &seal::seal(&mcp.options.key, &sealed),
        )
    }
}

/// A digest of everything that a repeated request must repeat.
fn digest(mcp: &Mcp, identity: &Identity, request: &Request) -> [u8; 32] {
    match Operation::read(mcp, request) {
        Some(Ok(operation)) => {
            let (subject, arguments) = operation.subject();
            seal::digest(identity, request.method.as_str(), subject, arguments)
        }
        _ => [0; 32],
    }
}

/// Reads the `_meta` that every request must carry.
pub(super) fn read_meta(request: &Request) -> Result<RequestMeta, Failure> {
    RequestMeta::read(&request.params).map_err(|fault| match fault {
        MetaError::Invalid(message) => Failure::malformed(message),
        MetaError::Unsupported(version) => Failure::unsupported_version(&version),
    })
}

/// Starts handling a request.
pub(super) async fn begin(
    mcp: &Arc<Mcp>,
    identity: Identity,
    meta: RequestMeta,
    request: Request,
) -> Result<Exchange, Rejected> {
    match Operation::read(mcp, &request) {
        Some(Ok(operation)) => match begin_call(mcp, &identity, meta, operation, &request) {
            Ok(call) => Ok(Exchange::Running(Box::new(ParkableCall { call, request, identity }))),
            Err(failure) => Err((request.id, failure)),
        },
        Some(Err(failure)) => Err((request.id, failure)),
        // Boxed, so that a call need not have room for them.
        None => Box::pin(begin_other(mcp, identity, meta, request)).await,
    }
}

/// Methods that are answered at once, and subscriptions.
async fn begin_other(
    mcp: &Arc<Mcp>,
    identity: Identity,
    meta: RequestMeta,
    request: Request,
) -> Result<Exchange, Rejected> {
    let client = Client { identity: &identity, revision: REVISION };
    let declared = meta.capabilities.tasks;
    let answer = match methods::dispatch(mcp, client, &request).await {
        Some(answer) => Some(answer),
        None => tasks::answer(mcp, &identity, declared, &request, REVISION).await,
    };
    if let Some(answer) = answer {
        return answer.map(Exchange::Answered).map_err(|failure| (request.id, failure));
    }
    if request.method != Method::Listen {
        let failure = Failure::unknown_method(request.method.as_str());
        return Err((request.id, failure));
    }
    match listen::Subscription::open(mcp, identity, declared, &request).await {
        Ok(subscription) => Ok(Exchange::Subscribed(Box::new(subscription))),
        Err(failure) => Err((request.id, failure)),
    }
}

/// A new call, the parked call that waits for these answers, or a repetition that starts with them.
fn begin_call(
    mcp: &Arc<Mcp>,
    identity: &Identity,
    meta: RequestMeta,
    operation: Operation,
    request: &Request,
) -> Result<StatelessCall, Failure> {
    let params = &request.params;
    let mut answers = match params.object("inputResponses")? {
        Some(raw) => input_requests::read_responses(&raw),
        None if params.has("inputResponses") => {
            return Err(Failure::params("'inputResponses' must be an object"));
        }
        None => Vec::new(),
    };
    let preferences = ClientPreferences {
        progress: ProgressReports::read(params),
        log: meta.log,
        client: meta.capabilities,
    };
    let requester = Requester::new(identity.clone(), REVISION, meta.capabilities.tasks, request);
    let Some(state) = params.text("requestState")? else {
        return Ok(StatelessCall::begin(mcp, operation, requester, preferences, answers));
    };
    let (now, digest) = (mcp.engine.clock.now().unix_ms(), digest(mcp, identity, request));
    let sealed = seal::open(&mcp.options.key, &state, now, &digest)
        .map_err(|error| Failure::params(error.message()))?;
    if let Some(mut call) = mcp.parked.take(&sealed.handle) {
        call.resume(preferences, answers);
        return Ok(call);
    }
    if !operation.is_safe_to_repeat(mcp) {
        return Err(Failure::params(
            "the call that asked has expired, and its tool is not declared safe to repeat; \
             check what it did, then send the request again without 'requestState'",
        ));
    }
    let fresh: Vec<String> = answers.iter().map(|(key, _)| key.clone()).collect();
    let earlier = input_requests::read_responses(&Bytes::from(sealed.answers));
    answers.extend(earlier.into_iter().filter(|(key, _)| !fresh.contains(key)));
    Ok(StatelessCall::begin(mcp, operation, requester, preferences, answers))
}

/// Questions asked within this time are returned together.
const QUESTION_BATCH_WINDOW: Duration = Duration::from_millis(15);

pub(in crate::mcp) struct StatelessCall {
    work: Pin<Box<dyn Future<Output = OperationResult> + Send>>,
    caller: Arc<StatelessCaller>,
    finished: Option<OperationResult>,
}

/// The next event of a call.
pub(in crate::mcp) enum CallEvent {
    Message(Bytes),
    /// The call waits for answers to these questions.
    Questions(Vec<InputRequest>),
    Finished(OperationResult),
}

/// What the client of the current request wants to receive, and which questions it supports.
pub(in crate::mcp) struct ClientPreferences {
    pub progress: ProgressReports,
    pub log: Option<LogLevel>,
    pub client: ClientCapabilities,
}

struct StatelessCaller {
    state: Mutex<State>,
    wake: Notify,
    revision: Revision,
    mcp: Arc<Mcp>,
    began: Instant,
    own: Weak<StatelessCaller>,
}

struct State {
    preferences: ClientPreferences,
    /// Most calls send none.
    messages: Option<Box<(Messages, Share)>>,
    /// All answers received, also those that came before their questions.
    known: Vec<(String, Payload)>,
    open: Vec<(InputRequest, oneshot::Sender<InputResponse>)>,
    last_question_at: Option<Instant>,
    /// The capability that an unsupported question required.
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
        let caller = Arc::new_cyclic(|own: &Weak<StatelessCaller>| StatelessCaller {
            own: own.clone(),
            revision: requester.revision,
            mcp: mcp.clone(),
            began: Instant::now(),
            wake: Notify::new(),
            state: Mutex::new(State {
                preferences,
                messages: None,
                known,
                open: Vec::new(),
                last_question_at: None,
                missing: None,
            }),
        });
        let (mcp, its_caller) = (mcp.clone(), caller.clone());
        let work = Box::pin(async move {
            let result = run(&mcp, operation, &requester, its_caller.as_ref()).await;
            // A tool may succeed without the answer; otherwise the missing capability is the error.
            match its_caller.state().missing {
                Some(required) if result.is_failure() => {
                    OperationResult::Failed(Failure::missing_capability(required))
                }
                _ => result,
            }
        });
        StatelessCall { work, caller, finished: None }
    }

    /// Continues with the answers and the preferences of a repeated request.
    pub fn resume(&mut self, preferences: ClientPreferences, answers: Vec<(String, Payload)>) {
        let mut state = self.caller.state();
        state.preferences = preferences;
        for (key, answer) in answers {
            state.answer(key, answer);
        }
        state.last_question_at = (!state.open.is_empty()).then(Instant::now);
    }

    /// Cancel-safe: no event is lost when the future is dropped.
    pub async fn next_event(&mut self) -> CallEvent {
        loop {
            let last_question_at = {
                let mut state = self.caller.state();
                if let Some(message) = state.pop_message() {
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
                _ = self.caller.wake.notified() => {}
                _ = until(batch_deadline), if batch_deadline.is_some() => {
                    let mut state = self.caller.state();
                    state.last_question_at = None;
                    let questions: Vec<_> = state.open.iter().map(|(question, _)| question.clone()).collect();
                    if !questions.is_empty() {
                        return CallEvent::Questions(questions);
                    }
                }
            }
        }
    }

    /// The answers received so far, which a repetition of the call needs.
    pub fn known(&self) -> Vec<(String, Payload)> {
        self.caller.state().known.clone()
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
            // Fails when the tool no longer waits for the answer.
            let _ = self.open.swap_remove(index).1.send(InputResponse(answer.clone()));
        }
        self.known.retain(|(known, _)| *known != key);
        self.known.push((key, answer));
    }

    fn pop_message(&mut self) -> Option<Bytes> {
        let (messages, share) = self.messages.as_deref_mut()?;
        let message = messages.pop();
        share.set(messages.bytes());
        message
    }
}

impl StatelessCaller {
    /// Queues a notification, if there is one.
    fn send(&self, message: impl FnOnce(&mut ClientPreferences) -> Option<Vec<u8>>) {
        let mut state = self.state();
        let Some(message) = message(&mut state.preferences) else { return };
        let (messages, share) = &mut **state.messages.get_or_insert_with(|| {
            Box::new((Messages::default(), self.mcp.buffers.register(self.own.clone())))
        });
        messages.push(Class::Notification, message, self.mcp.options.bounds());
        share.set(messages.bytes());
        drop(state);
        self.wake.notify_one();
        self.mcp.buffers.make_room();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What waits can be dropped: it is progress and log lines only.
impl Holder for StatelessCaller {
    fn held(&self) -> Option<Held> {
        let bytes = self.state().messages.as_ref().map_or(0, |queued| queued.0.bytes());
        (bytes > 0).then_some(Held { bytes, kept: true, since: self.began })
    }

    fn release(&self) {
        if let Some((messages, share)) = self.state().messages.as_deref_mut() {
            messages.drop_notifications();
            share.set(messages.bytes());
        }
    }
}

impl Caller for StatelessCaller {
    fn progress(&self, progress: Progress) {
        self.send(|preferences| preferences.progress.next(&progress, self.revision));
    }

    fn log(&self, line: LogLine) {
        self.send(|preferences| {
            let is_wanted = preferences.log.is_some_and(|level| line.level >= level);
            is_wanted.then(|| notifications::message(&line))
        });
    }

    fn request_input(&self, question: InputRequest) -> InputFuture<'_> {
        let waiting = {
            let mut state = self.state();
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

/// The error for a question that the client did not declare support for.
pub(in crate::mcp) fn question_not_supported() -> Error {
    Error::new(ErrorKind::Unavailable, "the tool asks a question that this client does not support")
        .hint("use a client with that capability, or a tool that does not ask")
}
