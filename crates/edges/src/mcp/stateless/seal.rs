//! The sealed `requestState` of stateless clients: rejected when modified, expired or of another request.

use toolyard_formats::cache_key::CanonicalKey;
use toolyard_protocol::{CacheKey, Identity, Payload, base64};

const VERSION: u8 = 1;
const MAC: usize = 32;
const HEAD: usize = 1 + 16 + 8 + 32;

/// Larger answers are left out of the state; another server cannot repeat the call then.
pub(super) const MAX_ANSWERS: usize = 64 << 10;

/// The content of the state.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sealed {
    /// The handle of the parked call.
    pub handle: [u8; 16],
    /// Milliseconds since 1970.
    pub expires: u64,
    /// The digest of the request.
    pub digest: [u8; 32],
    /// The answers so far, a JSON object.
    pub answers: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum SealError {
    /// Not issued by this server, or modified.
    Broken,
    Expired,
    /// Belongs to another request or another caller.
    Foreign,
}

pub(super) fn seal(key: &[u8; 32], sealed: &Sealed) -> String {
    let mut bytes = Vec::with_capacity(HEAD + sealed.answers.len() + MAC);
    bytes.push(VERSION);
    bytes.extend_from_slice(&sealed.handle);
    bytes.extend_from_slice(&sealed.expires.to_be_bytes());
    bytes.extend_from_slice(&sealed.digest);
    bytes.extend_from_slice(&sealed.answers);
    let mac = blake3::keyed_hash(key, &bytes);
    bytes.extend_from_slice(mac.as_bytes());
    base64::encode(&bytes)
}

/// Verifies the MAC before it decodes the content.
pub(super) fn open(key: &[u8; 32], text: &str, now: u64, digest: &[u8; 32]) -> Result<Sealed, SealError> {
    let bytes = base64::decode(text).map_err(|_| SealError::Broken)?;
    let at = bytes.len().checked_sub(MAC).filter(|&at| at >= HEAD).ok_or(SealError::Broken)?;
    let (body, mac) = bytes.split_at(at);
    let mac: [u8; MAC] = mac.try_into().map_err(|_| SealError::Broken)?;
    // Compared in constant time.
    if blake3::keyed_hash(key, body) != blake3::Hash::from_bytes(mac) || body[0] != VERSION {
        return Err(SealError::Broken);
    }
    let (handle, rest) = body[1..].split_first_chunk::<16>().ok_or(SealError::Broken)?;
    let (expires, rest) = rest.split_first_chunk::<8>().ok_or(SealError::Broken)?;
    let (bound, answers) = rest.split_first_chunk::<32>().ok_or(SealError::Broken)?;
    let sealed = Sealed {
        handle: *handle,
        expires: u64::from_be_bytes(*expires),
        digest: *bound,
        answers: answers.to_vec(),
    };
    match sealed {
        sealed if sealed.digest != *digest => Err(SealError::Foreign),
        sealed if sealed.expires <= now => Err(SealError::Expired),
        sealed => Ok(sealed),
    }
}

/// Binds a state to its caller, method, subject and arguments, regardless of JSON formatting.
pub(super) fn digest(
    identity: &Identity,
    method: &str,
    subject: &str,
    arguments: Option<&Payload>,
) -> [u8; 32] {
    let canonical =
        arguments.map(|payload| CanonicalKey.key(payload).unwrap_or_else(|_| payload.bytes().to_vec()));
    let mut hasher = blake3::Hasher::new();
    for part in
        [identity.as_str().as_bytes(), method.as_bytes(), subject.as_bytes(), &canonical.unwrap_or_default()]
    {
        hasher.update(&(part.len() as u64).to_be_bytes()).update(part);
    }
    *hasher.finalize().as_bytes()
}

impl SealError {
    pub fn message(&self) -> &'static str {
        match self {
            SealError::Broken => "'requestState' was not issued by this server or was modified",
            SealError::Expired => "'requestState' has expired; send the request again without it",
            SealError::Foreign => "'requestState' belongs to another request or another caller",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: [u8; 32] = [7; 32];

    fn sample() -> Sealed {
        Sealed { handle: [1; 16], expires: 1000, digest: [2; 32], answers: br#"{"a":{}}"#.to_vec() }
    }

    #[test]
    fn only_what_was_sealed_opens_in_time_and_for_its_request() {
        let text = seal(&KEY, &sample());
        assert_eq!(open(&KEY, &text, 999, &[2; 32]), Ok(sample()));
        assert_eq!(open(&KEY, &text, 1000, &[2; 32]), Err(SealError::Expired));
        assert_eq!(open(&KEY, &text, 999, &[3; 32]), Err(SealError::Foreign));
        assert_eq!(open(&[8; 32], &text, 999, &[2; 32]), Err(SealError::Broken));
        assert_eq!(open(&KEY, &format!("{text}-TAMPERED"), 999, &[2; 32]), Err(SealError::Broken));
        assert_eq!(open(&KEY, "", 0, &[2; 32]), Err(SealError::Broken));
    }

    #[test]
    fn the_digest_knows_who_what_and_with_which_arguments() {
        let local = Identity::local();
        let of = |method: &str, subject: &str, arguments: &'static str| {
            digest(&local, method, subject, Some(&Payload::json(arguments)))
        };
        assert_eq!(of("m", "s", r#"{"a":1,"b":2}"#), of("m", "s", r#"{ "b": 2, "a": 1 }"#));
        assert_ne!(of("m", "s", r#"{"a":1}"#), of("m", "s", r#"{"a":2}"#));
        assert_ne!(of("m", "s", "{}"), of("ms", "", "{}"));
    }

    proptest! {
        #[test]
        fn any_changed_byte_is_noticed(at in 0usize..120, flip in 1u8..) {
            let mut bytes = base64::decode(&seal(&KEY, &sample())).unwrap();
            let at = at % bytes.len();
            bytes[at] ^= flip;
            prop_assert_eq!(open(&KEY, &base64::encode(&bytes), 0, &[2; 32]), Err(SealError::Broken));
        }

        #[test]
        fn hostile_texts_never_panic(text in ".{0,200}") {
            prop_assert!(open(&KEY, &text, 0, &[0; 32]).is_err());
        }
    }
}
