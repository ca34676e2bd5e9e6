//! `yard.*`: connection tests.

pub mod echo;
pub mod ping;
