//! Search patterns of a secret: plain, line by line, hexadecimal and base64.

use super::{MIN_PIECE, Span};
use std::ops::Range;
use toolyard_protocol::base64;

/// The shortest line of a multi-line value, such as a key file, that is a pattern of its own.
const MIN_LINE: usize = 16;

/// One encoded form of a secret.
pub struct Pattern {
    pub text: Vec<u8>,
    /// The index of the secret's name.
    pub name: usize,
    /// Whether the base64 characters before and after the text hold some bits of the secret.
    beside: (bool, bool),
    /// Padding may follow.
    base64: bool,
}

pub fn add(patterns: &mut Vec<Pattern>, name: usize, value: &str) {
    let mut plain = |text: Vec<u8>| {
        patterns.push(Pattern { text, name, beside: (false, false), base64: false });
    };
    plain(value.as_bytes().to_vec());
    // Key files are often printed in part; their first and last lines are not secret.
    let lines = value.lines().map(str::trim).filter(|_| value.contains('\n'));
    lines
        .filter(|line| line.len() >= MIN_LINE && !line.starts_with("-----"))
        .for_each(|line| plain(line.as_bytes().to_vec()));
    let lower: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
    let upper = lower.to_ascii_uppercase();
    if upper != lower {
        plain(upper.into_bytes());
    }
    plain(lower.into_bytes());
    for offset in 0..3 {
        let standard = base64_digits(value.as_bytes(), offset);
        let url = url_safe(&standard);
        let bits = (offset * 8, (offset + value.len()) * 8);
        let beside = (!bits.0.is_multiple_of(6), !bits.1.is_multiple_of(6));
        if url != standard {
            patterns.push(Pattern { text: url, name, beside, base64: true });
        }
        patterns.push(Pattern { text: standard, name, beside, base64: true });
    }
}

impl Pattern {
    /// The match, extended by adjacent characters that hold a part of the secret.
    pub fn widened(&self, bytes: &[u8], found: Range<usize>) -> Range<usize> {
        if !self.base64 {
            return found;
        }
        let digit = |at: usize| bytes.get(at).is_some_and(|&byte| is_digit(byte));
        let start = found.start - usize::from(self.beside.0 && found.start > 0 && digit(found.start - 1));
        let mut end = found.end + usize::from(self.beside.1 && digit(found.end));
        while end < found.end + 3 && bytes.get(end) == Some(&b'=') {
            end += 1;
        }
        start..end
    }

    /// The end of this pattern at the start of a truncated text.
    pub fn end_at_start_of(&self, text: &str) -> Option<Span> {
        let longest = self.text.len().saturating_sub(1).min(text.len());
        let cut = (MIN_PIECE..=longest)
            .rev()
            .find(|piece| text.as_bytes().starts_with(&self.text[self.text.len() - piece..]))?;
        text.is_char_boundary(cut).then_some(Span { range: 0..cut, name: self.name })
    }
}

fn is_digit(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}

/// The base64 digits that depend on the value alone when `offset` unknown bytes precede it.
fn base64_digits(value: &[u8], offset: usize) -> Vec<u8> {
    let encoded = base64::encode(&[&vec![0; offset], value].concat());
    let (first, end) = ((offset * 8).div_ceil(6), (offset + value.len()) * 8 / 6);
    encoded.as_bytes()[first..end].to_vec()
}

fn url_safe(digits: &[u8]) -> Vec<u8> {
    let swap = |&digit: &u8| match digit {
        b'+' => b'-',
        b'/' => b'_',
        other => other,
    };
    digits.iter().map(swap).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_the_standard_encoding() {
        // "secret!" alone, after one byte and after two.
        assert_eq!(base64_digits(b"secret!", 0), b"c2VjcmV0I");
        assert_eq!(base64_digits(b"secret!", 1), b"NlY3JldC"); // eHNlY3JldCE= is "xsecret!"
        assert_eq!(base64_digits(b"secret!", 2), b"zZWNyZXQh"); // eHhzZWNyZXQh is "xxsecret!"
        assert_eq!(url_safe(&base64_digits(&[0xff; 3], 0)), b"____");
        assert_eq!(url_safe(&base64_digits(&[0xfb; 3], 0)), b"-_v7");
    }
}
