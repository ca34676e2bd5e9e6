//! Strict percent-encoding of URIs: malformed input is rejected.

/// RFC 3986's unreserved characters, which never need encoding.
pub fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// RFC 3986's reserved characters, which have a meaning in a URI.
pub fn is_reserved(byte: u8) -> bool {
    b":/?#[]@!$&'()*+,;=".contains(&byte)
}

/// Appends `text`, encoding every byte for which `keep` is false.
pub fn push_encoded(out: &mut String, text: &str, keep: impl Fn(u8) -> bool) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        if byte.is_ascii() && keep(byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}

/// Decodes once; `None` for a `%` without two hex digits and for bytes that are not UTF-8.
pub fn decode(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => {
                let digit = |byte: u8| (byte as char).to_digit(16);
                (digit(bytes.next()?)? << 4 | digit(bytes.next()?)?) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(out).ok()
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
            let mut encoded = String::new();
            push_encoded(&mut encoded, &text, is_unreserved);
            prop_assert!(encoded.bytes().all(|byte| is_unreserved(byte) || byte == b'%'));
            prop_assert_eq!(decode(&encoded), Some(text));
        }
    }
}
