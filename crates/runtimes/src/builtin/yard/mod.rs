//! `yard.*`: is anyone there?

pub mod echo;
pub mod ping;
