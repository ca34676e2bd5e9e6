//! Where the writer can be made to fail or to die, so that tests can do it at every step.
//!
//! The writer's thread asks at each of [`POINTS`]. A failure is that of a full disk; where nothing can fail, before the
//! group is known and after its commit, it is a crash: the writer stops dead.

pub use crate::faults::{Fault, Faults, NoFaults};

/// Woken by the first change; the rest of the group has not been taken from the queue yet.
pub const WOKEN: &str = "woken";
pub const BEFORE_BEGIN: &str = "before begin";
/// After each change of a group. A failure here is that of the change, and of its group when it has no savepoint.
pub const AFTER_CHANGE: &str = "after change";
pub const BEFORE_COMMIT: &str = "before commit";
/// Directly after a commit that was synced; what it changed, and all before that, now survives a power cut.
pub const AFTER_SYNC: &str = "after sync";
pub const AFTER_COMMIT: &str = "after commit";
/// Before each answer but the first: some callers know already, the others do not.
pub const BETWEEN_ANSWERS: &str = "between answers";

pub const POINTS: [&str; 7] =
    [WOKEN, BEFORE_BEGIN, AFTER_CHANGE, BEFORE_COMMIT, AFTER_SYNC, AFTER_COMMIT, BETWEEN_ANSWERS];
