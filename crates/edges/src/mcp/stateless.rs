//! 2026-07-28: every request says all there is to know, and nothing is remembered but calls that wait for an answer.

use super::methods::{self, Client};
use super::seal::{self, Sealed};
use super::talk::{Talk, Who};
use super::turn::{Turn, Voice};
use super::{Mcp, listen, tasks};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Instant;
use toolyard_protocol::{Identity, Question};
use toolyard_wire::jsonrpc::{Request, RequestId};
use toolyard_wire::mcp::failure::Failure;
use toolyard_wire::mcp::meta::{self, MetaFault, RequestMeta};
use toolyard_wire::mcp::{Revision, ask};

const REVISION: Revision = Revision::V2026_07_28;

/// How a request goes on.
pub(super) enum Course {
    /// Answered.
    Done(Vec<u8>),
    /// Under way: to be stepped through to its end.
    Turn(Box<Under>),
    /// A stream of changes.
    Listen(Box<listen::Listening>),
}

/// The request that fails, and why.
type Refused = (RequestId, Failure);

/// A turn with what is needed to put it aside.
pub(super) struct Under {
    pub turn: Turn,
    pub request: Request,
    identity: Identity,
}

impl Under {
    /// Puts the turn aside until its client comes back, and gives the answer that sends it for the answers.
    pub fn park(self: Box<Self>, mcp: &Mcp, questions: &[Question]) -> Vec<u8> {
        let Under { turn, request, identity } = *self;
        let mut handle = [0; 16];
        mcp.engine.random.fill(&mut handle);
        let known = turn.known();
        let answers = ask::write_responses(known.iter().map(|(key, answer)| (key.as_str(), answer)));
        let keep = mcp.options.park_for;
        let sealed = Sealed {
            handle,
            expires: mcp.engine.clock.now().unix_ms() + keep.as_millis() as u64,
            digest: digest(mcp, &identity, &request),
            answers: if answers.len() > seal::MAX_ANSWERS { b"{}".to_vec() } else { answers },
        };
        mcp.parked.put(handle, Instant::now() + keep, turn);
        ask::write_input_required(&request.id, REVISION, questions, &seal::seal(&mcp.options.key, &sealed))
    }
}

/// What a repeated request must repeat.
fn digest(mcp: &Mcp, identity: &Identity, request: &Request) -> [u8; 32] {
    match Talk::read(mcp, request) {
        Some(Ok(talk)) => {
            let (subject, arguments) = talk.subject();
            seal::digest(identity, &request.method, subject, arguments)
        }
        _ => [0; 32],
    }
}

/// Reads what every request must carry.
pub(super) fn read_meta(request: &Request) -> Result<RequestMeta, Failure> {
    RequestMeta::read(&request.params).map_err(|fault| match fault {
        MetaFault::Invalid(message) => Failure::malformed(message),
        MetaFault::Unsupported(version) => Failure::unsupported_version(&version),
    })
}

/// Begins what the request asks for.
pub(super) async fn begin(
    mcp: &Arc<Mcp>,
    identity: Identity,
    meta: RequestMeta,
    request: Request,
) -> Result<Course, Refused> {
    let client = Client { identity: &identity, revision: REVISION };
    if let Some(answer) = methods::answer(mcp, client, &request).await {
        return done(request, answer);
    }
    let declared = meta.capabilities.tasks;
    if let Some(answer) = tasks::answer(mcp, &identity, declared, &request, REVISION).await {
        return done(request, answer);
    }
    if request.method == "subscriptions/listen" {
        return match listen::Listening::open(mcp, identity, declared, &request).await {
            Ok(listening) => Ok(Course::Listen(Box::new(listening))),
            Err(failure) => Err((request.id, failure)),
        };
    }
    let talk = match Talk::read(mcp, &request) {
        None => {
            let failure = Failure::unknown_method(&request.method);
            return Err((request.id, failure));
        }
        Some(Err(failure)) => return Err((request.id, failure)),
        Some(Ok(talk)) => talk,
    };
    match begin_turn(mcp, &identity, meta, talk, &request) {
        Ok(turn) => Ok(Course::Turn(Box::new(Under { turn, request, identity }))),
        Err(failure) => Err((request.id, failure)),
    }
}

fn done(request: Request, answer: Result<Vec<u8>, Failure>) -> Result<Course, Refused> {
    answer.map(Course::Done).map_err(|failure| (request.id, failure))
}

/// A new turn, or the one that waited for these answers, or the same again with the answers known from the start.
fn begin_turn(
    mcp: &Arc<Mcp>,
    identity: &Identity,
    meta: RequestMeta,
    talk: Talk,
    request: &Request,
) -> Result<Turn, Failure> {
    let params = &request.params;
    let mut answers = match params.object("inputResponses")? {
        Some(raw) => ask::read_responses(&raw),
        None if params.has("inputResponses") => {
            return Err(Failure::params("'inputResponses' must be an object"));
        }
        None => Vec::new(),
    };
    let voice = Voice { token: meta::progress_token(params), log: meta.log, client: meta.capabilities };
    let who = Who::new(identity.clone(), REVISION, meta.capabilities.tasks, request);
    let Some(state) = params.text("requestState")? else {
        return Ok(Turn::begin(mcp, talk, who, voice, answers));
    };
    let (now, digest) = (mcp.engine.clock.now().unix_ms(), digest(mcp, identity, request));
    let sealed = seal::open(&mcp.options.key, &state, now, &digest)
        .map_err(|error| Failure::params(error.message()))?;
    if let Some(mut turn) = mcp.parked.take(&sealed.handle) {
        turn.resume(voice, answers);
        return Ok(turn);
    }
    if !talk.is_safe_to_repeat(mcp) {
        return Err(Failure::params(
            "the call that asked is no longer there, and its tool does not say that it is safe to repeat; \
             find out what it did, then send the request again without 'requestState'",
        ));
    }
    let fresh: Vec<String> = answers.iter().map(|(key, _)| key.clone()).collect();
    let earlier = ask::read_responses(&Bytes::from(sealed.answers));
    answers.extend(earlier.into_iter().filter(|(key, _)| !fresh.contains(key)));
    Ok(Turn::begin(mcp, talk, who, voice, answers))
}
