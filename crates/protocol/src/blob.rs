//! Binary field of a typed tool: base64 text in text formats, plain bytes in binary ones.

use bytes::Bytes;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// A binary field: standard base64 with padding in JSON, `bin` in MsgPack.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Blob(pub Bytes);

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_str(&encode(&self.0))
        } else {
            serializer.serialize_bytes(&self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Blob, D::Error> {
        if deserializer.is_human_readable() {
            deserializer.deserialize_str(Base64Visitor)
        } else {
            deserializer.deserialize_bytes(BinVisitor)
        }
    }
}

impl JsonSchema for Blob {
    fn schema_name() -> Cow<'static, str> {
        "Blob".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "contentEncoding": "base64" })
    }
}

impl fmt::Debug for Blob {
    /// Shows the size only, as payloads do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blob({} bytes)", self.0.len())
    }
}

struct Base64Visitor;

impl Visitor<'_> for Base64Visitor {
    type Value = Blob;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("base64 text")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Blob, E> {
        decode(text).map(|bytes| Blob(bytes.into())).map_err(E::custom)
    }
}

struct BinVisitor;

impl Visitor<'_> for BinVisitor {
    type Value = Blob;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes (bin)")
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Blob, E> {
        Ok(Blob(Bytes::copy_from_slice(bytes)))
    }

    fn visit_byte_buf<E: de::Error>(self, bytes: Vec<u8>) -> Result<Blob, E> {
        Ok(Blob(bytes.into()))
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The value of each letter of the alphabet; 255 for any other byte.
const VALUES: [u8; 256] = {
    let mut values = [255u8; 256];
    let mut i = 0;
    while i < 64 {
        values[ALPHABET[i] as usize] = i as u8;
        i += 1;
    }
    values
};

/// Standard base64 with padding.
pub fn encode(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = [chunk[0], *chunk.get(1).unwrap_or(&0), *chunk.get(2).unwrap_or(&0)];
        let bits = u32::from_be_bytes([0, group[0], group[1], group[2]]);
        let letter = |shift: u32| ALPHABET[(bits >> shift & 63) as usize];
        out.extend_from_slice(&[letter(18), letter(12), letter(6), letter(0)]);
        let len = out.len();
        out[len - (3 - chunk.len())..].fill(b'=');
    }
    // Cannot fail: only letters of the alphabet were written.
    String::from_utf8(out).unwrap_or_default()
}

/// Accepts only the canonical encoding: no URL-safe letters, line breaks, missing padding or trailing bits.
fn decode(text: &str) -> Result<Vec<u8>, String> {
    let bytes = text.as_bytes();
    if !bytes.len().is_multiple_of(4) {
        return Err(format!(
            "not base64: the length {} is not a multiple of 4 (standard alphabet, padded with '=')",
            bytes.len()
        ));
    }
    let padding = bytes.iter().rev().take_while(|&&byte| byte == b'=').take(2).count();
    let letters = &bytes[..bytes.len() - padding];
    let mut out = Vec::with_capacity(bytes.len() / 4 * 3);
    for (i, chunk) in letters.chunks(4).enumerate() {
        let mut bits = 0u32;
        for (at, &byte) in chunk.iter().enumerate() {
            let value = VALUES[usize::from(byte)];
            if value == 255 {
                let at = i * 4 + at + 1;
                return Err(format!(
                    "not base64: character {at} is not in the standard alphabet (A-Z a-z 0-9 + /, '=' at the end)"
                ));
            }
            bits |= u32::from(value) << (18 - 6 * at);
        }
        let whole = bits.to_be_bytes();
        let byte_count = chunk.len() * 6 / 8;
        if whole[1 + byte_count..].iter().any(|&rest| rest != 0) {
            return Err("not base64: the unused bits of the last character must be zero".to_owned());
        }
        out.extend_from_slice(&whole[1..1 + byte_count]);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn base64_is_that_of_rfc_4648() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).unwrap(), bytes.as_bytes());
        }
        assert_eq!(encode(&[0xfb, 0xff]), "+/8=");
    }

    #[test]
    fn other_spellings_are_refused() {
        for (bad, why) in [
            ("Zg", "multiple of 4"),
            ("Zg=", "multiple of 4"),
            ("Zh==", "bits"),
            ("Zm9=", "bits"),
            ("-_8=", "character 1"),
            ("Zm 9", "character 3"),
            ("Zg==Zg==", "character 3"),
            ("====", "character 1"),
            ("Z===", "character 2"),
            ("Zm9v\n", "multiple of 4"),
        ] {
            let error = decode(bad).expect_err(bad);
            assert!(error.contains(why), "{bad:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_nothing_else_is(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(decode(&encode(&bytes)).unwrap(), bytes);
        }

        #[test]
        fn a_text_that_is_read_is_the_one_that_would_be_written(text in "[A-Za-z0-9+/=_-]{0,12}") {
            if let Ok(bytes) = decode(&text) {
                prop_assert_eq!(encode(&bytes), text);
            }
        }
    }
}
