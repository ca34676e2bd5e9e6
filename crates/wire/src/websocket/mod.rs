//! Server side of WebSocket (RFC 6455) as pure functions: the handshake and frames in both directions.

mod frames;

pub use frames::{ClientFrame, Close, FrameLimits, FrameReader, close, code, ping, pong, text_header};

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use toolyard_protocol::base64;

/// The `Sec-WebSocket-Accept` for a `Sec-WebSocket-Key`; `None` when the key is not 16 bytes in base64.
pub fn accept(key: &str) -> Option<String> {
    const SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    let key = key.trim();
    let is_key = key.len() == 24 && base64::decode(key).is_ok_and(|bytes| bytes.len() == 16);
    // Here SHA-1 protects nothing; it must not be used for anything else.
    let hash = |text: String| digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    is_key.then(|| base64::encode(hash(format!("{key}{SUFFIX}")).as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_valid_key_is_accepted() {
        // The example of RFC 6455, section 1.3.
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ==").as_deref(), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        for wrong in ["", "dGhlIHNhbXBsZSBub25jZQ=", "c2hvcnQ=", "dGhlIHNhbXBsZSBub25jZSAgICA=", "é"] {
            assert_eq!(accept(wrong), None, "{wrong:?}");
        }
    }
}
