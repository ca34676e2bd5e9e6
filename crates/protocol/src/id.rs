//! Time-ordered identifiers (UUID version 7) for calls, correlation and audit segments.

use std::fmt;

/// A UUIDv7: sorts by time of creation, so index pages stay hot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id([u8; 16]);

impl Id {
    /// `random` fills the bits after the millisecond; the caller supplies clock and randomness.
    pub fn from_parts(unix_ms: u64, random: [u8; 10]) -> Id {
        let mut bytes = [0u8; 16];
        bytes[..6].copy_from_slice(&unix_ms.to_be_bytes()[2..]);
        bytes[6..].copy_from_slice(&random);
        bytes[6] = (bytes[6] & 0x0f) | 0x70;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Id(bytes)
    }

    pub fn unix_ms(&self) -> u64 {
        let mut ms = [0u8; 8];
        ms[2..].copy_from_slice(&self.0[..6]);
        u64::from_be_bytes(ms)
    }

    /// Reads the 36-character text form of any UUID.
    pub fn parse(text: &str) -> Option<Id> {
        let text = text.as_bytes();
        if text.len() != 36 || [8, 13, 18, 23].iter().any(|&i| text[i] != b'-') {
            return None;
        }
        let mut nibbles = text.iter().filter(|&&b| b != b'-');
        let mut bytes = [0u8; 16];
        for byte in &mut bytes {
            let high = (*nibbles.next()? as char).to_digit(16)?;
            let low = (*nibbles.next()? as char).to_digit(16)?;
            *byte = (high << 4 | low) as u8;
        }
        if nibbles.next().is_some() {
            return None;
        }
        Some(Id(bytes))
    }

    /// The inverse of [`Id::as_bytes`].
    pub fn from_bytes(bytes: [u8; 16]) -> Id {
        Id(bytes)
    }

    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The text form without going through the formatting machinery; this is on the hot path.
    pub fn text(&self) -> IdText {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut out = [b'-'; 36];
        let mut at = 0;
        for (i, byte) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                at += 1;
            }
            out[at] = HEX[usize::from(byte >> 4)];
            out[at + 1] = HEX[usize::from(byte & 15)];
            at += 2;
        }
        IdText(out)
    }
}

/// The 36 characters of an [`Id`], on the stack.
#[derive(Clone, Copy)]
pub struct IdText([u8; 36]);

impl IdText {
    pub fn as_str(&self) -> &str {
        // Cannot fail: only hex digits and dashes were written.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text().as_str())
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_round_trips_and_keeps_version_variant_and_time() {
        let id = Id::from_parts(0x0192_3456_789a, [0xff; 10]);
        assert_eq!(id.to_string(), "01923456-789a-7fff-bfff-ffffffffffff");
        assert_eq!(Id::parse(&id.to_string()), Some(id));
        assert_eq!(Id::from_bytes(*id.as_bytes()), id);
        assert_eq!(id.unix_ms(), 0x0192_3456_789a);
    }

    #[test]
    fn texts_that_are_no_uuid_are_refused() {
        for bad in [
            "",
            "01923456-789a-7fff-bfff-fffffffffff",
            "01923456_789a-7fff-bfff-ffffffffffff",
            "0192345g-789a-7fff-bfff-ffffffffffff",
            "01923456-789a-7fff-bfff-ffffffffffff0",
        ] {
            assert_eq!(Id::parse(bad), None, "{bad:?} was accepted");
        }
    }
}
