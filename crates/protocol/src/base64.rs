//! Strict base64 with padding: only the canonical encoding is accepted.

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine};

pub fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Rejects URL-safe characters, line breaks, missing padding and nonzero bits after the last byte, with the reason.
pub fn decode(text: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(text).map_err(|error| match error {
        DecodeError::InvalidByte(at, _) => format!(
            "not base64: character {} is not in the standard alphabet (A-Z a-z 0-9 + /, '=' at the end)",
            at + 1
        ),
        DecodeError::InvalidLastSymbol { .. } => {
            "not base64: the unused bits of the last character must be zero".to_owned()
        }
        DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => format!(
            "not base64: the length {} is not a multiple of 4 (standard alphabet, padded with '=')",
            text.len()
        ),
    })
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
            assert_eq!(decode(text).as_deref(), Ok(bytes.as_bytes()));
        }
        for (bad, why) in [
            ("Zg", "multiple of 4"),
            ("Zg=", "multiple of 4"),
            ("SGVsbG8", "multiple of 4"),
            ("Zh==", "bits"),
            ("Zm9=", "bits"),
            ("-_8=", "character 1"),
            ("Zm 9", "character 3"),
            ("SGVs!!!bG8=", "character 5"),
            ("Zg==Zg==", "character 3"),
            ("====", "character 1"),
            ("Z===", "character 2"),
            ("=Zg=", "character 1"),
            (" Zg=", "character 1"),
            ("Zm9v\n", "character 5"),
        ] {
            let error = decode(bad).expect_err(bad);
            assert!(error.contains(why), "{bad:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_comes_back(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(decode(&encode(&bytes)), Ok(bytes));
        }

        #[test]
        fn whatever_decodes_is_canonical(text in "[A-Za-z0-9+/=_-]{0,12}") {
            if let Ok(bytes) = decode(&text) {
                prop_assert_eq!(encode(&bytes), text);
            }
        }
    }
}
