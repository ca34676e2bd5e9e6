//! One file per gate; `pipeline.rs` names them in order.

pub mod find;
pub mod record;
pub mod run;
pub mod size;
pub mod validate;
