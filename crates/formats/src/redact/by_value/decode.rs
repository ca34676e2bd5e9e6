//! Decoders for encodings that leave most characters unchanged; decoded ranges map back to their source.

use std::ops::Range;

pub type Decoder = fn(&[u8]) -> Decoded;

/// Decoded bytes. Only escapes are recorded; between them source and decoded text are the same.
pub struct Decoded {
    pub bytes: Vec<u8>,
    escapes: Vec<Escape>,
}

struct Escape {
    decoded: Range<usize>,
    source: Range<usize>,
}

impl Decoded {
    /// The source range of a range of the decoded bytes, which must not be empty.
    pub fn source(&self, range: Range<usize>) -> Range<usize> {
        let start = match self.escape_before(range.start) {
            None => range.start,
            Some(escape) if range.start < escape.decoded.end => escape.source.start,
            Some(escape) => range.start - escape.decoded.end + escape.source.end,
        };
        let end = match self.escape_before(range.end - 1) {
            None => range.end,
            Some(escape) => range.end.saturating_sub(escape.decoded.end) + escape.source.end,
        };
        start..end
    }

    /// The last escape that starts at or before this position.
    fn escape_before(&self, at: usize) -> Option<&Escape> {
        let after = self.escapes.partition_point(|escape| escape.decoded.start <= at);
        self.escapes[..after].last()
    }

    /// `one` reads an escape at the start of its argument: the decoded piece and the escape's length.
    fn read(source: &[u8], one: impl Fn(&[u8]) -> Option<(Piece, usize)>) -> Decoded {
        let mut decoded = Decoded { bytes: Vec::with_capacity(source.len()), escapes: Vec::new() };
        let mut at = 0;
        while at < source.len() {
            let Some((piece, length)) = one(&source[at..]) else {
                decoded.bytes.push(source[at]);
                at += 1;
                continue;
            };
            let start = decoded.bytes.len();
            match piece {
                Piece::Byte(byte) => decoded.bytes.push(byte),
                Piece::Char(c) => decoded.bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
            // Positions shift only where the lengths differ.
            if decoded.bytes.len() - start != length {
                let source = at..at + length;
                decoded.escapes.push(Escape { decoded: start..decoded.bytes.len(), source });
            }
            at += length;
        }
        decoded
    }
}

enum Piece {
    Byte(u8),
    Char(char),
}

/// Percent-encoding, such as `%2f` or `%2F`.
pub fn percent(source: &[u8]) -> Decoded {
    Decoded::read(source, percent_escape)
}

/// Form encoding: percent-encoding with `+` for a space.
pub fn form(source: &[u8]) -> Decoded {
    Decoded::read(source, |rest| match rest {
        [b'+', ..] => Some((Piece::Byte(b' '), 1)),
        _ => percent_escape(rest),
    })
}

fn percent_escape(rest: &[u8]) -> Option<(Piece, usize)> {
    hex(rest.strip_prefix(b"%")?, 2).map(|value| (Piece::Byte(value as u8), 3))
}

/// Backslash escapes of JSON, programming languages and [`toolyard_protocol::text::escape_control`].
pub fn escapes(source: &[u8]) -> Decoded {
    Decoded::read(source, |rest| match rest {
        [b'\\', b'n', ..] => Some((Piece::Byte(b'\n'), 2)),
        [b'\\', b'r', ..] => Some((Piece::Byte(b'\r'), 2)),
        [b'\\', b't', ..] => Some((Piece::Byte(b'\t'), 2)),
        [b'\\', b'b', ..] => Some((Piece::Byte(8), 2)),
        [b'\\', b'f', ..] => Some((Piece::Byte(12), 2)),
        [b'\\', byte @ (b'"' | b'\'' | b'\\' | b'/'), ..] => Some((Piece::Byte(*byte), 2)),
        [b'\\', b'x', digits @ ..] => hex(digits, 2).map(|value| (Piece::Byte(value as u8), 4)),
        [b'\\', b'u', b'{', digits @ ..] => {
            let length = digits.iter().take(7).position(|&byte| byte == b'}')?;
            let c = char::from_u32(hex(digits, length)?)?;
            Some((Piece::Char(c), length + 4))
        }
        [b'\\', b'u', digits @ ..] => {
            let first = hex(digits, 4)?;
            if let Some(c) = char::from_u32(first) {
                return Some((Piece::Char(c), 6));
            }
            let second = hex(digits.get(4..)?.strip_prefix(b"\\u")?, 4)?;
            let c = char::decode_utf16([first as u16, second as u16]).next()?.ok()?;
            Some((Piece::Char(c), 12))
        }
        _ => None,
    })
}

/// Character references of HTML and XML, such as `&amp;`, `&#39;` or `&#x27;`.
pub fn references(source: &[u8]) -> Decoded {
    Decoded::read(source, |rest| {
        let rest = rest.strip_prefix(b"&")?;
        let length = rest.iter().take(MAX_REFERENCE).position(|&byte| byte == b';')?;
        let c = match &rest[..length] {
            b"amp" => '&',
            b"lt" => '<',
            b"gt" => '>',
            b"quot" => '"',
            b"apos" => '\'',
            b"nbsp" => '\u{a0}',
            [b'#', b'x' | b'X', digits @ ..] => char::from_u32(number(digits, 16)?)?,
            [b'#', digits @ ..] => char::from_u32(number(digits, 10)?)?,
            _ => return None,
        };
        Some((Piece::Char(c), length + 2))
    })
}

/// The longest reference: `#x0010FFFF`.
const MAX_REFERENCE: usize = 11;

fn hex(digits: &[u8], length: usize) -> Option<u32> {
    number(digits.get(..length)?, 16)
}

fn number(digits: &[u8], radix: u32) -> Option<u32> {
    let next = |sum: u32, &digit: &u8| sum.checked_mul(radix)?.checked_add((digit as char).to_digit(radix)?);
    (!digits.is_empty()).then(|| digits.iter().try_fold(0, next))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_decoded_is_found_again_in_its_source() {
        for (decoder, source, decoded, part, origin) in [
            (percent as Decoder, "a%20b%2Fc", "a b/c", "b/", "b%2F"),
            (percent, "100% of %zz", "100% of %zz", "of", "of"),
            (form, "a+b%2bc", "a b+c", " b+", "+b%2b"),
            (escapes, r#"x\"y\\z"#, r#"x"y\z"#, r#""y\"#, r#"\"y\\"#),
            (escapes, r"\u00e9t\u00e9", "été", "é", r"\u00e9"),
            (escapes, r"a\ud83d\ude00b", "a😀b", "😀b", r"\ud83d\ude00b"),
            (escapes, r"\u{1b}[m\x41", "\u{1b}[mA", "mA", r"m\x41"),
            (references, "a&#x27;b&amp;&#39;", "a'b&'", "b&'", "b&amp;&#39;"),
            (references, "a & b; &zz; &#; &#x110000;", "a & b; &zz; &#; &#x110000;", "b;", "b;"),
            (escapes, r"C:\q\ud83d", r"C:\q\ud83d", r"\q", r"\q"),
        ] {
            let found = decoder(source.as_bytes());
            assert_eq!(String::from_utf8_lossy(&found.bytes), decoded, "{source}");
            let at = decoded.find(part).unwrap();
            assert_eq!(&source[found.source(at..at + part.len())], origin, "{source}");
        }
    }
}
