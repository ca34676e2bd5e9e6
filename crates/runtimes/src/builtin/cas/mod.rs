//! `cas.*`: content-addressed storage.

pub mod get;
pub mod inspect;
pub mod store;
pub mod upload_file;

/// Maximum content per call. Larger content is uploaded as a file and read in parts.
pub const MAX_BYTES: usize = 32 << 20;
/// The same in base64, plus the rest of the message.
pub const MAX_MESSAGE: usize = 44 << 20;
