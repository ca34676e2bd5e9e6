//! One file per gate; `pipeline.rs` names them in order.

pub mod cache;
mod crowd;
mod discreet;
pub mod find;
pub mod rate;
pub mod record;
pub mod redact;
pub mod run;
pub mod size;
pub mod validate;

pub use crowd::Crowd;
pub use discreet::Discreet;
