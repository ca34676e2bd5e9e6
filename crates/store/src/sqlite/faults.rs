//! Fault points of the writer, so that tests can make it fail or crash at every step.
//!
//! The writer thread passes each of [`POINTS`]. A failure acts like a full disk; where nothing can fail,
//! before the group is known and after its commit, it is a crash.

pub use crate::faults::{Fault, Faults, NoFaults};

/// Woken by the first change; the rest of the group has not been taken from the queue yet.
pub const WOKEN: &str = "woken";
pub const BEFORE_BEGIN: &str = "before begin";
/// After each write of a group. A failure here fails the write, and its group if it has no savepoint.
pub const AFTER_CHANGE: &str = "after change";
pub const BEFORE_COMMIT: &str = "before commit";
/// Directly after a synced commit; it and all earlier commits now survive a power cut.
pub const AFTER_SYNC: &str = "after sync";
pub const AFTER_COMMIT: &str = "after commit";
/// Before each response but the first: some callers have their result, the others do not.
pub const BETWEEN_ANSWERS: &str = "between answers";

pub const POINTS: [&str; 7] =
    [WOKEN, BEFORE_BEGIN, AFTER_CHANGE, BEFORE_COMMIT, AFTER_SYNC, AFTER_COMMIT, BETWEEN_ANSWERS];
