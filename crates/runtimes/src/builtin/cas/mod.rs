//! `cas.*`: bytes under their own hash.

pub mod get;
pub mod inspect;
pub mod store;
pub mod upload_file;

/// What one call moves at most. Larger content goes in as a file and comes out in parts.
pub const MAX_BYTES: usize = 32 << 20;
/// The same as base64, with some room for the rest of the message.
pub const MAX_MESSAGE: usize = 44 << 20;
