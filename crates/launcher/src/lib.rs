//! The launcher program as bytes, and the formats it shares with the daemon: the launch script it receives
//! and the record it sends. Its source is in `program/`; `build.rs` compiles it without the standard library.

pub mod record;
pub mod script;

/// The executable (ELF).
pub const IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/launcher"));
