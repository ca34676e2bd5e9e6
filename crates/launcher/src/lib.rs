//! The launcher program as bytes, and the two formats it shares with the daemon: the launch script it is sent and the record it
//! sends back. `program/` holds its source; `build.rs` compiles it without a standard library.

pub mod opcodes;
pub mod record;

/// The executable.
pub const IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/launcher"));
