//! The audit log: what was called, by whom, and how it ended.
//!
//! The truth is a set of append-only segments of JSON lines, each line bound to the one before by its hash, and
//! heads stored apart that say how far a segment reached. The SQLite index is a convenience that can be thrown
//! away. Nothing here parses JSON: lines are written by hand, and what the chain needs stands at fixed places.
//!
//! ```text
//! <state>/audit/<id>.jsonl        one segment; one writer, never appended to by another process
//! <state>/audit/latest            id of the segment made durable last, by any process of the yard
//! <state>/audit-heads/<id>.head   how far the segment is known to reach
//! <state>/audit-index.sqlite      rebuilt at will
//! ```

mod error;
mod export;
mod folder;
mod head;
mod index;
mod line;
mod log;
mod prune;
mod reader;
mod record;
mod segment;
mod shared;
mod sync;
mod verify;
mod writer;

#[cfg(test)]
pub(crate) mod tests;

pub use error::AuditError;
pub use export::{ExportFilter, export};
pub use index::{CallRow, Filter, Index};
pub use log::{FileAuditLog, OpenCall, Options, SyncMode, Ticket};
pub use verify::{Problem, Report, verify};
