//! Validates MsgPack without recursion and without allocating by declared lengths.

use std::fmt;

/// The same limit as for JSON.
pub const MAX_DEPTH: usize = crate::json::MAX_DEPTH;

/// What is wrong, and at which byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    pub offset: usize,
    pub what: &'static str,
}

/// Checks that `bytes` is exactly one complete value of limited depth, with strings in UTF-8.
pub fn scan(bytes: &[u8]) -> Result<(), ParseError> {
    let mut at = 0;
    // Values still expected in each open list or map.
    let mut open: Vec<u64> = Vec::new();
    loop {
        let start = at;
        let inner = value(bytes, &mut at)?;
        if inner > 0 {
            if open.len() == MAX_DEPTH {
                return Err(ParseError { offset: start, what: "the nesting is too deep" });
            }
            open.push(inner);
        } else {
            while let Some(left) = open.last_mut() {
                *left -= 1;
                if *left > 0 {
                    break;
                }
                open.pop();
            }
        }
        if open.is_empty() {
            break;
        }
    }
    match at == bytes.len() {
        true => Ok(()),
        false => Err(ParseError { offset: at, what: "data after the value" }),
    }
}

/// Consumes one marker with its data and returns the number of values inside it.
fn value(bytes: &[u8], at: &mut usize) -> Result<u64, ParseError> {
    let start = *at;
    let marker = take(bytes, at, 1)?[0];
    let data = match marker {
        0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => 0,
        0x80..=0x8f => return Ok(u64::from(marker & 15) * 2),
        0x90..=0x9f => return Ok(u64::from(marker & 15)),
        0xa0..=0xbf => return text(bytes, at, u64::from(marker & 31)),
        0xc1 => return Err(ParseError { offset: start, what: "0xc1 is not a marker" }),
        0xc4..=0xc6 => length(bytes, at, 1 << (marker - 0xc4))?,
        // One more byte: the type of the extension.
        0xc7..=0xc9 => length(bytes, at, 1 << (marker - 0xc7))? + 1,
        0xca => 4,
        0xcb => 8,
        0xcc..=0xcf => 1 << (marker - 0xcc),
        0xd0..=0xd3 => 1 << (marker - 0xd0),
        0xd4..=0xd8 => (1 << (marker - 0xd4)) + 1,
        0xd9..=0xdb => {
            let length = length(bytes, at, 1 << (marker - 0xd9))?;
            return text(bytes, at, length);
        }
        0xdc | 0xdd => return length(bytes, at, 2 << (marker - 0xdc)),
        0xde | 0xdf => return Ok(length(bytes, at, 2 << (marker - 0xde))? * 2),
    };
    take(bytes, at, data)?;
    Ok(0)
}

fn text(bytes: &[u8], at: &mut usize, length: u64) -> Result<u64, ParseError> {
    let offset = *at;
    match std::str::from_utf8(take(bytes, at, length)?) {
        Ok(_) => Ok(0),
        Err(_) => Err(ParseError { offset, what: "the text is not UTF-8" }),
    }
}

fn length(bytes: &[u8], at: &mut usize, width: u64) -> Result<u64, ParseError> {
    Ok(take(bytes, at, width)?.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

fn take<'b>(bytes: &'b [u8], at: &mut usize, length: u64) -> Result<&'b [u8], ParseError> {
    let rest = bytes.get(*at..).unwrap_or_default();
    let taken = usize::try_from(length).ok().and_then(|length| rest.get(..length));
    let taken = taken.ok_or(ParseError { offset: bytes.len(), what: "the value is truncated" })?;
    *at += taken.len();
    Ok(taken)
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {})", self.what, self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_marker_of_the_format_is_known() {
        for (bytes, what) in [
            (&b"\x00"[..], "fixint"),
            (b"\xff", "negative fixint"),
            (b"\xc0", "nil"),
            (b"\x81\xa4tool\xa4ping", "the test vector of HOOT01, named"),
            (b"\x92\xabgarden_seek\xcb\x40\x10\x00\x00\x00\x00\x00\x00", "the same, positional"),
            (b"\xc4\x02\x00\xff", "bin 8"),
            (b"\xc5\x00\x01\x00", "bin 16"),
            (b"\xc6\x00\x00\x00\x01\x00", "bin 32"),
            (b"\xd9\x01a", "str 8"),
            (b"\xda\x00\x01a", "str 16"),
            (b"\xdb\x00\x00\x00\x01a", "str 32"),
            (b"\xdc\x00\x01\xc3", "array 16"),
            (b"\xdd\x00\x00\x00\x01\xc2", "array 32"),
            (b"\xde\x00\x01\x01\x02", "map 16"),
            (b"\xdf\x00\x00\x00\x01\x01\x02", "map 32"),
            (b"\xd4\x01\x00", "fixext 1"),
            (b"\xc7\x02\x01\x00\x00", "ext 8"),
            (b"\xca\x00\x00\x00\x00", "float 32"),
            (b"\xcf\x00\x00\x00\x00\x00\x00\x00\x00", "uint 64"),
            (b"\xd0\x00", "int 8"),
            (b"\x93\x90\x80\x91\x90", "empty and nested"),
        ] {
            assert_eq!(scan(bytes), Ok(()), "{what}");
            for cut in 0..bytes.len() {
                assert!(scan(&bytes[..cut]).is_err(), "{what} cut at {cut}");
            }
            assert!(scan(&[bytes, b"\xc0"].concat()).is_err(), "{what} with something after it");
        }
    }

    #[test]
    fn wrong_lengths_and_markers_are_rejected() {
        for (bytes, what) in [
            (&b"\xc1"[..], "not a marker"),
            (b"\xa1\xff", "UTF-8"),
            (b"\xdd\xff\xff\xff\xff", "truncated"),
            (b"\xdf\xff\xff\xff\xff\xc0", "truncated"),
            (b"\xc6\xff\xff\xff\xff", "truncated"),
            (b"\xc9\xff\xff\xff\xff\x01", "truncated"),
        ] {
            assert!(scan(bytes).unwrap_err().what.contains(what), "{bytes:?}");
        }
        let deep = |depth: usize| [vec![0x91; depth], vec![0xc0]].concat();
        assert_eq!(scan(&deep(MAX_DEPTH)), Ok(()));
        assert!(scan(&deep(MAX_DEPTH + 1)).unwrap_err().what.contains("deep"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = scan(&bytes);
        }
    }
}
