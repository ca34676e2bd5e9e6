//! Hides secrets in texts and results: as they are, and in the encodings that programs commonly put them in.
//!
//! This guards against accidents, not against a tool that wants to give its secret away: who is handed a value
//! can always change it beyond recognition.

mod decode;
mod json;
mod patterns;

use aho_corasick::AhoCorasick;
use patterns::Pattern;
use std::ops::Range;
use toolyard_protocol::{Format, Payload};

/// Shorter values would be found in ordinary text.
pub const MIN_CHARS: usize = 6;
/// Of a value cut in two, pieces shorter than this are left.
const MIN_PIECE: usize = 4;
/// Encodings on top of each other that are looked through.
const MAX_LAYERS: usize = 3;
/// Texts shorter than this were not cut.
const CUT_FROM: usize = 1024;

/// Every known secret, ready to be searched for in one pass.
#[derive(Default)]
pub struct SecretRedactor {
    names: Vec<String>,
    patterns: Vec<Pattern>,
    /// `None` when there are no secrets: then nothing costs anything.
    search: Option<AhoCorasick>,
    /// Only a value with spaces can look different in form encoding.
    has_spaces: bool,
}

/// Where a secret stands, and which.
struct Span {
    range: Range<usize>,
    name: usize,
}

impl SecretRedactor {
    /// Pairs of name and value. Fails only when the values are too many for one search.
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
            let search = AhoCorasick::new(hidden.patterns.iter().map(|pattern| &pattern.text));
            hidden.search = Some(search.map_err(|error| error.to_string())?);
        }
        Ok(hidden)
    }

    pub fn is_empty(&self) -> bool {
        self.search.is_none()
    }

    /// The text without secrets; `None` when it has none.
    pub fn text(&self, text: &str) -> Option<String> {
        let search = self.search.as_ref()?;
        self.replaced(text, self.spans(search, text))
    }

    /// The same for the end of a longer text, which may begin in the middle of a secret.
    pub fn tail(&self, text: &str) -> Option<String> {
        let search = self.search.as_ref()?;
        let mut spans = self.spans(search, text);
        if text.len() >= CUT_FROM {
            spans.extend(self.patterns.iter().filter_map(|pattern| pattern.end_at_start_of(text)));
            merge(&mut spans);
        }
        self.replaced(text, spans)
    }

    /// The payload without secrets; `None` when it has none.
    pub fn payload(&self, payload: &Payload) -> Option<Payload> {
        let search = self.search.as_ref()?;
        match payload.format() {
            Format::Json => self.json(search, payload.bytes()).map(Payload::json),
            // Lengths stand before texts there, so nothing can be replaced in place.
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
        // Patterns begin and end at characters, so that nothing is ever lost here.
        Some(String::from_utf8(out).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into()))
    }

    fn placeholder(&self, name: usize) -> String {
        format!("[secret {}]", self.names.get(name).map_or("?", String::as_str))
    }

    fn quoted_placeholder(&self, name: usize) -> Vec<u8> {
        format!("\"{}\"", self.placeholder(name)).into_bytes()
    }

    /// Every secret in the text, whether it stands there plainly or encoded; in order, none overlapping.
    fn spans(&self, search: &AhoCorasick, text: &str) -> Vec<Span> {
        self.spans_within(search, text.as_bytes(), MAX_LAYERS)
    }

    /// The same, with so many encodings on top of each other: JSON in a string of JSON is common.
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

    /// The decodings in which the bytes could hold something that they do not hold plainly.
    fn decoders(&self, bytes: &[u8]) -> impl Iterator<Item = decode::Decoder> + use<> {
        let has = |byte: u8| bytes.contains(&byte);
        let percent = has(b'%').then_some(decode::percent as decode::Decoder);
        let form = (self.has_spaces && has(b'+')).then_some(decode::form as decode::Decoder);
        let escapes = has(b'\\').then_some(decode::escapes as decode::Decoder);
        [percent, form, escapes].into_iter().flatten()
    }

    fn raw_spans(&self, search: &AhoCorasick, bytes: &[u8]) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        for found in search.find_overlapping_iter(bytes) {
            let pattern = &self.patterns[found.pattern().as_usize()];
            let mut new = Span { range: pattern.widened(bytes, found.range()), name: pattern.name };
            // Merged as they come: a text of one letter a million times must not give a million spans.
            while let Some(last) = spans.pop_if(|last| new.range.start < last.range.end) {
                new = joined(last, new);
            }
            spans.push(new);
        }
        spans
    }
}

/// Sorts, and joins what overlaps; the name is that of the longer one.
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
