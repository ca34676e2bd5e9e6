//! Records: their bodies, how a line is chained to the previous one, and how it is read without a JSON parser.
//!
//! `{"seq":0,"time":"…","kind":"…", fields… ,"hash":"<64 hex>"}` and a newline. The hash is
//! BLAKE3(hash of the previous line ‖ the line up to `,"hash":"`). Numbers come directly after the kind, then free text,
//! then the arguments; reading relies on it.

use toolyard_protocol::json::Object;
use toolyard_protocol::text::push_json_string;
use toolyard_protocol::{Call, Digest, Error, ErrorKind, Id, JsonView, Outcome, Status, Timestamp, ToolSpec};

/// Maximum length of an end line, reserved when its call begins.
pub(super) const END_MAX: u64 = 2048;

const ARGUMENTS_MAX: usize = 4096;
const MESSAGE_MAX: usize = 1024;
const NAME_MAX: usize = 256;

/// The content of the first record of a segment.
pub(super) struct Opening {
    pub segment: Id,
    pub run: Id,
    pub part: u64,
    /// Last hash of the previous part of the run; zeros for part 0.
    pub previous: Digest,
    /// The latest segment when this one was opened.
    pub follows: Option<Id>,
}

/// A segment that retention removed, as a `prune` record names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PrunedSegment {
    pub segment: Id,
    pub records: u64,
    pub hash: Digest,
}

pub(super) fn open(time: Timestamp, opening: &Opening) -> Vec<u8> {
    let mut out = start(time, "open");
    member(&mut out, "version");
    push_number(&mut out, 1);
    member(&mut out, "part");
    push_number(&mut out, opening.part);
    plain(&mut out, "segment", opening.segment.text().as_str());
    plain(&mut out, "run", opening.run.text().as_str());
    digest(&mut out, "previous", &opening.previous);
    let follows = opening.follows.map(|id| id.text());
    plain(&mut out, "follows", follows.as_ref().map_or("", |text| text.as_str()));
    out
}

impl Opening {
    pub fn read(mut fields: FieldScanner) -> Option<Opening> {
        fields.number(",\"version\":").filter(|&version| version == 1)?;
        Some(Opening {
            part: fields.number(",\"part\":")?,
            segment: Id::parse(fields.string(",\"segment\":")?)?,
            run: Id::parse(fields.string(",\"run\":")?)?,
            previous: Digest::parse_hex(fields.string(",\"previous\":")?)?,
            follows: match fields.string(",\"follows\":")? {
                "" => None,
                id => Some(Id::parse(id)?),
            },
        })
    }
}

impl PrunedSegment {
    /// All segments that a `prune` record names.
    pub fn read(mut fields: FieldScanner) -> Option<Vec<PrunedSegment>> {
        fields.number(",\"count\":")?;
        fields.string(",\"removed\":")?.split(' ').map(PrunedSegment::parse).collect()
    }

    fn parse(text: &str) -> Option<PrunedSegment> {
        let mut parts = text.split(':');
        let (segment, records, hash) = (parts.next()?, parts.next()?, parts.next()?);
        let (segment, hash) = (Id::parse(segment)?, Digest::parse_hex(hash)?);
        Some(PrunedSegment { segment, records: records.parse().ok()?, hash })
    }
}

pub(super) fn begin(time: Timestamp, call: &Call, spec: &ToolSpec, view: &dyn JsonView) -> Vec<u8> {
    let mut out = start(time, "begin");
    plain(&mut out, "call", call.id.text().as_str());
    plain(&mut out, "tool", spec.name.as_str());
    if call.tool != spec.name.as_str() {
        text(&mut out, "asked", &call.tool, NAME_MAX);
    }
    caller(&mut out, call);
    digest(&mut out, "digest", &spec.digest);
    arguments(&mut out, call, view);
    out
}

pub(super) fn end(time: Timestamp, call: Id, duration_us: u64, outcome: &Outcome) -> Vec<u8> {
    let output =
        [outcome.data(), outcome.content()].into_iter().flatten().map(|payload| payload.len() as u64);
    let mut out = ending(time, call, duration_us, output.sum(), outcome.status());
    if let Some(error) = outcome.error() {
        failure(&mut out, error.kind, &error.message);
    }
    out
}

/// The end of a call whose future was dropped before it had an outcome.
pub(super) fn cancelled(time: Timestamp, call: Id, duration_us: u64) -> Vec<u8> {
    let mut out = ending(time, call, duration_us, 0, Status::Failure);
    failure(&mut out, ErrorKind::Cancelled, "the call was dropped before it ended");
    out
}

pub(super) fn refused(time: Timestamp, call: &Call, error: &Error, view: &dyn JsonView) -> Vec<u8> {
    let mut out = start(time, "refused");
    plain(&mut out, "call", call.id.text().as_str());
    text(&mut out, "tool", &call.tool, NAME_MAX);
    caller(&mut out, call);
    failure(&mut out, error.kind, &error.message);
    arguments(&mut out, call, view);
    out
}

pub(super) fn prune(time: Timestamp, removed: &[PrunedSegment]) -> Vec<u8> {
    let mut out = start(time, "prune");
    member(&mut out, "count");
    push_number(&mut out, removed.len() as u64);
    let entry = |r: &PrunedSegment| format!("{}:{}:{}", r.segment, r.records, r.hash);
    plain(&mut out, "removed", &removed.iter().map(entry).collect::<Vec<_>>().join(" "));
    out
}

pub(super) fn close(time: Timestamp) -> Vec<u8> {
    start(time, "close")
}

fn start(time: Timestamp, kind: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(768);
    plain(&mut out, "time", time.text().as_str());
    plain(&mut out, "kind", kind);
    out
}

fn ending(time: Timestamp, call: Id, duration_us: u64, output_bytes: u64, status: Status) -> Vec<u8> {
    let mut out = start(time, "end");
    member(&mut out, "duration_us");
    push_number(&mut out, duration_us);
    member(&mut out, "output_bytes");
    push_number(&mut out, output_bytes);
    plain(&mut out, "call", call.text().as_str());
    plain(&mut out, "status", status.as_str());
    out
}

fn caller(out: &mut Vec<u8>, call: &Call) {
    text(out, "caller", call.identity.as_str(), NAME_MAX);
    plain(out, "edge", call.edge.as_str());
    if let Some(trace) = &call.trace {
        plain(out, "trace", trace.as_str());
    }
    if let Some(key) = &call.idempotency_key {
        text(out, "key", key, NAME_MAX);
    }
}

fn failure(out: &mut Vec<u8>, kind: ErrorKind, message: &str) {
    plain(out, "error", kind.row().name);
    text(out, "message", message, MESSAGE_MAX);
}

/// Unreadable arguments must not prevent the record: a refused call often has malformed ones.
fn arguments(out: &mut Vec<u8>, call: &Call, view: &dyn JsonView) {
    member(out, "arguments");
    match view.redacted(&call.arguments, ARGUMENTS_MAX) {
        Ok(json) if json.len() <= ARGUMENTS_MAX && !json.is_empty() && !json.contains(&b'\n') => {
            out.extend_from_slice(&json);
        }
        _ => {
            Object::new(out).number("unreadable_bytes", call.arguments.len() as u64);
        }
    }
}

fn member(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

fn digest(out: &mut Vec<u8>, name: &str, value: &Digest) {
    member(out, name);
    out.push(b'"');
    push_hex(out, value);
    out.push(b'"');
}

/// A value that needs no escaping.
fn plain(out: &mut Vec<u8>, name: &str, value: &str) {
    member(out, name);
    out.push(b'"');
    out.extend_from_slice(value.as_bytes());
    out.push(b'"');
}

/// Free text, at most `cap` bytes as written; a longer one is cut and ends in `…`.
fn text(out: &mut Vec<u8>, name: &str, value: &str, cap: usize) {
    member(out, name);
    let start = out.len();
    // Escaping never shortens a text, so a huge message is cut before it is copied.
    let value_start = &value[..value.floor_char_boundary(cap + 1)];
    push_json_string(out, value_start);
    if out.len() - start - 2 <= cap && value_start.len() == value.len() {
        return;
    }
    out.truncate(start);
    let mut left = cap - "…".len();
    let mut short = String::with_capacity(cap);
    for c in value_start.chars() {
        let cost = match c {
            '"' | '\\' | '\n' | '\r' | '\t' => 2,
            c if c < ' ' => 6,
            c => c.len_utf8(),
        };
        if cost > left {
            break;
        }
        left -= cost;
        short.push(c);
    }
    short.push('…');
    push_json_string(out, &short);
}

const HASH_FIELD: &[u8] = b",\"hash\":\"";
const CLOSE: &[u8] = b"\"}\n";

/// Bytes at the end of every line: the hash member, the brace and the newline.
const TAIL: usize = HASH_FIELD.len() + 64 + CLOSE.len();

/// Maximum number of bytes that a line adds to its body.
pub(super) const OVERHEAD: usize = b"{\"seq\":".len() + 20 + TAIL;

/// Longer than any line that Toolyard writes.
pub(super) const MAX: usize = 32 * 1024;

/// Position of a chain: the hash of its last line and the number of the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    pub hash: Digest,
    pub next: u64,
}

impl Chain {
    pub const START: Chain = Chain { hash: Digest::ZERO, next: 0 };

    /// Appends `body` as the next line to `out`.
    pub fn append(&mut self, out: &mut Vec<u8>, body: &[u8]) {
        // The previous hash is temporarily put before the line, so that both are hashed in one pass.
        let start = out.len();
        out.extend_from_slice(&self.hash.0);
        out.extend_from_slice(b"{\"seq\":");
        push_number(out, self.next);
        out.extend_from_slice(body);
        self.hash = Digest(*blake3::hash(&out[start..]).as_bytes());
        self.next += 1;
        out.copy_within(start + 32.., start);
        out.truncate(out.len() - 32);
        out.extend_from_slice(HASH_FIELD);
        push_hex(out, &self.hash);
        out.extend_from_slice(CLOSE);
    }
}

/// A parsed line. [`Line::follows`] checks its hash.
#[derive(Debug)]
pub(super) struct Line<'a> {
    pub seq: u64,
    pub time: &'a str,
    pub kind: &'a str,
    /// The members between the kind and the hash, beginning with a comma.
    pub fields: FieldScanner<'a>,
    /// The line up to the hash member.
    pub hashed: &'a [u8],
    pub hash: Digest,
}

impl<'a> Line<'a> {
    /// `None` if the bytes are not one complete record.
    pub fn read(bytes: &'a [u8]) -> Option<Line<'a>> {
        let (hashed, tail) = bytes.split_at(bytes.len().checked_sub(TAIL)?);
        let hex = tail.strip_prefix(HASH_FIELD)?.strip_suffix(CLOSE)?;
        let hash = Digest::parse_hex(std::str::from_utf8(hex).ok()?)?;
        let mut scan = FieldScanner(hashed);
        let seq = scan.number("{\"seq\":")?;
        let time = scan.string(",\"time\":")?;
        let kind = scan.string(",\"kind\":")?;
        Some(Line { seq, time, kind, fields: scan, hashed, hash })
    }

    pub fn follows(&self, previous: &Digest) -> bool {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&previous.0).update(self.hashed);
        hasher.finalize().as_bytes() == &self.hash.0
    }

    /// The record as a flat JSON object: without the hash and without the arguments, the one nested member.
    pub fn flat(&self) -> Vec<u8> {
        // Inside a JSON string every quote is escaped, so these bytes can only be the member itself.
        const NESTED: &[u8] = b",\"arguments\":";
        let end = self.hashed.windows(NESTED.len()).position(|window| window == NESTED);
        let mut flat = self.hashed[..end.unwrap_or(self.hashed.len())].to_vec();
        flat.push(b'}');
        flat
    }
}

/// Reads members at fixed positions whose values contain no escapes.
#[derive(Clone, Copy, Debug)]
pub(super) struct FieldScanner<'a>(&'a [u8]);

impl<'a> FieldScanner<'a> {
    pub fn number(&mut self, before: &str) -> Option<u64> {
        let rest = self.0.strip_prefix(before.as_bytes())?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = rest.split_at(digits);
        self.0 = rest;
        std::str::from_utf8(number).ok()?.parse().ok()
    }

    pub fn string(&mut self, before: &str) -> Option<&'a str> {
        let rest = self.0.strip_prefix(before.as_bytes())?.strip_prefix(b"\"")?;
        let end = rest.iter().position(|&byte| byte == b'"')?;
        self.0 = &rest[end + 1..];
        std::str::from_utf8(&rest[..end]).ok()
    }
}

pub(super) fn push_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

pub(super) fn push_hex(out: &mut Vec<u8>, digest: &Digest) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0u8; 64];
    for (pair, byte) in text.chunks_exact_mut(2).zip(digest.0) {
        pair[0] = HEX[usize::from(byte >> 4)];
        pair[1] = HEX[usize::from(byte & 15)];
    }
    out.extend_from_slice(&text);
}
