//! Strict base64 with padding: only the canonical encoding is accepted.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word =
            chunk.iter().fold(0u32, |word, &byte| word << 8 | u32::from(byte)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            let digit = (word >> (18 - 6 * i)) & 63;
            out.push(if i > chunk.len() { '=' } else { char::from(ALPHABET[digit as usize]) });
        }
    }
    out
}

/// `None` for invalid characters, invalid padding, or nonzero bits beyond the last byte.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let bytes = text.as_bytes();
    if !bytes.len().is_multiple_of(4) {
        return None;
    }
    let padding = bytes.iter().rev().take_while(|&&b| b == b'=').count();
    let digits = &bytes[..bytes.len() - padding];
    if padding > 2 {
        return None;
    }
    let mut out = Vec::with_capacity(digits.len() * 3 / 4);
    for chunk in digits.chunks(4) {
        let mut word = 0u32;
        for &byte in chunk {
            word = word << 6 | value(byte)?;
        }
        let (bits, whole) = (chunk.len() * 6, chunk.len() * 6 / 8);
        if chunk.len() == 1 || word & ((1 << (bits - whole * 8)) - 1) != 0 {
            return None;
        }
        let word = word >> (bits - whole * 8);
        out.extend((0..whole).rev().map(|i| (word >> (8 * i)) as u8));
    }
    Some(out)
}

fn value(byte: u8) -> Option<u32> {
    Some(u32::from(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_value_has_one_spelling() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("Hello", "SGVsbG8=")]
        {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).as_deref(), Some(bytes.as_bytes()));
        }
        for bad in ["SGVsbG8", "SGVs!!!bG8=", "Zg=", "Zh==", "Zm9=", "====", "Z===", "=Zg=", " Zg="] {
            assert_eq!(decode(bad), None, "{bad:?} was accepted");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_comes_back(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(decode(&encode(&bytes)), Some(bytes));
        }

        #[test]
        fn whatever_decodes_is_canonical(text in "[A-Za-z0-9+/=]{0,12}") {
            if let Some(bytes) = decode(&text) {
                prop_assert_eq!(encode(&bytes), text);
            }
        }
    }
}
