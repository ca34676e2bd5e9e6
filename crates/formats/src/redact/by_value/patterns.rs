//! Search patterns of a secret: plain, line by line, hexadecimal, base64 and base32, each of its UTF-8 and UTF-16 bytes.
//!
//! The search ignores the case of ASCII letters, so a pattern stands for every spelling.

use super::{MIN_PIECE, Span};
use std::ops::Range;

/// The shortest line of a multi-line value, such as a key file, that is a pattern of its own.
const MIN_LINE: usize = 16;

/// A text encoding with digits of some bits each.
struct Base {
    bits: usize,
    /// After this many bytes a digit begins with a byte again.
    period: usize,
    digits: &'static [u8],
    /// At most this many padding characters follow.
    padding: usize,
}

const STANDARD_64: Base = Base {
    bits: 6,
    period: 3,
    digits: b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
    padding: 2,
};
const URL_64: Base = Base {
    bits: 6,
    period: 3,
    digits: b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
    padding: 2,
};
const BASE_32: Base = Base { bits: 5, period: 5, digits: b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", padding: 6 };

/// One encoded form of a secret.
pub struct Pattern {
    pub text: Vec<u8>,
    /// The index of the secret's name.
    pub name: usize,
    /// For digits that depend on more than the secret.
    around: Option<Around>,
}

/// What may stand beside the digits of a secret.
struct Around {
    base: &'static Base,
    /// Whether the digits before and after hold some bits of the secret.
    beside: (bool, bool),
}

pub fn add(patterns: &mut Vec<Pattern>, name: usize, value: &str) {
    let mut plain = |text: Vec<u8>| patterns.push(Pattern { text, name, around: None });
    // Key files are often printed in part; their first and last lines are not secret.
    let lines = value.lines().map(str::trim).filter(|_| value.contains('\n'));
    lines
        .filter(|line| line.len() >= MIN_LINE && !line.starts_with("-----"))
        .for_each(|line| plain(line.as_bytes().to_vec()));
    let utf16 = |bytes: fn(u16) -> [u8; 2]| value.encode_utf16().flat_map(bytes).collect();
    for bytes in [value.as_bytes().to_vec(), utf16(u16::to_le_bytes), utf16(u16::to_be_bytes)] {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        patterns.push(Pattern { text: hex.into_bytes(), name, around: None });
        for base in [&STANDARD_64, &URL_64, &BASE_32] {
            patterns.extend((0..base.period).map(|offset| base.pattern(&bytes, offset, name)));
        }
        patterns.push(Pattern { text: bytes, name, around: None });
    }
}

impl Base {
    /// The value when `offset` unknown bytes precede it.
    fn pattern(&'static self, value: &[u8], offset: usize, name: usize) -> Pattern {
        let is_inside = |byte: usize| !(byte * 8).is_multiple_of(self.bits);
        let beside = (is_inside(offset), is_inside(offset + value.len()));
        Pattern { text: self.encode(value, offset), name, around: Some(Around { base: self, beside }) }
    }

    /// The digits that depend on the value alone.
    fn encode(&self, value: &[u8], offset: usize) -> Vec<u8> {
        let (start, end) = (offset * 8, (offset + value.len()) * 8);
        let bit = |at: usize| usize::from(value[(at - start) / 8] >> (7 - at % 8) & 1);
        let digit = |number: usize| (0..self.bits).fold(0, |sum, i| sum << 1 | bit(number * self.bits + i));
        (start.div_ceil(self.bits)..end / self.bits).map(|number| self.digits[digit(number)]).collect()
    }

    fn is_digit(&self, byte: Option<&u8>) -> bool {
        byte.is_some_and(|byte| self.digits.iter().any(|digit| digit.eq_ignore_ascii_case(byte)))
    }
}

impl Pattern {
    /// The match, extended by adjacent characters that hold a part of the secret.
    pub fn widened(&self, bytes: &[u8], found: Range<usize>) -> Range<usize> {
        let Some(Around { base, beside }) = &self.around else { return found };
        let digit = |at: Option<usize>| at.is_some_and(|at| base.is_digit(bytes.get(at)));
        let start = found.start - usize::from(beside.0 && digit(found.start.checked_sub(1)));
        let mut end = found.end + usize::from(beside.1 && digit(Some(found.end)));
        let padded = end + base.padding;
        while end < padded && bytes.get(end) == Some(&b'=') {
            end += 1;
        }
        start..end
    }

    /// The end of this pattern at the start of a truncated text.
    pub fn end_at_start_of(&self, text: &str) -> Option<Span> {
        let longest = self.text.len().saturating_sub(1).min(text.len());
        let starts_with = |piece: usize| {
            text.as_bytes()[..piece].eq_ignore_ascii_case(&self.text[self.text.len() - piece..])
        };
        let cut = (MIN_PIECE..=longest).rev().find(|&piece| starts_with(piece))?;
        text.is_char_boundary(cut).then_some(Span { range: 0..cut, name: self.name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digits_are_those_of_the_standard_encodings() {
        // "secret!" alone, after one byte and after two.
        assert_eq!(STANDARD_64.encode(b"secret!", 0), b"c2VjcmV0I");
        assert_eq!(STANDARD_64.encode(b"secret!", 1), b"NlY3JldC"); // eHNlY3JldCE= is "xsecret!"
        assert_eq!(STANDARD_64.encode(b"secret!", 2), b"zZWNyZXQh"); // eHhzZWNyZXQh is "xxsecret!"
        assert_eq!(URL_64.encode(&[0xff; 3], 0), b"____");
        assert_eq!(URL_64.encode(&[0xfb; 3], 0), b"-_v7");
        assert_eq!(BASE_32.encode(b"secret!", 0), b"ONSWG4TFOQQ"); // ONSWG4TFOQQQ==== is "secret!"
        assert_eq!(BASE_32.encode(b"secret!", 1), b"ZWKY3SMV2C"); // PBZWKY3SMV2CC=== is "xsecret!"
    }
}
