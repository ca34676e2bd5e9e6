//! Named points at which a test may let a store crash or fail; in the daemon nothing ever happens there.

/// Decides what happens at a point. Points are named `store.step`: `blob.placed`.
pub trait Faults: Send + Sync {
    fn at(&self, point: &'static str) -> Fault;
}

/// What happens at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Everything stops dead here, as after kill -9: nothing is cleaned up and nobody is answered.
    Crash,
    /// The step fails, as steps on disks do.
    Fail,
}

/// Nothing happens, ever.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFaults;

impl Faults for NoFaults {
    fn at(&self, _: &'static str) -> Fault {
        Fault::None
    }
}
