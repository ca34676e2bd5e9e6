//! Persistent state: SQLite tables, blob files and the audit log.
//!
//! Implements traits of the engine, which decides what happens to a call.

pub mod audit;
pub mod blobs;
mod bounds;
mod bucket;
pub mod faults;
mod full_text;
mod job_rules;
#[cfg(test)]
#[path = "../../../tests/require.rs"]
mod require;
pub mod sqlite;
#[cfg(any(test, feature = "testing"))]
pub mod suite;

pub use audit::FileAuditLog;
pub use blobs::Blobs;
pub use faults::{Fault, Faults, NoFaults};
