//! Strict base64 with padding: only the canonical encoding is accepted.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

pub fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// `None` for invalid characters, invalid padding, or nonzero bits beyond the last byte.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
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
