//! Fault injection: named points at which tests make a store crash or fail; no effect in production.

/// Decides what happens at a fault point, such as `blob.placed`.
pub trait Faults: Send + Sync {
    fn at(&self, point: &'static str) -> Fault;

    /// Whether writes are held back, so that they form a group.
    fn is_held(&self) -> bool {
        false
    }
}

/// What happens at a fault point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Everything stops here, as after kill -9: no cleanup, no responses.
    Crash,
    /// The step fails, as disk operations can.
    Fail,
}

/// Injects no faults.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFaults;

impl Faults for NoFaults {
    fn at(&self, _: &'static str) -> Fault {
        Fault::None
    }
}
