//! 2026-07-28: every request says all there is to know, and nothing is remembered but calls that wait for an answer.

pub(super) mod call;
pub(super) mod listen;
pub(super) mod parked;
mod seal;
use crate::mcp::methods::operation::{Operation, Requester};
use crate::mcp::methods::{self, Client};
use crate::mcp::stateless::call::{ClientPreferences, StatelessCall};
use crate::mcp::{Mcp, methods::tasks};
use bytes::Bytes;
use seal::Sealed;
use std::sync::Arc;
use std::time::Instant;
use toolyard_protocol::{Identity, InputRequest};
use toolyard_wire::jsonrpc::{Request, RequestId};
use toolyard_wire::mcp::failure::Failure;
use toolyard_wire::mcp::meta::{self, MetaError, RequestMeta};
use toolyard_wire::mcp::{Revision, input_requests};

const REVISION: Revision = Revision::V2026_07_28;

/// How a request goes on.
pub(super) enum Started {
    /// Answered.
    Answered(Vec<u8>),
    /// Running: read its events to the end.
    Running(Box<ParkableCall>),
    /// A stream of changes.
    Subscribed(Box<listen::Subscription>),
}

/// The request that fails, and why.
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

/// What a repeated request must repeat.
fn digest(mcp: &Mcp, identity: &Identity, request: &Request) -> [u8; 32] {
    match Operation::read(mcp, request) {
        Some(Ok(operation)) => {
            let (subject, arguments) = operation.subject();
            seal::digest(identity, &request.method, subject, arguments)
        }
        _ => [0; 32],
    }
}

/// Reads what every request must carry.
pub(super) fn read_meta(request: &Request) -> Result<RequestMeta, Failure> {
    RequestMeta::read(&request.params).map_err(|fault| match fault {
        MetaError::Invalid(message) => Failure::malformed(message),
        MetaError::Unsupported(version) => Failure::unsupported_version(&version),
    })
}

/// Begins what the request asks for.
pub(super) async fn begin(
    mcp: &Arc<Mcp>,
    identity: Identity,
    meta: RequestMeta,
    request: Request,
) -> Result<Started, Rejected> {
    let client = Client { identity: &identity, revision: REVISION };
    if let Some(answer) = methods::dispatch(mcp, client, &request).await {
        return done(request, answer);
    }
    let declared = meta.capabilities.tasks;
    if let Some(answer) = tasks::answer(mcp, &identity, declared, &request, REVISION).await {
        return done(request, answer);
    }
    if request.method == "subscriptions/listen" {
        return match listen::Subscription::open(mcp, identity, declared, &request).await {
            Ok(subscription) => Ok(Started::Subscribed(Box::new(subscription))),
            Err(failure) => Err((request.id, failure)),
        };
    }
    let operation = match Operation::read(mcp, &request) {
        None => {
            let failure = Failure::unknown_method(&request.method);
            return Err((request.id, failure));
        }
        Some(Err(failure)) => return Err((request.id, failure)),
        Some(Ok(operation)) => operation,
    };
    match begin_call(mcp, &identity, meta, operation, &request) {
        Ok(call) => Ok(Started::Running(Box::new(ParkableCall { call, request, identity }))),
        Err(failure) => Err((request.id, failure)),
    }
}

fn done(request: Request, answer: Result<Vec<u8>, Failure>) -> Result<Started, Rejected> {
    answer.map(Started::Answered).map_err(|failure| (request.id, failure))
}

/// A new call, the parked call that waits for these answers, or a repetition with the answers given from the start.
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
    let preferences =
        ClientPreferences { token: meta::progress_token(params), log: meta.log, client: meta.capabilities };
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
            "the call that asked is no longer there, and its tool does not say that it is safe to repeat; \
             find out what it did, then send the request again without 'requestState'",
        ));
    }
    let fresh: Vec<String> = answers.iter().map(|(key, _)| key.clone()).collect();
    let earlier = input_requests::read_responses(&Bytes::from(sealed.answers));
    answers.extend(earlier.into_iter().filter(|(key, _)| !fresh.contains(key)));
    Ok(StatelessCall::begin(mcp, operation, requester, preferences, answers))
}
