//! One line of a segment: how it is chained to the previous line, and how it is read without a JSON parser.
//!
//! `{"seq":0,"time":"…","kind":"…", fields… ,"hash":"<64 hex>"}` and a newline. The hash is
//! BLAKE3(hash of the previous line ‖ the line up to `,"hash":"`).

use toolyard_protocol::Digest;

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
