//! Redaction in JSON: searches decoded strings and numbers; the result is valid JSON.

use super::{SecretRedactor, Span};
use crate::json::{Token, Tokenizer};
use aho_corasick::AhoCorasick;
use std::ops::Range;
use toolyard_protocol::text::push_json_string;

/// A range of the document and its replacement.
type Change = (Range<usize>, Vec<u8>);

impl SecretRedactor {
    /// `None` when the document holds no secret.
    pub(super) fn json(&self, search: &AhoCorasick, bytes: &[u8]) -> Option<Vec<u8>> {
        let raw = self.raw_spans(search, bytes);
        if raw.is_empty() && self.decoders(bytes).next().is_none() {
            return None;
        }
        match self.changes(search, bytes, &raw) {
            Some(changes) if changes.is_empty() => None,
            Some(changes) => Some(changed(bytes, changes)),
            // The secret spans several tokens, or the document is not JSON: the whole document is replaced.
            None => raw.first().map(|span| self.quoted_placeholder(span.name)),
        }
    }

    /// `None` when a secret spans more than one token.
    fn changes(&self, search: &AhoCorasick, bytes: &[u8], raw: &[Span]) -> Option<Vec<Change>> {
        let mut tokens = Tokenizer::new(bytes).ok()?;
        let mut changes = Vec::new();
        let mut raw = raw.iter().peekable();
        let mut keys = 0;
        while let Some((token, start)) = tokens.next().ok()? {
            let range = start..tokens.position();
            let text = match &token {
                Token::Key(text) | Token::String(text) => self.text(text),
                Token::Number(digits) => {
                    self.raw_spans(search, digits.as_bytes()).first().map(|span| self.placeholder(span.name))
                }
                _ => None,
            };
            // Every match in the raw bytes must lie inside a token that is searched.
            let scalar = matches!(token, Token::Key(_) | Token::String(_) | Token::Number(_));
            while let Some(span) = raw.next_if(|span| span.range.start < range.end) {
                if !(scalar && range.start <= span.range.start && span.range.end <= range.end) {
                    return None;
                }
            }
            let Some(mut text) = text else { continue };
            let is_key = matches!(token, Token::Key(_));
            if is_key {
                keys += 1;
                // Redacted keys must stay distinct.
                if keys > 1 {
                    text.push_str(&format!("#{keys}"));
                }
            }
            let mut quoted = Vec::with_capacity(text.len() + 3);
            push_json_string(&mut quoted, &text);
            quoted.extend_from_slice(if is_key { b":" } else { b"" });
            changes.push((range, quoted));
        }
        raw.next().is_none().then_some(changes)
    }
}

fn changed(bytes: &[u8], changes: Vec<Change>) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut from = 0;
    for (range, text) in changes {
        out.extend_from_slice(&bytes[from..range.start]);
        out.extend_from_slice(&text);
        from = range.end;
    }
    out.extend_from_slice(&bytes[from..]);
    out
}
