//! Redaction by value: replaces secrets in texts and results, plain and in common encodings.
//!
//! This prevents accidental leaks only: a malicious tool can always encode its secret beyond recognition.

mod decode;
mod json;
mod patterns;

use aho_corasick::AhoCorasick;
use patterns::Pattern;
use std::ops::Range;
use toolyard_protocol::{Format, Payload};

/// Shorter values are not redacted, because they would match ordinary text.
pub const MIN_CHARS: usize = 6;
/// Shorter pieces of a truncated secret are not redacted.
const MIN_PIECE: usize = 4;
/// How many nested encodings are decoded.
const MAX_LAYERS: usize = 3;
/// Shorter texts were not truncated.
const CUT_FROM: usize = 1024;

/// Every known secret, ready to be searched for in one pass.
#[derive(Default)]
pub struct SecretRedactor {
    names: Vec<String>,
    patterns: Vec<Pattern>,
    /// `None` when there are no secrets.
    search: Option<AhoCorasick>,
    /// Only values with spaces need the form decoder; percent-decoding covers the others.
    has_spaces: bool,
}

/// The position of a secret and the index of its name.
struct Span {
    range: Range<usize>,
    name: usize,
}

impl SecretRedactor {
    /// Takes pairs of name and value. Fails only when they are too many for one search automaton.
    pub fn new<'a>(secrets: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<SecretRedactor, String> {
        let mut hidden = SecretRedactor::default();
        for (name, value) in secrets {
            if value.chars().count() < MIN_CHARS {
                continue;
            }
            patterns::add(&mut hidden.patterns, hidden.names.len(), value);
            hidden.names.push(name.to_owned());
            hidden.has_spaces |= value.contains(' ');
        }
        if !hidden.patterns.is_empty() {
            let texts = hidden.patterns.iter().map(|pattern| &pattern.text);
            let search = AhoCorasick::builder().ascii_case_insensitive(true).build(texts);
            hidden.search = Some(search.map_err(|error| error.to_string())?);
        }
        Ok(hidden)
    }

    pub fn is_empty(&self) -> bool {
        self.search.is_none()
    }

    /// The redacted text; `None` when it contains no secret.
    pub fn text(&self, text: &str) -> Option<String> {
        let search = self.search.as_ref()?;
        self.replaced(text, self.spans(search, text))
    }

    /// Redacts the end of a longer text, which may begin in the middle of a secret.
    pub fn tail(&self, text: &str) -> Option<String> {
        let search = self.search.as_ref()?;
        let mut spans = self.spans(search, text);
        if text.len() >= CUT_FROM {
            spans.extend(self.patterns.iter().filter_map(|pattern| pattern.end_at_start_of(text)));
            merge(&mut spans);
        }
        self.replaced(text, spans)
    }

    /// The redacted payload; `None` when it contains no secret.
    pub fn payload(&self, payload: &Payload) -> Option<Payload> {
        let search = self.search.as_ref()?;
        match payload.format() {
            Format::Json => self.json(search, payload.bytes()).map(Payload::json),
            // Strings are length-prefixed, so nothing can be replaced in place.
            Format::MsgPack => {
                let found = self.raw_spans(search, payload.bytes());
                found.first().map(|span| Payload::json(self.quoted_placeholder(span.name)))
            }
        }
    }

    fn replaced(&self, text: &str, spans: Vec<Span>) -> Option<String> {
        if spans.is_empty() {
            return None;
        }
        let bytes = text.as_bytes();
        let mut out = Vec::with_capacity(text.len());
        let mut from = 0;
        for span in spans {
            out.extend_from_slice(&bytes[from..span.range.start]);
            out.extend_from_slice(self.placeholder(span.name).as_bytes());
            from = span.range.end;
        }
        out.extend_from_slice(&bytes[from..]);
        // Patterns begin and end at character boundaries, so the text stays valid UTF-8.
        Some(String::from_utf8(out).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into()))
    }

    fn placeholder(&self, name: usize) -> String {
        format!("[secret {}]", self.names.get(name).map_or("?", String::as_str))
    }

    fn quoted_placeholder(&self, name: usize) -> Vec<u8> {
        format!("\"{}\"", self.placeholder(name)).into_bytes()
    }

    /// Every secret in the text, plain or encoded; ordered and not overlapping.
    fn spans(&self, search: &AhoCorasick, text: &str) -> Vec<Span> {
        self.spans_within(search, text.as_bytes(), MAX_LAYERS)
    }

    /// Decodes up to `layers` nested encodings: JSON in a string of JSON is common.
    fn spans_within(&self, search: &AhoCorasick, bytes: &[u8], layers: usize) -> Vec<Span> {
        let mut spans = self.raw_spans(search, bytes);
        let decoders = self.decoders(bytes).filter(|_| layers > 0);
        for decoded in decoders.map(|decoder| decoder(bytes)).filter(|decoded| decoded.bytes != bytes) {
            let found = self.spans_within(search, &decoded.bytes, layers - 1);
            spans.extend(found.into_iter().map(|span| Span { range: decoded.source(span.range), ..span }));
        }
        merge(&mut spans);
        spans
    }

    /// The decoders that could change the bytes.
    fn decoders(&self, bytes: &[u8]) -> impl Iterator<Item = decode::Decoder> + use<> {
        let has = |byte: u8| bytes.contains(&byte);
        let percent = has(b'%').then_some(decode::percent as decode::Decoder);
        let form = (self.has_spaces && has(b'+')).then_some(decode::form as decode::Decoder);
        let escapes = has(b'\\').then_some(decode::escapes as decode::Decoder);
        let references = has(b'&').then_some(decode::references as decode::Decoder);
        [percent, form, escapes, references].into_iter().flatten()
    }

    fn raw_spans(&self, search: &AhoCorasick, bytes: &[u8]) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        for found in search.find_overlapping_iter(bytes) {
            let pattern = &self.patterns[found.pattern().as_usize()];
            let mut new = Span { range: pattern.widened(bytes, found.range()), name: pattern.name };
            // Merged at once: a letter repeated a million times must not produce a million spans.
            while let Some(last) = spans.pop_if(|last| new.range.start < last.range.end) {
                new = joined(last, new);
            }
            spans.push(new);
        }
        spans
    }
}

/// Sorts the spans and merges overlapping ones; the longer one's name wins.
fn merge(spans: &mut Vec<Span>) {
    spans.sort_by_key(|span| span.range.start);
    let mut merged: Vec<Span> = Vec::with_capacity(spans.len());
    for mut span in spans.drain(..) {
        if let Some(last) = merged.pop_if(|last| span.range.start < last.range.end) {
            span = joined(last, span);
        }
        merged.push(span);
    }
    *spans = merged;
}

fn joined(a: Span, b: Span) -> Span {
    let name = if a.range.len() >= b.range.len() { a.name } else { b.name };
    Span { range: a.range.start.min(b.range.start)..a.range.end.max(b.range.end), name }
}

#[cfg(test)]
mod tests;
