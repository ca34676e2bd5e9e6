//! `event.poll`: returns events after a cursor, and waits for the first if there is none.

use crate::builtin::Services;
use crate::builtin::validate::{self, Limit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::{Duration, Instant};
use toolyard_engine::stores::{EventPage, EventQuery, StoreError};
use toolyard_protocol::{Annotations, Context, Error, Event, Format, Request, Timestamp, Tool, Violation};
use toolyard_wire::typed::{self, AnyJson};

pub struct Poll(pub Arc<Services>);

const MAX_WAIT_MS: u64 = 30_000;
const DEFAULT_WAIT_MS: u64 = 5000;
const MAX_TYPES: usize = 64;
/// Time reserved for the response before the caller's deadline.
const MARGIN: Duration = Duration::from_millis(100);

#[derive(Deserialize, JsonSchema)]
pub struct PollRequest {
    /// The `cursor` of the last response. Without `cursor` and `since_ms`, only new events are returned.
    #[serde(default)]
    pub cursor: Option<u64>,
    /// Instead of a cursor: only events of the last `since_ms` milliseconds.
    #[serde(default)]
    pub since_ms: Option<u64>,
    /// Only events of these types; default all.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub types: Vec<String>,
    /// How long to wait for the first event; default 5000. 0 returns at once.
    #[serde(default)]
    #[schemars(range(max = 30000))]
    pub timeout_ms: Option<u64>,
    #[serde(default)]
    pub limit: Limit,
}

#[derive(Serialize, JsonSchema)]
pub struct PollResponse {
    /// Oldest first.
    pub events: Vec<EventInfo>,
    /// Pass it to the next call.
    pub cursor: u64,
    pub has_more: bool,
    pub buffer: Buffer,
    pub server_time_ms: u64,
}

#[derive(Serialize, JsonSchema)]
pub struct EventInfo {
    pub seq: u64,
    pub timestamp_ms: u64,
    pub event_type: String,
    /// Id of the job or artifact that the event is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    pub data: Option<AnyJson>,
}

/// Sequence numbers of the stored events; 0 if there are none.
#[derive(Serialize, JsonSchema)]
pub struct Buffer {
    pub oldest: u64,
    pub newest: u64,
    pub total: u64,
}

impl Request for PollRequest {
    fn check(&self, violations: &mut Vec<Violation>) {
        if self.cursor.is_some() && self.since_ms.is_some() {
            validate::add(violations, "/since_ms", "cannot be combined with 'cursor'");
        }
        if self.types.len() > MAX_TYPES {
            let count = self.types.len();
            validate::add(violations, "/types", format!("has {count} types; the maximum is {MAX_TYPES}"));
        }
        for (i, kind) in self.types.iter().enumerate().take(MAX_TYPES) {
            validate::label(violations, &format!("/types/{i}"), kind);
        }
        validate::number(violations, "/timeout_ms", self.timeout_ms, 0..=MAX_WAIT_MS);
        self.limit.check(violations);
    }
}

impl Tool for Poll {
    type Request = PollRequest;
    type Response = PollResponse;

    const NAME: &'static str = "event.poll";
    const TITLE: &'static str = "Poll events";
    const DESCRIPTION: &'static str = "Returns events after a cursor, and waits for the first if there is none. Events about jobs of other \
         callers are omitted.";
    const ANNOTATIONS: Annotations = Annotations::READ_ONLY;
    const TIMEOUT: Duration = Duration::from_millis(MAX_WAIT_MS + 5000);
    const OUTPUT: usize = 16 << 20;

    async fn run(&self, request: PollRequest, context: Context<'_>) -> Result<PollResponse, Error> {
        let started = Instant::now();
        let requested = started + Duration::from_millis(request.timeout_ms.unwrap_or(DEFAULT_WAIT_MS));
        let until = requested.min(context.deadline.checked_sub(MARGIN).unwrap_or(started));
        let jobs = self.0.jobs()?;
        let events = jobs.events();
        let since =
            request.since_ms.map(|ms| Timestamp::from_unix_ms(self.0.now().unix_ms().saturating_sub(ms)));
        let mut query = EventQuery {
            after: self.start(&request).await?,
            since,
            kinds: request.types,
            subject: None,
            limit: request.limit.get(),
        };
        loop {
            let page = events.read(query.clone()).await.map_err(cursor_error)?;
            let EventPage { events: found, cursor, has_more, oldest, newest } = page;
            let found = jobs.visible_events(found, &context.call.identity).await?;
            let left = until.saturating_duration_since(Instant::now());
            if !found.is_empty() || (left.is_zero() && !has_more) {
                let total = if newest == 0 { 0 } else { newest + 1 - oldest };
                return Ok(PollResponse {
                    events: found.into_iter().map(EventInfo::from).collect(),
                    cursor,
                    has_more,
                    buffer: Buffer { oldest, newest, total },
                    server_time_ms: self.0.now().unix_ms(),
                });
            }
            query.after = Some(cursor);
            if !has_more {
                events.wait(cursor, left).await?;
            }
        }
    }
}

impl Poll {
    /// With `since_ms`, the search starts at the oldest stored event.
    async fn start(&self, request: &PollRequest) -> Result<Option<u64>, Error> {
        if request.since_ms.is_none() {
            return Ok(request.cursor);
        }
        let now = self.0.jobs()?.events().read(EventQuery { limit: 1, ..EventQuery::default() }).await?;
        Ok(Some(now.oldest.saturating_sub(1)))
    }
}

impl From<Event> for EventInfo {
    fn from(event: Event) -> EventInfo {
        EventInfo {
            seq: event.seq,
            timestamp_ms: event.at.unix_ms(),
            event_type: event.kind,
            subject: event.subject,
            data: AnyJson::new(event.data),
        }
    }
}

/// Adds the error codes `cursor_expired` and `invalid_cursor` that HOOT01 clients expect.
fn cursor_error(error: StoreError) -> Error {
    #[derive(Serialize)]
    struct Oldest {
        oldest_cursor: u64,
    }
    match error {
        StoreError::CursorExpired { oldest, .. } => {
            let oldest = Oldest { oldest_cursor: oldest.saturating_sub(1) };
            let details = typed::write(&oldest, Format::Json).ok();
            Error::from(error).with(|known| {
                known.tool_code = Some("cursor_expired".to_owned());
                known.tool_details = details;
            })
        }
        StoreError::Invalid(_) => {
            Error::from(error).with(|known| known.tool_code = Some("invalid_cursor".to_owned()))
        }
        other => other.into(),
    }
}
