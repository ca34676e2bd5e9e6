//! Where state lives: tables in SQLite, blobs in files, the audit log.
//!
//! What happens to a call is decided in the engine; here are the implementations of its traits.

pub mod audit;
pub mod blobs;
mod bounds;
mod bucket;
pub mod faults;
mod full_text;
mod job_rules;
pub mod sqlite;
#[cfg(any(test, feature = "testing"))]
pub mod suite;

pub use audit::FileAuditLog;
pub use blobs::Blobs;
pub use faults::{Fault, Faults, NoFaults};
