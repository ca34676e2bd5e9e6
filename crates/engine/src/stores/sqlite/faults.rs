//! Where the writer can be made to fail or to die, so that tests can do it at every step.

/// Woken by the first change; the rest of the group has not been taken from the queue yet.
pub const WOKEN: &str = "woken";
pub const BEFORE_BEGIN: &str = "before begin";
/// After each change of a group.
pub const AFTER_CHANGE: &str = "after change";
pub const BEFORE_COMMIT: &str = "before commit";
/// Directly after a commit that was synced; everything before it now survives a power cut.
pub const AFTER_SYNC: &str = "after sync";
pub const AFTER_COMMIT: &str = "after commit";
/// Before each answer but the first: some callers know already, the others do not.
pub const BETWEEN_ANSWERS: &str = "between answers";

pub const POINTS: [&str; 7] =
    [WOKEN, BEFORE_BEGIN, AFTER_CHANGE, BEFORE_COMMIT, AFTER_SYNC, AFTER_COMMIT, BETWEEN_ANSWERS];

/// Asked by the writer's thread at each of [`POINTS`].
pub trait Faults: Send + Sync {
    fn at(&self, point: &'static str) -> Fault;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// The writer stops dead, as after kill -9.
    Crash,
    /// The step fails as on a full disk. After the commit nothing can fail any more: there it is a crash.
    Fail,
}

/// For production.
pub struct NoFaults;

impl Faults for NoFaults {
    fn at(&self, _: &'static str) -> Fault {
        Fault::None
    }
}
