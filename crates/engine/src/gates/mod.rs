//! One file per gate; `pipeline.rs` names them in order.

pub mod cache;
mod call_limit;
pub mod find;
pub mod rate;
pub mod record;
pub mod redact;
mod redacting_caller;
pub mod run;
pub mod size;
pub mod validate;

pub use call_limit::CallLimit;
pub use redacting_caller::RedactingCaller;
