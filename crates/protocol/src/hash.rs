//! The address of stored bytes: their full BLAKE3 hash, with exactly one spelling.

use crate::Digest;
use std::fmt;

/// The full 32-byte BLAKE3 hash of the content.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hash([u8; 32]);

impl Hash {
    pub const fn from_bytes(bytes: [u8; 32]) -> Hash {
        Hash(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// 64 lower-case hex characters.
    pub fn hex(&self) -> String {
        Digest(self.0).hex()
    }

    /// Accepts exactly 64 lower-case hex characters: no prefix, no upper case, no shortened form.
    pub fn parse(text: &str) -> Option<Hash> {
        Digest::parse_hex(text).map(|digest| Hash(digest.0))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hex())
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_has_one_spelling() {
        let hash = Hash::from_bytes(std::array::from_fn(|i| 255 - i as u8 * 5));
        let text = hash.to_string();
        assert_eq!((text.len(), Hash::parse(&text)), (64, Some(hash)));
        let long = format!("{text}0");
        let prefixed = format!("blake3:{text}");
        let spaced = format!(" {}", &text[1..]);
        let signed = format!("+{}", &text[1..]);
        let wide = format!("é{}", &text[2..]);
        for bad in ["", &text[1..], &long, &prefixed, &spaced, &signed, &wide, &text.to_uppercase()] {
            assert_eq!(Hash::parse(bad), None, "{bad:?} was accepted");
        }
    }
}
