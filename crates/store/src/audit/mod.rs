//! The audit log: what was called, by whom, and how it ended.
//!
//! Append-only segments of JSON lines form hash chains; heads, stored separately, record how far each segment
//! reached. The SQLite index is derived data and can be deleted. No JSON parser is used: lines are written by
//! hand, and the chain reads only members at fixed positions.
//!
//! ```text
//! <state>/audit/<id>.jsonl        one segment; one writer, never appended to by another process
//! <state>/audit/latest            id of the segment made durable last, by any process of the yard
//! <state>/audit-heads/<id>.head   how far the segment is known to reach
//! <state>/audit-index.sqlite      derived, rebuilt when missing
//! ```

mod error;
mod export;
mod folder;
mod head;
mod index;
mod log;
mod prune;
mod reader;
mod record;
mod segment;
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
