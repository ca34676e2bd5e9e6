//! Strict percent-encoding of URIs: malformed input is rejected.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, percent_decode_str, utf8_percent_encode};
use std::borrow::Cow;

/// RFC 3986's unreserved characters, which never need encoding.
pub fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// RFC 3986's reserved characters, which have a meaning in a URI.
pub fn is_reserved(byte: u8) -> bool {
    b":/?#[]@!$&'()*+,;=".contains(&byte)
}

/// Everything but unreserved characters, so that no value can start a new part of a URI.
pub const VALUE: &AsciiSet = &all_but(b"-._~");

/// Everything that RFC 3986 does not allow in a segment of a path.
pub const SEGMENT: &AsciiSet = &all_but(b"-._~!$&'()*+,;=:@");

/// Letters and digits are never encoded either.
pub const fn all_but(kept: &[u8]) -> AsciiSet {
    let mut set = NON_ALPHANUMERIC.remove(kept[0]);
    let mut at = 1;
    while at < kept.len() {
        set = set.remove(kept[at]);
        at += 1;
    }
    set
}

/// Encodes the characters of `set` and everything that is not ASCII.
pub fn encode<'a>(text: &'a str, set: &'static AsciiSet) -> PercentEncode<'a> {
    utf8_percent_encode(text, set)
}

/// Decodes once; `None` for a `%` without two hex digits and for bytes that are not UTF-8.
pub fn decode(text: &str) -> Option<String> {
    let is_escape = |rest: &str| rest.len() >= 2 && rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    if !text.split('%').skip(1).all(is_escape) {
        return None;
    }
    percent_decode_str(text).decode_utf8().ok().map(Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_round_is_decoded_and_no_more() {
        assert_eq!(decode("%252e%2E").as_deref(), Some("%2e."));
        for bad in ["%", "%2", "%zz", "%ff", "a%c3", "%+1"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_comes_back(text in any::<String>()) {
            let encoded = encode(&text, VALUE).to_string();
            prop_assert!(encoded.bytes().all(|byte| is_unreserved(byte) || byte == b'%'));
            prop_assert_eq!(decode(&encoded), Some(text.clone()));
            let segment = encode(&text, SEGMENT).to_string();
            prop_assert!(!segment.contains(['/', '?', '#', '[', ']']));
            prop_assert_eq!(decode(&segment), Some(text));
        }
    }
}
