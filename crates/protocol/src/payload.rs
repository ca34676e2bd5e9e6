//! Arguments and results in encoded form: bytes and their format.

use bytes::Bytes;

/// How the bytes of a [`Payload`] are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    Json,
    MsgPack,
}

/// An encoded value, parsed only where its content matters. Cloning shares the bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload {
    format: Format,
    bytes: Bytes,
}

impl Payload {
    pub fn new(format: Format, bytes: impl Into<Bytes>) -> Payload {
        Payload { format, bytes: bytes.into() }
    }

    /// The caller guarantees that `bytes` is one well-formed JSON text.
    pub fn json(bytes: impl Into<Bytes>) -> Payload {
        Payload::new(Format::Json, bytes)
    }

    pub fn format(&self) -> Format {
        self.format
    }

    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

impl std::fmt::Debug for Payload {
    /// Shows the size only: payloads hold users' data, which must not reach a debug log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Payload({:?}, {} bytes)", self.format, self.bytes.len())
    }
}
